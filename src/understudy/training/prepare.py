"""What slots compute before training starts and at every refresh: columns, modules, and numbers for the run.

    prepared = prepare_slots(learner, epoch=0)
    prepared.columns["debias.weight"], prepared.facts["mean_weight"], prepared.modules["vid"]

Weighted Distillation uses the student's predictions of gold: how much larger is its loss on the teacher's wrong label
than on the true one? A student that was pretrained on these rows has memorised their labels, its loss on the true one
is next to nothing, and every mistake of the teacher looks ruinous. So where it was, the predictions are *cross-fitted*:
each row is predicted by a copy that was pretrained without it; rows that calibrate only, by the student itself.

Weight statistics are on every run, and a slot that changes nothing is warned of:

    run.facts["mean_weight"], run.facts["share_weight_1"]        # all weights of a row multiplied; the share exactly 1
    run.facts["mean_alpha"], run.facts["mean_k"]                 # where SLaM mixes

Each slot's own are there too (``debias.mean_weight``). Weights that are made batch by batch (``us.l2rw_weight``) have
no column: their mean is taken over training.
"""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from understudy.data.examples import Gold
from understudy.data.rows import SubsetRows
from understudy.data.splits import fold_rows, random_rows
from understudy.errors import warn
from understudy.inference.passes import predict
from understudy.labels.evidence import check_calibration
from understudy.labels.reliability import Reliability
from understudy.objective import Columns, Context, Objective, Slot, Weight

#: Copies that are pretrained, each on four fifths of the rows: four more pretrainings in all.
FOLDS = 5
#: The least accuracy on gold at which a student is suspected of having memorised it.
MEMORISED = 0.95
#: Pool rows on which the student's predictions are compared with those of gold.
POOL_SAMPLE = 2000


class Prepared(NamedTuple):
    columns: Columns
    modules: dict[str, nn.Module]
    facts: dict[str, float]
    fits: dict[str, Reliability]


def prepare_slots(
    objective: Objective, context: Context, before: Prepared, *, warns: bool, cross_fitted: bool
) -> Prepared:
    """What every slot prepares, added to what was there ``before``; modules are made before the first epoch alone.

    ``cross_fitted``: whether the predictions of gold in ``context`` are out of fold.
    """
    columns, modules, facts = dict(before.columns), dict(before.modules), dict(before.facts)
    slots = objective.slots()
    for slot in slots:
        for name, column in slot.prepare(context).items():
            columns[f"{slot.name}.{name}"] = column
        if context.epoch == 0 and (module := slot.module(context)) is not None:
            modules[slot.name] = module
    if context.epoch == 0 and "calibration" in vars(context):
        # Only where a slot really measured the teacher on gold.
        facts |= check_calibration(context.calibration[1], context.teacher, context.classes)
    if "student_on_calibration" in vars(context) and not cross_fitted:
        memorised, known = _has_memorised(context), bool(facts.get("gold_memorised"))
        if memorised and warns and not known:
            _warn_of_memorised_gold(context)
        facts["gold_memorised"] = float(memorised or known)
    facts |= context.facts | weight_statistics(slots, columns)
    if context.epoch == 0 and warns and objective.refresh_every is None:
        warn_if_idle(objective, columns)
    return Prepared(columns, modules, facts, before.fits | context.fits)


def cross_fit_folds(gold: Gold) -> int:
    """How many copies of a student pretrained on gold cross-fitting takes; 0 where all rows calibrate only."""
    seen = int((~gold.estimate_only[gold.calibration_rows()]).sum())
    return min(FOLDS, seen) if seen > 1 else 0


def predict_out_of_fold(
    student: nn.Module, gold: Gold, pretrained_on: Callable[[Gold], nn.Module], *, seed: int, batch_size: int = 1024
) -> Tensor:
    """Probabilities ``(n, C)`` of the calibration rows, each from a student that was not fitted to it.

    ``student`` was pretrained on gold; ``pretrained_on(part)`` is a copy that was pretrained on that part alone.
    """
    rows, training = gold.calibration_rows(), gold.training_rows()
    probs = predict(student, SubsetRows(gold.rows, rows), batch_size=batch_size)
    seen = (~gold.estimate_only[rows]).nonzero().squeeze(1)
    copies = cross_fit_folds(gold)
    for _, fold in fold_rows(gold.y[rows[seen]], copies, seed) if copies else ():
        held_out = rows[seen[fold]]
        copy = pretrained_on(gold.take(training[~torch.isin(training, held_out)]))
        probs[seen[fold]] = predict(copy, SubsetRows(gold.rows, held_out), batch_size=batch_size)
    return probs


