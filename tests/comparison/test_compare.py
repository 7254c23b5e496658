"""``us.compare``: paired, shared, resumable, the same in one process and in several."""

import json
import math
import multiprocessing
import os
import signal
import time
import warnings
from multiprocessing.reduction import ForkingPickler
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.metrics import f1_score

import understudy as us
from understudy.comparison import cells as comparison_cells
from understudy.comparison.cells import Cell, Job
from understudy.comparison.compare import CompareFolder
from understudy.comparison.outcome import Comparison
from understudy.maths.metric_scores import row_values
from understudy.parallel import executors
from understudy.parallel.executors import Executor, InProcess, WorkerProcesses
from understudy.store.files import locked
from understudy.training.options import TrainingOptions

NET = us.models.mlp


def data(*, teacher_on_test: bool = True) -> tuple[us.Gold, us.Pool, us.Gold]:
    """Three blobs, and a teacher that is right three times in four."""
    draw = torch.Generator().manual_seed(0)
    y = torch.arange(400) % 3
    x = torch.randn(400, 4, generator=draw) + 2.0 * torch.nn.functional.one_hot(y, 4)
    wrong = torch.rand(400, generator=draw) < 0.25
    named = torch.where(wrong, (y + 1) % 3, y)
    sure = 0.5 + 0.4 * torch.rand(400, 1, generator=draw)
    probs = torch.nn.functional.one_hot(named, 3) * sure + (1 - sure) / 3
    gold = us.Gold(x[:60], y[:60], teacher=probs[:60])
    test = us.Gold(x[300:], y[300:], teacher=probs[300:] if teacher_on_test else None)
    return gold, us.Pool(x[60:300], probs[60:300]), test


def student() -> torch.nn.Module:
    return us.models.mlp(inputs=4, classes=3, hidden=(8,))


SMALL: dict[str, Any] = {"epochs": 2, "seeds": 2, "lr": 0.01, "batch_size": 32, "progress": False, "workers": 1}


def accuracies(comparison: Comparison) -> dict[str, dict[int, float]]:
    return {name: {seed: o.last for seed, o in cells.items()} for name, cells in comparison.outcomes.items()}


def test_every_cell_is_the_training_it_stands_for(tmp_path: Path) -> None:
    gold, pool, test = data()
    found = us.compare(student, gold, pool, ["slam"], test=test, select=0.0, **SMALL)
    assert list(found.outcomes) == ["teacher", "gold only", "vanilla", "confident", "slam"]
    for seed in (0, 1):
        run = us.train(
            student, gold, pool, us.slam(), epochs=2, lr=0.01, batch_size=32, seed=seed, test=test, progress=False
        )
        assert found.outcomes["slam"][seed].last == run.history[-1]["test_accuracy"]
        judged = found.outcomes["slam"][seed].judged
        assert judged is not None and judged.right.mean() == pytest.approx(run.history[-1]["test_accuracy"])
        # As many rows per epoch as the others have.
        alone = us.train(
            student, gold, None, us.vanilla(), epochs=2, lr=0.01, batch_size=32, seed=seed, test=test, gold_repeat=5,
            progress=False,
        )  # fmt: skip
        assert found.outcomes["gold only"][seed].last == alone.history[-1]["test_accuracy"]
    said = test.teacher.top1() == test.y  # type: ignore[union-attr]
    assert found.outcomes["teacher"][1].last == pytest.approx(float(said.double().mean()))
    assert found.recommendation is not None and found.recommendation.choice in found.outcomes


def test_auto_is_a_row(tmp_path: Path) -> None:
    gold, pool, test = data()
    options = {"epochs": 1, "lr": 0.01, "batch_size": 32, "progress": False, "workers": 1}
    found = us.compare("linear", gold, pool, ["auto"], test=test, select=0.0, seeds=1, **options)
    alone = us.auto("linear", gold, pool, test=test, seed=0, **options)
    assert found.outcomes["auto"][0].last == alone.history[-1]["test_accuracy"] and not found.failed
    with pytest.raises(us.UnderstudyError, match="none itself"):
        us.auto("linear", gold, pool, methods=["auto"], **options)
    with pytest.raises(us.UnderstudyError, match="none itself"):
        us.compare("linear", gold, pool, {"auto": us.slam()}, test=test, seeds=1, **options)


