"""A mean with its 95% interval: over seeds, or over seeds and test rows at once.

``Interval.of`` is the t-interval of independent values. ``Interval.of_rows`` is for rows that are right or wrong, or
right by one method and wrong by another: two more rows are counted, one at either end of what a row can be (Agresti and
Coull, 1998; of a difference, Bonett and Price, 2012). Without them two methods that agree on all of 24 rows differ by 0
for certain, and the interval holds a difference of one point in half of all cases (``experiments/coverage.py``).

``Interval.crossed`` is for figures that share test rows: five seeds judged on the same 200 rows agree more with each
other than with the next 200 rows, so both the seeds and the rows count as drawn. The variance of the mean is then

    V = V_seeds + V_rows − V_cells

each from the residuals summed within a seed, within a row, and within nothing. Degrees of freedom follow Satterthwaite.
Where no row is tested twice, as in cross-fitting, the rows alone are counted: the five means of five folds of 5 rows
tell less of their variance than the 24 rows do.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from understudy.errors import UnderstudyError

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Interval:
    """A mean and its 95% t-interval; infinitely wide for a single value."""

    mean: float
    low: float
    high: float
    #: How many seeds.
    count: int
    #: The standard error of the mean.
    error: float = math.nan
    #: Its degrees of freedom.
    freedom: float = 0.0

    @classmethod
    def of(cls, values: Iterable[float]) -> "Interval":
        numbers = list(values)
        if not numbers:
            raise UnderstudyError("there is nothing to average; run at least one seed")
        count, mean = len(numbers), math.fsum(numbers) / len(numbers)
        if count == 1:
            return cls(mean, -math.inf, math.inf, 1)
        variance = math.fsum((number - mean) ** 2 for number in numbers) / (count - 1)
        return cls._around(mean, variance / count, count - 1, count)

    @classmethod
    def of_rows(cls, values: Array, *, lowest: float, count: int | None = None) -> "Interval":
        """Of one value a row in [``lowest``, 1]: 0 and 1 by whether it is right, −1 to 1 by a difference of two.

        Without such a bound (−∞) no row is added.
        """
        ends = _ends(lowest)
        rows, padded = len(values) + len(ends), np.concatenate([values, ends])
        found = cls._around(float(padded.mean()), float(padded.var()) / rows, max(rows - 3, 1), count or len(values))
        return found._within(float(values.mean()), lowest, rows)

    @classmethod
    def crossed(cls, values: Sequence[Array], rows: Sequence[Array], *, lowest: float = -1.0) -> "Interval":
        """One array of values per seed, one per test row in [``lowest``, 1]; ``rows`` says which rows these are."""
        count = len(values)
        seed_means = [float(mine.mean()) for mine in values]
        plain = cls.of(seed_means)
        if count == 1:
            return plain
        every, index = np.unique(np.concatenate(rows), return_inverse=True)
        judgements = zip(values, rows, strict=True)
        if all(np.array_equal(mine, values[0]) and np.array_equal(at, rows[0]) for mine, at in judgements):
            # One judgement, repeated: no seed had a hand in it (the teacher), and only the rows were drawn.
            return cls.of_rows(values[0], lowest=lowest, count=count)
        if len(every) == len(index):
            return cls.of_rows(np.concatenate(values), lowest=lowest, count=count)
        added = _ends(lowest)
        size = len(every) + len(added)
        centre = (len(every) * plain.mean + float(added.sum())) / size
        pieces = np.concatenate([(mine - centre) / (count * len(mine)) for mine in values])
        ends = float(((added - centre) ** 2).sum())
        of_rows = float((np.bincount(index, pieces) ** 2).sum()) * (len(every) / size) ** 2 + ends / size**2
        # Rows that add nothing to what seeds show must not take away from it either.
        of_seeds, beyond = plain.error**2, max(of_rows - float((pieces**2).sum()), 0.0)
        total = of_seeds + beyond
        spread = of_seeds**2 / (count - 1) + beyond**2 / max(len(every) - 1, 1)
        found = cls._around(centre, total, total**2 / spread if spread > 0 else count - 1, count)
        return found._within(plain.mean, lowest, size)

    def _within(self, mean: float, lowest: float, rows: int) -> "Interval":
        """The same ends, in [``lowest``, 1], of the mean without the two rows."""
        # A difference is that much larger than the middle of its interval, and has the middle's p-value.
        error = self.error * rows / (rows - len(_ends(lowest)))
        highest = -lowest if math.isinf(lowest) else 1.0
        return replace(self, mean=mean, low=max(self.low, lowest), high=min(self.high, highest), error=error)

    def widened(self, effect: float, *, lowest: float = -math.inf, highest: float = math.inf) -> "Interval":
        """With a variance ``effect`` times as large, between ``lowest`` and ``highest``."""
        low, high = (self.mean + math.sqrt(effect) * (end - self.mean) for end in (self.low, self.high))
        return replace(self, low=max(low, lowest), high=min(high, highest), error=math.sqrt(effect) * self.error)

    def minus(self, other: "Interval") -> "Interval":
        """The difference of two means that share neither seeds nor rows (Welch)."""
        if min(self.count, other.count) < 2:
            return Interval.of([self.mean - other.mean])
        parts = [(one.error**2, one.freedom) for one in (self, other)]
        total = sum(variance for variance, _ in parts)
        spread = sum(variance**2 / freedom for variance, freedom in parts)
        freedom = total**2 / spread if spread > 0 else self.freedom
        return self._around(self.mean - other.mean, total, freedom, min(self.count, other.count))

    @classmethod
    def _around(cls, mean: float, variance: float, freedom: float, count: int) -> "Interval":
        from scipy.special import stdtrit

        error = math.sqrt(variance)
        half = float(stdtrit(freedom, 0.975)) * error
        return cls(mean, mean - half, mean + half, count, error, freedom)

    @property
    def excludes_zero(self) -> bool:
        return self.low > 0 or self.high < 0

    @property
    def p_value(self) -> float:
        """Two-sided, of the mean being 0; 1 where a single seed tells nothing."""
        if self.count < 2:
            return 1.0
        if self.error == 0:
            return 1.0 if self.mean == 0 else 0.0
        from scipy.special import stdtr

        return float(2 * stdtr(self.freedom, -abs(self.mean) / self.error))


def _ends(lowest: float) -> Array:
    return np.array([] if math.isinf(lowest) else [lowest, 1.0])


def percent(share: float) -> str:
    return f"{100 * share:.1f}"


def chance(share: float | None) -> str:
    """A probability in whole percent that claims no certainty; empty for an option that is none."""
    if share is None:
        return ""
    return "< 1%" if share < 0.01 else "> 99%" if share > 0.99 else f"{100 * share:.0f}%"


def signed(difference: float) -> str:
    """A difference in points, with its sign (none on what rounds to 0)."""
    text = f"{100 * difference:+.1f}"
    return "0.0" if float(text) == 0 else text.replace("-", "−")


def span(interval: Interval, show: Callable[[float], str]) -> str:
    """An interval as text; a dash where a single seed gives none."""
    return "–" if interval.count < 2 else f"{show(interval.low)} to {show(interval.high)}"
