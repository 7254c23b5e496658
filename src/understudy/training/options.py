"""The options of a training: one frozen dataclass, one field per option.

``us.train``, ``us.compare``, ``us.auto``, the command line and the request file it writes all read this table: a new
option is a field here, and the code that uses it. Each field has its default, a line of help, the limits of its value,
its type on a command line, and whether it may change when a training is resumed. The command line shows the table
before anything is trained: this file loads without PyTorch.

    options = TrainingOptions(epochs=30, lr=0.01)                   # checked here, and never again
    options.replace(epochs=3)
    options.lr_at(0.5)                                              # half-way through training

    @shows_options(SHARED)
    def compare(student, gold, pool, *, seeds=5, **options): ...
    inspect.signature(compare)              # (student, gold, pool, *, epochs: int | str | None = 'auto', …)
"""

import copy
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from inspect import Parameter
from numbers import Integral
from typing import TYPE_CHECKING, Any, TypeVar

from understudy.errors import UnderstudyError
from understudy.store.option_fields import check_options, field_parameters, known, option, typed_as, with_parameters

if TYPE_CHECKING:
    import torch
    from torch import nn

    from understudy.data.augment import Augment
    from understudy.training.averages import EMA

Function = TypeVar("Function", bound=Callable[..., Any])
#: What a group of parameters multiplies the learning rate by.
LR_SCALE = "lr_scale"

#: A function of training progress (0 … 1) that multiplies the learning rate: one serves any number of epochs.
Schedule = Callable[[float], float]


def piecewise(steps: Sequence[tuple[float, float]]) -> Schedule:
    """Factor 1, then each ``(from this progress on, factor)`` in turn."""

    def factor(progress: float) -> float:
        return next((value for start, value in reversed(steps) if progress >= start), 1.0)

    return factor


SCHEDULES: dict[str, Schedule] = {
    "constant": lambda progress: 1.0,
    "cosine": lambda progress: 0.5 * (1 + math.cos(math.pi * progress)),
    "linear": lambda progress: 1.0 - progress,
    "step": piecewise([(0.5, 0.1), (0.75, 0.01)]),
    # The papers' own drop at fixed epochs. Weighted Distillation and SLaM, CIFAR: epochs 80, 120, 160, 180 of 200.
    "papers-cifar": piecewise([(0.4, 1e-1), (0.6, 1e-2), (0.8, 1e-3), (0.9, 0.5e-3)]),
    # The same papers, ImageNet: epochs 30, 60, 80 of 100.
    "papers-imagenet": piecewise([(0.3, 1e-1), (0.6, 1e-2), (0.8, 1e-3)]),
}


def set_lr(optimizer: "torch.optim.Optimizer", lr: float) -> None:
    """The learning rate of the steps to come, for each group by its own scale."""
    for group in optimizer.param_groups:
        group["lr"] = lr * group.get(LR_SCALE, 1.0)


def find_schedule(schedule: str | Schedule | Sequence[tuple[float, float]]) -> Schedule:
    if isinstance(schedule, str):
        if schedule not in SCHEDULES:
            raise UnderstudyError(f"schedule={schedule!r} is unknown; use one of {', '.join(SCHEDULES)}")
        return SCHEDULES[schedule]
    if callable(schedule):
        return schedule
    try:
        return piecewise([(float(start), float(factor)) for start, factor in schedule])
    except (TypeError, ValueError, RuntimeError) as error:
        wanted = "a name, a function of progress (0 … 1), or pairs (progress, factor)"
        raise UnderstudyError(f"schedule={schedule!r}: give {wanted}") from error


