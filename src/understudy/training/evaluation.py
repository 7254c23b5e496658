"""The accuracy of a finished training, beside its baselines: the teacher, training on gold alone, the majority class.

    run = us.train(student, gold, pool, us.slam(), evaluate=True)
    run.evaluation.accuracy                          # Share(estimate=0.9, low=0.836, high=0.945, rows=120)
    run.evaluation.gold_only, run.evaluation.teacher, run.evaluation.majority

Measured on the test set where there is one, else cross-validated on gold: the student is trained ``FOLDS`` times more,
each time without a part of gold. Each of these has fewer gold rows than the real one, so that the estimate is slightly
pessimistic. Rows chosen by active learning are no random sample: they train and are never measured on; nor are rows
that the pool's labels were fitted to (``data/fitted_rows.py``). ``us.auto``'s pilot has cross-validated already: its
figures are taken, of what it chooses without the rows that measure it.

The student's confidence is calibrated by a temperature (``maths/temperature.py``), fitted to rows that did not train:
the validation set, else gold by the cross-validated students. These have seen fewer gold rows than the real one, which
is taken to be as overconfident. Without such rows it is 1. The calibration gap is measured where the accuracy is, at
that very temperature: predictions stay the same, so that rows it was fitted to are no luckier than others.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from understudy.comparison.candidates import GOLD_ONLY
from understudy.data.examples import Gold, Pool, weighed
from understudy.data.rows import Rows, SubsetRows
from understudy.data.splits import fold_rows
from understudy.errors import UnderstudyError
from understudy.inference.combination import PoolCounts
from understudy.inference.passes import predict_logits, predicted
from understudy.maths.classification_metrics import confusion_counts, overall
from understudy.maths.proportions import Share, cross_validated, design_effect, disagreement, exact, widen
from understudy.maths.temperature import cross_tempered, fit_temperature, gap_of
from understudy.objective import Objective
from understudy.training.held_out import HeldOutRows
from understudy.training.options import TrainingOptions
from understudy.training.prepare import FitPart

FOLDS = 4
#: Of gold, to be measured on, and of gold and pool, to be trained on ``FOLDS`` times more.
LEAST_ROWS, MOST_ROWS = 20, 20_000
#: Rows on which the students of the folds are compared.
COMPARED_ROWS = 2000
#: Of a confusion matrix that is kept.
MOST_CLASSES = 200
#: Of rows by confidence: a part's rows, and the parts.
PART_ROWS, MOST_PARTS = 20, 10
TEST, GOLD = "test", "gold"
#: What a pilot found of single gold rows: their ``rows``, ``logits``, and ``pool`` for ``HeldOutRows.of``.
HELD_OUT = "held_out"
VANILLA_OBJECTIVE = Objective(name="vanilla")
#: Options that concern the training itself only.
_PLAIN: dict[str, Any] = {"patience": None, "ema": None, "checkpoint_every": None}

#: Students of several sets of rows, without warnings: the training itself has given them.
Fit = Callable[[Sequence[FitPart], Objective], list[nn.Module]]


@dataclass(frozen=True)
class StudentCalibration:
    #: Divides the student's logits.
    temperature: float
    #: Mean confidence minus accuracy: of the student's own logits, and of those divided by the temperature.
    before: Share
    after: Share

    @classmethod
    def fit(cls, logits: Tensor, y: Tensor) -> "StudentCalibration":
        """Of logits ``(n, C)`` of rows that did not train."""
        return cls.of(fit_temperature(logits, y), logits, y)

    @classmethod
    def of(cls, temperature: float, logits: Tensor, y: Tensor) -> "StudentCalibration":
        return cls(temperature, *(gap_of((logits / each).softmax(1), y) for each in (1.0, temperature)))

    def widened(self, effect: float) -> "StudentCalibration":
        """Of cross-validated rows, whose figures vary as much more."""
        before, after = (widen(each, effect, lowest=-1.0) for each in (self.before, self.after))
        return replace(self, before=before, after=after)

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> "StudentCalibration":
        return cls(stored["temperature"], Share(**stored["before"]), Share(**stored["after"]))


@dataclass(frozen=True)
class Evaluation:
    accuracy: Share
    #: ``"test"``: the test set; ``"gold"``: cross-validated on gold.
    rows: str
    majority_class: int
    #: The share of the majority class among these rows: the accuracy of always predicting it.
    majority: float
    teacher: Share | None = None
    teacher_rows: str = ""
    #: Training on gold alone; on the same rows, or on a pilot's gold rows.
    gold_only: Share | None = None
    #: Rows that only the student has right, and that only training on gold alone has (McNemar's test).
    discordant: tuple[int, int] | None = None
    #: None where no rows are held out to fit a temperature to.
    calibration: StudentCalibration | None = None
    #: Balanced accuracy, macro-F1, log-loss, AUC; and rows by true and predicted class, where the predictions of single
    #: rows are known.
    metrics: dict[str, Share] = field(default_factory=dict)
    confusion: list[list[int]] | None = None
    #: Of parts of these rows by confidence: its mean, the rows that are correct, and all.
    confidence: list[list[float]] = field(default_factory=list)
    #: The variance of cross-validated figures over that of as many independent rows.
    effect: float = 1.0
    #: Student and teacher together, on the rows that have a teacher's label (``held_out.py``).
    combined: Share | None = None
    #: Those rows, with their predictions; in a file of their own.
    held_out: HeldOutRows | None = field(default=None, compare=False, repr=False)

    @property
    def beats_majority(self) -> bool:
        return self.accuracy.low > self.majority

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> "Evaluation":
        read: dict[str, Callable[[Any], Any]] = {"calibration": StudentCalibration.from_dict, "discordant": tuple}
        read |= dict.fromkeys(("accuracy", "teacher", "gold_only", "combined"), lambda share: Share(**share))
        read["metrics"] = read_shares
        return cls(**{n: v if v is None or n not in read else read[n](v) for n, v in stored.items()})


class HeldOut(NamedTuple):
    """What is predicted of rows by students that were not trained on them."""

    #: ``(n, C)``.
    logits: Tensor
    gold: Gold
    #: Of the students of the folds, on rows that none of them was left without.
    disagreement: float = 0.0

    @classmethod
    def of(cls, student: nn.Module, gold: Gold) -> "HeldOut":
        return cls(predict_logits(student, gold.rows), gold)

    @property
    def correct(self) -> Tensor:
        return self.logits.argmax(1) == self.gold.y

    @property
    def accuracy(self) -> Share:
        return cross_validated(int(self.correct.sum()), len(self.logits), self.disagreement)


def evaluate_training(
    student: nn.Module, gold: Gold | None, pool: Pool | None, test: Gold | None, objective: Objective,
    options: TrainingOptions, fit: Fit, *, weight_decay: float, select: Gold | None = None,
    pilot: Mapping[str, Any] | None = None,
) -> Evaluation | None:  # fmt: skip
    """The evaluation of a student trained with these options; None without a test set and with too little gold.

    ``weight_decay``: as it was chosen for the student; ``pilot``: what ``us.auto`` found.
    """
    measured, where = (gold, GOLD) if test is None else (test, TEST)
    if measured is None:
        return None
    pilot = pilot or {}
    # A net that reads texts takes too long to be trained once more.
    refits = gold is not None and not gold.rows.is_text and len(gold.training_rows()) > 0
    has_pool = pool is not None and pool.teacher is not None
    # A weight decay chosen on all of gold is one number of many rows: no row has a noticeable part in it.
    chosen = options.replace(weight_decay=weight_decay)
    on_select = None if select is None or len(select) < LEAST_ROWS else HeldOut.of(student, select)
    on_test = None if test is None else HeldOut.of(student, test)
    on_gold: HeldOut | None = None
    if gold is not None and refits and not pilot and objective.relabel is None and (not on_test or not on_select):
        on_gold = cross_validate(fit, gold, pool, objective, chosen)
    found, alone, (accuracy, baseline) = on_test or on_gold, None, _of_pilot(pilot)
    if gold is not None and pool is not None and refits and has_pool:
        if test is not None:
            few = pool if len(pool) <= MOST_ROWS else pool.take(torch.arange(MOST_ROWS))
            plain = gold_only_options(options.replace(**_PLAIN, pretrain_epochs=0, finetune_epochs=0), gold, few)
            with suppress(UnderstudyError):
                alone = HeldOut.of(fit([FitPart(gold, None, plain)], VANILLA_OBJECTIVE)[0], test)
        elif on_gold is not None:
            plain = gold_only_options(chosen, gold, pool)
            alone = cross_validate(fit, gold, None, VANILLA_OBJECTIVE, plain, compared=pool.rows)
    accuracy, discordant = accuracy if found is None else found.accuracy, None
    if accuracy is None:
        return None
    if found is not None and alone is not None:
        baseline, mine, theirs = alone.accuracy, found.correct, alone.correct
        discordant = int((mine & ~theirs).sum()), int((theirs & ~mine).sum())
    counts = torch.bincount(measured.y if test is not None else measured.y[random_gold(measured)])
    teacher, teacher_rows = _teacher(measured, gold, where)
    calibration = _calibration(on_test, on_gold, on_select, pilot.get("calibration"))
    of_classes = {name: pilot[name] for name in ("metrics", "confusion", "confidence", "effect") if name in pilot}
    temperature = 1.0 if calibration is None else calibration.temperature
    if on_test is not None:
        of_classes = measure_classes((on_test.logits.double() / temperature).softmax(1), on_test.gold.y)
    elif on_gold is not None:
        tempered = cross_tempered(on_gold.logits, on_gold.gold.y)
        of_classes = measure_classes(tempered, on_gold.gold.y, on_gold.disagreement)
        calibration = calibration and calibration.widened(of_classes["effect"])
    if HELD_OUT in pilot and gold is not None:
        kept, apart = pilot[HELD_OUT], pilot["disagreement"][pilot["choice"]]
        on_gold = HeldOut(kept["logits"], gold.take(kept["rows"]), apart)
    unseen, combined = _held_out(on_test, on_gold, temperature, pilot.get(HELD_OUT, {}).get("pool"))
    return Evaluation(
        accuracy, where, int(counts.argmax()), float(counts.max() / counts.sum()), teacher, teacher_rows, baseline,
        discordant, calibration, read_shares(of_classes.pop("metrics", {})), **of_classes,
        combined=combined, held_out=unseen,
    )  # fmt: skip


def _held_out(
    on_test: HeldOut | None, on_gold: HeldOut | None, temperature: float, pool: PoolCounts | None
) -> tuple[HeldOutRows | None, Share | None]:
    """The rows that measure: the first set that has a teacher's labels, else the first that there is; and the accuracy
    of student and teacher together."""
    known = [each for each in (on_test, on_gold) if each is not None]
    if not known:
        return None, None
    found = next((each for each in known if len(each.gold.calibration_rows())), known[0])
    rows = HeldOutRows.of(found.logits, found.gold, temperature, pool=pool)
    return rows, rows.combined_accuracy(found.disagreement)


def measure_classes(probs: Tensor, y: Tensor, disagreement: float = 0.0) -> dict[str, Any]:
    """Metrics and confusion matrix of predictions ``(n, C)`` of rows that did not train, ready for JSON.

    ``disagreement``: of the folds' students, where it is cross-validated; every interval is widened as the accuracy's.
    """
    classes, truth = probs.shape[1], y.numpy()
    counts = confusion_counts(truth, probs.argmax(1).numpy(), classes=classes)
    effect = design_effect(int(counts.trace()), len(truth), disagreement)
    highest = {"log_loss": math.inf}
    found = {name: share for name, share in overall(probs.numpy(), truth).items() if share.known and name != "accuracy"}
    known = {name: asdict(widen(share, effect, highest=highest.get(name, 1.0))) for name, share in found.items()}
    confusion = counts.tolist() if classes <= MOST_CLASSES else None
    return {"metrics": known, "confusion": confusion, "confidence": by_confidence(probs, y), "effect": effect}


def by_confidence(probs: Tensor, y: Tensor) -> list[list[float]]:
    """Parts of ``PART_ROWS`` rows or more, by confidence: its mean, the rows that are correct, and all of them."""
    confidence, best = probs.double().max(1)
    order = confidence.argsort()
    parts = order.tensor_split(max(1, min(MOST_PARTS, len(order) // PART_ROWS)))
    return [[float(confidence[part].mean()), int((best == y)[part].sum()), len(part)] for part in parts]


def read_shares(stored: Mapping[str, Any]) -> dict[str, Share]:
    return {name: Share(**share) for name, share in stored.items()}


def _calibration(
    on_test: HeldOut | None, on_gold: HeldOut | None, on_select: HeldOut | None, on_pilot: Any
) -> StudentCalibration | None:
    """Fitted to the validation set, else to gold; measured on the test set, else on gold, where there are such."""
    rows, measured = on_select or on_gold, on_test or (on_gold if on_select else None)
    found = None if on_pilot is None else StudentCalibration.from_dict(on_pilot)
    found = found if rows is None else StudentCalibration.fit(rows.logits, rows.gold.y)
    if found is None or measured is None:
        return found
    return StudentCalibration.of(found.temperature, measured.logits, measured.gold.y)


def cross_validate(
    fit: Fit, gold: Gold, pool: Pool | None, objective: Objective, options: TrainingOptions, *,
    compared: Rows | None = None,
) -> HeldOut | None:  # fmt: skip
    """Of every gold row but chosen ones, by a student trained without it.

    ``compared``: rows on which the students may disagree; None: those of the pool, else gold's.
    None where gold is too small, all rows are too many, or a part of gold is too little for what the method estimates.
    """
    random = random_gold(gold)
    if len(random) < LEAST_ROWS or len(gold) + (0 if pool is None else len(pool)) > MOST_ROWS:
        return None
    options = options.replace(refine=False, **_PLAIN)
    compared = (gold if pool is None else pool).rows if compared is None else compared
    some = SubsetRows(compared, torch.arange(min(len(compared), COMPARED_ROWS)))
    folds = [fold for _, fold in fold_rows(gold.y[random], FOLDS, options.seed, stratify=False)]
    rests = [gold.without(random[fold]) for fold in folds]
    try:
        students = fit([FitPart(rest, pool, as_many_steps(options, gold, rest, pool)) for rest in rests], objective)
    except UnderstudyError:
        return None
    each = zip(students, folds, strict=True)
    found = torch.cat([predict_logits(student, SubsetRows(gold.rows, random[fold])) for student, fold in each])
    logits = torch.empty_like(found)
    logits[torch.cat(folds)] = found
    return HeldOut(logits, gold.take(random), disagreement([predicted(student, some).numpy() for student in students]))


def random_gold(gold: Gold) -> Tensor:
    """The numbers of the rows that are a random sample: those chosen by active learning are not."""
    return (~gold.chosen).nonzero().squeeze(1)


def as_many_steps(options: TrainingOptions, gold: Gold, rest: Gold, pool: Pool | None) -> TrainingOptions:
    """The options for a ``rest`` of gold: batches that are smaller, so that an epoch has as many steps as with all of
    it. With one step in place of two, 105 rows give 75% where 140 give 90 (``experiments/coverage.py``)."""
    labelled = 0 if pool is None or pool.teacher is None else int(pool.teacher.labelled().sum())
    whole, part = (options.gold_repeat * len(each.training_rows()) + labelled for each in (gold, rest))
    return options.replace(batch_size=max(1, math.ceil(part / max(1, math.ceil(whole / options.batch_size)))))


def gold_only_options(options: TrainingOptions, gold: Gold, pool: Pool) -> TrainingOptions:
    """The options for gold without the pool: it is repeated until an epoch has as many rows as with the pool."""
    assert pool.teacher is not None
    if options.is_full_batch:
        return options
    passes = options.gold_repeat + int(pool.teacher.labelled().sum()) // len(gold)
    return options.replace(gold_repeat=max(1, passes))


def _of_pilot(pilot: Mapping[str, Any]) -> tuple[Share | None, Share | None]:
    """The accuracy of what the pilot chose, chosen without the rows that measure it; and of gold alone, None where it
    left the race early."""
    if (found := pilot.get("accuracy")) is None:
        return None, None
    alone = next((one for one in pilot["candidates"] if one["method"] == GOLD_ONLY), {"rows": -1})
    rows, apart = found["rows"], pilot["disagreement"]
    share = cross_validated(found["correct"], rows, apart[pilot["choice"]])
    if alone["rows"] != rows:
        return share, None
    return share, cross_validated(round(alone["accuracy"] * rows), rows, apart[GOLD_ONLY])


def _teacher(measured: Gold, gold: Gold | None, rows: str) -> tuple[Share | None, str]:
    """The teacher's accuracy on the rows of which it has labels; else on gold."""
    for part, where in ((measured, rows), (gold, GOLD)):
        known = None if part is None else weighed(part, gold)
        at, labels = (torch.empty(0), None) if known is None else known.calibration()
        if known is not None and labels is not None and len(at):
            return exact(float((labels.top1() == known.y[at]).sum()), len(at)), where
    return None, ""