def _has_memorised(context: Context) -> bool:
    gold, teacher = context.calibration
    sample = random_rows(len(context.pool), POOL_SAMPLE, context.seed).sort().values
    student_pool = context.predict(SubsetRows(context.pool.rows, sample))
    return looks_memorised(
        context.student_on_calibration, gold.y, teacher.top1(), student_pool, context.teacher.top1()[sample]
    )


def looks_memorised(
    student_gold: Tensor, y: Tensor, teacher_gold: Tensor, student_pool: Tensor, teacher_pool: Tensor
) -> bool:
    """Whether the student has memorised the gold rows: nearly always right there, and not what it is on the pool.

    If it were as accurate on the pool (a) as on gold, and the teacher too (t), they would agree there on a share of at
    least t + a − 1 of the rows; and its doubt, 1 − its largest probability, would have one mean on both. It has
    memorised them where it agrees less often than that by two standard errors, or where its doubt on gold is less than
    half of that on the pool and less by three. ``student_*``: probabilities; ``teacher_*``: classes.
    """
    accuracy = float((student_gold.argmax(1) == y).double().mean())
    if accuracy < MEMORISED:
        return False
    teacher_accuracy = float((teacher_gold == y).double().mean())
    agree = float((student_pool.argmax(1) == teacher_pool).double().mean())
    error = math.sqrt(teacher_accuracy * (1 - teacher_accuracy) / len(y) + agree * (1 - agree) / len(teacher_pool))
    on_gold, on_pool = (1 - probs.double().max(1).values for probs in (student_gold, student_pool))
    less = float(on_pool.mean() - on_gold.mean())
    significant = less > 3 * float(on_pool.std(correction=0)) / math.sqrt(len(y))
    return agree < teacher_accuracy + accuracy - 1 - 2 * error or (significant and less > float(on_pool.mean()) / 2)


def _warn_of_memorised_gold(context: Context) -> None:
    accuracy = float((context.student_on_calibration.argmax(1) == context.calibration[0].y).double().mean())
    warn(
        f"the student's accuracy is {accuracy:.0%} on the gold rows that weights are estimated from, but not on the "
        "pool: it seems to have memorised them, and the weights come out too small; mark gold rows "
        "estimate_only=True, or give us.train the untrained student and pretrain_epochs="
    )


def weight_statistics(slots: Sequence[Slot], columns: Columns) -> dict[str, float]:
    """Means of the prepared weights, alphas and ks, by slot and of all weights multiplied."""
    facts: dict[str, float] = {}
    for slot in slots:
        if (weight := columns.get(f"{slot.name}.weight")) is not None:
            facts |= {f"{slot.name}.{name}": value for name, value in _statistics(weight).items()}
        for name in ("alpha", "k"):
            if (column := columns.get(f"{slot.name}.{name}")) is not None:
                mean = float(column.double().mean())
                facts |= {f"{slot.name}.mean_{name}": mean, f"mean_{name}": mean}
    weights = [slot for slot in slots if isinstance(slot, Weight)]
    if not weights:
        return facts | {"mean_weight": 1.0, "share_weight_1": 1.0}
    if all(type(slot).__call__ is Weight.__call__ and f"{slot.name}.weight" in columns for slot in weights):
        facts |= _statistics(torch.stack([columns[f"{slot.name}.weight"] for slot in weights]).prod(0))
    return facts


def _statistics(weight: Tensor) -> dict[str, float]:
    return {"mean_weight": float(weight.double().mean()), "share_weight_1": float((weight == 1).double().mean())}


def warn_if_idle(objective: Objective, columns: Columns) -> None:
    """A slot whose every weight or alpha is 1 leaves the loss as it is."""
    for slot in objective.slots():
        for value in ("weight", "alpha"):
            column = columns.get(f"{slot.name}.{value}")
            if column is not None and bool((column == 1).all()):
                warn(
                    f"{objective.name}: every {value} of {slot.name!r} is 1, so it changes nothing here; take another "
                    "method, or read in docs/methods.md when a method does nothing"
                )
