"""``us.reconcile``: the pool with its labels, by the default members or others, kept and resumed."""

from pathlib import Path
from typing import Any

import pytest
import torch

import understudy as us
from three_blobs import FAST, student, world
from understudy.reconciling.cross_fitting import CrossFit


def test_the_labels_are_better_and_can_be_trained_on() -> None:
    gold, pool, truth = world()
    pool = us.Pool(pool.x, pool.teacher, ids=torch.arange(300))
    made = us.reconcile(student, gold, pool, workers=1, **FAST)
    assert made.teacher is not None and pool.teacher is not None and made.ids is not None
    right = [float((each.top1() == truth).double().mean()) for each in (made.teacher, pool.teacher)]
    assert right[0] > right[1] + 0.1 and made.ids.tolist() == list(range(300))
    names = [one.name for one in made.sources]
    assert names == [
        "teacher confusion", "gold only", "vanilla", "gce", "self_distillation", "forward", "neighbours", "linear",
        "linear, gold only",
    ]  # fmt: skip
    assert made.opinion.log_loss < min(one.log_loss for one in made.sources) + 0.05
    assert all(one.weight >= 0 and 0 <= one.accuracy <= 1 and one.probs.shape == (300, 3) for one in made.sources)
    with pytest.warns(us.UnderstudyWarning, match="fitted to the true classes of 60 of 60 gold rows"):
        run = us.train(student, us.Gold(gold.x, gold.y), made, us.vanilla(), **FAST)
    assert float((run.predict(pool.x).argmax(1) == truth).double().mean()) > 0.6


def test_other_methods_as_base_models() -> None:
    gold, pool, _ = world()
    made = us.reconcile(student, gold, pool, methods=["vanilla", "slam"], folds=2, rows=100, workers=1, **FAST)
    names = {one.name for one in made.sources}
    assert names == {"teacher confusion", "gold only", "vanilla", "slam", "neighbours", "linear", "linear, gold only"}
    made = us.reconcile(student, gold, pool, methods={"mine": us.gce}, folds=2, rows=None, workers=1, **FAST)
    assert "mine" in {one.name for one in made.sources}


def test_stopped_it_goes_on_to_the_same_bits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gold, pool, _ = world()
    told: Any = {"methods": ["vanilla"], "folds": 2, "workers": 1, **FAST}
    whole = us.reconcile(student, gold, pool, **told)
    asked, real = [], CrossFit.predict_part

    def predict_part(self: CrossFit, part: Any) -> Any:
        if len(asked) == 3:
            raise KeyboardInterrupt
        asked.append(part)
        return real(self, part)

    monkeypatch.setattr(CrossFit, "predict_part", predict_part)
    with pytest.raises(KeyboardInterrupt):
        us.reconcile(student, gold, pool, out=tmp_path / "parts", **told)
    monkeypatch.undo()
    with pytest.raises(us.UnderstudyError, match="begun with another recipe"):
        us.reconcile(student, gold, pool, out=tmp_path / "parts", **told | {"lr": 0.5})
    resumed = us.reconcile(student, gold, pool, out=tmp_path / "parts", **told)
    assert resumed.teacher is not None and whole.teacher is not None
    every = torch.arange(300)
    assert resumed.teacher.dense(every, 3).equal(whole.teacher.dense(every, 3))
    assert all(one.equal(whole.columns()[name]) for name, one in resumed.columns().items())


def test_mistakes() -> None:
    gold, pool, _ = world()
    with pytest.raises(us.UnderstudyError, match="reconcile needs gold and a pool"):
        us.reconcile(student, gold, None, **FAST)  # type: ignore[arg-type]
    with pytest.raises(us.UnderstudyError, match="the pool has no teacher labels"):
        us.reconcile(student, gold, us.Pool(pool.x), **FAST)
    with pytest.raises(us.UnderstudyError, match="10 gold rows are too few"):
        us.reconcile(student, gold.take(torch.arange(10)), pool, **FAST)
    with pytest.raises(us.UnderstudyError, match="there is no method 'nobody'"):
        us.reconcile(student, gold, pool, methods=["nobody"], **FAST)
    with pytest.raises(us.UnderstudyError, match="folds=1 must be a whole number, at least 2"):
        us.reconcile(student, gold, pool, folds=1, **FAST)