LBFGS, AUTO = "lbfgs", "auto"
#: Options of a command whose default depends on the student and the number of rows.
CHOSEN_AUTOMATICALLY = (
    "epochs", "batch_size", "lr", "optimizer", "weight_decay", "schedule", "warmup", "clip", "autocast",
)  # fmt: skip
OPTIMIZERS = ("adam", "adamw", "sgd", LBFGS)
METRICS = ("accuracy", "balanced_accuracy", "macro_f1", "log_loss", "auc")
Schedules = str | Schedule | Sequence[tuple[float, float]]
#: Patterns of parameter names (``"classifier.*"``) and the learning rate and decay of each: see ``optimizers.py``.
Groups = Mapping[str, Mapping[str, float]]

TRAINING = "Training"


#: What ``us.Session`` takes: the options that say what a batch is and costs.
SESSION = (
    "batch_size", "gold_repeat", "gold_weight", "accumulate", "augment", "feature_layer", "autocast", "pass_batch_size",
    "group_by_length", "sync_batchnorm", "seed", "workers", "refine",
)  # fmt: skip
#: What differs between the trainings of a comparison, a pilot or an active-learning loop.
NOT_SHARED = ("seed", "workers", "refine", "ema", "checkpoint_every")
#: What us.auto takes of these, for its last training.
FINAL = ("seed", "ema", "checkpoint_every")


def _option(default: Any, help: str, *, typed: Any = True, panel: str | None = TRAINING, **metadata: Any) -> Any:
    return option(default, help=help, typed=typed, panel=panel, **metadata)


