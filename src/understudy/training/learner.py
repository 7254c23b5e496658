"""From a batch to its loss: a net's losses per example (``StudentLearner``), then weighed and summed (``WeightedSum``).

A pass takes the model to call as an argument: the student itself, or whatever wraps it (DistributedDataParallel,
torch.compile).
"""

import copy
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn

from understudy.data.examples import Gold, Pool
from understudy.data.rows import SubsetRows
from understudy.data.splits import random_rows
from understudy.data.texts import read_by
from understudy.errors import UnderstudyError, first_line
from understudy.inference.passes import FeatureTap, device_of, eval_mode, logits_of, penultimate, predict, to_device
from understudy.labels.evidence import report_estimates
from understudy.labels.reliability import Reliability
from understudy.maths.alignment.aligner import Aligner
from understudy.maths.alignment.forward_mode import Direction
from understudy.objective import Batch, Columns, Context, Learner, Losses, Objective, Outputs, Scored, Step, cached
from understudy.training.distributed import current, on_rank_zero
from understudy.training.options import TrainingOptions
from understudy.training.unseen import ask_unseen, copies_for, looks_memorised, memorised_warning
from understudy.training.weight_statistics import effect_of, warn_if_idle

# Pool rows on which a student is held against what it says of gold.
LOOKED_AT = 2000


def check_outputs(student: nn.Module, gold: Gold | None, pool: Pool | None, **others: Gold | None) -> int:
    """The student's class count, checked against every set of rows and labels by a small forward pass each."""
    if next(student.parameters(), None) is None:
        raise UnderstudyError("the student has no parameters to train; pass a module that has some")
    if not any(parameter.requires_grad for parameter in student.parameters()):
        raise UnderstudyError("the student has no trainable parameters; set requires_grad on some")
    given = {"gold": gold, "pool": pool, **others}
    sets = {name: part for name, part in given.items() if part is not None}
    first = {name: read_by(student, part.rows).take(torch.arange(min(2, len(part)))) for name, part in sets.items()}
    classes = _outputs(student, first)
    for name, examples in {"gold": gold, **others}.items():
        if examples is not None and int(examples.y.max()) >= classes:
            raise UnderstudyError(
                f"{name}.y holds class {int(examples.y.max())}, but the student has {classes} outputs; "
                "give its last layer as many outputs as there are classes"
            )
    labels = {
        name: part.teacher
        for name, part in (("gold.teacher", gold), ("pool.teacher", pool))
        if part is not None and part.teacher is not None
    }
    for name, teacher in labels.items():
        if teacher.classes is not None and teacher.classes != classes:
            raise UnderstudyError(
                f"{name} knows {teacher.classes} classes, but the student has {classes} outputs; they must be equal"
            )
        if teacher.classes is None and len(teacher) and int(teacher.top1().max()) >= classes:
            raise UnderstudyError(
                f"{name} names class {int(teacher.top1().max())}, but the student has {classes} outputs"
            )
    if len({type(teacher) for teacher in labels.values()}) > 1:
        forms = [type(teacher.simplest()).__name__ for teacher in labels.values()]
        if forms[0] != forms[1]:
            raise UnderstudyError(f"gold.teacher holds {forms[0]} labels, pool.teacher {forms[1]}; use one form")
    return classes


def _outputs(student: nn.Module, first: dict[str, Any]) -> int:
    """How many classes the student scores, seen on the first rows of each set."""
    logits = torch.empty(0)
    with eval_mode(student), torch.inference_mode():
        for name, x in first.items():
            try:
                logits = logits_of(student, to_device(x, device_of(student)))
            except (RuntimeError, ValueError, TypeError, IndexError) as error:
                shape = tuple(x.shape[1:]) if isinstance(x, Tensor) else sorted(x)
                raise UnderstudyError(
                    f"the student cannot take rows of shape {shape} ({name}.x): {first_line(error)}; match its input"
                ) from error
            if logits.dim() != 2:
                raise UnderstudyError(
                    f"the student returned shape {tuple(logits.shape)}; it must return logits (rows, classes)"
                )
    return logits.shape[1]


