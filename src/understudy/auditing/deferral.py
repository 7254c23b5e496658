"""``us.defer``: which rows to leave to the teacher (or to a person), so that the whole reaches a target accuracy.

    found = us.defer("runs/first", target_accuracy=0.9)         # with probability 0.95; the rule is kept in the run
    found.rule, found.promised, found.share                     # found.possible, found.rows_needed where it cannot be
    found = us.defer("runs/first", budget=0.2)                  # the best with at most 20% of the rows deferred

Rows are deferred where the student's confidence is low. The candidates are thresholds between "defer everything" and
"defer nothing", at shares of the rows that the run was measured on. Each row is predicted by a student, and combined
with the teacher's label by a fit, that never saw it; nor did the choice whether to combine. Which candidates reach the
target is the test of ``maths/learn_then_test.py``; the one that defers least is taken. The test begins twice: at "defer
everything", and where the predicted probabilities, not the truth, expect the clearest success. The promise is about the
students and fits of the folds, each made without a part of gold; the run's own have seen all of it. Rows chosen by
active learning do not count, nor do rows without a teacher's label. A new row must come from where gold came from.

With ``budget``, or ``price`` and ``error_cost``, the candidate with the fewest errors (the least cost) is taken, and
what it reaches is the lower end of a band that holds for all candidates at once. ``abstain``: there is no teacher;
deferred rows have no answer, and the accuracy is that of the others. ``by_class``: the target holds for the rows of
each class that the student predicts, all together with probability 1 − δ; classes without such a threshold are deferred
as a whole.
"""

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch

from understudy.errors import UnderstudyError
from understudy.inference.cascade import ABSTAIN, COMBINED, TEACHER, DeferralRule
from understudy.maths.learn_then_test import fallback, simultaneous_band, tail
from understudy.maths.proportions import Share, exact
from understudy.store.arrow import Array
from understudy.store.console import from_report
from understudy.store.option_fields import checked_plainly
from understudy.training.held_out import HeldOutRows, teacher_classes
from understudy.training.run import Run

#: Between candidates, as a share of the rows.
STEP = 0.02
# Scores are from 0 to 1.
EVERYTHING, NOTHING = -1.0, 1.0
#: Parts of δ: for "defer everything", and for the candidate of which the probabilities expect the smallest p-value.
EVERYTHING_PART, EXPECTED_PART = 1 / 4, 3 / 4
MOST_ROWS = 10_000_000


@dataclass(frozen=True)
class Curve:
    """Accuracy against the share deferred, candidate by candidate, with a band that holds at all of them at once."""

    share: list[float]
    accuracy: list[float]
    low: list[float]
    high: list[float]


@dataclass(frozen=True)
class ClassPromise:
    """What was found for the rows that the student predicts as one class."""

    number: int
    rows: int
    promised: bool
    share: float
    accuracy: float


@dataclass
class Deferral:
    """A rule and what it promises, or why there is none."""

    #: The answer to deferred rows: ``combined``, ``teacher``; or ``abstain``.
    answer: str
    #: By answer; the first is the rule's.
    curves: dict[str, Curve]
    student: Share
    teacher: Share | None
    combined: Share | None
    #: How many, and whether they are ``gold`` (cross-validated) or ``test`` rows.
    rows: int
    rows_kind: str
    delta: float
    target: float | None = None
    rule: DeferralRule | None = None
    #: Of the rule on these rows, where there is one.
    share: float | None = None
    accuracy: float | None = None
    #: The accuracy that holds with probability 1 − δ.
    promised: float | None = None
    #: Where the target cannot be promised: the highest that can (None: none), and about how many rows it takes (None:
    #: no number of rows).
    possible: float | None = None
    rows_needed: int | None = None
    #: Of an answer of the teacher.
    price: float | None = None
    classes: list[ClassPromise] = field(default_factory=list)
    class_names: list[str] | None = None

    def __str__(self) -> str:
        return "\n".join(from_report("deferral_page").deferral_lines(self))


