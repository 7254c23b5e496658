"""What a training step carries inside the loop: a batch, its losses, and who computes and sums them.

A *learner* is one net under an objective: it prepares the slots' columns and computes losses per example. A *scorer*
weighs and sums them: the usual one has a single learner, Co-teaching's has two.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from torch import Tensor, nn

from understudy.data.examples import Gold
from understudy.objective import Columns, Objective, Step


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """The rows of one batch, gold rows first. Where several processes share it, ``gold_rows`` and ``pool_rows`` are
    this one's, which may have none: ``x`` then still holds one row."""

    x: Any
    gold_rows: Tensor
    pool_rows: Tensor
    gold_count: int
    #: Gold and pool rows of all processes.
    pool_count: int
    #: Rows of the step this batch belongs to: its own, unless several batches make one step.
    step_rows: int
    epoch: int = 0
    #: Which batch of its epoch this is, counted from 0.
    number: int = 0
    #: The share of training that is done, 0 … 1; NaN where the length of training is unknown.
    progress: float = float("nan")
    ends_step: bool = True
    ends_epoch: bool = False
    #: Whether it holds all rows and is scored many times while one function is minimised (L-BFGS).
    full: bool = False

    def __len__(self) -> int:
        return len(self.gold_rows) + len(self.pool_rows)


class Losses(NamedTuple):
    """The losses of a net on a batch, per example, before anything is weighed or summed."""

    #: Of all rows, gold rows first.
    every: Tensor
    golds: int
    #: What the slots see; None where the batch has no pool rows.
    step: Step | None
    alignment: Tensor | None = None
    gold_alignment: Tensor | None = None

    @property
    def gold(self) -> Tensor:
        return self.every[: self.golds]

    @property
    def pool(self) -> Tensor:
        return self.every[self.golds :]


class Scored(NamedTuple):
    """A batch's loss, and the logits and weights of its pool rows."""

    #: Summed weighted loss, with its graph.
    total: Tensor
    #: False where every weight is zero and no gold row is in the batch: the student must stay as it is.
    moves: bool = True
    logits: Tensor | None = None
    weights: Tensor | None = None


class Learner(Protocol):
    """One net under an objective: the columns its slots prepared, its losses and weights."""

    student: nn.Module
    objective: Objective
    gold: Gold | None
    gold_weight: float
    seed: int
    columns: Columns
    modules: dict[str, nn.Module]
    facts: dict[str, float]

    def prepare(self, epoch: int, *, warn: bool = True) -> None: ...
    def losses(self, model: Any, batch: Batch) -> Losses: ...
    def pool_weights(self, losses: Losses, batch: Batch) -> Tensor | None: ...
    def gold_weights(self, losses: Losses, batch: Batch) -> Tensor | None: ...
    def over_batch(self, function: Callable[[Tensor], Tensor], values: Tensor, batch: Batch) -> Tensor:
        """``function`` of one value per pool row of the whole batch; of its result, this process's rows."""
        ...

    def cached(self, batch: Batch, name: str, make: Callable[[], Tensor]) -> Tensor:
        """``make()``; for a full batch, which is scored many times, the value of the first time."""
        ...

    def with_student(self, student: nn.Module) -> "Learner": ...


class Scorer(Protocol):
    """Turns a batch into one number."""

    @property
    def learners(self) -> Mapping[str, Learner]:
        """The nets it trains, by name; "" is the student's."""
        ...

    def prepare(self, epoch: int, *, warn: bool = True) -> None: ...
    def score(self, model: Any, batch: Batch) -> Scored: ...
