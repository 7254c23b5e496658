"""Before training: whether student and rows fit; what slots compute then and at every refresh: columns, modules, facts.

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
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from understudy.data.examples import Gold, Pool
from understudy.data.inputs import read_by
from understudy.data.rows import SubsetRows
from understudy.data.splits import fold_rows, random_rows
from understudy.errors import UnderstudyError, first_line, warn
from understudy.inference.passes import device_of, eval_mode, logits_of, predict, to_device
from understudy.labels.reliability import Reliability, check_calibration
from understudy.objective import Columns, Context, Objective, Slot, Weight
from understudy.training.options import TrainingOptions

#: Copies that are pretrained, each on four fifths of the rows: four more pretrainings in all.
FOLDS = 5
#: The least accuracy on gold at which a student is suspected of having memorised it.
MEMORISED = 0.95
#: Pool rows on which the student's predictions are compared with those of gold.
POOL_SAMPLE = 2000


def check_outputs(student: nn.Module, gold: Gold | None, pool: Pool | None, **others: Gold | None) -> int:
    """The student's class count, checked against every set of rows and labels by a small forward pass each."""
    if next(student.parameters(), None) is None:
        raise UnderstudyError("the student has no parameters to train; pass a module that has some")
    if not any(parameter.requires_grad for parameter in student.parameters()):
        raise UnderstudyError("the student has no trainable parameters; set requires_grad on some")
    given = {"gold": gold, "pool": pool, **others}
    sets = {name: part.rows for name, part in given.items() if part is not None}
    read = {name: read_by(student, rows) if rows.is_text else rows for name, rows in sets.items()}
    first = {name: rows.take(torch.arange(min(2, rows.count))) for name, rows in read.items()}
    logits = _first_logits(student, first)
    classes = logits[-1].shape[1]
    # Not again for test and select, which follow.
    if (gold is not None or pool is not None) and all(map(_are_probabilities, logits)):
        warn("the student returns probabilities (they sum to 1), and training applies softmax again; return logits")
    for name, examples in {"gold": gold, **others}.items():
        if examples is not None and (largest := int(examples.y.max())) >= classes:
            cure = "give its last layer as many outputs as there are classes"
            raise UnderstudyError(f"{name}.y holds class {largest}, but the student has {classes} outputs; {cure}")
    parts = {"gold.teacher": gold, "pool.teacher": pool}
    labels = {name: part.teacher for name, part in parts.items() if part is not None and part.teacher is not None}
    for name, teacher in labels.items():
        last = int(teacher.top1().max()) if teacher.classes is None and len(teacher) else 0
        if teacher.classes not in (None, classes) or last >= classes:
            what = f"names class {last}" if teacher.classes is None else f"knows {teacher.classes} classes"
            raise UnderstudyError(f"{name} {what}, but the student has {classes} outputs; they must be equal")
    if len({type(teacher) for teacher in labels.values()}) > 1:
        forms = [type(teacher.simplest()).__name__ for teacher in labels.values()]
        if forms[0] != forms[1]:
            raise UnderstudyError(f"gold.teacher holds {forms[0]} labels, pool.teacher {forms[1]}; use one form")
    return classes


def _are_probabilities(logits: Tensor) -> bool:
    sums = logits.float().sum(1)
    return bool((logits >= 0).all()) and torch.allclose(sums, torch.ones_like(sums), atol=1e-2)  # in bfloat16 too


def _first_logits(student: nn.Module, first: dict[str, Any]) -> list[Tensor]:
    """What the student returns for the first rows of each set."""
    found: list[Tensor] = []
    with eval_mode(student), torch.inference_mode():
        for name, x in first.items():
            try:
                logits = logits_of(student, to_device(x, device_of(student)))
            except (RuntimeError, ValueError, TypeError, IndexError) as error:
                shape = tuple(x.shape[1:]) if isinstance(x, Tensor) else sorted(x)
                what = f"the student cannot take rows of shape {shape} ({name}.x)"
                raise UnderstudyError(f"{what}: {first_line(error)}; match its input") from error
            if logits.dim() != 2:
                raise UnderstudyError(f"the student returned shape {tuple(logits.shape)}, not logits (rows, classes)")
            found.append(logits)
    return found