class Candidates:
    """Thresholds for some rows, from "defer everything" to "defer nothing", and what each would answer."""

    def __init__(
        self, scores: Array, student: Array, if_deferred: Array | None, likely: tuple[Array, Array] | None = None
    ) -> None:
        """``scores``; whether the student is right, and the answer to a deferred row (None: no answer): ``(n,)``.

        ``likely``: how probable both are, by fits that never saw the row; None: the test has one start."""
        ranked, rows = -np.sort(-scores), len(scores)
        counts = np.unique(np.round(np.arange(STEP, 1, STEP) * rows).astype(int))
        inner = ranked[counts[(counts > 0) & (counts < rows)]]
        self.thresholds = np.unique(np.array([EVERYTHING, *inner, NOTHING]))
        self.deferred = scores[:, None] > self.thresholds
        self.answered = np.ones_like(self.deferred) if if_deferred is not None else ~self.deferred
        self.correct = student[:, None] & ~self.deferred
        if if_deferred is not None:
            self.correct |= if_deferred[:, None] & self.deferred
        self.hits, self.rows = (self.answered & self.correct).sum(0), self.answered.sum(0)
        self.share = self.deferred.mean(0) if rows else np.ones(len(self.thresholds))
        self.accuracy = self.hits / np.maximum(self.rows, 1)
        # Who abstains on everything is never right: the first tenth is answered.
        self._first = 0 if if_deferred is not None else int((self.share <= 0.9).argmax())
        self._expected = None
        if likely is not None:
            each = np.where(self.deferred, likely[1][:, None], likely[0][:, None])
            self._expected = (each * self.answered).sum(0)

    def parts(self, target: float) -> Array:
        """Of δ, one per candidate. They may depend on all but the truth of these rows."""
        parts, start = np.zeros(len(self.share)), self._first
        if self._expected is not None:
            start = int(tail(self._expected, self.rows, target).argmin())
        parts[self._first] += EVERYTHING_PART
        parts[start] += EXPECTED_PART
        return parts

    def promising(self, target: float, delta: float, times: float = 1.0) -> Array:
        """The candidates whose accuracy is at least the target; ``times``: if there were so many times the rows."""
        p_values = tail(self.hits * times, self.rows * times, target)
        return np.flatnonzero(fallback(p_values, delta * self.parts(target)))

    def possible(self, delta: float) -> float | None:
        """The highest target that some candidate reaches."""
        return _largest(lambda target: len(self.promising(target, delta)) > 0, 1.0, 1e-4) or None

    def rows_needed(self, target: float, delta: float) -> int | None:
        """About how many rows promise the target, if the shares stay as they are; None where none do."""
        rows, most = len(self.deferred), MOST_ROWS / max(1, len(self.deferred))
        if not rows or not len(self.promising(target, delta, most)):
            return None
        small = _largest(lambda log: not len(self.promising(target, delta, np.exp(log))), np.log(most), 1e-3)
        return int(np.ceil(rows * np.exp(small)))

    def curve(self, delta: float) -> Curve:
        low, high = simultaneous_band(self.answered, self.correct, 1 - delta)
        return Curve(*(each.tolist() for each in (self.share, self.accuracy, low, high)))


@checked_plainly
def defer(
    run: Run | str | Path, *, target_accuracy: float | None = None, budget: float | None = None,
    price: float | None = None, error_cost: float | None = None, delta: float = 0.05, abstain: bool = False,
    by_class: bool = False,
) -> Deferral:  # fmt: skip
    """Choose which rows a run leaves to the teacher, and keep the rule in it; ``predict`` and ``serve`` follow it.

    ``target_accuracy``: of all answers, which holds with probability 1 − ``delta``; or ``budget``: the share of rows
    that may be deferred; or ``error_cost``: of a wrong answer, beside the ``price`` of asking. No rule is kept where
    the target cannot be promised.
    """
    run = run if isinstance(run, Run) else Run.load(run)
    _check(target_accuracy, budget, error_cost, price=price, delta=delta)
    unseen = None if run.evaluation is None else run.evaluation.held_out
    if run.evaluation is None or unseen is None:
        raise UnderstudyError("the run predicted no rows that did not train; train with 20 gold rows, or --test")
    rows = AnsweredRows.of(unseen, abstain=abstain)
    kinds = {name: right for name, right in rows.if_deferred.items() if right is not None}
    alone = {name: exact(float(right.sum()), len(right)) for name, right in kinds.items()}
    found = Deferral(
        next(iter(rows.if_deferred)), {name: rows.candidates(name).curve(delta) for name in rows.if_deferred},
        exact(float(rows.student.sum()), len(rows.scores)), alone.get(TEACHER), alone.get(COMBINED), len(rows.scores),
        run.evaluation.rows, delta, target_accuracy, price=price, class_names=run.config.get("class_names"),
    )  # fmt: skip
    if target_accuracy is None:
        chosen: list[float] | None = _cheapest(found, rows.candidates(found.answer), budget, error_cost)
    else:
        classes = range(unseen.probs.shape[1]) if by_class else ()
        groups = [rows.predicted == number for number in classes] or [rows.predicted >= 0]
        chosen = _reaching(found, rows, groups, target_accuracy)
        found.classes = found.classes if by_class else []
    if chosen is not None:
        details = {name: value for name, value in asdict(found).items() if name not in ("rule", "answer")}
        found.rule = run.rule = DeferralRule(chosen, found.answer, details)
        if run.path is not None:
            run.rule.save(run.path)
    return found


