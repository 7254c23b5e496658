"""The label page's book as a loop's oracle, and the gain of a round."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

import understudy as us
from understudy.active import Loop
from understudy.active.loop_state import RoundGain, round_gains
from understudy.data.fitted_rows import row_keys
from understudy.maths.proportions import cross_validated, exact
from understudy.web.answer_book import AnswerBook

from .conftest import CLASSES, blobs

MakeLoop = Callable[..., Loop]
NAMES = [f"class {number}" for number in range(CLASSES)]


def answer_all(book: AnswerBook, ids: list[str], y: torch.Tensor) -> None:
    for id in book.waiting():
        label = int(y[ids.index(id)])
        book.answer(id, None if label == 0 and id.endswith("7") else NAMES[label], annotator="ann")


def test_a_loop_over_the_page(make_loop: MakeLoop, tmp_path: Path) -> None:
    y, ids = blobs(300)[1], [f"r{row}" for row in range(300)]
    with AnswerBook(tmp_path / "rows.book", NAMES) as book:
        asked: list[int] = []
        while True:
            # A new loop each time, as a new process would make it.
            result = make_loop(oracle=book, ids=ids, budget=40).run()
            if result.stopped != "waiting":
                break
            assert "answers on the label page" in result.message
            asked.append(len(book.waiting()))
            answer_all(book, ids, y)
        assert asked == [20, 10, 10] and result.stopped == "budget"
        given = book.given()
    assert len(given) == 40 and all(len(people) == 1 for people in given.values())
    said = [None if label < 0 else NAMES[label] for label in result.labels.tolist()]
    assert said == [given[ids[row]]["ann"].label for row in result.rows.tolist()]
    assert result.gold is not None and int((~result.gold.chosen).sum()) <= 20


def test_only_the_first_round_may_estimate(make_loop: MakeLoop, tmp_path: Path) -> None:
    with AnswerBook(tmp_path / "rows.book", NAMES) as book:
        make_loop(oracle=book, budget=30).run()
        answer_all(book, [str(row) for row in range(300)], blobs(300)[1])
        make_loop(oracle=book, budget=30).run()
        assert list(book.chosen().values()) == [False] * 20 + [True] * 10


def test_a_book_of_other_classes_is_refused(make_loop: MakeLoop, tmp_path: Path) -> None:
    with AnswerBook(tmp_path / "rows.book", ["a", "b"]) as book:
        with pytest.raises(us.UnderstudyError, match="has 2 classes, the student 4 outputs"):
            make_loop(oracle=book).run()
        assert not book.waiting()


def test_gains_by_hand() -> None:
    records = [
        {"round": 0, "requested": 50, "correct": "1" * 6 + "0" * 4},
        {"round": 1, "requested": 70, "correct": "1" * 8 + "00"},
    ]
    first, second = round_gains(records, 0.5)
    assert first.accuracy is not None and first.accuracy.estimate == 0.6 and first.gain is None
    split = RoundGain.of(None, {**records[0], "disagreement": 0.3}, 0.5).accuracy
    assert (
        first.accuracy == exact(6, 10) and split == cross_validated(6, 10, 0.3) and split.width > first.accuracy.width
    )
    assert first.per_point is None and (first.cost, first.spent) == (25, 25)
    assert second.gain is not None and (second.cost, second.spent) == (35, 10)
    # Two of ten rows turned right: mean 0.2.
    assert second.gain.mean == pytest.approx(0.2)
    # With one more row at −1 and one at 1: mean 1/6, variance 4/12 − 1/36; t(9) = 2.2622.
    assert second.gain.high - 1 / 6 == pytest.approx(2.2622 * ((4 / 12 - 1 / 36) / 12) ** 0.5, rel=1e-4)
    assert second.per_point == pytest.approx(10 / 20)
    worse = RoundGain.of(records[1], {**records[0], "requested": 80}, 1.0)
    assert worse.per_point is None and worse.spent == 10
    # As many test rows, but others: nothing is paired.
    assert RoundGain.of({**records[0], "test_rows": "a"}, {**records[1], "test_rows": "b"}, 1.0).gain is None
    assert RoundGain.of({**records[0], "test_rows": "a"}, {**records[1], "test_rows": "a"}, 1.0).gain is not None


def test_a_record_says_which_test_rows_are_right(make_loop: MakeLoop) -> None:
    result = make_loop().run()
    for record in result.records:
        assert record["correct"].count("1") / 200 == pytest.approx(record["test"]["accuracy"])
        assert record["test_rows"] == result.records[0]["test_rows"] != ""


def test_without_test_rows_the_random_start_judges(make_loop: MakeLoop, tmp_path: Path) -> None:
    result = make_loop(test=None, held_out=True, start=100, budget=120).run()
    assert [len(record["correct"]) for record in result.records] == [100] * 3
    assert all(0 <= record["disagreement"] < 0.5 for record in result.records)
    # Few of them have too large a part in choosing the others.
    few = make_loop(test=None, held_out=True, out=tmp_path / "few", start=99, budget=109).run()
    assert ["correct" in record for record in few.records] == [True, False]
    assert "correct" not in make_loop(test=None, out=tmp_path / "plain", budget=20).run().records[0]


def test_labels_that_know_the_truth_of_gold_do_not_judge_by_it(make_loop: MakeLoop, tmp_path: Path) -> None:
    """A pool that was reconciled with gold has learned from every gold row, also from one that a student is left
    without."""
    y, gold = blobs(300)[1], us.Gold(*blobs(60, seed=2))
    labels = us.Hard(y, classes=CLASSES)
    own = make_loop(test=None, held_out=True, gold=gold, out=tmp_path / "own", start=20, budget=20, teacher=labels)
    assert len(own.run().records[0]["correct"]) == 80
    labels.fitted_to = row_keys(gold)
    with pytest.warns(us.UnderstudyWarning, match="60 of 60 gold rows"):
        fitted = make_loop(test=None, held_out=True, gold=gold, start=20, budget=20, teacher=labels)
    result = fitted.run()
    assert "correct" not in result.records[0] and result.gold is not None and int(result.gold.chosen.sum()) == 60
    with pytest.raises(us.UnderstudyError, match="60 test rows"):
        make_loop(test=gold, teacher=labels)


def test_a_teachers_labels_train_too(make_loop: MakeLoop, tmp_path: Path) -> None:
    """With few labels, 280 more that are mostly right help; a loop without them is another loop."""
    y = blobs(300)[1]
    noisy = torch.where(torch.arange(300) % 10 == 0, (y + 1) % CLASSES, y)
    alone = make_loop(out=tmp_path / "alone", start=8, budget=8, epochs=20).run()
    both = make_loop(out=tmp_path / "both", start=8, budget=8, epochs=20, teacher=noisy).run()
    assert both.records[-1]["test"]["accuracy"] > alone.records[-1]["test"]["accuracy"] + 0.05
    with pytest.raises(us.UnderstudyError, match="teacher"):
        make_loop(out=tmp_path / "both", start=8, budget=8, epochs=20, teacher=y)
