"""Rounds of select, label, train: what is asked, what is trained on, when it stops, and that it continues."""

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
import torch

import understudy as us
from understudy import active
from understudy.acquisition.strategies import STRATEGIES
from understudy.active.loop import score
from understudy.training.averages import EMA
from understudy.training.callbacks import TrainingView

from .conftest import CLASSES, blobs, student

MakeLoop = Callable[..., active.Loop]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_every_strategy_spends_its_budget_on_distinct_rows(make_loop: MakeLoop, strategy: str) -> None:
    result = make_loop(strategy=strategy).run()
    assert result.stopped == "budget" and "50 labels in 4 rounds" in result.message
    assert len(set(result.rows.tolist())) == 50
    assert result.rounds.tolist() == [0] * 20 + [1] * 10 + [2] * 10 + [3] * 10
    assert torch.equal(result.labels, blobs(300)[1][result.rows])
    assert [record["labelled"] for record in result.records] == [20, 30, 40, 50]
    assert result.records[0]["watch"] is None and 0 <= result.records[1]["watch"]["share"] <= 1


def test_chosen_rows_never_estimate(make_loop: MakeLoop) -> None:
    gold = make_loop().run().gold
    assert gold is not None
    assert gold.chosen.tolist() == [False] * 20 + [True] * 30


@pytest.mark.filterwarnings("ignore:gold holds no example")
def test_a_round_is_train_score_select(make_loop: MakeLoop) -> None:
    """Two rounds put together from public parts; each starts from weights of its own."""
    result = make_loop(budget=30).run()
    x, y = blobs(300)
    test = us.Gold(*blobs(200, seed=1))
    rows = us.select("random", 20, size=300, seed=0)
    for number in range(2):
        ema = EMA(student())
        run = us.train(
            student, us.Gold(x[rows], y[rows]), None, us.vanilla(), epochs=3, batch_size=16, lr=1e-2, seed=number,
            ema=ema, progress=False,
        )  # fmt: skip
        assert result.records[number]["test"] == us.evaluate(run.student, test)
        if number == 0:
            picks = us.select("s_badge", 10, **score(run.student, x, ema=ema).arrays(), labelled=rows, seed=1)
            rows = torch.cat([rows, picks])
    assert torch.equal(result.rows, rows)


def test_the_oracle_may_refuse(make_loop: MakeLoop, tmp_path: Path) -> None:
    y = blobs(300)[1]
    asked: list[int] = []

    def oracle(rows: torch.Tensor) -> list[int | None]:
        asked.extend(rows.tolist())
        return [None if row % 3 == 0 else int(y[row]) for row in rows.tolist()]

    result = make_loop(oracle=oracle).run()
    skipped = [row for row in asked if row % 3 == 0]
    assert len(asked) == len(set(asked)) == 50
    assert result.rows[result.labels < 0].tolist() == skipped
    assert result.gold is not None and len(result.gold) == 50 - len(skipped)
    assert result.records[-1]["skipped"] == len(skipped) and result.records[-1]["labelled"] == 50 - len(skipped)
    listed = (tmp_path / "loop" / "labelled.csv").read_text().splitlines()
    assert listed[0] == "row,label,round,chosen" and len(listed) == 1 + 50 - len(skipped)


def test_all_rows_skipped_is_an_error(make_loop: MakeLoop) -> None:
    with pytest.raises(us.UnderstudyError, match="nothing to train on"):
        make_loop(oracle=lambda rows: [-1] * len(rows)).run()


def test_gold_from_outside_can_be_the_start(make_loop: MakeLoop) -> None:
    asked: list[int] = []
    y = blobs(300)[1]
    result = make_loop(
        oracle=lambda rows: (asked.append(len(rows)), y[rows])[1], start=0, budget=20, gold=us.Gold(*blobs(30, seed=2))
    ).run()
    assert asked == [10, 10]
    assert result.gold is not None and len(result.gold) == 50


def test_stops_when_predictions_are_stable(make_loop: MakeLoop) -> None:
    result = make_loop(stop_after=2, stop_change=1.0).run()
    assert result.stopped == "stable" and len(result.records) == 3
    assert make_loop(stop_after=2, stop_change=0.0).run().stopped == "budget"


@pytest.mark.filterwarnings("ignore:the student's features are those")
def test_no_change_at_all_stops_even_without_tolerance(make_loop: MakeLoop) -> None:
    result = make_loop(student=student(), lr=1e-12, stop_after=2, stop_change=0.0).run()
    assert result.stopped == "stable" and [record["changed"] for record in result.records] == [None, 0, 0]


def test_changed_is_the_share_of_other_predictions(make_loop: MakeLoop) -> None:
    x = blobs(300)[0]
    before = make_loop(budget=30).run()
    first = before.run.predict(x).argmax(1)  # type: ignore[union-attr]
    after = make_loop(budget=40).run()
    second = after.run.predict(x).argmax(1)  # type: ignore[union-attr]
    assert after.records[-1]["changed"] == pytest.approx(float((first != second).double().mean()))
    assert before.records[0]["changed"] is None


def test_stops_when_no_row_is_left(make_loop: MakeLoop) -> None:
    x, y = blobs(35)
    result = make_loop(x=x, oracle=y, budget=99).run()
    assert result.stopped == "exhausted" and sorted(result.rows.tolist()) == list(range(35))


