"""What a method author needs: the slots of an objective, and what they see of a batch and before training.

An *objective* has named slots. For the pool rows of a batch the training loop computes

    loss_i = weight_i · [ loss( link(student_i), target_i ) + terms_i ]

once, per example, and reduces at the end. Gold rows never meet the slots: their target is their own label, their link
the identity, their weight 1. Slots therefore hold no "is this gold?" branches; a method merely picks slots:

    us.slam(loss=us.taylor_loss(2), weight=us.fidelity_weight(beta=2), temperature=2)
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from understudy.data.checks import check_length, to_tensor
from understudy.data.examples import Gold, Pool
from understudy.errors import UnderstudyError
from understudy.labels.forms import Labels
from understudy.labels.reliability import Reliability
from understudy.maths.losses import cross_entropy
from understudy.maths.mixing import best_class
from understudy.store.option_fields import checked_plainly

#: Per-example values in pool order, named ``slot.value``.
Columns = dict[str, Tensor]

#: ``(log_prediction, target) -> (B,)``.
Loss = Callable[[Tensor, Tensor], Tensor]


@dataclass(frozen=True)
class Outputs:
    """The student's logits of some rows, and its penultimate features where a slot wants them."""

    logits: Tensor
    features: Tensor | None = None


@dataclass(frozen=True)
class Step:
    """The pool rows of one batch, as a slot sees them."""

    outputs: Outputs
    #: The teacher's label distributions, untempered, ``(B, C)``.
    teacher: Tensor
    #: Which pool rows these are, ``(B,)``.
    rows: Tensor
    #: The prepared columns of these rows, each ``(B, …)``.
    columns: Mapping[str, Tensor] = field(default_factory=dict)
    #: The slots' own modules, by slot name.
    modules: Mapping[str, nn.Module] = field(default_factory=dict)
    #: ⟨∇ gold loss, ∇ loss_i⟩ per row, for weights with ``alignment_rows``.
    alignment: Tensor | None = None
    #: The same of the batch's gold rows, for a weight that weighs them too.
    gold_alignment: Tensor | None = None
    temperature: float = 1.0
    epoch: int = 0
    #: The share of training that is done, 0 … 1.
    progress: float = 0.0


@dataclass(eq=False)
class Context:
    """What a slot may read while it prepares: gold, pool, and the student in eval mode (each pass is made once)."""

    gold: Gold | None
    pool: Pool
    classes: int
    #: Student probabilities ``(n, C)`` for any rows.
    predict: Callable[[Any], Tensor]
    #: Student penultimate features ``(n, d)`` for any rows.
    features: Callable[[Any], Tensor]
    #: Out-of-fold probabilities of the calibration rows, where the student was fitted to them.
    predict_calibration: Callable[[], Tensor] | None = None
    #: What the objective scores a prediction by.
    loss: Loss = cross_entropy
    #: Of the pool rows.
    temperature: float = 1.0
    seed: int = 0
    epoch: int = 0
    #: Which rows of the user's pool these are, where some had no label and were dropped; None for all.
    kept: Tensor | None = None
    #: How many rows that pool has; 0 for as many as this one.
    pool_size: int = 0
    #: Numbers kept with the run.
    facts: dict[str, float] = field(default_factory=dict)
    #: The reliability curves that slots fitted and used, by their names, for the report.
    fits: dict[str, Reliability] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.pool_size = self.pool_size or self.pool.rows.count

    @cached_property
    def calibration(self) -> tuple[Gold, Labels]:
        """The calibration rows of gold and the teacher's labels of them; an error where there are too few."""
        rows, labels = (torch.empty(0), None) if self.gold is None else self.gold.calibration()
        if labels is None or len(rows) < 2 or self.gold is None:
            wanted = "pass teacher= to us.Gold for rows it had not trained on, or use us.vanilla()"
            raise UnderstudyError(f"{len(rows)} gold rows can estimate the teacher, at least 2 are needed: {wanted}")
        return self.gold if len(rows) == len(self.gold.y) else self.gold.take(rows), labels

    def per_row(self, values: Tensor, where: str) -> Tensor:
        """A user's values for every row of the pool, cut to the rows that have a label."""
        check_length(len(values), self.pool_size, where, "the pool")
        return values if self.kept is None else values[self.kept]

    def numbers_per_row(self, values: Any, where: str, *columns: int) -> Tensor:
        """The same of numbers, 0 or more, float64; ``columns``: how many a row has."""
        given = to_tensor(values, where).double().cpu()
        if given.dim() == 0 or given.shape[1:] != columns:
            wanted = f"{(self.pool_size, *columns)}, {columns[0] if columns else 'one number'} per pool row"
            raise UnderstudyError(f"{where} has shape {tuple(given.shape)}; give {wanted}")
        check_length(len(given), self.pool_size, where, "the pool")
        used = torch.arange(self.pool_size) if self.kept is None else self.kept
        bad = ~((given[used] >= 0) & given[used].isfinite()).reshape(len(used), -1).all(1)
        if bool(bad.any()):
            raise UnderstudyError(f"{where} row {int(used[bad][0])} is negative or not a number; give 0 or more")
        return given[used]

    @property
    def teacher(self) -> Labels:
        assert self.pool.teacher is not None  # checked before training starts
        return self.pool.teacher

    @cached_property
    def student_on_calibration(self) -> Tensor:
        own = self.predict_calibration
        return self.predict(self.calibration[0].rows) if own is None else own()


