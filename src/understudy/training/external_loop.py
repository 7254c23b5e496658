"""A session's losses one at a time, for training loops that are not ours: the Hugging Face Trainer's, Lightning's.

    steps = ExternalLoop(session)
    loss = steps.loss(model, number)                 # of batch ``number`` of the epoch under way
    state = steps.state_dict()                       # between two of them: all it takes to go on later

Such loops ask for batches ahead of time, draw random numbers between two steps, evaluate in the middle of an epoch.
Nothing of that may change a bit: their data loader therefore gives them numbers alone (``numbers``), a batch is read
where its loss is computed, and the epoch's random state is in place for that moment only. A backward pass draws
nothing.

The state is tensors and plain values; ``pack`` of ``training/checkpoint.py`` makes one safetensors file of it, for
checkpoints that others write:

    write_bytes(path, pack(loop.state_dict()))
    loop.load_state_dict(unpack(path.read_bytes(), path), path)
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import DataLoader

from understudy.errors import UnderstudyError
from understudy.inference.passes import device_of
from understudy.store.settings import as_json
from understudy.training.batch_loss import Batch
from understudy.training.checkpoint import check_same_training, resume_settings
from understudy.training.fit import finished, finite
from understudy.training.options import SESSION
from understudy.training.run import Run
from understudy.training.session import Session, get_random, mean_loss, set_random


class ExternalLoop:
    """``history`` has a record per finished epoch, as ``run.history``."""

    def __init__(self, session: Session) -> None:
        self.session = session
        # Done here after every step: an epoch that is abandoned would do it whenever its garbage is collected.
        session.random.restores = False
        self.history: list[dict[str, float]] = []
        self._batches: Iterator[Batch] | None = None
        #: The random state of the epoch under way, or left in its middle, between two steps.
        self._inside: Mapping[str, Tensor] | None = None
        self._total = torch.zeros(())

    @property
    def begun(self) -> bool:
        return bool(self.session.epoch or self.session.batch or self._batches)

    def numbers(self) -> "DataLoader[Any]":
        """For the loop: the numbers of an epoch's batches, one by one; its length is theirs."""
        batches = [[number] for number in range(self.session.batches_per_epoch)]
        # As long as an epoch has rows, which loops show and count; its items are numbers of batches.
        rows: Any = range(self.session.rows)
        # With a generator of its own: a data loader draws a seed for its workers, whether it has some or not.
        return DataLoader(rows, batch_sampler=batches, collate_fn=_only, generator=torch.Generator())

    def loss(self, model: Any, number: int) -> Tensor:
        """The mean loss of the next batch, over the rows of its step; see ``Session.loss``."""
        session = self.session
        with self._epoch_random():
            if self._batches is None:
                self._batches = session.batches(session.epoch)
                self._total = self._total if session.batch else torch.zeros(())
            batch = next(self._batches)
            if batch.number != number:
                there = f"the loop is at batch {number} of its epoch, the session at batch {batch.number}"
                raise UnderstudyError(f"{there}; resume both from one checkpoint")
            if batch.number % session.options.accumulate == 0:
                # Loops that clear the gradients of their model alone know nothing of the modules beside it.
                for parameter in session.module_parameters():
                    parameter.grad = None
            scored = session.score(model, batch)
            self._total = self._total.to(scored.total.device) + scored.total.detach()
            if batch.ends_epoch:
                next(self._batches, None)
        if batch.ends_epoch:
            self._batches = self._inside = None
            loss = finite(float(self._total), batch.epoch) / session.epoch_rows
            self.history.append({"epoch": batch.epoch + 1, "loss": loss})
        return mean_loss(scored, batch)

    @contextmanager
    def _epoch_random(self) -> Iterator[None]:
        """The epoch's random state for a while, then that of the loop again."""
        device = device_of(self.session.student)
        with torch.random.fork_rng([device] if device.type == "cuda" else []):
            if self._inside is not None:
                set_random(self._inside, device)
            try:
                yield
            finally:
                self._inside = get_random(device)

    def close(self) -> None:
        """Let go of an epoch that will not be finished; a later state is that of its last step."""
        self._batches = None

    def state_dict(self) -> dict[str, Any]:
        """Tensors and plain values."""
        with self._epoch_random():
            session = self.session.state_dict()
        if not self.session.batch:
            self._inside = None
        return {"session": session, "history": self.history, "total": self._total, "settings": self._settings}

    def load_state_dict(self, state: Mapping[str, Any], origin: Any) -> None:
        """``origin``: the file it comes from, for messages."""
        check_same_training(state["settings"], self._settings, origin)
        self.close()
        self.session.load_state_dict(state["session"])
        # Other devices' states, if any, are left: the epoch then begins with whatever theirs is.
        self._inside = state["session"]["random"] if self.session.batch else None
        self.history, self._total = list(state["history"]), state["total"]

    @cached_property
    def _settings(self) -> dict[str, Any]:
        """What must be the same for the training to go on."""
        session = self.session
        rows = {"gold": session.gold, "pool": session.pool}
        settings = resume_settings(session.options, session.objective, session.student, session.classes, rows)
        # How long the training will be is the loop's matter, unless the method goes by it.
        epochs = session.epochs if session.objective.wants_progress else None
        return as_json(settings | {"epochs": epochs})

    def run(self, **config: Any) -> Run:
        """The run so far, to be saved, reported and used; ``config``: what else it shall hold."""
        if self._batches is not None:
            raise UnderstudyError("an epoch is under way; ask for the run after it, or when training has ended")
        session = self.session
        options = {name: value for name, value in session.options.as_config().items() if name in SESSION}
        known = {"objective": session.objective.name, "classes": session.classes, "epochs": session.epochs}
        return finished(session, self.history, known | options | config)


def _only(numbers: list[int]) -> dict[str, int]:
    return {"number": numbers[0]}
