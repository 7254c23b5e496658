"""Looking on while a student trains: for trackers, plots, early reports.

    class Log(us.Callback):
        def on_epoch(self, view):
            print(view.epoch, view.history[-1]["loss"])

    us.train(student, gold, pool, us.slam(), epochs=30, callbacks=[Log()])

A callback sees a view that it can only read, and its own use of random numbers is undone: the result has the same bits
with and without it. An exception it raises ends the training; what was checkpointed stays.
"""

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor, nn

from understudy.errors import UnderstudyError
from understudy.inference.passes import predict


@dataclass(frozen=True)
class TrainingView:
    """A training as its callbacks see it."""

    config: Mapping[str, Any]
    epoch: int
    """Epochs that are done."""
    epochs: int
    history: tuple[Mapping[str, float], ...]
    """One record per epoch, as ``run.history``."""
    facts: Mapping[str, float]
    folder: Path | None
    """Where the run is written, if it is."""
    _student: nn.Module

    def predict(self, x: Any) -> Tensor:
        """Class probabilities ``(n, C)`` of the student as it is now."""
        return predict(self._student, x)

    def student(self) -> nn.Module:
        """A copy of the student as it is now."""
        return copy.deepcopy(self._student)


class Callback:
    """Override what you need."""

    def on_start(self, view: TrainingView) -> None:
        """Before the first epoch, or the first after resuming: ``view.epoch`` are done."""

    def on_epoch(self, view: TrainingView) -> None:
        """After every epoch on gold and pool."""

    def on_end(self, view: TrainingView) -> None:
        """When the student is trained, fine-tuning included, and the run is saved."""


def show(
    callbacks: Sequence[Callback],
    moment: str,
    student: nn.Module,
    *,
    config: Mapping[str, Any],
    epochs: int,
    history: list[dict[str, float]],
    facts: dict[str, float],
    folder: Path | None,
) -> None:
    """Call them in their order."""
    view = TrainingView(
        config=MappingProxyType(copy.deepcopy(dict(config))),
        epoch=len(history),
        epochs=epochs,
        history=tuple(MappingProxyType(dict(record)) for record in history),
        facts=MappingProxyType(dict(facts)),
        folder=folder,
        _student=student,
    )
    for callback in callbacks:
        with torch.random.fork_rng():
            getattr(callback, moment)(view)


def check_callbacks(callbacks: Sequence[Any]) -> None:
    for callback in callbacks:
        if not isinstance(callback, Callback):
            raise UnderstudyError(
                f"callbacks= holds a {type(callback).__name__}; pass an object of a class derived from us.Callback"
            )
