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
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor, nn

from understudy.errors import UnderstudyError
from understudy.inference.passes import predict
from understudy.training.distributed import is_first

Record = dict[str, float]


class TrainingView:
    """A training as its callbacks see it: copies and proxies of what it is at that moment."""

    def __init__(
        self, student: nn.Module, config: dict[str, Any], history: list[Record], facts: Record, folder: Path | None
    ) -> None:
        self._student, self.folder = student, folder
        self.config: Mapping[str, Any] = MappingProxyType(copy.deepcopy(config))
        self.facts: Mapping[str, float] = MappingProxyType(dict(facts))
        self.history = tuple(MappingProxyType(dict(record)) for record in history)
        """One record per epoch that is done, as ``run.history``."""
        self.epoch, self.epochs = len(history), int(config["epochs"])

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

    def on_failure(self, view: TrainingView) -> None:
        """When a training that ``on_start`` was called for ends otherwise: by an error, Ctrl-C or a signal."""


class CallbackRunner:
    """Calls the callbacks of a training, in process 0, with a view of it; in a ``with`` block, also where it fails."""

    def __init__(
        self, callbacks: Sequence[Callback] = (), config: dict[str, Any] | None = None, folder: Path | None = None
    ) -> None:
        self.callbacks, self.config, self.folder = callbacks if is_first() else (), config or {}, folder
        self._seen: tuple[nn.Module, list[Record], Record] | None = None

    def start(self, student: nn.Module, history: list[Record], facts: Record) -> None:
        """``history`` and ``facts``: the training's own, which grow."""
        self._seen = student, history, facts
        self.call("on_start")

    def call(self, moment: str) -> None:
        """Call them in their order."""
        for callback in self.callbacks if self._seen is not None else ():
            with torch.random.fork_rng():
                getattr(callback, moment)(self._view())

    def end(self, student: nn.Module, history: list[Record], facts: Record) -> None:
        self._seen = student, history, facts
        self.call("on_end")

    def _view(self) -> TrainingView:
        assert self._seen is not None
        student, history, facts = self._seen
        return TrainingView(student, self.config, history, facts, self.folder)

    def __enter__(self) -> "CallbackRunner":
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            with suppress(Exception):  # what failed first is what the user must read
                self.call("on_failure")


def check_callbacks(callbacks: Sequence[Any]) -> None:
    if not isinstance(callbacks, Sequence):
        raise UnderstudyError(f"callbacks= is a {type(callbacks).__name__}; pass a list of us.Callback objects")
    for callback in callbacks:
        if not isinstance(callback, Callback):
            raise UnderstudyError(
                f"callbacks= holds a {type(callback).__name__}; pass an object of a class derived from us.Callback"
            )
