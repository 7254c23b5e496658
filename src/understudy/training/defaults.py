"""Defaults: the student for given features, and the options of its training that were left out.

    build, options = us.default_student(pool, classes=3)          # rows, a pool, gold, or an array
    run = us.train(build, gold, pool, us.slam(), **options)

On sparse text, on the vectors of a frozen encoder, and on wide vectors of which there are few, a regularised linear
student trained to convergence is hard to beat; on numbers and small images a net is better. How long a net trains is a
number of *steps*: a small table needs more epochs than a large one for the same. They are few, because a net that goes
on memorises wrong labels, and the learning rate falls to nothing, so that a short training ends well; gold that did not
train shows whether more, or fewer, are better (``training/choose.py``). Accuracy of an MLP after Adam's 1e-3
with a cosine, seed 0 (before: 10 epochs at a constant rate):

    labels                          before   300 steps     600    1,200   2,500
    digits, a weak teacher's          82.1        83.2    83.1     83.4    82.9
    Fashion-MNIST, a weak teacher's   73.6        74.3    74.9     75.3    75.1
    MNIST, 40% wrong, uniform         85.8        86.7    83.7     72.4    65.9
    MNIST, 40% wrong, by instance     83.7        86.5    83.0     72.0

A row that is seen often is memorised too: 300 rows of Adult, 30% wrong, 75.3 after 30 epochs, 69.2 after 60.

``us.train``, ``us.auto``, ``us.compare`` and ``us.reconcile`` call ``resolve_options`` for whatever was left out.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from understudy import models
from understudy.data.examples import Gold, Pool
from understudy.data.inputs import as_rows
from understudy.data.rows import Rows, is_sparse
from understudy.data.texts import is_text
from understudy.errors import UnderstudyError
from understudy.models.registry import fresh_student
from understudy.training.choose import epochs_on_gold
from understudy.training.options import AUTO, LBFGS, StudentBuilder, TrainingOptions, check_names, option_names

__all__ = ["default_student"]

LINEAR, NET = "linear", "mlp:128,128"
STEPS, FEWEST, MOST = 400, 10, 30
"""Of a net, and the epochs that they become at least and at most."""
RATE = 1e-3
"""Three times as much is better on two clean settings, and 2 to 12 points worse where labels are wrong."""
LBFGS_EPOCHS = 50
"""A bound: training ends when it is converged, mostly in the first three."""
WIDE, ROWS_PER_FEATURE = 256, 10
"""Vectors of so many numbers, and fewer rows than so many for each, are for a linear student."""


def builder_options(student: Any, options: Mapping[str, Any]) -> dict[str, Any]:
    """The options, and those of the student's builder (``us.text``) where they were left out."""
    if not isinstance(student, StudentBuilder):
        return dict(options)
    given = {name: value for name, value in options.items() if name != "epochs" or value not in (None, AUTO)}
    return {**student.options(options.get("device")), **given}


def default_epochs(rows: int, batch_size: int = 128) -> int:
    """Epochs that make about ``STEPS`` steps."""
    return min(max(math.ceil(STEPS / math.ceil(rows / batch_size)), FEWEST), MOST)


def prefers_linear(rows: Rows, *, frozen: bool = False) -> bool:
    """Whether the default for these features is a linear student. ``frozen``: they are the vectors of an encoder."""
    shape = row_shape(rows)
    if is_sparse(rows) or frozen:
        return True
    return len(shape) == 1 and shape[0] >= WIDE and len(rows) < ROWS_PER_FEATURE * shape[0]


def row_shape(rows: Rows) -> tuple[int, ...]:
    if is_text(rows):
        raise UnderstudyError(
            "texts need a student that reads them; pass us.text(folder, classes=…), or --student hf:FOLDER"
        )
    first = rows.take(torch.arange(1))
    if not isinstance(first, Tensor):
        raise UnderstudyError("rows of several tensors need a net that is made for them; build the student yourself")
    return tuple(first.shape[1:])


def options_for(student: str, *, optimizer: str | None = None) -> dict[str, Any]:
    """Options of ``us.train`` for a student by its name; ``optimizer``: where it is given."""
    if optimizer == LBFGS or (optimizer is None and student.partition(":")[0] == LINEAR):
        return {"epochs": LBFGS_EPOCHS, "optimizer": LBFGS, "weight_decay": AUTO}
    return {"epochs": AUTO, "lr": RATE, "schedule": "cosine"}


def default_student(
    examples: Any, classes: int, *, frozen: bool = False
) -> tuple[Callable[[], nn.Module], dict[str, Any]]:
    """A function that builds the default student for these features, and the options of ``us.train`` for it.

    ``frozen``: whether the features are an encoder's vectors.
    """
    given = examples.rows if isinstance(examples, Pool | Gold) else as_rows(examples, "examples")
    text = LINEAR if prefers_linear(given, frozen=frozen) else NET
    return partial(models.from_text, text, shape=row_shape(given), classes=classes), options_for(text)


OF_BATCHES = ("lr", "schedule", "clip", "augment")
"""Options that mean an optimizer of batches."""


def fill_defaults(student: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """The options with defaults for a student of that name where they were left out; ``epochs`` may be "auto" still."""
    given = {name: value for name, value in options.items() if not (name == "epochs" and value == AUTO)}
    optimizer = given.get("optimizer") or ("adam" if any(given.get(name) is not None for name in OF_BATCHES) else None)
    defaults = options_for(student, optimizer=optimizer)
    return {**given, **{name: value for name, value in defaults.items() if given.get(name) is None}}


def resolve_options(
    student: Any, gold: Gold | None, pool: Pool | None, options: Mapping[str, Any], *, select: Gold | None = None,
    names: Sequence[str] | None = None, function: str = "train",
) -> tuple[TrainingOptions, dict[str, Any]]:  # fmt: skip
    """The options of a training, checked and with no default left open but the penalty; and what was chosen on gold.

    ``names``: the options that ``function`` takes; None for all.
    """
    check_names(options, option_names() if names is None else names, function)
    options = builder_options(student, options)
    epochs = options.get("epochs")
    if not (epochs is None or (isinstance(epochs, str) and epochs == AUTO)):
        return TrainingOptions(**options), {}
    filled = fill_defaults((models.spec_of(_untrained(student)) or {}).get("name", ""), options)
    if filled["epochs"] != AUTO:
        return TrainingOptions(**filled), {}
    rows = sum(len(part) for part in (gold, pool) if part is not None)
    resolved = TrainingOptions(**filled | {"epochs": default_epochs(max(rows, 1), filled.get("batch_size") or 128)})
    chosen, choice = epochs_on_gold(student, gold, pool, resolved, select=select)
    return resolved.replace(epochs=chosen), choice


def _untrained(student: nn.Module | Callable[[], nn.Module]) -> nn.Module:
    if isinstance(student, nn.Module):
        return student
    with torch.random.fork_rng():
        return fresh_student(student)