def test_pretraining_is_shared_and_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    gold, pool, test = data()
    calls: list[tuple[int, bool]] = []
    plain, resolved = comparison_cells.train, comparison_cells.fit_resolved

    def counted(*given: Any, **options: Any) -> us.Run:
        calls.append((options["seed"], options.get("test") is None))
        return plain(*given, **options)

    def counted_resolved(*given: Any) -> list[torch.nn.Module]:
        calls.extend((part.options.seed, True) for part in given[1])
        return resolved(*given)

    monkeypatch.setattr(comparison_cells, "train", counted)
    monkeypatch.setattr(comparison_cells, "fit_resolved", counted_resolved)
    found = us.compare(student, gold, pool, ["weighted"], test=test, select=0.0, pretrain_epochs=3, **SMALL)
    pretrainings = [seed for seed, without_test in calls if without_test]
    assert pretrainings == [0, 1] and len(calls) == 2 + 2 * 4
    run = us.train(
        student, gold, pool, us.weighted(), epochs=2, pretrain_epochs=3, lr=0.01, batch_size=32, seed=1, test=test,
        progress=False,
    )  # fmt: skip
    assert found.outcomes["weighted"][1].last == run.history[-1]["test_accuracy"]
    assert found.outcomes["weighted"][1].history[-1]["loss"] == run.history[-1]["loss"]


