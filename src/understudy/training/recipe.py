"""How a training goes, apart from what is trained on what: epochs, batches, optimizer, schedule."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

import numpy as np
import torch
from torch import Tensor

from understudy.errors import UnderstudyError
from understudy.training.optim import OPTIMIZERS, Schedule, find_schedule

Augment = Callable[[Tensor, torch.Generator], Tensor]


@dataclass(frozen=True)
class Recipe:
    epochs: int
    batch_size: int
    lr: float
    seed: int
    optimizer: str
    weight_decay: float
    momentum: float
    schedule: str | Schedule | Sequence[tuple[float, float]]
    gold_repeat: int
    patience: int | None
    clip: float | None
    accumulate: int
    augment: Augment | None
    workers: int

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            object.__setattr__(self, name, pythons(value))
        for name in ("epochs", "batch_size", "accumulate"):
            _whole(name, getattr(self, name), least=1)
        for name in ("gold_repeat", "workers"):
            _whole(name, getattr(self, name), least=0)
        if self.patience is not None:
            _whole("patience", self.patience, least=1)
        _check_seed(self.seed)
        for name in ("weight_decay", "momentum"):
            if not (_is_number(getattr(self, name)) and getattr(self, name) >= 0):
                raise UnderstudyError(f"{name}={getattr(self, name)} must be a number and not negative")
        if not (_is_number(self.lr) and self.lr > 0):
            raise UnderstudyError(f"lr={self.lr} must be a number greater than 0")
        if self.clip is not None and not (_is_number(self.clip) and self.clip > 0):
            raise UnderstudyError(f"clip={self.clip} must be a number greater than 0, or None")
        if self.optimizer not in OPTIMIZERS:
            raise UnderstudyError(f"optimizer={self.optimizer!r} is unknown; use one of {', '.join(OPTIMIZERS)}")
        find_schedule(self.schedule)

    def lr_at(self, progress: float) -> float:
        return self.lr * find_schedule(self.schedule)(progress)

    def as_config(self) -> dict[str, Any]:
        """What JSON can hold of it."""
        plain = (int, float, str, type(None))
        return {name: value for name, value in vars(self).items() if isinstance(value, plain)}


def pythons(value: Any) -> Any:
    """NumPy's numbers count as numbers, but JSON and PyTorch's seeds want Python's."""
    return value.item() if isinstance(value, np.generic) else value


def _check_seed(seed: Any) -> None:
    if not isinstance(seed, Integral) or not -(1 << 63) <= int(seed) < 1 << 63:
        raise UnderstudyError(f"seed={seed!r} must be a whole number of 64 bits")


def _is_number(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def _whole(name: str, value: Any, *, least: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise UnderstudyError(f"{name}={value} must be a whole number, at least {least}")


def check_phases(*, pretrain_epochs: int, finetune_epochs: int, gold_weight: float, gold: Any) -> None:
    _whole("pretrain_epochs", pretrain_epochs, least=0)
    _whole("finetune_epochs", finetune_epochs, least=0)
    if not (_is_number(gold_weight) and gold_weight >= 0):
        raise UnderstudyError(f"gold_weight={gold_weight} must be a number and not negative")
    if gold is None and (pretrain_epochs or finetune_epochs):
        raise UnderstudyError("pretrain_epochs and finetune_epochs train on gold, but gold=None; pass gold")
