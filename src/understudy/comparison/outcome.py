"""Results of a comparison: one outcome per method and seed, with differences paired by seed.

comparison = us.compare(student, gold, pool)
comparison.accuracy("slam"), comparison.difference("slam", "gold only")
comparison.recommendation.choice
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from understudy.comparison.interval import Array, Interval
from understudy.errors import UnderstudyError
from understudy.maths.metric_scores import ACCURACY, LOG_LOSS
from understudy.maths.proportions import design_effect, disagreement
from understudy.store.console import Shown, from_report
from understudy.training.run import Run

LEVEL = 0.05


@dataclass(frozen=True)
class Correct:
    """Test rows by number, and which of them were classified correctly at the last epoch; of another metric than
    accuracy, its values by row (``maths/metric_scores.py``)."""

    rows: Array
    right: Array


@dataclass(frozen=True)
class Outcome:
    """The result of one method under one seed."""

    last: float
    selected: float | None = None
    history: list[dict[str, float]] = field(default_factory=list)
    facts: dict[str, float] = field(default_factory=dict)
    judged: Correct | None = field(default=None, compare=False)
    #: Of the pool's first rows, where gold is split into folds.
    pool_classes: Sequence[int] = field(default=(), compare=False)

    @classmethod
    def of(cls, result: "Run | float") -> "Outcome":
        """From a run, or from an accuracy (of the teacher, which was not trained here)."""
        if not isinstance(result, Run):
            return cls(last=float(result))
        metrics = result.metrics("test")
        if "accuracy" not in metrics.get("last", {}):
            raise UnderstudyError("a run without test rows cannot be compared; pass test= to us.train")
        score = "score" if "score" in metrics["last"] else "accuracy"
        selected = metrics.get("selected", {}).get(score)
        # A fine-tuned student counts as it is after fine-tuning.
        last = metrics.get("finetuned", metrics["last"])[score]
        return cls(last, selected, result.history, result.facts)


@dataclass(frozen=True)
class ComparisonRow:
    """One row of the table. ``difference`` is to the reference, paired by seed."""

    method: str
    last: Interval
    selected: Interval | None
    difference: Interval | None


@dataclass(frozen=True)
class Recommendation:
    #: A method; "gold only"; "teacher": use its own labels; or "nothing".
    choice: str
    #: Each method's p-value against the reference, corrected for how many were compared (Holm).
    adjusted: dict[str, float]
    #: The best method to train a student with; None: none of them is above chance level.
    student: str | None = None
    #: Each option's expected accuracy, given the measurements.
    expected: dict[str, float] = field(default_factory=dict)
    #: The 95% interval of each.
    intervals: dict[str, tuple[float, float]] = field(default_factory=dict)
    #: Each option's probability of being the best of them.
    chances: dict[str, float] = field(default_factory=dict)
    #: What is not better than the majority-class baseline.
    at_chance: list[str] = field(default_factory=list)
    #: The ``OptionEstimates`` that these come from.
    posterior: Any = field(default=None, repr=False, compare=False)


@dataclass
class Comparison(Shown):
    reference: str
    #: Of the outcomes; log-loss is negative, so that more is better.
    metric: str = ACCURACY
    #: method -> seed -> outcome.
    outcomes: dict[str, dict[int, Outcome]] = field(default_factory=dict)
    #: seed -> the majority-class baseline; empty where it is unknown.
    majority: dict[int, Outcome] = field(default_factory=dict)
    #: method -> seed -> why it could not be run.
    failed: dict[str, dict[int, str]] = field(default_factory=dict)
    recommendation: Recommendation | None = None
    #: On how to read the table: a baseline that was not possible, where the test rows come from.
    notes: list[str] = field(default_factory=list)
    #: Warnings of the trainings, each once.
    warnings: list[str] = field(default_factory=list)

    def add(self, method: str, seed: int, outcome: Outcome) -> None:
        self.outcomes.setdefault(method, {})[seed] = outcome

    @property
    def seeds(self) -> list[int]:
        return sorted({seed for by_seed in self.outcomes.values() for seed in by_seed})

    def accuracy(self, method: str) -> Interval:
        """At the last epoch; by another ``metric``, that."""
        mine = self._of(method)
        highest = math.inf if self.metric == LOG_LOSS else 1.0
        found = _interval(mine, dict.fromkeys(mine), self.least)
        return found.widened(self.fold_effect(method), lowest=self.least, highest=highest)

    def fold_effect(self, method: str) -> float:
        """The variance of an accuracy in folds over that of as many independent rows; by another ``metric`` 1."""
        cells = list(self._of(method).values())
        right = np.concatenate([np.zeros(0), *(one.judged.right for one in cells if one.judged is not None)])
        if self.metric != ACCURACY or not all(len(one.pool_classes) for one in cells):
            return 1.0
        return design_effect(right.sum(), len(right), disagreement([one.pool_classes for one in cells]))

    @property
    def metric_name(self) -> str:
        return str(from_report("run_text").NAMES["metrics"][self.metric])

    @property
    def least(self) -> float:
        """The least that a row can be."""
        return -math.inf if self.metric == LOG_LOSS else 0.0

    def difference(self, method: str, other: str) -> Interval:
        """``method`` minus ``other``, paired over the seeds and rows both have; by Welch where they share no rows."""
        mine, theirs = self._of(method), self._of(other)
        if _on_other_rows(mine.values(), theirs.values()):
            return self.accuracy(method).minus(self.accuracy(other))
        return _interval(mine, {seed: theirs[seed] for seed in mine if seed in theirs}, self.least - 1)

    def rows_only_in(self, method: str, other: str) -> int:
        """How many different test rows ``method`` is judged on and ``other`` is not."""

        def judged(name: str) -> set[int]:
            return {row for one in self._of(name).values() if one.judged for row in one.judged.rows.tolist()}

        return len(judged(method) - judged(other))

    def above_majority(self, method: str) -> Interval | None:
        """``method`` minus the majority-class baseline; None where that is unknown."""
        mine = self._of(method)
        if not all(seed in self.majority for seed in mine) or _on_other_rows(mine.values(), self.majority.values()):
            return None
        if len(mine) > 1:
            return _interval(mine, {seed: self.majority[seed] for seed in mine}, self.least - 1)
        ((seed, one),) = mine.items()
        theirs = self.majority[seed]
        if one.judged is None or theirs.judged is None:
            return Interval.of([one.last - theirs.last])
        # The rows at least are several.
        return Interval.of_rows(one.judged.right.astype(float) - theirs.judged.right, lowest=self.least - 1)

    def rows(self) -> list[ComparisonRow]:
        rows = []
        for method, by_seed in self.outcomes.items():
            chosen = [outcome.selected for outcome in by_seed.values() if outcome.selected is not None]
            compared = method != self.reference and bool(by_seed.keys() & self.outcomes.get(self.reference, {}).keys())
            selected = Interval.of(chosen) if len(chosen) == len(by_seed) else None
            difference = self.difference(method, self.reference) if compared else None
            rows.append(ComparisonRow(method, self.accuracy(method), selected, difference))
        return rows

    def table(self) -> Any:
        """For a terminal (``rich.print``), in percent."""
        return from_report("recommendation_text").comparison_table(self)

    @property
    def sentences(self) -> list[str]:
        """The recommendation and why, in sentences, and what else a reader of the table should know."""
        reasons = from_report("recommendation_text").recommendation_sentences(self)
        return [*reasons, *self.notes, *from_report("templates").sentences("comparison", "failures", self)]

    def as_dict(self) -> dict[str, Any]:
        """The table, the results per seed and the recommendation, for JSON."""
        found = self.recommendation
        adjusted, chances = ({}, {}) if found is None else (found.adjusted, found.chances)
        shown = None if found is None else {name: value for name, value in vars(found).items() if name != "posterior"}
        methods = {}
        for row in self.rows():
            by_seed = sorted(self.outcomes[row.method].items())
            methods[row.method] = {
                "last": _as_dict(row.last), "selected": _as_dict(row.selected),
                f"minus_{self.reference}": _as_dict(row.difference), "adjusted_p": adjusted.get(row.method),
                "probability_best": chances.get(row.method),
                "seeds": {str(seed): {"last": one.last, "selected": one.selected} for seed, one in by_seed},
            }  # fmt: skip
        failed = {name: {str(seed): why for seed, why in sorted(each.items())} for name, each in self.failed.items()}
        return {
            "reference": self.reference, "metric": self.metric, "seeds": self.seeds, "methods": methods,
            "failed": failed,
            "recommendation": shown, "sentences": self.sentences, "warnings": self.warnings,
        }  # fmt: skip

    def _of(self, method: str) -> dict[int, Outcome]:
        if method not in self.outcomes:
            raise UnderstudyError(f"no results for {method!r}; there are {', '.join(self.outcomes) or 'none'}")
        return self.outcomes[method]


#: seed -> method -> a function that trains and returns a Run, or measures and returns an accuracy.
Trainings = Callable[[int], Mapping[str, Callable[[], Any]]]


def run_cells(
    trainings: Trainings, seeds: Iterable[int], *, reference: str,
    on_done: Callable[[str, int, Outcome], None] = lambda method, seed, outcome: None,
) -> Comparison:  # fmt: skip
    """The caller's own trainings: every method under every seed, one after the other in this process."""
    comparison = Comparison(reference)
    for seed in seeds:
        for method, train in trainings(seed).items():
            outcome = Outcome.of(train())
            comparison.add(method, seed, outcome)
            on_done(method, seed, outcome)
    return comparison