def report_gold(gold: Gold | None, pool: Pool | None, classes: int, full_pool: Pool | None) -> dict[str, float]:
    """Counts worth keeping with the run; a warning where gold misses a class."""
    facts: dict[str, float] = {}
    if gold is not None:
        facts["gold_rows"] = len(gold)
        facts["calibration_rows"] = len(gold.calibration_rows())
        if only := int(gold.estimate_only.sum()):
            facts["estimate_only_rows"] = only
        missing = sorted(set(range(classes)) - set(gold.y.unique().tolist()))
        if missing:
            names = dict(enumerate(gold.class_names or ()))
            shown = ", ".join(str(names.get(label, label)) for label in missing[:5]) + ("…" if len(missing) > 5 else "")
            what = f"gold holds no example of class {shown} ({len(missing)} of {classes})"
            warn(f"{what}; what is estimated on gold says nothing about it: add a few such rows")
    if pool is not None and full_pool is not None:
        facts["pool_rows"] = len(pool)
        facts["pool_rows_without_label"] = len(full_pool) - len(pool)
    return facts


class FitPart(NamedTuple):
    """What one student is trained on."""

    gold: Gold | None
    pool: Pool | None
    options: TrainingOptions


class Prepared(NamedTuple):
    columns: Columns
    modules: dict[str, nn.Module]
    facts: dict[str, float]
    fits: dict[str, Reliability]


def prepare_slots(
    objective: Objective, context: Context, before: Prepared, *, warns: bool, cross_fitted: bool
) -> Prepared:
    """What every slot prepares, added to what was there ``before``; modules are made before the first epoch alone.

    ``warns``: whether gold is checked as a sample of the pool; ``cross_fitted``: whether the predictions of gold in
    ``context`` are out of fold.
    """
    columns, modules, facts = dict(before.columns), dict(before.modules), dict(before.facts)
    slots = objective.slots
    for slot in slots:
        columns |= {f"{slot.name}.{name}": column for name, column in slot.prepare(context).items()}
        if context.epoch == 0 and (module := slot.module(context)) is not None:
            modules[slot.name] = module
    if context.epoch == 0 and warns and "calibration" in vars(context):
        # Only where a slot really measured the teacher on gold.
        facts |= check_calibration(context.calibration[1], context.teacher, context.classes)
    if "student_on_calibration" in vars(context) and not cross_fitted:
        known = bool(facts.get("gold_memorised"))
        facts["gold_memorised"] = float(_check_memorised(context, warns=warns and not known) or known)
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


def _check_memorised(context: Context, *, warns: bool) -> bool:
    """Whether the student has memorised the gold rows that weights are estimated from."""
    gold, teacher = context.calibration
    sample = random_rows(len(context.pool), POOL_SAMPLE, context.seed).sort().values
    on_gold, on_pool = context.student_on_calibration, context.predict(SubsetRows(context.pool.rows, sample))
    memorised = looks_memorised(on_gold, gold.y, teacher.top1(), on_pool, context.teacher.top1()[sample])
    if memorised and warns:
        accuracy = float((on_gold.argmax(1) == gold.y).double().mean())
        cure = "mark gold rows estimate_only=True, or give us.train the untrained student and pretrain_epochs="
        what = f"the student's accuracy is {accuracy:.0%} on the gold rows that weights are estimated from"
        warn(f"{what}, not on the pool: it seems to have memorised them, and the weights come out too small; {cure}")
    return memorised


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
    for slot in objective.slots:
        for value in ("weight", "alpha"):
            column = columns.get(f"{slot.name}.{value}")
            if column is not None and bool((column == 1).all()):
                cure = "take another method, or read in docs/methods.md when a method does nothing"
                warn(f"{objective.name}: every {value} of {slot.name!r} is 1, so it changes nothing here; {cure}")
