"""What came out: one outcome per method and seed, gathered in a comparison with differences paired by seed.

Which method to take, in words; "no method differs from vanilla" and "train on gold alone" are answers.

Every method is held against the reference by its paired difference. With several methods one of them looks good by
luck, so the p-values are Holm-corrected: the smallest is multiplied by the number of methods, the next by one less, and
so on. Where nothing differs in truth, some method is declared different in at most 5% of comparisons. Among those that
are better, the simplest that cannot be told apart from the highest mean is taken where that is training on gold alone.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from rich.table import Table

from understudy.comparison.interval import Array, Interval, percent, signed, span
from understudy.errors import UnderstudyError
from understudy.maths.proportions import holm
from understudy.training.run import Run

TEACHER, GOLD_ONLY, VANILLA, RECONCILED = "teacher", "gold only", "vanilla", "reconciled"


@dataclass(frozen=True)
class Correct:
    """Which test rows (their numbers) were classified rightly, at the last epoch."""

    rows: Array
    right: Array


@dataclass(frozen=True)
class Outcome:
    """What one method reached under one seed."""

    last: float
    selected: float | None = None
    history: list[dict[str, float]] = field(default_factory=list)
    facts: dict[str, float] = field(default_factory=dict)
    judged: Correct | None = field(default=None, compare=False)

    @classmethod
    def of(cls, result: "Run | float") -> "Outcome":
        """From a run, or from a bare accuracy (of the teacher, which was not trained here)."""
        if not isinstance(result, Run):
            return cls(last=float(result))
        metrics = result.metrics("test")
        if "accuracy" not in metrics.get("last", {}):
            raise UnderstudyError("a run without test rows cannot be compared; pass test= to us.train")
        selected = metrics.get("selected", {}).get("accuracy")
        # A student that was fine-tuned is judged as it then is.
        last = metrics.get("finetuned", metrics["last"])["accuracy"]
        return cls(last, selected, result.history, result.facts)


@dataclass(frozen=True)
class Line:
    """One row of the table. ``difference`` is to the reference, paired by seed."""

    method: str
    last: Interval
    selected: Interval | None
    difference: Interval | None

    def texts(self) -> dict[str, str]:
        """In percent and points, as every table shows them; empty where there is nothing."""
        texts = {}
        for name, value, show in (
            ("last", self.last, percent), ("selected", self.selected, percent), ("difference", self.difference, signed),
        ):  # fmt: skip
            texts[name] = "" if value is None else show(value.mean)
            texts[f"{name}_span"] = "" if value is None else span(value, show)
        return texts


@dataclass(frozen=True)
class Recommendation:
    choice: str
    """The method to take; "gold only" means to train on gold alone."""
    sentences: list[str]
    """Why, in words."""
    adjusted: dict[str, float]
    """Each method's p-value against the reference, corrected for how many were compared (Holm)."""


