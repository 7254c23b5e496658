"""Each annotator or rule by itself, where the labels are votes: how often it is right, how much it covers, how often
others contradict it, and what it adds.

*Adds* is the log-loss that gold rows lose by it: the votes are weighed as ``us.Votes(by="gold")`` would, every row by
sources counted on other rows, with this source and without it. A copy of another source adds nothing, however good it
is; below 0 the labels are better without it. The interval is the paired t-interval over gold rows, the p-value that of
the same test, corrected for the number of sources by Holm's rule.

    found = us.audit(gold, pool)
    [(one.name, one.accuracy, one.adds.mean) for one in found.sources.each]
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from scipy.special import stdtr
from torch import Tensor

from understudy.auditing.measures import SURE
from understudy.auditing.record import Record
from understudy.comparison.interval import Interval
from understudy.data.examples import Pool
from understudy.labels.votes import Votes
from understudy.maths.proportions import Share, exact, holm
from understudy.maths.source_confusion import without_each


@dataclass(frozen=True)
class Source:
    name: str
    accuracy: Share
    """Of the gold rows it votes on."""
    coverage: float
    """Of all pool rows (of gold rows, without a pool), those it votes on."""
    overlap: float
    """Of those it votes on, where another votes too; 0 where it never votes."""
    conflict: float
    """Of those, where another votes otherwise."""
    adds: Interval
    """Log-loss of a gold row (nats) without it minus with it."""
    rights: int
    """Gold rows that are right because of it, less those that are wrong because of it."""

    p_value: float
    """That it adds nothing, corrected for the number of sources."""

    @property
    def harms(self) -> bool:
        """Whether the labels are surely better without it."""
        return self.adds.mean < 0 and self.p_value < SURE


@dataclass(frozen=True)
class AuditedSources:
    each: Sequence[Source]
    """What adds most, first."""
    accuracy: Share
    """Of the votes weighed by gold, cross-fitted, on the gold rows with a vote."""
    majority: Share
    """Of their majority."""


def sources_of(record: Record, pool: Pool | None) -> AuditedSources | None:
    """None where the labels are no votes of several."""
    on_gold = record.gold.labels
    on_pool = on_gold if pool is None else pool.teacher
    if not isinstance(on_gold, Votes) or not isinstance(on_pool, Votes):
        return None
    truth = torch.from_numpy(record.truth)
    loss, right = without_each(on_gold.votes, truth, on_gold.classes)
    spoken = on_gold.votes >= 0
    rights = ((on_gold.votes == truth.unsqueeze(1)) & spoken).sum(0).tolist()
    adds = [Interval.of(gains) for gains in (loss[:, 1:] - loss[:, :1]).T.tolist()]
    decided = (right[:, :1].long() - right[:, 1:].long()).sum(0).tolist()
    coverage, overlap, conflict = _company(on_pool.votes)
    names = on_gold.sources or tuple(map(str, range(len(rights))))
    each = [
        Source(*one)
        for one in zip(
            names, map(exact, rights, spoken.sum(0).tolist()), coverage, overlap, conflict, adds, decided,
            holm([_by_chance(one) for one in adds]).tolist(), strict=True,
        )
    ]  # fmt: skip
    majority = Votes(on_gold.votes, on_gold.classes).top1() == truth
    shares = (exact(int(each_right.sum()), len(truth)) for each_right in (right[:, 0], majority))
    return AuditedSources(sorted(each, key=lambda one: -one.adds.mean), *shares)


def _by_chance(adds: Interval) -> float:
    """p-value of the paired t-test; 1 where nothing varies."""
    return 2 * float(stdtr(adds.freedom, -abs(adds.mean) / adds.error)) if adds.error > 0 else 1.0


def _company(votes: Tensor) -> tuple[list[float], list[float], list[float]]:
    """Per source: the share of rows it votes on; of those, where another votes too, and where another disagrees."""
    spoken = votes >= 0
    together = spoken.sum(1, keepdim=True) > 1
    low = torch.where(spoken, votes, torch.iinfo(votes.dtype).max).amin(1, keepdim=True)
    disputed = (low != votes.amax(1, keepdim=True)) & together
    count = spoken.sum(0)
    shares = [(spoken & which).sum(0) / count.clamp(min=1) for which in (together, disputed)]
    return (count / max(len(votes), 1)).tolist(), shares[0].tolist(), shares[1].tolist()