@pytest.mark.parametrize(
    ("select", "fits"),
    [pytest.param(0.0, 2, id="one gold for all seeds"), pytest.param(0.2, 4, id="gold cut anew for every seed")],
)
def test_the_teacher_is_estimated_once(select: float, fits: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two sets of options among three methods and two seeds; a k that is given does not change the estimate."""
    fitted, fit = [], us.Reliability.fit
    monkeypatch.setattr(us.Reliability, "fit", lambda *args, **options: fitted.append(options) or fit(*args, **options))
    gold, pool, test = data()
    methods = ["slam", "slam:k=2", "slam:lower_bound=0.6"]
    found = us.compare(student, gold, pool, methods, test=test, select=select, **SMALL)
    assert len(fitted) == fits
    assert gold.cache is None, "the user's gold stays as it was"
    if select == 0:
        options: Any = {"epochs": 2, "lr": 0.01, "batch_size": 32, "seed": 1, "progress": False}
        alone = us.train(student, gold, pool, us.slam(lower_bound=0.6), test=test, **options)
        assert len(fitted) == fits + 1
        assert found.outcomes["slam:lower_bound=0.6"][1].last == alone.history[-1]["test_accuracy"]


def test_the_epoch_chosen_on_gold_stands_beside_the_last() -> None:
    gold, pool, test = data()
    found = us.compare(student, gold, pool, [], test=test, select=0.25, **SMALL)
    assert all(line.selected is not None for line in found.rows() if line.method != "teacher")
    assert {len(cell.history) for cell in found.outcomes["vanilla"].values()} == {2}
    assert "select_accuracy" in found.outcomes["vanilla"][0].history[0]
    assert found.outcomes["vanilla"][0].facts["gold_rows"] == 45


def test_without_test_rows_gold_is_cross_fitted() -> None:
    gold, pool, _ = data()
    found = us.compare(student, gold, pool, [], select=0.0, **{**SMALL, "seeds": 5, "epochs": 1})
    rows = [cell.judged.rows for cell in found.outcomes["vanilla"].values() if cell.judged is not None]
    assert sorted(np.concatenate(rows).tolist()) == list(range(60))
    assert found.outcomes["vanilla"][0].facts["gold_rows"] == 48
    assert any("tested on gold rows kept from its training" in note for note in found.notes)
    # The teacher on the same folds: over all of them, its accuracy on gold.
    said = gold.teacher.top1() == gold.y  # type: ignore[union-attr]
    assert found.accuracy("teacher").mean == pytest.approx(float(said.double().mean()))


def error_of(share: float, rows: int) -> float:
    """Of a share with one right and one wrong row more (Agresti and Coull), as that of the share without them."""
    padded = (share * rows + 1) / (rows + 2)
    return float((padded * (1 - padded) / (rows + 2)) ** 0.5) * (rows + 2) / rows


def test_a_teacher_known_on_gold_only_and_one_not_known() -> None:
    gold, pool, test = data(teacher_on_test=False)
    found = us.compare(student, gold, pool, [], test=(test.x, test.y), select=0.0, **SMALL)
    assert (
        "teacher" in found.outcomes and "The teacher is measured on gold, the students on the test rows." in found.notes
    )
    # 60 gold rows are a sample, so the teacher's accuracy and the student's distance from it have intervals.
    teacher, gap = found.accuracy("teacher"), found.difference("teacher", "vanilla")
    share = teacher.mean
    assert teacher.error == pytest.approx(error_of(share, 60))
    vanilla = found.accuracy("vanilla")
    assert (gap.mean, gap.error) == pytest.approx((share - vanilla.mean, math.hypot(teacher.error, vanilla.error)))
    assert share != vanilla.mean, "else the sign would not show"
    found = us.compare(student, us.Gold(gold.x, gold.y), pool, [], test=test, select=0.0, **SMALL)
    assert "teacher" not in found.outcomes and any("is unknown" in note for note in found.notes)


def test_a_finished_cell_is_never_run_again(tmp_path: Path) -> None:
    gold, pool, test = data()
    out = tmp_path / "out"
    first = us.compare(student, gold, pool, ["slam"], test=test, out=out, **SMALL)
    marks = {file: file.stat().st_mtime_ns for file in (out / "cells").iterdir()}
    table = (out / "comparison.json").read_bytes()
    assert us.compare(student, gold, pool, ["slam"], test=test, out=out, **SMALL).outcomes == first.outcomes
    assert (out / "comparison.json").read_bytes() == table
    # A lost cell is run again and comes out the same; another method and another seed join.
    (out / "cells" / "slam-1.json").unlink()
    more = us.compare(student, gold, pool, ["slam", "gce"], test=test, out=out, **{**SMALL, "seeds": 3})
    assert accuracies(more)["slam"][1] == accuracies(first)["slam"][1] and set(more.outcomes["gce"]) == {0, 1, 2}
    kept = {file: mark for file, mark in marks.items() if file.name != "slam-1.json"}
    assert all(file.stat().st_mtime_ns == mark for file, mark in kept.items())
    saved = json.loads((out / "comparison.json").read_text())
    assert saved["methods"]["gce"]["seeds"]["2"]["last"] == more.outcomes["gce"][2].last
    assert saved["sentences"] == more.sentences


def test_naming_a_default_changes_nothing(tmp_path: Path) -> None:
    gold, pool, test = data()
    first = us.compare(student, gold, pool, [], test=test, out=tmp_path, **SMALL)
    same: Any = {"momentum": 0.9, "clip": None, "gold_weight": 1, "weight_decay": 0, "device": "cpu"}
    again = us.compare(student, gold, pool, [], test=test, out=tmp_path, **same, **SMALL)
    assert accuracies(first) == accuracies(again)


def test_leftovers_of_a_kill_are_no_obstacle(tmp_path: Path) -> None:
    gold, pool, test = data()
    (tmp_path / ".settings.json.x7k").write_text("{")
    assert us.compare(student, gold, pool, [], test=test, out=tmp_path, **SMALL).outcomes


def test_what_fails_at_once_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gold, pool, test = data()
    told: Any = {"test": test, "out": tmp_path / "out", **SMALL, "pretrain_epochs": 1}
    with pytest.raises(us.UnderstudyError, match="lr=-1"):
        us.compare(student, gold, pool, [], **told | {"lr": -1})
    assert not (tmp_path / "out").exists()

    def broken(x: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
        raise AttributeError("a mistake of the user's")

    with pytest.raises(RuntimeError, match="AttributeError: a mistake of the user's"):
        us.compare(student, gold, pool, [], augment=broken, **told)
    assert not (tmp_path / "out").exists()
    real = CompareFolder.write

    def full(self: CompareFolder, *rest: Any) -> None:
        (self.path / "cells").mkdir()
        raise us.UnderstudyError("No space left on device")

    monkeypatch.setattr(CompareFolder, "write", full)
    with pytest.raises(us.UnderstudyError, match="No space left"):
        us.compare(student, gold, pool, [], **told)
    monkeypatch.setattr(CompareFolder, "write", real)
    assert us.compare(student, gold, pool, [], **told).outcomes


def test_a_method_that_never_ran_may_be_corrected(tmp_path: Path) -> None:
    gold, pool, test = data()
    told: Any = {"test": test, "select": 0.0, "out": tmp_path / "out", **SMALL}
    unable = us.Gold(gold.x, gold.y)  # cannot estimate the teacher
    assert "mine" not in us.compare(student, unable, pool, {"mine": us.slam()}, **told).outcomes
    found = us.compare(student, unable, pool, {"mine": us.gce()}, **told)
    assert "mine" in found.outcomes
    with pytest.raises(us.UnderstudyError, match="another method mine"):
        us.compare(student, unable, pool, {"mine": us.gce(g=0.5)}, **told)


def test_workers_write_nothing_themselves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that outlives its parent would write into whatever has come since."""
    gold, pool, test = data()
    monkeypatch.chdir(tmp_path)
    job = Job(student, gold, pool, ["slam"], TrainingOptions(epochs=1, pretrain_epochs=1, lr=0.01), test, 0.0)
    outcome, warned = job.train(Cell("slam", 0, start=job.pretrain(0)))
    assert 0 <= outcome.last <= 1 and warned == [] and not list(tmp_path.iterdir())
    with pytest.raises(us.UnderstudyError, match=r"slam, seed 0: .* remove starts/0.safetensors"):
        job.train(Cell("slam", 0, start=b"not a student"))


def test_a_teacher_known_on_some_test_rows_is_compared_there() -> None:
    gold, pool, test = data()
    partly = test.take(torch.arange(30)) + us.Gold(test.x[30:], test.y[30:])
    found = us.compare(student, gold, pool, [], test=partly, select=0.0, **SMALL)
    share = found.accuracy("teacher").mean
    same = f"{100 * (share - found.difference('teacher', 'vanilla').mean):.1f}%"
    assert any("no label of 70 of the tested rows" in note and note.endswith(f"{same}.") for note in found.notes)
    assert found.accuracy("teacher").error == pytest.approx(error_of(share, 30))
    right = [found.outcomes["vanilla"][seed].judged.right[:30].mean() for seed in (0, 1)]  # type: ignore[union-attr]
    assert found.difference("teacher", "vanilla").mean == pytest.approx(share - np.mean(right))


def test_a_student_whose_sizes_the_first_batch_tells(tmp_path: Path) -> None:
    gold, pool, test = data()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Lazy modules")
        told: Any = {"test": test, "select": 0.0, "out": tmp_path / "out", **SMALL}
        once, again = (us.compare(lazy, gold, pool, [], **told) for _ in range(2))
    assert accuracies(once) == accuracies(again)


def lazy() -> torch.nn.Module:
    return torch.nn.Sequential(torch.nn.LazyLinear(3))


def test_one_process_at_a_time_writes_a_comparison(tmp_path: Path) -> None:
    gold, pool, test = data()
    with locked(tmp_path), pytest.raises(us.UnderstudyError, match="is being written by another process"):
        us.compare(student, gold, pool, [], test=test, out=tmp_path, **SMALL)


def test_changed_settings_are_refused(tmp_path: Path) -> None:
    gold, pool, test = data()
    out = tmp_path / "out"
    kept: dict[str, Any] = {**SMALL, "epochs": 1, "seeds": 1, "select": 0.0}
    us.compare(student, gold, pool, {"mine": us.slam()}, test=test, out=out, **kept)

    def again(*, gold: us.Gold = gold, student: Any = student, **changes: Any) -> None:
        methods = changes.pop("methods", {"mine": us.slam()})
        us.compare(student, gold, pool, methods, test=test, out=out, **{**kept, **changes})

    again()
    for changes, name in (
        ({"epochs": 2}, "epochs"),
        ({"lr": 0.02}, "lr"),
        ({"weight_decay": 0.1}, "weight_decay"),
        ({"select": 0.2}, "select"),
        ({"gold": us.Gold(gold.x + 1, gold.y, teacher=gold.teacher)}, "gold"),
        ({"student": lambda: us.models.mlp(inputs=4, classes=3, hidden=(9,))}, "student"),
        ({"methods": {"mine": us.slam(lower_bound=0.6)}}, "method mine"),
    ):
        with pytest.raises(us.UnderstudyError, match=f"begun with another {name}[; ]"):
            again(**changes)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "file").touch()
    with pytest.raises(us.UnderstudyError, match="not empty and holds no comparison"):
        us.compare(student, gold, pool, [], test=test, out=tmp_path / "other", **kept)


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.filterwarnings("ignore:gold holds no example of class 2")
def test_a_cell_that_cannot_be_run_is_in_the_table_and_ends_no_other(tmp_path: Path, workers: int) -> None:
    """``forward`` must see every class on gold."""
    gold, pool, test = data()
    few = gold.take((gold.y < 2).nonzero().squeeze(1))
    told: Any = {"test": test, "select": 0.0, "out": tmp_path / "out", **SMALL, "workers": workers}
    found = us.compare(student, few, pool, ["forward", "gce"], **told)
    assert set(found.failed) == {"forward"} and set(found.failed["forward"]) == {0, 1}
    assert set(found.outcomes["gce"]) == {0, 1} and "forward" not in found.outcomes
    assert found.failed["forward"][0].startswith("forward, seed 0: ")
    assert any(note.startswith("forward could not be run: forward, seed 0: ") for note in found.sentences)
    assert "not run" in [str(cell) for cell in found.table().columns[1].cells]
    assert found.recommendation is not None and "forward" not in found.recommendation.chances
    saved = json.loads((tmp_path / "out" / "comparison.json").read_text())
    assert saved["failed"]["forward"]["1"].startswith("forward, seed 1: ")
    # It is tried again by the next call, and nothing else is.
    assert us.compare(student, few, pool, ["forward", "gce"], **told).failed == found.failed


