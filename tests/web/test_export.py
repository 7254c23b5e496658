"""Answers out: what train takes and obeys, votes that are a pool's, and the label history."""

from pathlib import Path

import pytest

import understudy as us
from understudy.io.read import read_examples
from understudy.io.table import text_columns
from understudy.store.log import LabelHistory, history_beside
from understudy.web.answer_book import AnswerBook
from understudy.web.cards import Cards
from understudy.web.serve import write_answers, write_votes


@pytest.fixture
def pool(tmp_path: Path) -> Path:
    rows = "".join(f"{n:02},{n / 10},{-n / 7},{'pos' if n % 2 else 'neg'}\n" for n in range(40))
    (tmp_path / "pool.csv").write_text("id,a,b,teacher_label\n" + rows)
    (tmp_path / "gold.csv").write_text(
        "id,label\n" + "".join(f"{n:02},{'pos' if n % 2 else 'neg'}\n" for n in range(20, 30))
    )
    return tmp_path / "pool.csv"


def test_a_suggestion_that_one_of_several_people_saw_marks_the_row(pool: Path, tmp_path: Path) -> None:
    with AnswerBook(tmp_path / "a.book", ["neg", "pos"], overlap=1.0) as book:
        book.add(["01", "02"])
        assert book.hand_out("ann", suggests=lambda id: id == "01") == {"01": True}
        for who in ("ann", "bob"):
            for id in ("01", "02"):
                book.answer(id, "pos", annotator=who)
        write_answers(book, tmp_path / "out.csv")
    assert text_columns(tmp_path / "out.csv")["suggestion_shown"] == ["true", "false"]


def test_train_obeys_what_the_page_kept(pool: Path, tmp_path: Path) -> None:
    """Chosen rows and rows shown with a suggestion train and never estimate; a random sample does both."""
    cards = Cards.of(pool)
    cards.classes = ["neg", "pos"]
    with AnswerBook(tmp_path / "a.book", ["neg", "pos"]) as book:
        book.add(["01", "02", "03"], chosen=[True, False, False])
        book.hand_out("ann", count=3)
        for id in ("01", "02"):
            book.answer(id, "pos", annotator="ann")
        book.answer("03", None, annotator="ann")
        # As if 04 had been labelled with a suggestion before it was made part of a random sample.
        book.add(["04"])
        assert book.hand_out("ann", suggests=cards.suggests) == {"04": True}
        book.answer("04", "neg", annotator="ann")
        exported = write_answers(book, tmp_path / "out.csv")
    columns = text_columns(tmp_path / "out.csv")
    assert columns["id"] == ["01", "02", "03", "04"] and columns["label"] == ["pos", "pos", "skip", "neg"]
    assert columns["chosen"] == ["1", "0", "0", "1"] and columns["suggestion_shown"] == [
        "false",
        "false",
        "false",
        "true",
    ]
    assert exported == f"3 labels, 1 skipped: {tmp_path / 'out.csv'}"
    (tmp_path / "out2.csv").write_text((tmp_path / "out.csv").read_text().replace("04,neg,1", "04,neg,0"))
    for name in ("out.csv", "out2.csv"):
        gold = read_examples(gold=tmp_path / "gold.csv", pool=pool, chosen=[tmp_path / name]).gold
        assert gold is not None and gold.ids is not None
        assert {"01", "02", "04"} <= set(gold.ids.tolist()) and "03" not in gold.ids.tolist()
        assert {"01", "02", "04"} & set(gold.ids[gold.calibration_rows()].tolist()) == {"02"}


def test_votes_are_a_pool(pool: Path, tmp_path: Path) -> None:
    cards = Cards.of(pool)
    with AnswerBook(tmp_path / "a.book", ["neg", "pos"], overlap=1.0) as book:
        book.add(cards.ids)
        for number, id in enumerate(cards.ids):
            book.answer(id, "pos" if number % 2 else "neg", annotator="ann")
            if number % 3 == 0:
                book.answer(id, "pos" if number % 2 else None, annotator="bob")
        write_votes(book, tmp_path / "votes.parquet", cards)
        ids, votes = book.votes()
    read = read_examples(gold=tmp_path / "gold.csv", pool=tmp_path / "votes.parquet")
    assert read.pool is not None and isinstance(read.pool.teacher, us.Votes) and read.shape == (2,)
    kept = [row for row, id in enumerate(ids) if not 20 <= int(id) < 30]
    assert read.pool.teacher.sources == ("ann", "bob")
    assert read.pool.teacher.votes.tolist() == votes.votes[kept].tolist()


def test_most_people_decide_and_ties_train_nothing(tmp_path: Path) -> None:
    with AnswerBook(tmp_path / "a.book", ["neg", "skip"], overlap=1.0, people=3) as book:
        book.add(["a", "b", "c"])
        for who, labels in {"x": "neg neg", "y": "neg skip", "z": "skip"}.items():
            for id, label in zip("ab", labels.split(), strict=False):
                book.answer(id, label, annotator=who)
        exported = write_answers(book, tmp_path / "out.csv")
    columns = text_columns(tmp_path / "out.csv")
    assert exported.startswith("1 labels, 1 without a majority (skip): ")
    assert columns["label"] == ["neg", "nan"], "skip is a class here"
    assert columns["answers"] == ["3", "2"]


def test_the_label_history_has_every_answer_once(tmp_path: Path) -> None:
    (tmp_path / "batch.csv").write_text("id,label,probability\na,,0.25\nb,,0.5\n")
    LabelHistory(history_beside(tmp_path / "batch.csv")).add("asked", "badge", {"a": None, "b": None})
    out = tmp_path / "out.csv"
    with AnswerBook(tmp_path / "a.book", ["neg", "pos"], overlap=1.0) as book:
        book.add(["a", "b"])
        book.answer("a", "pos", annotator="ann")
        book.answer("a", "neg", annotator="bob")
        for _ in range(2):
            write_answers(book, out, rows=tmp_path / "batch.csv")
        book.undo(annotator="ann")
        book.answer("b", None, annotator="ann")
        write_answers(book, out, rows=tmp_path / "batch.csv")
    assert out.read_text().splitlines()[1].endswith(",0.25"), "the probability stays with its row"
    history = list(LabelHistory(history_beside(out)).entries())
    entries = [(entry["what"], entry["who"], entry["answers"]) for entry in history[1:]]
    assert entries == [
        ("answered", "ann", {"a": "pos"}),
        ("answered", "bob", {"a": "neg"}),
        ("answered", "ann", {"b": "skip"}),
        ("taken back", "ann", {"a": None}),
    ]


def test_a_changed_export_is_not_replaced(tmp_path: Path) -> None:
    out = tmp_path / "out.csv"
    with AnswerBook(tmp_path / "a.book", ["neg", "pos"]) as book:
        book.add(["a"])
        with pytest.raises(us.UnderstudyError, match="no answers yet"):
            write_answers(book, out)
        book.answer("a", "pos", annotator="ann")
        write_answers(book, out)
        book.answer("a", "neg", annotator="ann")
        write_answers(book, out)
        assert text_columns(out)["label"] == ["neg"]
        out.write_text(out.read_text() + "b,pos,1,false,1\n")
        with pytest.raises(us.UnderstudyError, match="changed since"):
            write_answers(book, out)
        assert "b,pos" in out.read_text()