class StudentLearner:
    """One net under an objective: the columns and modules its slots prepared, and its losses, unweighed."""

    def __init__(
        self,
        student: nn.Module,
        objective: Objective,
        gold: Gold | None,
        pool: Pool | None,
        recipe: TrainingOptions,
        *,
        classes: int,
        labelled: Tensor | None = None,
        pool_size: int = 0,
    ) -> None:
        self.objective, self.gold, self.pool, self.recipe = objective, gold, pool, recipe
        self.seed, self.gold_weight, self.temperature = recipe.seed, recipe.gold_weight, objective.temperatures[1]
        self.classes, self.labelled, self.pool_size = classes, labelled, pool_size
        self.gold_targets = None if gold is None else nn.functional.one_hot(gold.y, classes).float()
        self.steering = torch.empty(0, dtype=torch.long) if gold is None else gold.training_rows()
        """The gold rows that may move the student. Its weights follow their gradient, so that steering by a row fits
        the student to it as much as training on it does: rows that estimate only are not among them."""
        self.draws = torch.Generator()
        """Which gold rows measure the alignment of a step."""
        self.augmentation = torch.Generator()
        self.processes = current()
        self._own(student)

    def _own(self, student: nn.Module) -> None:
        """What belongs to this net alone."""
        self.student = student
        self.columns: Columns = {}
        self.modules: dict[str, nn.Module] = {}
        self.facts: dict[str, float] = {}
        self.fits: dict[str, Reliability] = {}
        self.pretrained_on: Callable[[Gold], nn.Module] | None = None
        """Makes a copy of the student, pretrained as it was on other gold rows; None where it was not pretrained."""
        self.tells = True
        """Whether it warns of what preparation found; False where a checkpoint will put other columns in place."""
        wants_features = any(slot.wants_features for slot in self.objective.slots())
        self.tap = FeatureTap(student, self.recipe.feature_layer) if wants_features else None
        self.aligner = Aligner(student) if self.objective.alignment_rows and self.pool is not None else None
        if self.aligner is not None and (self.gold is None or not len(self.steering)):
            why = "gold=None" if self.gold is None else "every gold row estimates only"
            raise UnderstudyError(
                f"{self.objective.name} weighs examples by the gold gradient, but {why}; pass gold rows that may train"
            )

    def with_student(self, student: nn.Module) -> "StudentLearner":
        """The same for another net, which prepares for itself."""
        other = copy.copy(self)
        other._own(student)
        return other

    def prepare(self, epoch: int) -> None:
        """Let every slot look at gold, pool and the student; file what it says under its name."""
        if self.pool is None:
            return
        columns, modules, facts, fits = on_rank_zero(lambda: self._prepared(epoch))
        self.columns, self.fits = columns, fits
        self.facts.update(facts)
        if epoch == 0:
            self.modules = {name: module.to(device_of(self.student)) for name, module in modules.items()}

    def _prepared(self, epoch: int) -> tuple[Columns, dict[str, nn.Module], dict[str, float], dict[str, Reliability]]:
        assert self.pool is not None
        layer, size = self.recipe.feature_layer, self.recipe.pass_batch_size
        cross_fits = epoch == 0 and self.pretrained_on is not None
        context = Context(
            self.gold,
            self.pool,
            classes=self.classes,
            predict=lambda x: predict(self.student, x, batch_size=size),
            features=lambda x: penultimate(self.student, x, layer=layer, batch_size=size),
            predict_calibration=self._unseen if cross_fits else None,
            loss=self.objective.loss,
            temperature=self.temperature,
            seed=self.seed,
            epoch=epoch,
            kept=self.labelled,
            pool_size=self.pool_size,
        )
        for slot in self.objective.slots():
            for name, column in slot.prepare(context).items():
                self.columns[f"{slot.name}.{name}"] = column
            if epoch == 0 and (module := slot.module(context)) is not None:
                self.modules[slot.name] = module
        if epoch == 0 and "calibration" in vars(context):
            # Said only where a slot really measured the teacher on gold.
            self.facts |= report_estimates(context.calibration[1], context.teacher, self.classes)
        if "student_on_calibration" in vars(context) and not cross_fits:
            self._look_for_memory(context)
        self.facts |= context.facts | effect_of(self.objective, self.columns)
        self.fits |= context.fits
        if epoch == 0 and self.tells and self.objective.refresh_every is None:
            warn_if_idle(self.objective, self.columns)
        return self.columns, self.modules if epoch == 0 else {}, self.facts, self.fits

    def _unseen(self) -> Tensor:
        """What copies that were pretrained without them say of the rows that estimate."""
        assert self.gold is not None and self.pretrained_on is not None
        if copies := copies_for(self.gold):
            self.facts["cross_fitted_folds"] = copies
        return ask_unseen(
            self.student, self.gold, self.pretrained_on, seed=self.seed, batch_size=self.recipe.pass_batch_size
        )

    def _look_for_memory(self, context: Context) -> None:
        gold, teacher = context.calibration
        some = random_rows(len(context.pool), LOOKED_AT, self.seed).sort().values
        student_pool, student_gold = (
            context.predict(SubsetRows(context.pool.rows, some)),
            context.student_on_calibration,
        )
        right = float((student_gold.argmax(1) == gold.y).double().mean())
        memorised = looks_memorised(student_gold, gold.y, teacher.top1(), student_pool, context.teacher.top1()[some])
        if memorised and self.tells and not self.facts.get("asked_of_memory"):
            memorised_warning(right)
        self.facts["asked_of_memory"] = float(memorised or bool(self.facts.get("asked_of_memory")))

    def losses(self, model: Any, batch: Batch) -> Losses:
        """One pass over the whole batch; with the alignment where a weight asks for it."""
        # Gold rows come first; where they are weighed too, the alignment is that of all rows.
        first = 0 if self.objective.weighs_gold else len(batch.gold_rows)
        weighed = {"weights", "gold weights"} & (batch.held_by(self) or {}).keys()
        none_to_weigh = not (batch.has_pool or self.objective.weighs_gold)
        if self.aligner is None or none_to_weigh or weighed:
            return self._losses(model, batch)
        passes: list[Losses] = []

        def weighed_losses() -> Tensor:
            passes[:] = [self._losses(model, batch)]
            return passes[0].every[first:]

        direction = self._steering_direction(self.aligner, model)
        losses, alignment = self.aligner.along(direction, weighed_losses)
        every, golds = torch.cat([passes[0].every[:first], losses]), passes[0].golds - first
        on_gold = alignment[:golds] if self.objective.weighs_gold else None
        return passes[0]._replace(every=every, alignment=alignment[golds:], gold_alignment=on_gold)

    def _losses(self, model: Any, batch: Batch) -> Losses:
        golds, outputs = len(batch.gold_rows), self._forward(model, batch.x, counted=len(batch) > 0)
        if not len(batch):  # another process has its rows
            outputs = outputs[:0]
        if not batch.has_pool:
            return Losses(self._gold_losses(outputs.logits, batch.gold_rows), golds, None, share=batch.share)
        if not golds:
            step = self._step(outputs, batch)
            return Losses(self.objective.pool_losses(step), 0, step, share=batch.share)
        step = self._step(outputs[golds:], batch)
        labels = self._labels(batch.gold_rows, outputs.logits.device)
        return Losses(self.objective.all_losses(outputs.logits, labels, step), golds, step, share=batch.share)

    def _forward(self, model: Any, x: Any, *, counted: bool = True) -> Outputs:
        """``counted``: whether these rows are really this process's."""
        device, kind = device_of(self.student), self.recipe.autocast
        x = to_device(x, device)
        assert not isinstance(kind, str)
        precision: AbstractContextManager[Any] = (
            nullcontext() if kind is None else torch.autocast(device.type, dtype=kind)
        )
        with precision, self._batch_norm(counted):
            logits, features = (logits_of(model, x), None) if self.tap is None else self.tap(x, call=_hooked(model))
        return Outputs(logits if kind is None else logits.float(), features)

    def _batch_norm(self, counted: bool) -> AbstractContextManager[Any]:
        if self.processes is None or not self.recipe.sync_batchnorm:
            return nullcontext()
        from understudy.training.synced_norm import SyncedBatchNorm

        return SyncedBatchNorm(self.processes, counted=counted)

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
        x, augment = self.gold.rows.take(rows), self.recipe.augment
        x = x if augment is None else augment(x, self.augmentation)
        return self._gold_losses(self._forward(model, x, counted=counted).logits, rows)

    def _step(self, outputs: Outputs, batch: Batch) -> Step:
        assert self.pool is not None and self.pool.teacher is not None
        rows, device, held, labels = batch.pool_rows, outputs.logits.device, batch.held_by(self), self.pool.teacher
        return Step(
            outputs=outputs,
            teacher=cached(held, "teacher", lambda: labels.dense(rows, self.classes).to(device)),
            rows=rows,
            columns={
                name: cached(held, f"column {name}", lambda column=column: column[rows].to(device))  # type: ignore[misc]
                for name, column in self.columns.items()
            },
            modules=self.modules,
            temperature=self.temperature,
            epoch=batch.epoch,
            progress=batch.progress,
            held=held,
            share=batch.share,
        )