class Slot(ABC):
    """A part of an objective. Most only compute; some *prepare* columns, own a trained module, or *observe* batches."""

    name: str
    #: Whether the student's penultimate features must be at hand (``step.outputs.features``).
    wants_features: bool = False
    #: Whether ``prepare`` reads ``context.student_on_calibration`` (out of fold where the student was pretrained).
    predicts_gold: bool = False
    #: Whether a row's value depends on the other rows of its batch; several processes then call it with all rows.
    whole_batch: bool = False
    #: Of a weight, over 0: it reads ``step.alignment``, measured on that many gold rows per step.
    alignment_rows: int = 0
    #: Of a weight: whether a whole batch may get weight 0; such a batch makes no step.
    can_vanish: bool = False
    #: Of a weight: whether gold rows that train are weighed as well, by ``gold_weights``; else their weight is 1.
    weighs_gold: bool = False

    @property
    def wants_progress(self) -> bool:
        """Whether it reads ``step.progress``: the epochs must then be known."""
        return False

    def prepare(self, context: Context) -> Columns:
        """Columns for the pool rows, filed under ``name.column``. Runs before training and at every refresh."""
        return {}

    def estimate(self, context: Context) -> None:
        """Estimate from gold what ``prepare`` needs, before a comparison starts; there is no student yet."""
        return

    def module(self, context: Context) -> nn.Module | None:
        """A module that trains and is saved with the student, and is absent from ``predict``."""
        return None

    def observe(self, step: Step) -> Columns:
        """Columns for this batch's rows, before its losses: once a batch, with the rows of all processes, detached."""
        return {}

    def slots(self) -> Iterator["Slot"]:
        yield self


class Target(Slot):
    @abstractmethod
    def __call__(self, step: Step) -> Tensor:
        """What to match, ``(B, C)``."""


class Link(Slot):
    @abstractmethod
    def __call__(self, logits: Tensor, step: Step) -> Tensor:
        """log of the student's prediction of the *teacher's* label, ``(B, C)``."""


class Weight(Slot):
    def __call__(self, losses: Tensor, step: Step) -> Tensor:
        """One weight per row, ``(B,)``: here the column ``weight``; ``losses (B,)``: unweighted, detached."""
        return step.columns[f"{self.name}.weight"]

    def gold_weights(self, gold_alignment: Tensor, alignment: Tensor) -> Tensor:
        """One weight per gold row of the batch from the alignments of its gold and pool rows, where ``weighs_gold``."""
        raise NotImplementedError(f"{self.name} weighs no gold rows")

    def __mul__(self, other: "Weight") -> "Weight":
        if not isinstance(other, Weight):
            raise UnderstudyError(f"a weight cannot be multiplied by a {type(other).__name__}; pass another weight")
        return ProductWeight((self, other))