def test_a_finished_loop_goes_on_with_a_larger_budget(make_loop: MakeLoop, tmp_path: Path) -> None:
    make_loop(budget=30).run()
    longer = make_loop(budget=50).run()
    at_once = make_loop(budget=50, out=tmp_path / "other").run()
    assert torch.equal(longer.rows, at_once.rows)
    assert [record["test"] for record in longer.records] == [record["test"] for record in at_once.records]
    there = sorted(path.name for path in (tmp_path / "loop").iterdir())
    assert there == [".lock", "label_history.jsonl", "labelled.csv", "round-003", "state.json"]


def test_warm_start_trains_on(make_loop: MakeLoop, tmp_path: Path) -> None:
    cold = make_loop(budget=30).run()
    warm = make_loop(budget=30, warm_start=True, out=tmp_path / "warm").run()
    assert torch.equal(cold.rows, warm.rows)
    assert warm.records[1]["loss"] < cold.records[1]["loss"]


@pytest.mark.filterwarnings("ignore:the student's features are those")
def test_a_module_as_student_starts_each_round_as_given(make_loop: MakeLoop) -> None:
    net = student()
    before = {name: value.clone() for name, value in net.state_dict().items()}
    result = make_loop(student=net, lr=1e-12, budget=40).run()
    assert all(torch.equal(net.state_dict()[name], value) for name, value in before.items())
    assert result.run is not None
    for name, value in result.run.student.state_dict().items():
        torch.testing.assert_close(value, before[name])


def test_the_last_round_is_a_run_with_its_average(make_loop: MakeLoop, tmp_path: Path) -> None:
    result = make_loop().run()
    run = us.Run.load(tmp_path / "loop" / "round-003")
    x = blobs(300)[0]
    assert result.run is not None and torch.equal(run.predict(x), result.run.predict(x))
    assert (tmp_path / "loop" / "round-003" / "ema.safetensors").exists()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"strategy": "bagde"}, "unknown strategy 'bagde'"),
        ({"start": 0}, "start=0 must be at least 1"),
        ({"batch": 0}, "batch=0 must be a whole number, at least 1"),
        ({"start": 301}, "the pool has 300 rows"),
        ({"oracle": torch.zeros(299)}, "300 rows need 300 labels"),
        ({"oracle": 7}, "the oracle is a int"),
    ],
)
def test_mistakes_are_errors_at_once(make_loop: MakeLoop, changes: dict[str, object], message: str) -> None:
    with pytest.raises(us.UnderstudyError, match=message):
        make_loop(**changes)


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (lambda rows: [0], "has 1 labels; 20 rows need 20 labels"),
        (lambda rows: [9] * len(rows), "gives class 9 for row"),
        (lambda rows: [0.5] * len(rows), "is 0.5; class labels are whole numbers"),
        (lambda rows: [-2] * len(rows), "is -2; class labels count from 0"),
        (lambda rows: ["cat"] * len(rows), "is not a numeric array"),
    ],
)
def test_impossible_answers_are_refused(make_loop: MakeLoop, answer: object, message: str) -> None:
    with pytest.raises(us.UnderstudyError, match=message):
        make_loop(oracle=answer).run()


@pytest.mark.parametrize(
    "changes",
    [
        {"batch": 11}, {"strategy": "badge"}, {"lr": 0.1}, {"x": blobs(300, seed=5)[0]},
        {"oracle": blobs(300, seed=5)[1]}, {"oracle": lambda rows: [0] * len(rows)},
        {"student": partial(us.models.mlp, 6, CLASSES, hidden=(17,))}, {"ids": [f"r{row}" for row in range(300)]},
    ],
)  # fmt: skip
def test_another_loop_in_the_same_folder_is_an_error(make_loop: MakeLoop, changes: dict[str, object]) -> None:
    make_loop(budget=20).run()
    with pytest.raises(us.UnderstudyError, match="repeat the former settings"):
        make_loop(**changes)


def test_state_is_plain_json(make_loop: MakeLoop, tmp_path: Path) -> None:
    make_loop().run()
    state = json.loads((tmp_path / "loop" / "state.json").read_text())
    assert state["format"] == 1 and state["step"] == "select" and len(state["rows"]) == 50


def test_the_watch_warns_in_words(make_loop: MakeLoop) -> None:
    """Half the pool is one point with random labels, and a picker that goes there is told so."""
    x, y = blobs(600)
    noise = torch.arange(600) >= 300
    x, y = torch.where(noise[:, None], torch.full((1, 6), -3.0), x), torch.where(noise, torch.arange(600) % CLASSES, y)
    with pytest.warns(us.UnderstudyWarning, match="confidence: .* of the batch comes from regions where"):
        make_loop(x=x, oracle=y, strategy="confidence", start=100, batch=40, budget=140, epochs=30).run()


def test_another_training_option_is_refused(make_loop: MakeLoop, tmp_path: Path) -> None:
    make_loop().run()
    stored = json.loads((tmp_path / "loop" / "state.json").read_text())["settings"]["training"]
    assert {"epochs", "batch_size", "lr", "optimizer", "schedule", "augment"} <= set(stored)
    assert make_loop(accumulate=2, out=tmp_path / "other").state.settings["training"]["accumulate"] == 2
    with pytest.raises(us.UnderstudyError, match="begun with another training"):
        make_loop(accumulate=2)
    with pytest.raises(TypeError, match="unknown option 'refine' of Loop"):
        make_loop(refine=False)


def test_callbacks_see_every_round(make_loop: MakeLoop, tmp_path: Path) -> None:
    class Ends(us.Callback):
        rounds = 0

        def on_end(self, view: TrainingView) -> None:
            self.rounds += 1

    ends = Ends()
    watched, alone = make_loop(callbacks=[ends]).run(), make_loop(out=tmp_path / "alone").run()
    assert ends.rounds == 4 and torch.equal(watched.rows, alone.rows)
