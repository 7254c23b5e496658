"""What a round's labels bought: accuracy before and after on the same rows, and its price.

The rows are those of the test set, or, without one, the rows of gold that were drawn at random, cross-validated
(``training/evaluation.py``). A record keeps which of them were right, so that two rounds are compared row by row.

    judged = judge(student, test)                    # "1101…", one letter a row
    Bought.of(records[-2], records[-1], price=0.5)   # .accuracy, .gain with their intervals, .per_point
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from understudy.comparison.interval import Interval
from understudy.data.examples import Gold
from understudy.inference.passes import predicted
from understudy.maths.proportions import Share, exact

RIGHT, JUDGES = "right", "judged_on"
"""Where a record keeps it, and the fingerprint of the test rows."""


def judge(student: nn.Module, test: Gold) -> str:
    """Whether each test row is named rightly, 1 or 0."""
    return as_letters(predicted(student, test.rows) == test.y)


def as_letters(right: Tensor) -> str:
    return "".join("1" if one else "0" for one in right.tolist())


@dataclass(frozen=True)
class Bought:
    """One round."""

    round: int
    labels: int
    """Asked for so far."""
    cost: float
    """Paid so far."""
    accuracy: Share | None
    """None where nothing can judge it."""
    gain: Interval | None
    """Of the accuracy, since the round before; None in the first, and where other rows judge than before."""
    spent: float
    """On this round alone."""

    @property
    def per_point(self) -> float | None:
        """What a point of accuracy cost in this round; None where it brought none."""
        return None if self.gain is None or self.gain.mean <= 0 else self.spent / (100 * self.gain.mean)

    @classmethod
    def of(cls, before: Mapping[str, Any] | None, record: Mapping[str, Any], price: float) -> "Bought":
        former = before or {}
        right, last = record.get(RIGHT), former.get(RIGHT)
        asked = record["asked"] - former.get("asked", 0)
        share = None if not right else exact(right.count("1"), len(right))
        gain = None
        if right and last and len(right) == len(last) and former.get(JUDGES) == record.get(JUDGES):
            gain = Interval.of(int(now) - int(then) for now, then in zip(right, last, strict=True))
        return cls(record["round"], record["asked"], price * record["asked"], share, gain, price * asked)


def all_bought(records: Sequence[Mapping[str, Any]], price: float) -> list[Bought]:
    return [Bought.of(before, record, price) for before, record in zip([None, *records], records, strict=False)]
