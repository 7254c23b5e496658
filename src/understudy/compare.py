"""Methods side by side over seeds: means, 95% intervals, and differences paired by seed.

    comparison = run_cells(trainings, seeds=range(10), reference="vanilla")
    print(comparison.lines()); rich.print(comparison.table())

``trainings(seed)`` builds the situation of one seed (its split, its teacher) and returns one function per method, so
that every method of a seed meets the same data. Differences are therefore taken within seeds: what makes one split
harder than another cancels. Reported are the last epoch and, where there was a select set, the epoch it chose; never
the best test epoch.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from rich.table import Table
from scipy.special import stdtrit

from understudy.errors import UnderstudyError
from understudy.run import Run


@dataclass(frozen=True)
class Interval:
    """A mean and its 95% t-interval; infinitely wide for a single value."""

    mean: float
    low: float
    high: float
    count: int

    @classmethod
    def of(cls, values: Iterable[float]) -> "Interval":
        numbers = list(values)
        if not numbers:
            raise UnderstudyError("there is nothing to average; run at least one seed")
        count, mean = len(numbers), math.fsum(numbers) / len(numbers)
        if count == 1:
            return cls(mean, -math.inf, math.inf, 1)
        variance = math.fsum((number - mean) ** 2 for number in numbers) / (count - 1)
        half = float(stdtrit(count - 1, 0.975)) * math.sqrt(variance / count)
        return cls(mean, mean - half, mean + half, count)

    @property
    def excludes_zero(self) -> bool:
        return self.low > 0 or self.high < 0


@dataclass(frozen=True)
class Outcome:
    """What one method reached under one seed."""

    last: float
    selected: float | None = None
    history: list[dict[str, float]] = field(default_factory=list)
    facts: dict[str, float] = field(default_factory=dict)

    @classmethod
    def of(cls, result: "Run | float") -> "Outcome":
        """From a run, or from a bare accuracy (of the teacher, which was not trained here)."""
        if not isinstance(result, Run):
            return cls(last=float(result))
        found = result.metrics("test")
        if "accuracy" not in found.get("last", {}):
            raise UnderstudyError("a run without test rows cannot be compared; pass test= to us.train")
        selected = found.get("selected", {}).get("accuracy")
        # A student that was fine-tuned is judged as it then is.
        last = found.get("finetuned", found["last"])["accuracy"]
        return cls(last, selected, result.history, result.facts)


@dataclass(frozen=True)
class Line:
    """One row of the table. ``difference`` is to the reference, paired by seed."""

    method: str
    last: Interval
    selected: Interval | None
    difference: Interval | None


@dataclass
class Comparison:
    reference: str
    outcomes: dict[str, dict[int, Outcome]] = field(default_factory=dict)
    """method -> seed -> outcome."""

    def add(self, method: str, seed: int, outcome: Outcome) -> None:
        self.outcomes.setdefault(method, {})[seed] = outcome

    @property
    def seeds(self) -> list[int]:
        return sorted({seed for by_seed in self.outcomes.values() for seed in by_seed})

    def difference(self, method: str, other: str) -> Interval:
        """``method`` minus ``other``, paired over the seeds both have."""
        mine, theirs = self._of(method), self._of(other)
        return Interval.of(mine[seed].last - theirs[seed].last for seed in mine if seed in theirs)

    def lines(self) -> list[Line]:
        found = []
        for method, by_seed in self.outcomes.items():
            chosen = [outcome.selected for outcome in by_seed.values() if outcome.selected is not None]
            compared = method != self.reference and self.reference in self.outcomes
            found.append(
                Line(
                    method=method,
                    last=Interval.of(outcome.last for outcome in by_seed.values()),
                    selected=Interval.of(chosen) if len(chosen) == len(by_seed) else None,
                    difference=self.difference(method, self.reference) if compared else None,
                )
            )
        return found

    def table(self) -> Table:
        """For a terminal, in percent."""
        lines = self.lines()
        table = Table(title=f"Test accuracy in %, {len(self.seeds)} seeds", title_justify="left", title_style="bold")
        table.add_column("method", no_wrap=True)
        for heading in ("last epoch", "95% interval"):
            table.add_column(heading, justify="right")
        selects = any(line.selected is not None for line in lines)
        if selects:
            table.add_column("epoch chosen on gold", justify="right")
        table.add_column(f"minus {self.reference}", justify="right")
        table.add_column("95% interval", justify="right")
        for line in lines:
            chosen = [percent(line.selected.mean) if line.selected else ""] if selects else []
            gap = ["", ""] if line.difference is None else [signed(line.difference.mean), span(line.difference, signed)]
            table.add_row(line.method, percent(line.last.mean), span(line.last, percent), *chosen, *gap)
        return table

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
    """Every method under every seed, one after the other."""
    comparison = Comparison(reference)
    for seed in seeds:
        for method, train in trainings(seed).items():
            outcome = Outcome.of(train())
            comparison.add(method, seed, outcome)
            on_done(method, seed, outcome)
    return comparison


def percent(share: float) -> str:
    return f"{100 * share:.1f}"


def signed(difference: float) -> str:
    """A difference in points, with its sign (none on what rounds to 0)."""
    text = f"{100 * difference:+.1f}"
    return "0.0" if float(text) == 0 else text.replace("-", "−")


def span(interval: Interval, show: Callable[[float], str]) -> str:
    """An interval as text; a dash where a single seed gives none."""
    return "–" if interval.count < 2 else f"{show(interval.low)} to {show(interval.high)}"