class AnsweredRows(NamedTuple):
    """Rows with a true label, ``(n,)`` each."""

    #: The student's class, one minus its confidence, and whether it is right.
    predicted: Array
    scores: Array
    student: Array
    #: Whether the answer to a deferred row is right, by kind, the rule's first; None: there is no answer.
    if_deferred: dict[str, Array | None]
    #: How probable it is that the student is right, and the rule's answer to a deferred row.
    likely: tuple[Array, Array]

    @classmethod
    def of(cls, unseen: HeldOutRows, *, abstain: bool) -> "AnsweredRows":
        probs, y = unseen.probs.double(), unseen.y
        predicted, answers, rows = probs.argmax(1), {ABSTAIN: probs.argmax(1)}, torch.arange(len(y))
        if not abstain:
            if unseen.teacher is None or unseen.combined is None or unseen.helps is None:
                held = "gold has no labels of one teacher (votes are of several), to see what asking it brings"
                raise UnderstudyError(f"{held}; give them (20 or more), or use --abstain")
            rows, kinds = unseen.with_teacher, {COMBINED: unseen.combined.argmax(1)}
            kinds[TEACHER] = teacher_classes(unseen.teacher)
            answer = TEACHER if unseen.combination is None else COMBINED
            # What answers is chosen on gold too: a row's answer here is what the rows of other folds choose.
            answers = {answer: kinds[COMBINED].where(unseen.helps, kinds[TEACHER])}
            answers |= {name: classes for name, classes in kinds.items() if name != answer}
        chances = (probs if abstain or unseen.combined is None else unseen.combined.double())[rows]
        first, *_ = answers.values()
        student, deferred = (chances.gather(1, each[rows].unsqueeze(1)).numpy()[:, 0] for each in (predicted, first))
        if_deferred = {name: None if abstain else (each == y)[rows].numpy() for name, each in answers.items()}
        mine = predicted[rows].numpy()
        right = (predicted == y)[rows].numpy()
        return cls(mine, 1 - probs[rows].amax(1).numpy(), right, if_deferred, (student, deferred))

    def candidates(self, answer: str, some: Array | slice = slice(None)) -> Candidates:
        if_deferred = self.if_deferred[answer]
        likely = self.likely[0][some], self.likely[1][some]
        right = None if if_deferred is None else if_deferred[some]
        return Candidates(self.scores[some], self.student[some], right, likely)


def _reaching(found: Deferral, rows: AnsweredRows, groups: list[Array], target: float) -> list[float] | None:
    """A threshold for each group of rows at which its accuracy is at least the target; None where none has one. What
    they promise, or what can be promised instead, is added to ``found``."""
    deferred, answered, right = np.zeros((3, len(rows.scores)), bool)
    thresholds = []
    for number, mine in enumerate(groups):
        own = rows.candidates(found.answer, mine)
        places = own.promising(target, found.delta / len(groups))
        place = int(places[-1]) if len(places) else 0
        thresholds.append(float(own.thresholds[place]))
        for whole, part in ((deferred, own.deferred), (answered, own.answered), (right, own.correct)):
            whole[mine] = part[:, place]
        share, accuracy = float(own.share[place]), float(own.accuracy[place])
        found.classes.append(ClassPromise(number, int(mine.sum()), len(places) > 0, share, accuracy))
    if any(each.promised for each in found.classes):
        found.promised, found.share, found.accuracy = target, float(deferred.mean()), float(right[answered].mean())
        return thresholds
    all_rows = rows.candidates(found.answer)
    found.possible, found.rows_needed = all_rows.possible(found.delta), all_rows.rows_needed(target, found.delta)
    return None


def _cheapest(found: Deferral, own: Candidates, budget: float | None, error_cost: float | None) -> list[float]:
    """The threshold with the fewest errors within the budget, or with the least cost; its accuracy is at least the
    lower end of the band, which holds at every candidate."""
    cost = (own.answered & ~own.correct).mean(0)
    if error_cost is not None:
        cost = error_cost * cost + (found.price or 0.0) * own.share
    cost = np.where(own.share <= (1.0 if budget is None else budget), cost, np.inf)
    place = len(cost) - 1 - int(cost[::-1].argmin())  # of equals the one that defers least
    found.share, found.accuracy = float(own.share[place]), float(own.accuracy[place])
    found.promised = found.curves[found.answer].low[place]
    return [float(own.thresholds[place])]


def _check(target: float | None, budget: float | None, error_cost: float | None, **others: float | None) -> None:
    if sum(each is not None for each in (target, budget, error_cost)) != 1:
        raise UnderstudyError("give one of target_accuracy, budget and error_cost: what the rule is chosen by")
    if error_cost is not None and others["price"] is None:
        raise UnderstudyError("error_cost is weighed against the price of an answer; give price too, in the same unit")
    for name, value in {"target_accuracy": target, "budget": budget, "error_cost": error_cost, **others}.items():
        most = np.inf if name in ("price", "error_cost") else 1
        if value is not None and not 0 <= value < most:
            raise UnderstudyError(f"{name}={value} must be at least 0 and below {most:g}; a share of 90% is 0.9")


def _largest(holds: Callable[[float], bool], high: float, exactness: float) -> float:
    """The largest value for which it holds, where it holds below and not above; 0 where it never does."""
    low = 0.0
    while high - low > exactness:
        middle = (low + high) / 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low