@dataclass(frozen=True)
class ProductWeight(Weight):
    """Weights multiply."""

    factors: tuple[Weight, ...]
    name: str = "product"

    @property
    def whole_batch(self) -> bool:  # type: ignore[override]
        return any(factor.whole_batch for factor in self.factors)

    def __call__(self, losses: Tensor, step: Step) -> Tensor:
        return torch.stack([factor(losses, step) for factor in self.factors]).prod(0)

    def slots(self) -> Iterator[Slot]:
        for factor in self.factors:
            yield from factor.slots()


class Term(Slot):
    @abstractmethod
    def __call__(self, step: Step) -> Tensor:
        """An extra loss per row, ``(B,)``."""


@dataclass(frozen=True)
class TeacherTarget(Target):
    """The teacher's own label: soft (re-tempered in log space), or its best class."""

    hard: bool = False
    name: str = "teacher"

    def __call__(self, step: Step) -> Tensor:
        if self.hard:
            return best_class(step.teacher)
        if step.temperature == 1.0:
            return step.teacher
        return (step.teacher.log() / step.temperature).softmax(-1)


class Relabelled(NamedTuple):
    #: The pool's new labels.
    teacher: Labels
    #: Per row: what the labels were made from.
    columns: Columns
    facts: dict[str, float]
    #: scikit-learn's C for a linear student on them, where the options leave it open.
    c: float | None = None


_SLOTS: tuple[tuple[str, Any, str], ...] = (
    ("target", Target, "a target, e.g. us.bootstrap_target()"),
    ("link", Link, "a link, e.g. us.slam_link()"),
    ("loss", Callable, "a function (log_prediction, target) -> (B,), e.g. us.taylor_loss(2)"),
    ("weight", Weight, "a weight, e.g. us.fidelity_weight()"),
    ("terms", Term, "a tuple of terms, e.g. (us.vid_term(features),)"),
)


def _log_softmax(logits: Tensor) -> Tensor:
    """Along a short last axis of many rows PyTorch's kernel takes up to five times as long as along the first."""
    rows, classes = logits.shape
    return logits.t().log_softmax(0).t() if classes < 8 and rows >= 1024 else logits.log_softmax(-1)


def _tempered(logits: Tensor, temperature: float) -> Tensor:
    return logits if temperature == 1.0 else logits / temperature


def _of_any_slot(trait: str) -> "cached_property[bool]":
    return cached_property(lambda objective: any(getattr(slot, trait) for slot in objective.slots))