def test_the_reference_may_be_what_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    gold, pool, test = data()
    plain = Job.train

    def fails(self: Job, cell: Cell) -> Any:
        if cell.method == "vanilla" or cell == Cell("gce", 1):
            raise ZeroDivisionError("a bug")
        return plain(self, cell)

    monkeypatch.setattr(Job, "train", fails)
    found = us.compare(student, gold, pool, ["gce"], test=test, **{**SMALL, "seeds": 3})
    assert set(found.outcomes["gce"]) == {0, 2} and "vanilla" not in found.outcomes
    assert "gce could not be run under seed 1: gce, seed 1: ZeroDivisionError: a bug." in found.sentences
    assert all(line.difference is None for line in found.rows())
    assert found.recommendation is not None and found.recommendation.choice in found.outcomes
    monkeypatch.setattr(Job, "train", lambda self, cell: 1 / 0)
    with pytest.raises(RuntimeError, match="gold only, seed 0: ZeroDivisionError"):
        us.compare(student, gold, pool, [], test=test, **SMALL)


def test_pretrained_students_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gold, pool, test = data()
    told: Any = {"test": test, "out": tmp_path / "out", **SMALL, "pretrain_epochs": 1}
    monkeypatch.setattr(Job, "train", lambda self, cell: 1 / 0)
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        us.compare(student, gold, pool, [], **told)
    monkeypatch.undo()
    kept = {file.name: file.stat().st_mtime_ns for file in (tmp_path / "out" / "starts").iterdir()}
    assert {"0.safetensors", "1.safetensors"} <= set(kept)
    assert us.compare(student, gold, pool, [], **told).outcomes
    assert {file.name: file.stat().st_mtime_ns for file in (tmp_path / "out" / "starts").iterdir()} == kept


