"""From a batch to its loss: a net's losses per example (``StudentLearner``), then weighed and summed (``WeightedSum``).

A pass takes the model to call as an argument: the student itself, or whatever wraps it (DistributedDataParallel,
torch.compile).
"""

import copy
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor, nn

from understudy.data.examples import Gold, Pool
from understudy.errors import UnderstudyError
from understudy.inference.passes import FeatureTap, device_of, logits_of, penultimate, predict, to_device
from understudy.labels.forms import Hard, Soft
from understudy.labels.reliability import Reliability
from understudy.maths.alignment.aligner import Aligner
from understudy.maths.alignment.forward_mode import Direction
from understudy.objective import Columns, Context, Objective, Outputs, Slot, Step
from understudy.training.distributed import SyncedBatchNorm, on_rank_zero
from understudy.training.options import TrainingOptions
from understudy.training.prepare import Prepared, cross_fit_folds, predict_out_of_fold, prepare_slots
from understudy.training.processes import BatchShare, Processes

#: Entries: 4 MB.
MOST_ONE_HOT = 1 << 20


@dataclass(slots=True, eq=False)
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


class StudentLearner:
    """One net under an objective: the columns and modules its slots prepared, its losses per row, and their weights."""

    def __init__(
        self, student: nn.Module, objective: Objective, gold: Gold | None, pool: Pool | None, options: TrainingOptions,
        *, classes: int, labelled: Tensor | None = None, pool_size: int = 0, processes: Processes | None = None,
    ) -> None:  # fmt: skip
        self.objective, self.gold, self.pool, self.options = objective, gold, pool, options
        self.seed, self.gold_weight, self.temperature = options.seed, options.gold_weight, objective.temperatures[1]
        self.classes, self.labelled, self.pool_size = classes, labelled, pool_size
        self.gold_targets = None if gold is None else nn.functional.one_hot(gold.y, classes).float()
        #: The pool's; few hard ones as one-hot rows, which every batch would else make anew by three operators.
        self.teacher = None if pool is None else pool.teacher
        if isinstance(self.teacher, Hard) and len(self.teacher) * classes <= MOST_ONE_HOT:
            self.teacher = Soft(self.teacher.dense(torch.arange(len(self.teacher)), classes), trusted=True)
        #: Which gold rows measure the alignment of a step.
        self.draws = torch.Generator()
        self.augmentation = torch.Generator()
        self.processes = processes
        self._own(student)

    def _own(self, student: nn.Module) -> None:
        """Set what belongs to this net alone."""
        self.student = student
        self.columns: Columns = {}
        self.modules: dict[str, nn.Module] = {}
        self.facts: dict[str, float] = {}
        self.fits: dict[str, Reliability] = {}
        #: Makes a copy of the student, pretrained as it was on other gold rows; None where it was not pretrained.
        self.pretrained_on: Callable[[Gold], nn.Module] | None = None
        self._cache: dict[str, Tensor] = {}
        #: The full batch that is being scored, and what was computed of it the first time.
        self._cached_batch: Batch | None = None
        #: The last batch, and what the slots observed of it.
        self._observed: tuple[Batch | None, Columns] = (None, {})
        objective = self.objective
        self.observers = [slot for slot in objective.slots if type(slot).observe is not Slot.observe]
        self.weighs_gold, self.can_vanish = objective.weighs_gold, objective.can_vanish
        self.tap = FeatureTap(student, self.options.feature_layer) if objective.wants_features else None
        self.aligner = Aligner(student) if objective.alignment_rows and self.pool is not None else None
        #: The gold rows that may move the student. Its weights follow their gradient, so that steering by a row fits
        #: the student to it as much as training on it does: rows that calibrate only are not among them.
        self.steering = torch.empty(0) if self.aligner is None or self.gold is None else self.gold.training_rows()
        if self.aligner is not None and not len(self.steering):
            why = "gold=None" if self.gold is None else "every gold row is estimate_only"
            raise UnderstudyError(f"{self.objective.name} needs the gold gradient, but {why}; pass gold that may train")

    def with_student(self, student: nn.Module) -> "StudentLearner":
        """The same for another net, which prepares for itself."""
        other = copy.copy(self)
        other._own(student)
        return other

    def prepare(self, epoch: int, *, warn: bool = True) -> None:
        """Let every slot read gold, pool and the student, and keep the columns it returns under its name.

        ``warn``: False where a checkpoint will put other columns in place.
        """
        if self.pool is None:
            return
        prepared = on_rank_zero(lambda: self._prepared(epoch, warn))
        self.columns, self.fits = prepared.columns, prepared.fits
        self.facts.update(prepared.facts)
        if epoch == 0:
            self.modules = {name: module.to(device_of(self.student)) for name, module in prepared.modules.items()}

    def _prepared(self, epoch: int, warn: bool) -> Prepared:
        assert self.pool is not None
        layer, size = self.options.feature_layer, self.options.pass_batch_size
        cross_fits = epoch == 0 and self.pretrained_on is not None
        context = Context(
            self.gold, self.pool, classes=self.classes,
            predict=lambda x: predict(self.student, x, batch_size=size),
            features=lambda x: penultimate(self.student, x, layer=layer, batch_size=size),
            predict_calibration=self._predict_out_of_fold if cross_fits else None,
            loss=self.objective.loss, temperature=self.temperature, seed=self.seed, epoch=epoch, kept=self.labelled,
            pool_size=self.pool_size,
        )  # fmt: skip
        before = Prepared(self.columns, self.modules if epoch == 0 else {}, self.facts, self.fits)
        return prepare_slots(self.objective, context, before, warns=warn, cross_fitted=cross_fits)

    def _predict_out_of_fold(self) -> Tensor:
        assert self.gold is not None and self.pretrained_on is not None
        if folds := cross_fit_folds(self.gold):
            self.facts["cross_fitted_folds"] = folds
        size = self.options.pass_batch_size
        return predict_out_of_fold(self.student, self.gold, self.pretrained_on, seed=self.seed, batch_size=size)

    def cached(self, batch: Batch, name: str, make: Callable[[], Tensor]) -> Tensor:
        """``make()``; for a full batch, which is scored many times, the value of the first time: weights and targets
        stay while one function is minimised. What has a gradient is computed every time."""
        if not batch.full:
            return make()
        if self._cached_batch is not batch:
            self._cached_batch, self._cache = batch, {}
        if name in self._cache:
            return self._cache[name]
        value = make()
        if not value.requires_grad:
            self._cache[name] = value
        return value

    def losses(self, model: Any, batch: Batch) -> Losses:
        """The losses of one pass over the batch; with the alignment where a weight asks for it."""
        # The weights of a full batch are known from the first time it was scored.
        weighed = self._cached_batch is batch and {"weights", "gold weights"} & self._cache.keys()
        if self.aligner is None or not (batch.pool_count or self.weighs_gold) or weighed:
            return self._losses(model, batch)
        # Gold rows come first; where they are weighed too, the alignment is that of all rows.
        first = 0 if self.weighs_gold else len(batch.gold_rows)
        passes: list[Losses] = []

        def weighed_losses() -> Tensor:
            passes[:] = [self._losses(model, batch)]
            return passes[0].every[first:]

        direction = self._steering_direction(self.aligner, model)
        losses, alignment = self.aligner.along(direction, weighed_losses)
        every, golds = torch.cat([passes[0].every[:first], losses]), passes[0].golds - first
        on_gold = alignment[:golds] if self.weighs_gold else None
        return passes[0]._replace(every=every, alignment=alignment[golds:], gold_alignment=on_gold)

    def _losses(self, model: Any, batch: Batch) -> Losses:
        golds, own = len(batch.gold_rows), len(batch.gold_rows) + len(batch.pool_rows)
        outputs = self._forward(model, batch.x, counted=own > 0)
        if not own:  # another process has its rows
            outputs = _cut(outputs, slice(0))
        if not batch.pool_count:
            return Losses(self._gold_losses(outputs.logits, batch.gold_rows), golds, None)
        step = self._observe(self._step(_cut(outputs, slice(golds, None)) if golds else outputs, batch), batch)
        labels = self._labels(batch.gold_rows, outputs.logits.device) if golds else None
        target = self.cached(batch, "target", lambda: self._target(step, batch))
        if labels is None:
            return Losses(self.objective.pool_losses(step, target), 0, step)
        return Losses(self.objective.all_losses(outputs.logits, labels, step, target), golds, step)

    def _observe(self, step: Step, batch: Batch) -> Step:
        """The step with the columns that slots make of this batch."""
        if not self.observers:
            return step
        if self._observed[0] is not batch:
            outputs = step.outputs
            features = None if outputs.features is None else outputs.features.detach()
            whole = replace(step, outputs=Outputs(outputs.logits.detach(), features))
            share = self._share(batch)
            made = {slot.name: slot.observe(share.gather_step(whole)) for slot in self.observers}
            own = {f"{name}.{key}": share.own(value) for name, of in made.items() for key, value in of.items()}
            self._observed = batch, own
        return replace(step, columns={**step.columns, **self._observed[1]})

    def _target(self, step: Step, batch: Batch) -> Tensor:
        target = self.objective.target
        if not target.whole_batch:
            return target(step)
        share = self._share(batch)
        return share.own(target(share.gather_step(step)))

    def pool_weights(self, losses: Losses, batch: Batch) -> Tensor | None:
        """The weights of the batch's pool rows, ``(B,)``; None for all ones."""
        step, weight = losses.step, self.objective.weight
        if step is None or weight is None:
            return None
        step = replace(step, alignment=losses.alignment, gold_alignment=losses.gold_alignment)

        def weigh() -> Tensor:
            if not weight.whole_batch:
                return weight(losses.pool.detach(), step).detach()
            share = self._share(batch)
            return share.own(weight(share.gather(losses.pool.detach()), share.gather_step(step)).detach())

        return self.cached(batch, "weights", weigh)

    def gold_weights(self, losses: Losses, batch: Batch) -> Tensor | None:
        """The weights of the batch's gold rows; None where they are all ones."""
        if losses.gold_alignment is None:
            return self._cache.get("gold weights") if self._cached_batch is batch else None
        gold, pool = losses.gold_alignment, losses.alignment
        assert pool is not None

        def weigh() -> Tensor:
            share = self._share(batch)
            every = self.objective.gold_weights(share.gather(gold, gold=True), share.gather(pool))
            return share.own(every, gold=True)

        return self.cached(batch, "gold weights", weigh)

    def over_batch(self, function: Callable[[Tensor], Tensor], values: Tensor, batch: Batch) -> Tensor:
        """``function`` of one value per pool row of the whole batch; of its result, this process's rows."""
        share = self._share(batch)
        return share.own(function(share.gather(values)))

    def _share(self, batch: Batch) -> BatchShare:
        return BatchShare(self.processes, batch.gold_count, batch.pool_count)

    def _forward(self, model: Any, x: Any, *, counted: bool = True) -> Outputs:
        """``counted``: whether these rows are really this process's."""
        kind = self.options.autocast
        norm: AbstractContextManager[Any] = nullcontext()
        if self.processes is not None and self.options.sync_batchnorm:
            norm = SyncedBatchNorm(self.processes, counted=counted)
        device = device_of(self.student)
        x = to_device(x, device)
        assert not isinstance(kind, str)
        precision = nullcontext() if kind is None else torch.autocast(device.type, dtype=kind)
        # A compiled model runs no hooks; the one it was made from does.
        hooked = getattr(model, "_orig_mod", model)
        with precision, norm:
            logits, features = (logits_of(model, x), None) if self.tap is None else self.tap(x, call=hooked)
        return Outputs(logits if kind is None else logits.float(), features)

    def _gold_losses(self, logits: Tensor, rows: Tensor) -> Tensor:
        return self.objective.gold_losses(logits, self._labels(rows, logits.device))

    def _labels(self, gold_rows: Tensor, device: torch.device) -> Tensor:
        assert self.gold_targets is not None
        return self.gold_targets.index_select(0, gold_rows).to(device)

    def _steering_direction(self, aligner: Aligner, model: Any) -> Direction:
        """The gradient of the mean loss of some gold rows drawn for this step, which learning to reweight wants to go
        down. Processes that train together draw the same rows, and add up the gradients of each one's part."""
        wanted = min(self.objective.alignment_rows, len(self.steering))
        rows = self.steering[torch.randperm(len(self.steering), generator=self.draws)[:wanted]]
        if self.processes is None:
            return aligner.direction(lambda: self._steering_losses(model, rows).mean())
        own = rows[self.processes.rank :: self.processes.size]
        # One row, counted as nothing, where there are fewer rows than processes.
        counted, own = len(own) > 0, own if len(own) else rows[:1]
        share = counted / wanted
        direction = aligner.direction(lambda: self._steering_losses(model, own, counted).sum() * share).multiplied()
        self.processes.sum_flat(list(direction.gradients.values()))
        return direction

    def _steering_losses(self, model: Any, rows: Tensor, counted: bool = True) -> Tensor:
        assert self.gold is not None
        x, augment = self.gold.rows.take(rows), self.options.augment
        x = x if augment is None else augment(x, self.augmentation)
        return self._gold_losses(self._forward(model, x, counted=counted).logits, rows)

    def _step(self, outputs: Outputs, batch: Batch) -> Step:
        assert self.teacher is not None
        rows, device, labels = batch.pool_rows, outputs.logits.device, self.teacher
        columns = {
            name: self.cached(batch, f"column {name}", lambda column=column: column[rows].to(device))  # type: ignore[misc]
            for name, column in self.columns.items()
        }
        teacher = self.cached(batch, "teacher", lambda: labels.dense(rows, self.classes).to(device))
        return Step(
            outputs, teacher, rows, columns, self.modules, temperature=self.temperature, epoch=batch.epoch,
            progress=batch.progress,
        )  # fmt: skip


