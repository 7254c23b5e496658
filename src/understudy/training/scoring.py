"""From a batch to its loss: the student's forward pass, the objective's slots, the weights.

The sum returned is Σ over gold rows of ``gold_weight · loss`` plus Σ over pool rows of ``weight · loss``; the loop
divides by the number of rows, once. A weight that reads the *alignment* (learning to reweight) has the same pass run
with the gold gradient as forward-mode tangent, so that the derivative of every example's loss along it comes for free.
"""

import warnings
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from understudy.data.examples import Gold, Pool
from understudy.errors import UnderstudyError, UnderstudyWarning
from understudy.inference.features import FeatureTap, forward
from understudy.inference.passes import penultimate, predict, to_device
from understudy.maths.alignment.aligner import Aligner
from understudy.objective import Columns, Context, Objective, Outputs, Step, Weight
from understudy.training.checks import report_estimates
from understudy.training.refine import Refinery


class Scored(NamedTuple):
    total: Tensor
    """Summed weighted loss of the batch, with its graph."""
    moves: bool
    """False where every weight is zero and no gold row is in the batch: the optimizer must not step."""


class Scorer:
    def __init__(
        self,
        student: nn.Module,
        objective: Objective,
        gold: Gold | None,
        pool: Pool | None,
        *,
        classes: int,
        device: torch.device,
        seed: int,
        gold_weight: float = 1.0,
        feature_layer: str | None = None,
        autocast: torch.dtype | None = None,
        compile: bool = False,
        refine: bool = True,
        kept: Tensor | None = None,
        pool_size: int | None = None,
    ) -> None:
        self.student, self.objective, self.gold, self.pool = student, objective, gold, pool
        self.classes, self.device, self.seed, self.gold_weight = classes, device, seed, gold_weight
        self.feature_layer, self.autocast = feature_layer, autocast
        self.kept, self.pool_size = kept, pool_size
        self.model: Any = torch.compile(student) if compile else student
        self.columns: Columns = {}
        self.modules: dict[str, nn.Module] = {}
        self.facts: dict[str, float] = {}
        slots = list(objective.slots())
        self.tap = FeatureTap(student, feature_layer) if any(slot.wants_features for slot in slots) else None
        self.aligner = Aligner(student) if objective.alignment_rows else None
        self.can_vanish = any(isinstance(slot, Weight) and slot.can_vanish for slot in slots)
        self.draws = torch.Generator()
        self.refinery = None
        if pool is not None and refine:
            if Refinery.fits(len(pool), classes):
                self.refinery = Refinery(len(pool), classes)
            else:
                warnings.warn(
                    f"{len(pool):,} rows × {classes:,} classes are too many to average predictions over: the run will "
                    "have no refined.* columns; pass refine=False to say you know",
                    UnderstudyWarning,
                    stacklevel=3,
                )
        self.gold_targets = None if gold is None else nn.functional.one_hot(gold.y, classes).float()
        if self.aligner is not None and gold is None:
            raise UnderstudyError(f"{objective.name} weighs examples by the gold gradient, but gold=None; pass gold")

    def prepare(self, epoch: int) -> None:
        """Let every slot look at gold, pool and the student; file what it says under its name."""
        if self.pool is None:
            return
        context = Context(
            self.gold,
            self.pool,
            classes=self.classes,
            predict=lambda x: predict(self.student, x),
            features=lambda x: penultimate(self.student, x, layer=self.feature_layer),
            seed=self.seed,
            epoch=epoch,
            kept=self.kept,
            pool_size=self.pool_size,
        )
        for slot in self.objective.slots():
            for name, column in slot.prepare(context).items():
                self.columns[f"{slot.name}.{name}"] = column
            if epoch == 0 and (module := slot.module(context)) is not None:
                self.modules[slot.name] = module.to(self.device)
        if epoch == 0 and "estimates" in vars(context):
            # Said only where a slot really measured the teacher on gold.
            self.facts |= report_estimates(context.estimates[1], context.teacher, self.classes)
        self.facts |= context.facts

    def on_gold_alone(self) -> "Scorer":
        """The same student and objective without a pool: for pretraining and fine-tuning."""
        return Scorer(
            self.student,
            self.objective,
            self.gold,
            None,
            classes=self.classes,
            device=self.device,
            seed=self.seed,
            gold_weight=self.gold_weight,
            feature_layer=self.feature_layer,
            autocast=self.autocast,
        )

    def all_columns(self) -> Columns:
        """What a checkpoint must hold of what was prepared."""
        return self.columns

    def put_back_columns(self, columns: Columns) -> None:
        self.columns.update(columns)  # in the order they were prepared in

    def parameters(self) -> list[nn.Parameter]:
        return [*self.student.parameters(), *nn.ModuleDict(self.modules).parameters()]

    def start_epoch(self, seed: int) -> None:
        self.draws.manual_seed(seed)

    def score(self, x: Any, gold_rows: Tensor, pool_rows: Tensor, *, epoch: int, progress: float) -> Scored:
        x = to_device(x, self.device)
        split = len(gold_rows)
        steps: list[Step] = []
        own: list[Tensor] = []

        def pool_losses() -> Tensor:
            """One forward pass over the whole batch; the gold rows' losses are kept aside."""
            outputs = self._forward(x)
            if split:
                gold_logits, outputs = _part(outputs, split)
                own[:] = [self._gold_losses(gold_logits, gold_rows)]
            if not len(pool_rows):
                return outputs.logits.new_zeros(0)
            steps[:] = [self._step(outputs, pool_rows, epoch, progress)]
            return self.objective.pool_losses(steps[0])

        if self.aligner is None or not len(pool_rows):
            losses, alignment = pool_losses(), None
        else:
            losses, alignment = self.aligner.along(self.aligner.direction(self._gold_batch_loss), pool_losses)
        total = self.gold_weight * own[0].sum() if own else losses.new_zeros(())
        if not steps:
            return Scored(total, True)
        weights = self.objective.pool_weights(losses, steps[0], alignment)
        if self.refinery is not None:
            self.refinery.add(pool_rows, steps[0].outputs.logits, weights)
        total = total + (losses if weights is None else weights * losses).sum()
        # Only weights made from the batch itself can vanish on a whole batch; looking costs a wait on accelerators.
        moves = not self.can_vanish or split > 0 or weights is None or bool((weights != 0).any())
        return Scored(total, moves)

    def _forward(self, x: Any) -> Outputs:
        precision: AbstractContextManager[Any] = (
            nullcontext() if self.autocast is None else torch.autocast(self.device.type, dtype=self.autocast)
        )
        with precision:
            logits, features = self.tap(x) if self.tap is not None else (forward(self.model, x), None)
        return Outputs(logits if self.autocast is None else logits.float(), features)

    def _gold_losses(self, logits: Tensor, rows: Tensor) -> Tensor:
        assert self.gold_targets is not None
        return self.objective.gold_losses(logits, self.gold_targets.index_select(0, rows).to(self.device))

    def _gold_batch_loss(self) -> Tensor:
        """The mean loss of some gold rows drawn for this step: what learning to reweight wants to go down."""
        assert self.gold is not None and self.objective.alignment_rows
        wanted = min(self.objective.alignment_rows, len(self.gold))
        rows = torch.randperm(len(self.gold), generator=self.draws)[:wanted]
        x = to_device(self.gold.rows.take(rows), self.device)
        return self._gold_losses(self._forward(x).logits, rows).mean()

    def _step(self, outputs: Outputs, pool_rows: Tensor, epoch: int, progress: float) -> Step:
        assert self.pool is not None and self.pool.teacher is not None
        return Step(
            outputs=outputs,
            teacher=self.pool.teacher.dense(pool_rows, self.classes).to(self.device),
            rows=pool_rows,
            columns={name: column[pool_rows].to(self.device) for name, column in self.columns.items()},
            modules=self.modules,
            temperature=self.objective.temperatures[1],
            epoch=epoch,
            progress=progress,
        )


def _part(outputs: Outputs, split: int) -> tuple[Tensor, Outputs]:
    """The gold rows' logits, and the rest; ``split`` has one backward where two slices would have two."""
    gold_logits, logits = outputs.logits.split([split, len(outputs.logits) - split])
    return gold_logits, Outputs(logits, None if outputs.features is None else outputs.features[split:])