def test_a_seed_that_cannot_be_pretrained_ends_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    gold, pool, test = data()
    plain = Job.pretrain

    def fails(self: Job, seed: int) -> bytes:
        if seed == 1:
            raise us.UnderstudyError("refused; do otherwise")
        return plain(self, seed)

    monkeypatch.setattr(Job, "pretrain", fails)
    found = us.compare(student, gold, pool, [], test=test, pretrain_epochs=1, **{**SMALL, "seeds": 3})
    assert set(found.outcomes["vanilla"]) == {0, 2}
    assert found.failed["vanilla"] == {1: "pretraining on gold, seed 1: refused; do otherwise"}


def test_chance_is_the_most_common_class_of_the_test_rows() -> None:
    gold, pool, test = data()
    found = us.compare(student, gold, pool, [], test=test.take((test.y > 0).nonzero().squeeze(1)), **SMALL)
    counts = torch.bincount(test.y[test.y > 0])
    assert found.majority[1].last == pytest.approx(float(counts.max() / counts.sum()))


def test_mistakes_are_refused_before_the_first_cell() -> None:
    gold, pool, _ = data()
    for wrong in ("learning_rate", "seed", "refine"):
        with pytest.raises(TypeError, match=f"unknown option '{wrong}' of compare"):
            us.compare(student, gold, pool, [], **SMALL, **{wrong: 1})
    for changes, complaint in (
        ({"seeds": 0}, "seeds=0"),
        ({"workers": 0}, "workers=0"),
        ({"select": 1.5}, "select=1.5"),
    ):
        with pytest.raises(us.UnderstudyError, match=complaint):
            us.compare(student, gold, pool, [], **{**SMALL, **changes})
    with pytest.raises(us.UnderstudyError, match="has no teacher labels"):
        us.compare(student, gold, us.Pool(pool.x), [], **SMALL)