@dataclass(frozen=True)
class Objective:
    """How one student step is scored. Build it with a method (``us.slam()``); vary it with ``replace``."""

    name: str
    target: Target = field(default_factory=TeacherTarget)
    link: Link | None = None
    loss: Loss = cross_entropy
    weight: Weight | None = None
    terms: tuple[Term, ...] = ()
    #: One number, or (gold, pool). Divides the student's logits and, for soft labels, the teacher's.
    temperature: float | tuple[float, float] = 1.0
    #: Whether the teacher's best class alone is matched, not its whole label; a target of another kind stays as it is.
    hard: bool = False
    #: Multiply the pool loss by T² (Hinton's convention, which the papers here leave out); None means no.
    temperature_scale: bool | None = None
    #: Prepare the columns again every so many epochs, with the student as it then is.
    refresh_every: int | None = None
    #: Whether gold rows join the batches (learning to reweight only steers by them).
    gold_trains: bool = True
    #: For a step of another shape (Co-teaching has two nets): ``StudentLearner -> Scorer`` of ``training/batch_loss``.
    scorer: Callable[[Any], Any] | None = None
    #: For labels of a method's own: ``(student, gold, pool, options, *, classes, folder, progress)``, called first.
    relabel: Callable[..., Relabelled] | None = None
    #: Contract properties this objective has: "noise_free_is_vanilla", "perfect_is_minimal".
    traits: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        if self.hard and self.target == TeacherTarget():
            object.__setattr__(self, "target", TeacherTarget(hard=True))
        given, pair = self.temperature, self.temperatures
        if len(pair) != 2 or not all(isinstance(part, int | float) and part > 0 for part in pair):
            raise UnderstudyError(f"temperature={given!r} must be a number greater than 0, or a pair (gold, pool)")
        for slot, kind, example in _SLOTS:
            given = getattr(self, slot)
            for part in given if slot == "terms" and isinstance(given, tuple) else (given,):
                if part is not None and not isinstance(part, kind):
                    raise UnderstudyError(f"{slot}= holds a {type(part).__name__}; pass {example}")
        if not isinstance(self.terms, tuple):
            raise UnderstudyError(f"terms= holds a {type(self.terms).__name__}; pass a tuple, e.g. (us.vid_term(…),)")
        if self.refresh_every is not None and self.refresh_every < 1:
            raise UnderstudyError(f"refresh_every={self.refresh_every} must be at least 1 epoch, or None")
        names = [slot.name for slot in self.slots]
        for name in names:
            if names.count(name) > 1:
                raise UnderstudyError(f"two slots of this objective are named {name!r}; give one another name=")

    @cached_property
    def temperatures(self) -> tuple[float, float]:
        """(gold, pool)."""
        return self.temperature if isinstance(self.temperature, tuple) else (self.temperature, self.temperature)

    @cached_property
    def slots(self) -> tuple[Slot, ...]:
        """All of them, those that a slot is made of too."""
        parts = (self.target, self.link, self.weight, *self.terms)
        return tuple(slot for part in parts if part is not None for slot in part.slots())

    def replace(self, **changes: Any) -> "Objective":
        return replace(self, **changes)

    def gold_losses(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Gold rows: the method's loss on the student's own prediction and the trusted label (one-hot), ``(B,)``."""
        return self.loss(_log_softmax(_tempered(logits, self.temperatures[0])), labels)

    def pool_losses(self, step: Step, target: Tensor | None = None) -> Tensor:
        """Pool rows, before their weight: ``(B,)``; ``target``: the target slot's value, where it is known."""
        logits = _tempered(step.outputs.logits, self.temperatures[1])
        log_prediction = _log_softmax(logits) if self.link is None else self.link(logits, step)
        losses = self.loss(log_prediction, self.target(step) if target is None else target)
        return self._with_terms(losses, step) if self.terms or self.temperature_scale else losses

    def all_losses(self, logits: Tensor, labels: Tensor, step: Step, target: Tensor | None = None) -> Tensor:
        """``gold_losses`` of the first rows, ``pool_losses`` of the rest; in one call where one formula serves both."""
        golds, target = len(labels), self.target(step) if target is None else target
        if self.link is not None or self.temperatures[0] != self.temperatures[1]:
            return torch.cat([self.gold_losses(logits[:golds], labels), self.pool_losses(step, target)])
        losses = self.gold_losses(logits, torch.cat([labels, target]))
        if not self.terms and not self.temperature_scale:
            return losses
        return torch.cat([losses[:golds], self._with_terms(losses[golds:], step)])

    def _with_terms(self, losses: Tensor, step: Step) -> Tensor:
        temperature = self.temperatures[1]
        if temperature != 1.0 and self.temperature_scale:
            losses = losses * temperature**2
        for term in self.terms:
            losses = losses + term(step)
        return losses

    def pool_weights(self, losses: Tensor, step: Step) -> Tensor | None:
        """``(B,)`` detached, or None for all ones."""
        return None if self.weight is None else self.weight(losses.detach(), step).detach()

    def gold_weights(self, gold_alignment: Tensor, alignment: Tensor) -> Tensor:
        """The weights of the batch's gold rows, where ``weighs_gold``."""
        weights = [slot for slot in self.slots if isinstance(slot, Weight) and slot.weighs_gold]
        return torch.stack([each.gold_weights(gold_alignment, alignment) for each in weights]).prod(0).detach()

    @cached_property
    def alignment_rows(self) -> int:
        """How many gold rows a step's alignment is measured on; 0 where no weight asks for it."""
        return max(slot.alignment_rows for slot in self.slots)

    #: Whether a slot reads the student's penultimate features.
    wants_features = _of_any_slot("wants_features")
    #: Whether a slot's preparation uses the student's predictions of gold rows.
    predicts_gold = _of_any_slot("predicts_gold")
    #: Whether a slot reads ``step.progress``, so that the length of training must be known.
    wants_progress = _of_any_slot("wants_progress")
    #: Whether a whole batch may get weight 0.
    can_vanish = _of_any_slot("can_vanish")
    #: Whether gold rows that train are weighed like the pool's.
    weighs_gold = _of_any_slot("weighs_gold")


Objective.__init__ = checked_plainly(Objective.__init__)  # type: ignore[method-assign]  # a misspelt slot is named