@dataclass
class Comparison:
    reference: str
    outcomes: dict[str, dict[int, Outcome]] = field(default_factory=dict)
    """method -> seed -> outcome."""
    recommendation: Recommendation | None = None
    notes: list[str] = field(default_factory=list)
    """What a reader of the table should know: a baseline that was not possible, how the test rows came about."""
    warnings: list[str] = field(default_factory=list)
    """What the trainings warned about, each text once."""

    def add(self, method: str, seed: int, outcome: Outcome) -> None:
        self.outcomes.setdefault(method, {})[seed] = outcome

    @property
    def seeds(self) -> list[int]:
        return sorted({seed for by_seed in self.outcomes.values() for seed in by_seed})

    def accuracy(self, method: str) -> Interval:
        """At the last epoch."""
        mine = self._of(method)
        return _interval(mine, dict.fromkeys(mine))

    def difference(self, method: str, other: str) -> Interval:
        """``method`` minus ``other``, paired over the seeds and rows both have; by Welch where they share no rows."""
        mine, theirs = self._of(method), self._of(other)
        if _on_other_rows(mine.values(), theirs.values()):
            return self.accuracy(method).minus(self.accuracy(other))
        return _interval(mine, {seed: theirs[seed] for seed in mine if seed in theirs})

    def lines(self) -> list[Line]:
        lines = []
        for method, by_seed in self.outcomes.items():
            chosen = [outcome.selected for outcome in by_seed.values() if outcome.selected is not None]
            compared = method != self.reference and self.reference in self.outcomes
            selected = Interval.of(chosen) if len(chosen) == len(by_seed) else None
            difference = self.difference(method, self.reference) if compared else None
            lines.append(Line(method, self.accuracy(method), selected, difference))
        return lines

    def table(self) -> Table:
        """For a terminal, in percent."""
        lines = self.lines()
        columns = {"last": "last epoch", "last_span": "95% interval"}
        if any(line.selected is not None for line in lines):
            columns["selected"] = "epoch chosen on gold"
        columns |= {"difference": f"minus {self.reference}", "difference_span": "95% interval"}
        table = Table(title=f"Test accuracy in %, {len(self.seeds)} seeds", title_justify="left", title_style="bold")
        table.add_column("method", no_wrap=True)
        for heading in columns.values():
            table.add_column(heading, justify="right")
        for line in lines:
            texts = line.texts()
            table.add_row(line.method, *(texts[column] for column in columns))
        return table

    def as_dict(self) -> dict[str, Any]:
        """Everything in the table, in words and per seed, as JSON can hold it."""
        adjusted = {} if self.recommendation is None else self.recommendation.adjusted
        methods = {
            line.method: {
                "last": _as_dict(line.last),
                "selected": _as_dict(line.selected),
                f"minus_{self.reference}": _as_dict(line.difference),
                "adjusted_p": adjusted.get(line.method),
                "seeds": {
                    str(seed): {"last": outcome.last, "selected": outcome.selected}
                    for seed, outcome in sorted(self.outcomes[line.method].items())
                },
            }
            for line in self.lines()
        }
        return {
            "reference": self.reference, "seeds": self.seeds, "methods": methods,
            "recommendation": None if self.recommendation is None else vars(self.recommendation),
            "notes": self.notes, "warnings": self.warnings,
        }  # fmt: skip

    def _of(self, method: str) -> dict[int, Outcome]:
        if method not in self.outcomes:
            raise UnderstudyError(f"no results for {method!r}; there are {', '.join(self.outcomes) or 'none'}")
        return self.outcomes[method]


Trainings = Callable[[int], Mapping[str, Callable[[], Any]]]
"""seed -> method -> a function that trains and returns a Run, or measures and returns an accuracy."""


def run_cells(
    trainings: Trainings,
    seeds: Iterable[int],
    *,
    reference: str,
    on_done: Callable[[str, int, Outcome], None] = lambda method, seed, outcome: None,
) -> Comparison:
    """Functions of a caller's own: every method under every seed, one after the other in this process."""
    comparison = Comparison(reference)
    for seed in seeds:
        for method, train in trainings(seed).items():
            outcome = Outcome.of(train())
            comparison.add(method, seed, outcome)
            on_done(method, seed, outcome)
    return comparison


def _on_other_rows(mine: Iterable[Outcome], theirs: Iterable[Outcome]) -> bool:
    """Whether both say on which rows they were judged, and share none: a teacher that is known on gold only."""
    judged = [[one.judged for one in each] for each in (mine, theirs)]
    if any(one is None for each in judged for one in each):
        return False
    ours, others = (np.concatenate([one.rows for one in each if one is not None]) for each in judged)
    return not np.isin(ours, others).any()


def _interval(mine: Mapping[int, Outcome], others: Mapping[int, Outcome | None]) -> Interval:
    """Of the accuracies, less the others' where there are such; over rows too where all say which were right."""
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
    return Interval.crossed(values, rows) if values else Interval.of(gaps)