def test_warnings_of_cells_are_passed_on_once(tmp_path: Path) -> None:
    gold, pool, test = data()
    few = us.Gold(gold.x[gold.y < 2], gold.y[gold.y < 2], teacher=gold.teacher.take((gold.y < 2).nonzero().squeeze(1)))  # type: ignore[union-attr]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = us.compare(student, few, pool, [], test=test, out=tmp_path / "out", **SMALL)
    texts = [str(warning.message) for warning in caught if "no example of class 2" in str(warning.message)]
    assert len(texts) == 1 and texts[0] in found.warnings


@pytest.mark.parametrize("start", ["fork", pytest.param("spawn", marks=pytest.mark.torture)])
@pytest.mark.slow
def test_processes_give_what_one_process_gives(start: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executors, "start_method", lambda: start)
    gold, pool, test = data()
    # A module, not a function of this file: spawned processes cannot import a test.
    net = student()
    pretrain = 1 if start == "fork" else 0  # every stage of spawned processes imports torch anew
    alone = us.compare(net, gold, pool, ["slam"], test=test, pretrain_epochs=pretrain, **SMALL)
    several = us.compare(net, gold, pool, ["slam"], test=test, pretrain_epochs=pretrain, **{**SMALL, "workers": 2})
    assert accuracies(several) == accuracies(alone)
    assert several.outcomes["slam"][0].history[0]["loss"] == alone.outcomes["slam"][0].history[0]["loss"]


