"""Reconciled: labels made before the training, from the same label sources; every form of labels; stops and goes on."""

from pathlib import Path
from typing import Any

import pytest
import torch
from scipy import sparse

import understudy as us
from three_blobs import CLASSES, FAST, Items, labels, points, student, world
from understudy.parallel.executors import InProcess
from understudy.reconciling.cross_fitting import CrossFit
from understudy.reconciling.label_sources import reconciled_pool
from understudy.reconciling.relabel import Reconcile, default_base_models, fit_base_models
from understudy.store.fingerprints import fingerprint
from understudy.training.options import TrainingOptions

RECIPE = TrainingOptions(epochs=3, lr=0.02, batch_size=64)


def test_it_trains_as_vanilla_would_on_the_reconciled_labels() -> None:
    gold, pool, truth = world()
    run = us.train(student, gold, pool, us.reconciled(), **FAST)
    base_models = default_base_models(gold, pool, CLASSES, RECIPE)
    fitted = fit_base_models(student, gold, pool, base_models, RECIPE, Reconcile(), classes=CLASSES, folder=None)
    made = reconciled_pool(fitted, fitted.run(InProcess()))
    assert made.teacher is not None
    probs = made.teacher.dense(torch.arange(300), CLASSES)
    again = us.train(student, us.Gold(gold.x, gold.y), us.Pool(pool.x, probs), us.vanilla(), **FAST)
    pairs = zip(run.student.parameters(), again.student.parameters(), strict=True)
    assert all(one.equal(other) for one, other in pairs)
    assert run.columns["reconciled.label"].equal(made.teacher.top1())
    assert run.config["objective"] == "reconciled"
    teacher = pool.teacher
    assert teacher is not None
    right = [float((each == truth).double().mean()) for each in (run.columns["reconciled.label"], teacher.top1())]
    assert right[0] > right[1] + 0.1


def test_existing_labels_are_used_and_are_not_part_of_the_fingerprint() -> None:
    gold, pool, _ = world()
    made = us.reconcile(student, gold, pool, workers=1, **FAST)
    ready = us.reconciled().replace(relabel=Reconcile(4, 20_000, made))
    run, whole = (us.train(student, gold, pool, method, **FAST) for method in (ready, us.reconciled()))
    assert all(
        one.equal(other) for one, other in zip(run.student.parameters(), whole.student.parameters(), strict=True)
    )
    assert fingerprint(ready) == fingerprint(us.reconciled())


@pytest.mark.parametrize("form", ["hard_confidence", "soft", "topk", "votes"])
def test_every_form_of_labels(form: str) -> None:
    gold, pool, truth = world(form)
    run = us.train(student, gold, pool, us.reconciled(folds=2), **FAST)
    assert float((run.predict(pool.x).argmax(1) == truth).double().mean()) > 0.6
    teacher = "votes.prob" if form == "votes" else "teacher confusion.prob"
    assert {"reconciled.label", teacher, "neighbours.label"} <= set(run.columns)


def test_sparse_rows() -> None:
    x, y = points()
    said = labels(y)
    thin = sparse.csr_matrix(x.numpy())
    gold = us.Gold(thin[:60], y[:60], said.take(torch.arange(60)))
    pool = us.Pool(thin[60:], said.take(torch.arange(60, 360)))
    run = us.train(us.models.linear(4, CLASSES), gold, pool, us.reconciled(folds=2), **FAST)
    assert {"neighbours.label", "linear.label", "linear, gold only.label"} <= set(run.columns)


def test_rows_that_are_collated_have_no_neighbours() -> None:
    gold, pool, _ = world()
    gold = us.Gold(Items(gold.x), gold.y, gold.teacher, collate=torch.stack)
    pool = us.Pool(Items(pool.x), pool.teacher, collate=torch.stack)
    run = us.train(student, gold, pool, us.reconciled(folds=2), **FAST)
    sources = {name.removesuffix(".label") for name in run.columns if name.endswith(".label")}
    base_models = {"gold only", "vanilla", "gce", "self_distillation", "forward"}
    assert sources - {"refined", "reconciled"} == {"teacher confusion", *base_models}