class Scorer(Protocol):
    """Weighs and sums the losses of a batch: the usual one those of a single learner, Co-teaching's those of two."""

    #: The nets it trains, by name; "" is the student's.
    learners: dict[str, StudentLearner]

    def prepare(self, epoch: int, *, warn: bool = True) -> None: ...
    def score(self, model: Any, batch: Batch) -> Scored: ...


class WeightedSum:
    """The usual scorer: Σ over gold rows of ``gold_weight · loss`` plus Σ over pool rows of ``weight · loss``."""

    def __init__(self, learner: StudentLearner) -> None:
        self.learner = learner
        self.learners = {"": learner}

    def prepare(self, epoch: int, *, warn: bool = True) -> None:
        self.learner.prepare(epoch, warn=warn)

    def score(self, model: Any, batch: Batch) -> Scored:
        learner, gold_weight = self.learner, self.learner.gold_weight
        losses = learner.losses(model, batch)
        gold_weights, weights = learner.gold_weights(losses, batch), learner.pool_weights(losses, batch)
        # A line search compares sums that differ in their eighth digit.
        kind = torch.float64 if batch.full else None
        if weights is None and gold_weights is None and gold_weight == 1.0:
            total = losses.every.sum(dtype=kind)
        else:
            gold, pool = _weighed(losses.gold, gold_weights), _weighed(losses.pool, weights)
            total = gold_weight * gold.sum(dtype=kind) + pool.sum(dtype=kind)
        # Only weights made from the batch itself can vanish on a whole batch; looking costs a wait on accelerators.
        moves = not learner.can_vanish or _moves(batch.gold_rows, gold_weights) or _moves(batch.pool_rows, weights)
        return Scored(total, moves, None if losses.step is None else losses.step.outputs.logits, weights)


def _cut(outputs: Outputs, rows: slice) -> Outputs:
    return Outputs(outputs.logits[rows], None if outputs.features is None else outputs.features[rows])


def _weighed(losses: Tensor, weights: Tensor | None) -> Tensor:
    return losses if weights is None else weights * losses


def _moves(rows: Tensor, weights: Tensor | None) -> bool:
    return len(rows) > 0 if weights is None else bool((weights != 0).any())