def _on_other_rows(mine: Iterable[Outcome], theirs: Iterable[Outcome]) -> bool:
    """Whether both have per-row results and share no row: a teacher that is known on gold only."""
    judged = [[one.judged for one in each] for each in (mine, theirs)]
    if any(one is None for each in judged for one in each):
        return False
    ours, others = (np.concatenate([one.rows for one in each if one is not None]) for each in judged)
    return not np.isin(ours, others).any()


def _interval(mine: Mapping[int, Outcome], others: Mapping[int, Outcome | None], lowest: float) -> Interval:
    """Of the accuracies, minus the others' where given; over rows too where all have per-row results."""
    gaps = [mine[seed].last - (0.0 if other is None else other.last) for seed, other in others.items()]
    values, rows = [], []
    for seed, other in others.items():
        one, their = mine[seed].judged, None if other is None else other.judged
        if one is None or (their is None and other is not None):
            return Interval.of(gaps)
        if their is None:
            values.append(one.right.astype(float))
            rows.append(one.rows)
            continue
        # Where one is known on some rows only (the teacher), these decide.
        shared, mine_at, theirs_at = np.intersect1d(one.rows, their.rows, return_indices=True)
        if not len(shared):
            return Interval.of(gaps)
        values.append(one.right[mine_at].astype(float) - their.right[theirs_at])
        rows.append(shared)
    return Interval.crossed(values, rows, lowest=lowest) if values else Interval.of(gaps)


def _as_dict(interval: Interval | None) -> dict[str, float | None] | None:
    if interval is None:
        return None
    low, high = (interval.low, interval.high) if interval.count > 1 else (None, None)
    return {"mean": interval.mean, "low": low, "high": high}