def test_gold_that_only_estimates_and_rows_without_a_label() -> None:
    gold, pool, truth = world(estimate_only=True)
    assert isinstance(pool.teacher, us.Hard)
    named = pool.teacher.labels.clone()
    named[::3] = -1
    run = us.train(student, gold, us.Pool(pool.x, us.Hard(named, classes=CLASSES)), us.reconciled(folds=2), **FAST)
    assert "gold only.label" not in run.columns and "linear, gold only.label" not in run.columns
    assert len(run.columns["reconciled.label"]) == 300 and (run.columns["reconciled.label"] >= 0).all()
    assert run.facts["pool_rows"] == 300
    assert float((run.columns["reconciled.label"] == truth).double().mean()) > 0.6


def stopped_after(parts: int, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Interrupts after so many parts; the parts that were run."""
    asked: list[Any] = []
    real = CrossFit.predict_part

    def predict_part(self: CrossFit, part: Any) -> Any:
        if len(asked) == parts:
            raise KeyboardInterrupt
        asked.append(part)
        return real(self, part)

    monkeypatch.setattr(CrossFit, "predict_part", predict_part)
    return asked


def test_killed_among_its_base_models_it_resumes_bit_identically(tmp_path: Path) -> None:
    gold, pool, _ = world()
    told: dict[str, Any] = {**FAST, "checkpoint_every": 1}
    whole = us.train(student, gold, pool, us.reconciled(folds=2), out=tmp_path / "whole", **told)
    with pytest.MonkeyPatch.context() as patch:
        before = stopped_after(5, patch)
        with pytest.raises(KeyboardInterrupt):
            us.train(student, gold, pool, us.reconciled(folds=2), out=tmp_path / "run", **told)
    with pytest.raises(us.UnderstudyError, match="another folds"):
        us.train(student, gold, pool, us.reconciled(folds=3), out=tmp_path / "run", resume=True, **told)
    with pytest.MonkeyPatch.context() as patch:
        after = stopped_after(1000, patch)
        resumed = us.train(student, gold, pool, us.reconciled(folds=2), out=tmp_path / "run", resume=True, **told)
    assert len(before) == 5 and not set(before) & set(after)
    files = [(tmp_path / name / "student.safetensors").read_bytes() for name in ("run", "whole")]
    assert files[0] == files[1] and resumed.facts["reconciled.log_loss"] == whole.facts["reconciled.log_loss"]
    assert all(resumed.columns[name].equal(column) for name, column in whole.columns.items())
    assert not (tmp_path / "run" / "checkpoint").exists()


def test_in_a_comparison() -> None:
    gold, pool, _ = world()
    x, y = points(90, seed=7)
    told: dict[str, Any] = {"seeds": 1, "test": us.Gold(x, y), "select": 0.0, "workers": 1, **FAST}
    table = us.compare(student, gold, pool, ["reconciled:folds=2"], **told)
    assert "reconciled:folds=2" in table.outcomes


def test_mistakes() -> None:
    gold, pool, _ = world()
    with pytest.raises(us.UnderstudyError, match=r"reconciled\(folds=1\) must lie in \[2, inf\)"):
        us.reconciled(folds=1)
    with pytest.raises(us.UnderstudyError, match="rows=0"):
        us.reconciled(rows=0)
    with pytest.raises(us.UnderstudyError, match="reconciled weights label sources on gold, but gold=None"):
        us.train(student, None, pool, us.reconciled(), **FAST)
    with pytest.raises(us.UnderstudyError, match=r"12 gold rows are too few to weight .*; give at least 20"):
        us.train(student, gold.take(torch.arange(12)), pool, us.reconciled(), **FAST)
    session = us.Session(student(), gold, pool, us.reconciled(), batch_size=8)
    with pytest.raises(us.UnderstudyError, match=r"which only us.train does; make them with us.reconcile"):
        next(iter(session.batches(0)))
