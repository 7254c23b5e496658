"""Callbacks look on at the right moments, and change nothing."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import understudy as us
from understudy.training.callbacks import TrainingView


def _data() -> tuple[us.Gold, us.Pool]:
    generator = torch.Generator().manual_seed(3)
    x = torch.randn(120, 4, generator=generator)
    y = (x[:, 0] > 0).long()
    probs = torch.where(y.bool(), 0.8, 0.2)
    both = torch.stack([1 - probs, probs], 1)
    return us.Gold(x[:40], y[:40], both[:40]), us.Pool(x[40:], both[40:])


def _net() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Dropout(0.5), nn.Linear(8, 2))


def _train(*callbacks: Any, **more: Any) -> us.Run:
    gold, pool = _data()
    options: dict[str, Any] = {"epochs": 3, "batch_size": 16, "select": gold, "progress": False} | more
    return us.train(_net(), gold, pool, us.slam(), callbacks=callbacks, **options)


class Meddler(us.Callback):
    """Does whatever it can with what it is shown."""

    def __init__(self) -> None:
        self.moments: list[tuple[str, int]] = []

    def _meddle(self, moment: str, view: TrainingView) -> None:
        self.moments.append((moment, view.epoch))
        torch.manual_seed(99)
        torch.rand(7)
        with torch.no_grad():
            for parameter in view.student().parameters():
                parameter.zero_()
        view.predict(torch.zeros(2, 4))
        with pytest.raises(TypeError):
            view.config["lr"] = 5  # type: ignore[index]
        for record in view.history:
            with pytest.raises(TypeError):
                record["loss"] = 0.0  # type: ignore[index]

    def on_start(self, view: TrainingView) -> None:
        self._meddle("start", view)

    def on_epoch(self, view: TrainingView) -> None:
        self._meddle("epoch", view)

    def on_end(self, view: TrainingView) -> None:
        self._meddle("end", view)


def _same(a: us.Run, b: us.Run) -> None:
    for name, value in a.student.state_dict().items():
        assert value.equal(b.student.state_dict()[name]), name
    for name, column in a.columns.items():
        assert column.equal(b.columns[name]), name


def test_the_result_has_the_same_bits_with_and_without() -> None:
    meddler = Meddler()
    _same(_train(), _train(meddler))
    assert meddler.moments == [("start", 0), ("epoch", 1), ("epoch", 2), ("epoch", 3), ("end", 3)]


def test_phases_on_gold_alone_are_not_epochs() -> None:
    meddler = Meddler()
    _train(meddler, pretrain_epochs=2, finetune_epochs=1)
    assert meddler.moments == [("start", 0), ("epoch", 1), ("epoch", 2), ("epoch", 3), ("end", 3)]


class Stop(us.Callback):
    def on_epoch(self, view: TrainingView) -> None:
        if view.epoch == 2:
            raise KeyboardInterrupt


def test_one_that_raises_ends_the_training_which_can_be_resumed(tmp_path: Path) -> None:
    undisturbed = _train()
    with pytest.raises(KeyboardInterrupt):
        _train(Stop(), out=tmp_path / "run")
    meddler = Meddler()
    _same(undisturbed, _train(meddler, out=tmp_path / "run", resume=True))
    assert meddler.moments == [("start", 2), ("epoch", 3), ("end", 3)]


def test_anything_else_is_refused() -> None:
    with pytest.raises(us.UnderstudyError, match=r"holds a function; pass a list of us.Callback objects"):
        _train(lambda view: None)


def test_compare_auto_and_the_loop_have_the_same_bits_too(tmp_path: Path) -> None:
    gold, pool = _data()
    options: Any = {"epochs": 2, "batch_size": 16, "progress": False}
    meddler = Meddler()
    watched, alone = (
        us.compare(_net(), gold, pool, ["slam"], seeds=2, workers=1, callbacks=callbacks, **options)
        for callbacks in ([meddler], [])
    )
    assert watched.as_dict() == alone.as_dict()
    losses = [[record["loss"] for record in each.outcomes["slam"][1].history] for each in (watched, alone)]
    assert losses[0] == losses[1]
    assert meddler.moments.count(("end", 2)) == 2 * 4, "every cell is seen"
    _same(*(us.auto(_net(), gold, pool, workers=1, callbacks=callbacks, **options) for callbacks in ([meddler], [])))
    truth = (pool.x[:, 0] > 0).long()
    loops = [
        us.active.Loop(
            _net(), pool.x, truth, "s_badge", out=tmp_path / str(number), start=20, batch=10, budget=40,
            callbacks=[meddler] * number, **options,
        ).run()
        for number in range(2)
    ]  # fmt: skip
    assert loops[0].rows.equal(loops[1].rows)
    assert loops[0].run is not None and loops[1].run is not None
    _same(loops[0].run, loops[1].run)