class WeightedSum:
    """The usual scorer: Σ over gold rows of ``gold_weight · loss`` plus Σ over pool rows of ``weight · loss``."""

    def __init__(self, learner: Learner) -> None:
        self.learner = learner
        self.learners = {"": learner}
        self.can_vanish = learner.objective.can_vanish

    def prepare(self, epoch: int) -> None:
        self.learner.prepare(epoch)

    def score(self, model: Any, batch: Batch) -> Scored:
        losses, objective = self.learner.losses(model, batch), self.learner.objective
        gold_weight, weights = self.learner.gold_weight, None
        gold_weights = objective.gold_weights(losses, batch.held_by(self.learner))
        if losses.step is not None:
            weights = objective.pool_weights(losses.pool, losses.step, losses.alignment, losses.gold_alignment)
        # A line search compares sums that differ in their eighth digit.
        kind = None if batch.held is None else torch.float64
        if weights is None and gold_weights is None and gold_weight == 1.0:
            total = losses.every.sum(dtype=kind)
        else:
            gold, pool = _weighed(losses.gold, gold_weights), _weighed(losses.pool, weights)
            total = gold_weight * gold.sum(dtype=kind) + pool.sum(dtype=kind)
        # Only weights made from the batch itself can vanish on a whole batch; looking costs a wait on accelerators.
        moves = not self.can_vanish or _moves(batch.gold_rows, gold_weights) or _moves(batch.pool_rows, weights)
        return Scored(total, moves, None if losses.step is None else losses.step.outputs.logits, weights)


def _weighed(losses: Tensor, weights: Tensor | None) -> Tensor:
    return losses if weights is None else weights * losses


def _moves(rows: Tensor, weights: Tensor | None) -> bool:
    return len(rows) > 0 if weights is None else bool((weights != 0).any())


def _hooked(model: Any) -> Any:
    """A compiled model runs no hooks; the one it was made from does."""
    return getattr(model, "_orig_mod", model)
