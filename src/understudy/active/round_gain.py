"""The gain of a round: accuracy before and after on the same rows, and its cost.

The rows are those of the test set, or, without one, the gold rows that were drawn at random, cross-validated. A record
keeps which of them were predicted correctly, so that two rounds are compared row by row.

    correct = correct_rows(student, test)               # "1101…", one digit a row
    RoundGain.of(records[-2], records[-1], price=0.5)   # .accuracy, .gain with their intervals, .per_point
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from understudy.comparison.interval import Interval
from understudy.data.examples import Gold
from understudy.inference.passes import predicted
from understudy.maths.proportions import Share, exact

CORRECT, TEST_ROWS = "correct", "test_rows"
"""Keys of a record: the correct rows, and the fingerprint of the test rows."""


def correct_rows(student: nn.Module, test: Gold) -> str:
    """Whether each test row is predicted correctly, 1 or 0."""
    return as_digits(predicted(student, test.rows) == test.y)


def as_digits(correct: Tensor) -> str:
    return "".join("1" if one else "0" for one in correct.tolist())


@dataclass(frozen=True)
class RoundGain:
    """One round."""

    round: int
    labels: int
    """Requested so far."""
    cost: float
    """Paid so far."""
    accuracy: Share | None
    """None: no rows to measure it on."""
    gain: Interval | None
    """Of accuracy since the round before; None in the first, and where it was measured on other rows."""
    spent: float
    """On this round alone."""

    @property
    def per_point(self) -> float | None:
        """Cost per point of accuracy in this round; None without a gain."""
        return None if self.gain is None or self.gain.mean <= 0 else self.spent / (100 * self.gain.mean)

    @classmethod
    def of(cls, before: Mapping[str, Any] | None, record: Mapping[str, Any], price: float) -> "RoundGain":
        former = before or {}
        correct, last = record.get(CORRECT), former.get(CORRECT)
        requested = record["requested"] - former.get("requested", 0)
        share = None if not correct else exact(correct.count("1"), len(correct))
        gain = None
        if correct and last and len(correct) == len(last) and former.get(TEST_ROWS) == record.get(TEST_ROWS):
            gain = Interval.of(int(now) - int(then) for now, then in zip(correct, last, strict=True))
        return cls(record["round"], record["requested"], price * record["requested"], share, gain, price * requested)


def round_gains(records: Sequence[Mapping[str, Any]], price: float) -> list[RoundGain]:
    return [RoundGain.of(before, record, price) for before, record in zip([None, *records], records, strict=False)]
