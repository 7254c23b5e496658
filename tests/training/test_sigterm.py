"""SIGTERM in the middle of a training, of a request, of a batch of answers: nothing is lost or requested twice."""

import signal
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import understudy as us
from understudy.store.console import Stopped
from understudy.training.checkpoint import CheckpointFiles

from ..forked_program import UNDERSTUDY, Program

Y = torch.arange(40) % 2
X = torch.eye(2)[Y] + torch.randn(40, 2, generator=torch.Generator().manual_seed(0))


class Net(nn.Linear):
    """Counts the batches it is trained on; at one of them the process is ended."""

    def __init__(self, stop_at: int = 0) -> None:
        super().__init__(2, 2)
        self.steps, self.stop_at = 0, stop_at

    def forward(self, x: Tensor) -> Tensor:
        if self.training:
            self.steps += 1
            if self.steps == self.stop_at:
                signal.raise_signal(signal.SIGTERM)
        return super().forward(x)


def train(out: Path | None, stop_at: int = 0, **options: Any) -> us.Run:
    gold, pool = us.Gold(X[:20], Y[:20]), us.Pool(X[20:], us.Hard(Y[20:]))
    given: dict[str, Any] = {"epochs": 3, "batch_size": 8, "select": us.Gold(X, Y), "progress": False} | options
    return us.train(partial(Net, stop_at), gold, pool, us.vanilla(), out=out, **given)


@pytest.mark.parametrize("stop_at", [1, 7, 10])
@pytest.mark.parametrize("options", [{}, {"accumulate": 2}, {"pretrain_epochs": 2}, {"ema": True}])
def test_a_training_goes_on_from_the_very_step(tmp_path: Path, stop_at: int, options: dict[str, Any]) -> None:
    def given() -> dict[str, Any]:
        return {"ema": us.EMA(Net())} if "ema" in options else options

    right = train(None, **given())
    steps = right.student.steps
    with pytest.raises(Stopped) as stopped:
        train(tmp_path / "run", stop_at, **given())
    assert stopped.value.code == 143
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    assert CheckpointFiles(tmp_path / "run" / "checkpoint").latest() is not None
    assert not list((tmp_path / "run").rglob(".*.safetensors*"))
    again = train(tmp_path / "run", resume=True, **given())
    left = steps - stop_at
    assert again.student.steps in (left, left - options.get("accumulate", 1) + 1)  # a step may be several batches
    assert again.predict(X).equal(right.predict(X))


def test_without_a_folder_it_is_the_systems_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda *rest: seen.append(1))
    try:
        train(None, 2)
    finally:
        signal.signal(signal.SIGTERM, before)
    assert seen == [1]


def test_a_paid_answer_is_kept_by_a_loop(tmp_path: Path) -> None:
    requested: list[int] = []

    def oracle(rows: Tensor) -> Tensor:
        requested.extend(rows.tolist())
        if len(requested) == 15:
            signal.raise_signal(signal.SIGTERM)
        return Y[rows]

    def loop() -> Any:
        return us.active.Loop(
            partial(us.models.linear, 2, 2), X, oracle, "entropy", out=tmp_path / "loop", start=10, batch=5, budget=25,
            epochs=1, progress=False,
        ).run()  # fmt: skip

    with pytest.raises(Stopped):
        loop()
    assert len(requested) == 15
    result = loop()
    assert len(requested) == len(set(requested)) == 25 and result.labels.equal(Y[result.rows])


def test_a_paid_answer_is_kept_by_a_store(tmp_path: Path) -> None:
    requested: list[int] = []

    def ask(ids: np.ndarray[Any, Any]) -> list[int]:
        requested.extend(ids.tolist())
        if len(requested) == 6:
            signal.raise_signal(signal.SIGTERM)
        return [0] * len(ids)

    with pytest.raises(Stopped):
        us.label_missing(us.LabelStore(tmp_path / "labels", 2, "hard"), range(9), ask, batch=3)
    assert len(us.LabelStore(tmp_path / "labels")) == 6
    us.label_missing(us.LabelStore(tmp_path / "labels"), range(9), ask, batch=3)
    assert requested == list(range(9))


def test_what_waits_in_a_store_is_written(tmp_path: Path) -> None:
    with pytest.raises(Stopped), us.LabelStore(tmp_path / "labels", 2, "hard") as store:
        store.append([1, 2], [0, 1])
        signal.raise_signal(signal.SIGTERM)
    assert len(us.LabelStore(tmp_path / "labels")) == 2


def test_the_command_ends_with_143_and_can_be_resumed(tmp_path: Path) -> None:
    rows = "".join(f"{x[0]:.3f},{x[1]:.3f},{y}\n" for x, y in zip(X.tolist(), Y.tolist(), strict=True))
    (tmp_path / "gold.csv").write_text("a,b,label\n" + rows)
    line = "train --gold gold.csv --method vanilla --student linear --optimizer sgd --epochs 1000000 --quiet --out run"
    process = Program(UNDERSTUDY, *line.split(), folder=tmp_path, errors=tmp_path / "errors")
    while not list(tmp_path.glob("run/checkpoint/0*.safetensors")):
        assert process.poll() is None
        time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    process.rest()
    errors = (tmp_path / "errors").read_text()
    assert process.wait() == 143 and "stopped by SIGTERM" in errors and "Traceback" not in errors
    left = {path.name for path in (tmp_path / "run").iterdir()}
    assert "checkpoint" in left and "config.json" not in left
    assert [name for name in left if name.startswith(".")] == [".lock"]