def test_workers_share_arrays_and_survive_nothing_silently() -> None:
    big = torch.zeros(1000, 1000)
    forked = WorkerProcesses(2, start="fork")
    results = forked.map(lambda cell: float(big[cell].sum()) + cell, iter(range(10, 17)))
    assert sorted(results) == [(number, 10.0 + number) for number in range(7)]
    with pytest.raises(us.UnderstudyError, match="worked on 3 was killed, twice"):
        list(forked.map(lambda cell: os.kill(os.getpid(), signal.SIGKILL) if cell == 3 else cell, range(5)))
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        list(forked.map(lambda cell: 1 / cell, range(3)))
    with pytest.raises(us.UnderstudyError, match="cannot be sent to other processes"):
        list(WorkerProcesses(2, start="spawn").map(lambda cell: cell, range(3)))


def test_closing_gives_up_what_is_under_way() -> None:
    results = WorkerProcesses(2, start="fork").map(lambda cell: time.sleep(10_000 * (cell > 0)), range(3))
    assert next(results) == (0, None)
    results.close()  # would wait for hours


def test_few_cells_and_one_worker_stay_in_this_process() -> None:
    here = os.getpid()
    executors: list[tuple[Executor, int]] = [(InProcess(), 3), (WorkerProcesses(1), 3), (WorkerProcesses(2), 1)]
    for executor, count in executors:
        assert list(executor.map(lambda cell: os.getpid(), range(count))) == [(n, here) for n in range(count)]
    assert list(WorkerProcesses(2).map(abs, [])) == []


class Apart:
    """A cluster in a few lines: what comes and goes is pickled, and the last cell finishes first."""

    def map(self, function: Any, cells: Any) -> Any:
        sent = [(number, ForkingPickler.dumps((function, cell))) for number, cell in enumerate(cells)]
        for number, content in reversed(sent):
            theirs, cell = ForkingPickler.loads(content)
            yield number, ForkingPickler.loads(ForkingPickler.dumps(theirs(cell)))


class Losses(us.Callback):
    def __init__(self) -> None:
        self.seen: list[tuple[int, int]] = []

    def on_epoch(self, view: Any) -> None:
        self.seen.append((view.config["seed"], view.epoch))


def test_callbacks_see_every_cell_and_change_nothing() -> None:
    gold, pool, test = data()
    told: Any = {"test": test, **SMALL, "seeds": 1}
    losses = Losses()
    watched = us.compare(student, gold, pool, [], callbacks=[losses], **told)
    assert losses.seen == 3 * [(0, 1), (0, 2)]  # gold only, vanilla, confident
    assert watched.as_dict() == us.compare(student, gold, pool, [], **told).as_dict()


def test_an_executor_shares_neither_memory_nor_a_disk() -> None:
    gold, pool, test = data()
    options = {name: value for name, value in SMALL.items() if name != "workers"}
    told: Any = {"test": test, "pretrain_epochs": 1, **options}
    net = student()
    alone = us.compare(net, gold, pool, ["slam"], workers=1, **told)
    apart = us.compare(net, gold, pool, ["slam"], executor=Apart(), **told)
    assert apart.as_dict() == alone.as_dict()
    with pytest.raises(us.UnderstudyError, match="pass one of them"):
        us.compare(student, gold, pool, executor=Apart(), workers=2, **told)


LONG: dict[str, Any] = {**SMALL, "epochs": 6, "pretrain_epochs": 3}


def finished(out: Path, part: str = "cells") -> list[Path]:
    return list((out / part).glob("[!.]*"))


