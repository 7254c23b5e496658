"""What came out: one outcome per method and seed, gathered in a comparison with differences paired by seed.

comparison = us.compare(student, gold, pool)
comparison.accuracy("slam"), comparison.difference("slam", "gold only")
comparison.recommendation.choice                             # recommendation.py makes it
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from rich.table import Table

from understudy.comparison.interval import Array, Interval, chance, percent, signed, span
from understudy.errors import UnderstudyError
from understudy.store.notebook import Shown
from understudy.training.run import Run

LEVEL = 0.05


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
    """What to take: a method; "gold only": train on gold alone; "teacher": use its own labels; or "nothing"."""
    sentences: list[str]
    """Why, in words."""
    adjusted: dict[str, float]
    """Each method's p-value against the reference, corrected for how many were compared (Holm)."""
    student: str | None = None
    """The method to train a student with, where one is wanted; None: none of them is above chance."""
    expected: dict[str, float] = field(default_factory=dict)
    """Each option's accuracy, as far as what was measured says."""
    chances: dict[str, float] = field(default_factory=dict)
    """Each option's chance of being the best of them."""
    at_chance: list[str] = field(default_factory=list)
    """What does no better than naming the most common class every time."""


@dataclass
class Comparison(Shown):
    reference: str
    outcomes: dict[str, dict[int, Outcome]] = field(default_factory=dict)
    """method -> seed -> outcome."""
    constant: dict[int, Outcome] = field(default_factory=dict)
    """seed -> what naming the most common class every time would reach; empty where it is not known."""
    failed: dict[str, dict[int, str]] = field(default_factory=dict)
    """method -> seed -> why it could not be run."""
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

    def above_constant(self, method: str) -> Interval | None:
        """``method`` minus naming the most common class every time; None where that is not known."""
        mine = self._of(method)
        if not all(seed in self.constant for seed in mine) or _on_other_rows(mine.values(), self.constant.values()):
            return None
        if len(mine) > 1:
            return _interval(mine, {seed: self.constant[seed] for seed in mine})
        ((seed, one),) = mine.items()
        theirs = self.constant[seed]
        if one.judged is None or theirs.judged is None:
            return Interval.of([one.last - theirs.last])
        # The rows at least are several.
        return Interval.of(one.judged.right.astype(float) - theirs.judged.right)

    def lines(self) -> list[Line]:
        lines = []
        for method, by_seed in self.outcomes.items():
            chosen = [outcome.selected for outcome in by_seed.values() if outcome.selected is not None]
            compared = method != self.reference and bool(by_seed.keys() & self.outcomes.get(self.reference, {}).keys())
            selected = Interval.of(chosen) if len(chosen) == len(by_seed) else None
            difference = self.difference(method, self.reference) if compared else None
            lines.append(Line(method, self.accuracy(method), selected, difference))
        return lines

    def failures(self) -> list[str]:
        """What could not be run, a sentence for each method and reason."""
        sentences = []
        for method, by_seed in self.failed.items():
            seeds, reason = sorted(by_seed), by_seed[min(by_seed)].rstrip(".")
            where = "" if method not in self.outcomes else f" under seed{'s'[: len(seeds) > 1]} {_listed(seeds)}"
            sentences.append(f"{method} could not be run{where}: {reason}.")
        return sentences

    def table(self) -> Table:
        """For a terminal, in percent."""
        lines = self.lines()
        columns = {"last": "last epoch", "last_span": "95% interval"}
        if any(line.selected is not None for line in lines):
            columns["selected"] = "epoch chosen on gold"
        columns |= {"difference": f"minus {self.reference}", "difference_span": "95% interval"}
        chances = {} if self.recommendation is None else self.recommendation.chances
        table = Table(title=f"Test accuracy in %, {len(self.seeds)} seeds", title_justify="left", title_style="bold")
        table.add_column("method", no_wrap=True)
        for heading in columns.values():
            table.add_column(heading, justify="right")
        if chances:
            table.add_column("best with chance", justify="right")
        for line in lines:
            texts = line.texts()
            best = [chance(chances.get(line.method))] if chances else []
            table.add_row(line.method, *(texts[column] for column in columns), *best)
        for method in self.failed:
            if method not in self.outcomes:
                table.add_row(method, "not run", *[""] * (len(columns) - 1))
        return table

    def as_dict(self) -> dict[str, Any]:
        """Everything in the table, in words and per seed, as JSON can hold it."""
        said = self.recommendation
        adjusted, chances = ({}, {}) if said is None else (said.adjusted, said.chances)
        methods = {
            line.method: {
                "last": _as_dict(line.last),
                "selected": _as_dict(line.selected),
                f"minus_{self.reference}": _as_dict(line.difference),
                "adjusted_p": adjusted.get(line.method),
                "chance_best": chances.get(line.method),
                "seeds": {
                    str(seed): {"last": outcome.last, "selected": outcome.selected}
                    for seed, outcome in sorted(self.outcomes[line.method].items())
                },
            }
            for line in self.lines()
        }
        return {
            "reference": self.reference, "seeds": self.seeds, "methods": methods,
            "failed": {
                method: {str(seed): reason for seed, reason in sorted(by_seed.items())}
                for method, by_seed in self.failed.items()
            },
            "recommendation": None if self.recommendation is None else vars(self.recommendation),
            "notes": self.notes, "warnings": self.warnings,
        }  # fmt: skip

    def _of(self, method: str) -> dict[int, Outcome]:
        if method not in self.outcomes:
            raise UnderstudyError(f"no results for {method!r}; there are {', '.join(self.outcomes) or 'none'}")
        return self.outcomes[method]


def _listed(seeds: list[int]) -> str:
    return ", ".join(map(str, seeds))


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