@dataclass(frozen=True)
class TrainingOptions:
    #: Always a number here: ``resolve_options`` replaces "auto".
    epochs: int = _option(
        AUTO, "Passes over gold and pool; auto: chosen on gold rows left out.", panel=None, least=1,
        shown=int | str | None,
    )  # fmt: skip
    batch_size: int = _option(128, "Rows per step.", least=1)
    lr: float = _option(1e-3, "Learning rate.", above=0)
    seed: int = _option(0, "Same seed, same result.", panel=None)
    metric: str = _option(
        "accuracy", "What choices maximise: accuracy, balanced_accuracy, macro_f1 (f1), log_loss or auc.", panel=None
    )
    patience: int | None = _option(None, "Stop after so many epochs that are not better on the select rows.", least=1)
    until_accuracy: float | None = _option(
        None, "Stop once so large a share of the training rows' own labels is predicted.", above=0, most=1
    )
    optimizer: str = _option(
        "adam", "adam, adamw or sgd; or lbfgs: all rows at once, until converged; an epoch is 20 of its steps."
    )
    weight_decay: float | str = _option(
        0.0, "Weight decay; with lbfgs, half of it times Σ w² is added to the mean loss.", typed=float, least=0,
        word=AUTO,
    )  # fmt: skip
    momentum: float = _option(0.9, "For sgd.", least=0)
    schedule: Schedules = _option(
        "constant", "constant, cosine, linear, step, papers-cifar or papers-imagenet.", typed=str
    )
    warmup: float = _option(0.0, "Share of training in which the rate rises to its full height.", least=0, most=1)
    groups: Groups | None = _option(
        None, "Parameters by name with an lr_scale or weight_decay: {'classifier.*': {'lr_scale': 10}}.", typed=None
    )
    gold_repeat: int = _option(1, "Show each gold row so often per epoch; 0: gold steers, but does not train.", least=0)
    gold_weight: float = _option(1.0, "Multiplies the loss of gold rows.", least=0)
    pretrain_epochs: int = _option(0, "Epochs on gold alone, first.", flag="pretrain", least=0)
    finetune_epochs: int = _option(0, "Epochs on gold alone, at the end.", flag="finetune", least=0)
    finetune_lr: float | None = _option(None, "Its constant rate; that which the schedule ends with.", above=0)
    clip: float | None = _option(None, "Bound on the gradient's norm.", above=0)
    accumulate: int = _option(1, "Batches that make one step.", least=1)
    group_by_length: bool = _option(False, "Put texts of similar length into one batch.")
    sync_batchnorm: bool = _option(False, "Where processes train together: BatchNorm sees the batch of all.")
    augment: "Augment | None" = _option(None, "(x, generator) -> x, changes training batches.", typed=None)
    feature_layer: str | None = _option(None, "The layer whose output are the penultimate features.", typed=None)
    device: "str | torch.device | None" = _option(None, "cpu, cuda, …", typed=str | None, panel=None, may_differ=True)
    autocast: "torch.dtype | str | None" = _option(
        None, "Mixed precision on a GPU: bfloat16; or float16, whose losses are not scaled.", typed=str | None
    )
    compile: bool = _option(False, "Run the student through torch.compile.", typed=None)
    workers: int = _option(0, "Processes that read the rows of a Dataset.", typed=None, least=0, may_differ=True)
    pass_batch_size: int = _option(1024, "Rows per batch of predictions.", typed=None, least=1, may_differ=True)
    refine: bool = _option(True, "Keep, per pool row, the predictions averaged over training.", typed=None)
    ema: "EMA | None" = _option(None, "Keep a moving average of the weights, for s_badge.", typed=bool)
    checkpoint_every: int | None = _option(
        None, "Also write a checkpoint every so many steps, not only after epochs.", least=1, may_differ=True
    )

    def __post_init__(self) -> None:
        """Check every value, once: derived copies (``replace``) trust them."""
        check_options(self)
        seed: Any = self.seed
        if not isinstance(seed, Integral) or not -(1 << 63) <= int(seed) < 1 << 63:
            raise UnderstudyError(f"seed={seed!r} must be a whole number of 64 bits")
        object.__setattr__(self, "autocast", _dtype(self.autocast))
        if self.metric == "f1":
            object.__setattr__(self, "metric", "macro_f1")
        if self.metric not in METRICS:
            raise UnderstudyError(f"metric={self.metric!r} is unknown; use one of {', '.join(METRICS)}")
        if self.optimizer not in OPTIMIZERS:
            raise UnderstudyError(f"optimizer={self.optimizer!r} is unknown; use one of {', '.join(OPTIMIZERS)}")
        find_schedule(self.schedule)
        if self.finetune_epochs and not self.finetune_rate > 0:
            raise UnderstudyError("the schedule has come down to 0 where fine-tuning would begin; pass finetune_lr=")
        for name in ("augment", "clip", "groups"):
            if self.is_full_batch and getattr(self, name) is not None:
                raise UnderstudyError(f"optimizer='lbfgs' (full_batch) minimises one fixed function; leave out {name}=")
        if self.weight_decay == AUTO and not self.is_full_batch:
            raise UnderstudyError("weight_decay='auto' is chosen for optimizer='lbfgs'; pass a number for any other")

    @property
    def penalty(self) -> float:
        """The weight decay as a number, chosen where it was to be."""
        assert not isinstance(self.weight_decay, str)
        return self.weight_decay

    @property
    def is_full_batch(self) -> bool:
        """Whether a step is made on all rows at once, so that ``batch_size``, ``lr`` and ``schedule`` say nothing."""
        return self.optimizer == LBFGS

    def lr_at(self, progress: float) -> float:
        """Linearly up to ``lr`` while training warms up, then as the schedule says."""
        if progress < self.warmup:
            return self.lr * progress / self.warmup
        rest = 1 - self.warmup
        return self.lr * find_schedule(self.schedule)((progress - self.warmup) / rest if rest else 1.0)

    def finetuning(self) -> "TrainingOptions":
        """For the epochs on gold alone at the end."""
        return self.on_gold(self.finetune_epochs, lr=self.finetune_rate, schedule="constant", warmup=0.0)

    @property
    def finetune_rate(self) -> float:
        """By default the rate that training ended with; of a schedule that ends at 0 (cosine), that at nine tenths."""
        return self.finetune_lr or self.lr_at(1.0) or self.lr_at(0.9)

    def on_gold(self, epochs: int, **changes: Any) -> "TrainingOptions":
        """For so many epochs on gold alone, which nothing but their number ends."""
        return self.replace(epochs=epochs, gold_repeat=1, patience=None, until_accuracy=None, **changes)

    def plain(self, **changes: Any) -> "TrainingOptions":
        """For a training whose student alone is wanted: nothing stops it early, refines labels or averages weights."""
        return self.replace(
            refine=False, patience=None, until_accuracy=None, pretrain_epochs=0, finetune_epochs=0, ema=None,
            checkpoint_every=None, **changes,
        )  # fmt: skip

    def replace(self, **changes: Any) -> "TrainingOptions":
        """A copy with other values, which are not checked again."""
        other = copy.copy(self)
        assert changes.keys() <= vars(self).keys()
        other.__dict__.update(changes)
        return other

    def arguments(self) -> dict[str, Any]:
        """Keyword arguments of ``us.train`` that give the same options."""
        return {each.name: getattr(self, each.name) for each in fields(self)}

    def as_config(self) -> dict[str, Any]:
        """The options that JSON can hold."""
        return {name: value for name, value in vars(self).items() if isinstance(value, int | float | str | None)}

    def settings(self, leave_out: Sequence[str] = ()) -> dict[str, Any]:
        """The options that must be the same when a training is resumed, as values that JSON can hold."""
        kept = [each.name for each in fields(self) if not known(each).may_differ and each.name not in leave_out]
        return {name: _setting(getattr(self, name)) for name in kept}