def _compare_apart(out: Path, options: dict[str, Any], number: int, part: str, count: int, group: bool) -> None:
    os.setsid()
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it
    owner, real = os.getpid(), os.replace

    def replace(*given: Any) -> None:
        real(*given)
        if len(finished(out, part)) == count:
            os.killpg(owner, number) if group else os.kill(owner, number)

    os.replace = replace  # type: ignore[assignment]
    gold, pool, test = data()
    us.compare(student, gold, pool, ["slam"], test=test, out=out, **{**options, "workers": 2})


def stop_with(number: int, out: Path, *, part: str, count: int, group: bool) -> tuple[Any, int]:
    """A comparison in a process of its own, stopped by a signal once so many files are there: its exit code, and a pipe
    that ends when the last process has.
    """
    reader, writer = os.pipe()
    process = multiprocessing.get_context("fork").Process(
        target=_compare_apart, args=(out, LONG, number, part, count, group)
    )
    process.start()
    os.close(writer)
    process.join()
    return process.exitcode, reader


@pytest.mark.slow
def test_killed_and_resumed_gives_the_same_table(tmp_path: Path) -> None:
    gold, pool, test = data()
    us.compare(student, gold, pool, ["slam"], test=test, out=tmp_path / "calm", **LONG)
    for part, count, group in (("starts", 1, True), ("cells", 2, True), ("cells", 4, False)):
        code, reader = stop_with(signal.SIGKILL, tmp_path / "killed", part=part, count=count, group=group)
        os.close(reader)
        assert code == -signal.SIGKILL and len(finished(tmp_path / "killed", part)) == count
    assert not (tmp_path / "killed" / "comparison.json").exists()
    us.compare(student, gold, pool, ["slam"], test=test, out=tmp_path / "killed", **LONG)
    calm, killed = ((tmp_path / name / "comparison.json").read_bytes() for name in ("calm", "killed"))
    assert calm == killed


@pytest.mark.slow
def test_ctrl_c_keeps_what_is_finished(tmp_path: Path) -> None:
    out = tmp_path / "out"
    code, reader = stop_with(signal.SIGINT, out, part="cells", count=3, group=True)
    assert code == 1
    assert os.read(reader, 1) == b""  # nobody goes on in the background
    os.close(reader)
    kept = finished(out)
    assert len(kept) == 3 and all(json.loads(file.read_text())["history"] for file in kept)


@pytest.mark.parametrize("metric", ["f1", "log_loss"])
def test_another_metric_is_compared_kept_and_recommended_by(metric: str, tmp_path: Path) -> None:
    gold, pool, test = data()
    run = us.train(student, gold, pool, us.gce(), epochs=2, lr=0.01, batch_size=32, seed=1, test=test, progress=False)
    found = us.compare(student, gold, pool, ["gce"], test=test, out=tmp_path / "c", metric=metric, select=0.0, **SMALL)
    probs, y = run.predict(test.x), test.y
    value = row_values(found.metric, probs, y).mean()
    if metric == "f1":
        assert found.metric == "macro_f1"
        assert float(value) == pytest.approx(f1_score(y, probs.argmax(1), average="macro"))
    assert found.outcomes["gce"][1].last == pytest.approx(float(value))
    assert found.majority[0].last < found.outcomes["gce"][1].last
    best = found.recommendation
    assert best is not None and best.choice == max(best.expected, key=lambda name: best.expected[name])
    low, high = best.intervals[best.choice]
    assert low < best.expected[best.choice] < high and (metric == "f1" or high < 0)
    assert ("expected macro-F1" if metric == "f1" else "expected log-loss") in found.sentences[0]
    assert "accuracy" not in "".join(found.sentences) and found.table().title.startswith("Test ")
    again = us.compare(student, gold, pool, ["gce"], test=test, out=tmp_path / "c", metric=metric, select=0.0, **SMALL)
    assert again.as_dict() == found.as_dict()
    with pytest.raises(us.UnderstudyError, match="metric"):
        us.compare(student, gold, pool, ["gce"], test=test, out=tmp_path / "c", select=0.0, **SMALL)
