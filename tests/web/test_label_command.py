"""``understudy label`` without a browser: the classes it finds, what it writes, what it refuses."""

import signal
from pathlib import Path

import pytest
from typer.testing import CliRunner

import understudy as us
from understudy import cli
from understudy.cli.label import _classes
from understudy.io.table import text_columns
from understudy.web.answer_book import AnswerBook
from understudy.web.cards import Cards

from ..forked_program import UNDERSTUDY, Program


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    (tmp_path / "rows.csv").write_text("id,text,teacher_label\n1,It was good,pos\n2,It was bad,neg\n")
    return tmp_path / "rows.csv"


def printed(*words: object) -> str:
    result = CliRunner().invoke(cli.app, ["label", *map(str, words)])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return " ".join(result.output.split())


def test_classes_are_typed_listed_or_found(rows: Path, tmp_path: Path) -> None:
    cards = Cards.of(rows)
    (tmp_path / "names.txt").write_text("b\n\n a a \n")
    assert _classes("x,y", None, cards) == ["x", "y"] and _classes("3", None, cards) == ["0", "1", "2"]
    assert _classes(str(tmp_path / "names.txt"), None, cards) == ["b", "a a"]
    assert _classes(None, None, cards) == ["neg", "pos"]
    with pytest.raises(us.UnderstudyError, match="--classes neg,pos"):
        _classes(None, None, Cards.of({"id": [1, 2], "a": [1, 2]}))


def test_what_was_answered_is_exported_without_a_server(rows: Path, tmp_path: Path) -> None:
    assert "does not exist" in printed(rows, "--export", tmp_path / "out.csv")
    with AnswerBook(tmp_path / "rows.book", ["neg", "pos"]) as book:
        book.add(["1", "2"])
        book.answer("2", "neg", annotator="ann")
    assert "1 labels" in printed(rows, "--export", tmp_path / "out.csv")
    assert text_columns(tmp_path / "out.csv")["label"] == ["neg"]


def test_mistakes_are_errors_at_the_start(rows: Path, tmp_path: Path) -> None:
    assert "cannot read the guideline" in printed(rows, "--guideline", tmp_path / "none.md")
    (tmp_path / "rows-answers.csv").write_text("mine")
    assert "was not written by" in printed(rows)
    with AnswerBook(tmp_path / "old.book", ["neg", "pos"]) as book:
        book.add(["9"])
    assert "waits for 1 rows" in printed(rows, "--book", tmp_path / "old.book", "--out", tmp_path / "a.csv")
    assert "end the name in one of them" in printed(rows, "--out", tmp_path / "a.xlsx")
    assert "no --host is named" in printed(rows, "--out", tmp_path / "a.csv", "--host", "")


def test_chosen_or_random_may_not_change(rows: Path, tmp_path: Path) -> None:
    for begun, later, named in ((True, ["--random"], "picked by a strategy"), (False, [], "one of a random sample")):
        path = tmp_path / f"{begun}.book"
        with AnswerBook(path, ["neg", "pos"]) as book:
            book.add(["1"], chosen=begun)
        assert f"has row '1' as {named}" in printed(rows, "--book", path, "--port", "0", *later)
        with AnswerBook(path) as book:
            assert book.chosen() == {"1": begun}


def test_a_plan_has_nothing_to_see_by_itself(tmp_path: Path) -> None:
    (tmp_path / "human.csv").write_text("id,purpose,gain,why,predicted,confidence,label\n1,new gold,0.5,x,neg,0.6,\n")
    assert "name the file with the rows: --pool FILE" in printed(tmp_path / "human.csv", "--classes", "neg,pos")


def test_ctrl_c_ends_it_and_writes_the_answers(rows: Path, tmp_path: Path) -> None:
    with AnswerBook(tmp_path / "rows.book", ["neg", "pos"]) as book:
        book.add(["1", "2"])
        book.answer("2", "neg", annotator="ann")
    errors = tmp_path / "errors"
    started = Program(UNDERSTUDY, "label", rows, "--port", "0", "--annotator", "ann", errors=errors)
    while "Ctrl-C" not in started.stdout.readline():
        assert started.poll() is None
    started.send_signal(signal.SIGINT)
    assert "1 labels" in started.rest() and started.wait() == 0 and errors.read_text() == ""
    assert text_columns(tmp_path / "rows-answers.csv")["label"] == ["neg"]