def _as_dict(interval: Interval | None) -> dict[str, float | None] | None:
    if interval is None:
        return None
    low, high = (interval.low, interval.high) if interval.count > 1 else (None, None)
    return {"mean": interval.mean, "low": low, "high": high}


LEVEL = 0.05


def recommend(comparison: Comparison) -> Recommendation:
    reference = comparison.reference
    rivals = [method for method in comparison.outcomes if method not in (reference, TEACHER)]
    gaps = {method: comparison.difference(method, reference) for method in rivals}
    adjusted = dict(zip(rivals, holm([gap.p_value for gap in gaps.values()]).tolist(), strict=True))
    if len(comparison.seeds) < 2:
        sentence = f"A single seed cannot tell the methods apart; run 5 or more. Until then take {reference}."
        return Recommendation(reference, [sentence], adjusted)
    differs = [method for method in rivals if adjusted[method] < LEVEL]
    better = [method for method in differs if gaps[method].mean > 0]
    choice = _choice(comparison, better)
    if choice == reference:
        sentences = [_nothing_better(reference, differs, len(rivals))]
    else:
        sentences = [_take(choice, gaps[choice], reference, len(rivals))]
        sentences += _also(comparison, choice, better)
    sentences += _gold(comparison, choice) + _teacher(comparison, choice)
    return Recommendation(choice, sentences, adjusted)


def _choice(comparison: Comparison, better: list[str]) -> str:
    if not better:
        return comparison.reference
    best = max(better, key=lambda method: comparison.accuracy(method).mean)
    alike = GOLD_ONLY in better and not comparison.difference(best, GOLD_ONLY).excludes_zero
    return GOLD_ONLY if alike else best


def _nothing_better(reference: str, differs: list[str], count: int) -> str:
    if not differs:
        return f"No method differs from {reference} (of {count} compared, corrected for that number): take {reference}."
    worse = f"{', '.join(differs)} {'is' if len(differs) == 1 else 'are'} worse"
    return f"No method is better than {reference}, and {worse}: take {reference}."


def _take(choice: str, gap: Interval, reference: str, count: int) -> str:
    what = "Train on gold alone: the pool's labels do harm here" if choice == GOLD_ONLY else f"Take {choice}"
    return (
        f"{what}. It is ahead of {reference} by {_numbers(gap)}, which holds after correction for the {count} methods "
        "compared."
    )


def _also(comparison: Comparison, choice: str, better: list[str]) -> list[str]:
    alike = [m for m in better if m != choice and not comparison.difference(m, choice).excludes_zero]
    return [f"It cannot be told apart from {', '.join(alike)}."] if alike else []


def _gold(comparison: Comparison, choice: str) -> list[str]:
    """Whether the pool is worth having."""
    if GOLD_ONLY not in comparison.outcomes or choice == GOLD_ONLY:
        return []
    gap = comparison.difference(choice, GOLD_ONLY)
    if not gap.excludes_zero:
        return [f"The pool is not shown to help: {choice} minus training on gold alone is {_numbers(gap)}."]
    if gap.mean > 0:
        return [f"The pool pays: {choice} is ahead of training on gold alone by {_numbers(gap)}."]
    ahead = _numbers(comparison.difference(GOLD_ONLY, choice))
    return [f"Training on gold alone is ahead of {choice} by {ahead} before correction; look again."]


def _teacher(comparison: Comparison, choice: str) -> list[str]:
    if TEACHER not in comparison.outcomes:
        return []
    gap, right = comparison.difference(choice, TEACHER), percent(comparison.accuracy(TEACHER).mean)
    if not gap.excludes_zero:
        return [f"The student cannot be told apart from its teacher ({right}%)."]
    if gap.mean > 0:
        return [f"The student beats its teacher ({right}%) by {_numbers(gap)}."]
    return [f"The student stays behind its teacher ({right}%) by {_numbers(comparison.difference(TEACHER, choice))}."]


def _numbers(gap: Interval) -> str:
    return f"{signed(gap.mean).lstrip('+')} points (95% interval {signed(gap.low)} to {signed(gap.high)})"
