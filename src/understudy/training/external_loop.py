"""A session's losses one at a time, for training loops that are not ours: the Hugging Face Trainer's, Lightning's.

    steps = ExternalLoop(session)
    loss = steps.loss(model, number)                 # of batch ``number`` of the epoch under way
    state = steps.state_dict()                       # between two of them: all it takes to go on later

Such loops ask for batches ahead of time, draw random numbers between two steps, evaluate in the middle of an epoch.
Nothing of that may change a bit: their data loader therefore gives them numbers alone (``numbers``), a batch is read
where its loss is computed, and the epoch's random state is in place for that moment only. A backward pass draws
nothing.

The state is tensors and plain values; ``pack`` makes one safetensors file of it, for checkpoints that others write:

    write_bytes(path, pack(loop.state_dict()))
    loop.load_state_dict(unpack(path.read_bytes(), path), path)
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from understudy.errors import UnderstudyError
from understudy.inference.passes import device_of
from understudy.store.settings import as_json
from understudy.training.batch_types import Batch
from understudy.training.checkpoint import check_same_training, resume_settings
from understudy.training.fit import finished, finite
from understudy.training.options import SESSION
from understudy.training.run import Run, state_from_bytes, state_to_bytes
from understudy.training.session import Session, mean_loss


class ExternalLoop:
    """``history`` has a record per finished epoch, as ``run.history``."""

    def __init__(self, session: Session) -> None:
        self.session = session
        # Done here after every step: an epoch that is abandoned would do it whenever its garbage is collected.
        session.random.restores = False
        self.history: list[dict[str, float]] = []
        self._batches: Iterator[Batch] | None = None
        #: The random state of the epoch under way, or left in its middle, between two steps.
        self._inside: list[Tensor] | None = None
        self._total = torch.zeros(())

    @property
    def begun(self) -> bool:
        return bool(self.session.epoch or self.session.batch or self._batches)

    def numbers(self) -> "DataLoader[Any]":
        """For the loop: the numbers of an epoch's batches, one by one; its length is theirs."""
        batches = [[number] for number in range(self.session.batches_per_epoch)]
        # With a generator of its own: a data loader draws a seed for its workers, whether it has some or not.
        return DataLoader(
            _Rows(self.session.rows), batch_sampler=batches, collate_fn=_only, generator=torch.Generator()
        )

    def loss(self, model: Any, number: int) -> Tensor:
        """The mean loss of the next batch, over the rows of its step; see ``Session.loss``."""
        session = self.session
        with self._epoch_random():
            if self._batches is None:
                self._batches = session.batches(session.epoch)
                self._total = self._total if session.batch else torch.zeros(())
            batch = next(self._batches)
            if batch.number != number:
                raise UnderstudyError(
                    f"the loop is at batch {number} of its epoch, the session at batch {batch.number}; "
                    "resume both from one checkpoint"
                )
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
        outside = self._random()
        if self._inside is not None:
            self._set_random(self._inside)
        try:
            yield
        finally:
            self._inside = self._random()
            self._set_random(outside)

    def _random(self) -> list[Tensor]:
        device = device_of(self.session.student)
        on_device = [torch.cuda.get_rng_state(device)] if device.type == "cuda" else []
        return [torch.get_rng_state(), *on_device]

    def _set_random(self, states: list[Tensor]) -> None:
        torch.set_rng_state(states[0])
        for state in states[1:]:
            torch.cuda.set_rng_state(state, device_of(self.session.student))

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
        random, names = state["session"]["random"], ("torch", "cuda")[: len(self._random())]
        self._inside = [random[name] for name in names if name in random] if self.session.batch else None
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


class _Rows(Dataset[int]):
    """As long as an epoch has rows, which loops show and count; its items are numbers of batches."""

    def __init__(self, rows: int) -> None:
        self.rows = rows

    def __len__(self) -> int:
        return self.rows

    def __getitem__(self, number: int) -> int:
        return number


def _only(numbers: list[int]) -> dict[str, int]:
    return {"number": numbers[0]}


_OUTLINE = "outline.json"
_TENSOR = "tensor number"


def pack(state: Mapping[str, Any]) -> bytes:
    """Tensors by number, and as JSON the outline of what stands where."""
    tensors: list[Tensor] = []

    def outline(value: Any) -> Any:
        if isinstance(value, Tensor):
            tensors.append(value)
            return {_TENSOR: len(tensors) - 1}
        if isinstance(value, Mapping):
            return {name: outline(part) for name, part in value.items()}
        return [outline(part) for part in value] if isinstance(value, list | tuple) else value

    text = json.dumps(outline(state)).encode()
    numbered = {str(number): tensor for number, tensor in enumerate(tensors)}
    return state_to_bytes({**numbered, _OUTLINE: torch.frombuffer(bytearray(text), dtype=torch.uint8)})


def unpack(content: bytes, path: Path) -> dict[str, Any]:
    tensors = state_from_bytes(content, path)

    def filled(value: Any) -> Any:
        if isinstance(value, dict):
            return tensors[str(value[_TENSOR])] if _TENSOR in value else {k: filled(part) for k, part in value.items()}
        return [filled(part) for part in value] if isinstance(value, list) else value

    if _OUTLINE not in tensors:
        raise UnderstudyError(f"{path} is no state of a session; resume from a checkpoint that has one")
    state: dict[str, Any] = filled(json.loads(bytes(tensors.pop(_OUTLINE).tolist())))
    return state