def option_names(*, leave_out: Sequence[str] = ()) -> tuple[str, ...]:
    return tuple(each.name for each in fields(TrainingOptions) if each.name not in leave_out)


SHARED = option_names(leave_out=NOT_SHARED)


def job_options() -> dict[str, Any]:
    """The options of ``understudy train`` and ``us.fit``, each with its default; None: chosen automatically."""
    typed = [each for each in fields(TrainingOptions) if typed_as(each) is not None]
    defaults = {each.name: False if typed_as(each) is bool else each.default for each in typed}
    return {name: None if name in CHOSEN_AUTOMATICALLY else default for name, default in defaults.items()}


def option_parameters(names: Sequence[str]) -> list[Parameter]:
    """These options as the keyword parameters of a function, each with its type and default."""
    import torch

    from understudy.data.augment import Augment
    from understudy.training.averages import EMA

    return field_parameters(TrainingOptions, names, torch=torch, Augment=Augment, EMA=EMA)


def shows_options(names: Sequence[str]) -> Callable[[Function], Function]:
    """Shows these options, by name, type and default, in the signature of a function that takes ``**options``."""
    return lambda function: with_parameters(function, option_parameters(names), first=True)


def _setting(value: Any) -> Any:
    import torch

    from understudy.store.fingerprints import fingerprint
    from understudy.training.averages import EMA

    if isinstance(value, int | float | str | None):
        return value
    if isinstance(value, torch.dtype):
        return str(value)
    if isinstance(value, EMA):
        return value.decay if value.warmup else f"{value.decay} without warm-up"
    return fingerprint(value)


def _dtype(given: Any) -> "torch.dtype | None":
    """The type of ``autocast=``, by its name or as it is."""
    if given is None:
        return None
    import torch

    dtype = getattr(torch, given, None) if isinstance(given, str) else given
    if not isinstance(dtype, torch.dtype) or dtype not in (torch.bfloat16, torch.float16, torch.float32):
        raise UnderstudyError(f"autocast={given!r:.80} is unknown; use torch.bfloat16 or torch.float16, or None")
    return dtype


class StudentBuilder(ABC):
    """A function that builds students and has options of its own for training them (``us.text``)."""

    @abstractmethod
    def __call__(self) -> "nn.Module": ...

    @abstractmethod
    def options(self, device: Any = None) -> dict[str, Any]:
        """Options of ``us.train`` for its students on a device."""
