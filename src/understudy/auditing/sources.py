"""Each annotator or rule by itself, where the labels are votes: accuracy, coverage, conflicts, and marginal gain.

The *gain* of a source is the log-loss on gold that it saves: the votes are weighted as ``us.Votes(by="gold")`` would,
cross-fitted, with this source and without it. A copy of another source has a gain of 0, however good it is; below 0 the
labels are better without it. The interval is the paired t-interval over gold rows, wider by how far the folds' fits
differ (``proportions.fold_effects``), the p-value that of the same test, corrected for the number of sources by Holm's
rule.

    audit = us.audit(gold, pool)
    [(source.name, source.accuracy, source.gain.mean) for source in audit.sources.each]
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from understudy.auditing.measures import SIGNIFICANT, AuditData
from understudy.comparison.interval import Interval
from understudy.data.examples import Pool
from understudy.labels.votes import Votes
from understudy.maths.proportions import Share, cross_validated, disagreement, exact, fold_effects, holm, two_sided
from understudy.maths.source_confusion import without_each


@dataclass(frozen=True)
class AuditedSource:
    name: str
    #: On the gold rows it votes on.
    accuracy: Share
    #: Share of the pool (of gold, without a pool) that it votes on.
    coverage: float
    #: Of those rows, the share on which another source votes too; 0 where it never votes.
    overlap: float
    #: Of those rows, the share on which another source votes for another class.
    conflict: float
    #: Log-loss of a gold row (nats) without it minus with it.
    gain: Interval
    #: Gold rows that are right because of it, minus those that are wrong because of it.
    net_correct: int
    #: Of a gain of 0, corrected for the number of sources.
    p_value: float

    @property
    def harms(self) -> bool:
        """Whether the labels are significantly better without it."""
        return self.gain.mean < 0 and self.p_value < SIGNIFICANT


@dataclass(frozen=True)
class VoteModel:
    """Votes combined otherwise than by majority, on gold."""

    by: str
    #: Rows that only this model has right.
    better: int
    #: Rows that only the majority has right.
    worse: int

    @property
    def p_value(self) -> float:
        """Of McNemar's test."""
        return two_sided(self.better, self.better + self.worse)


@dataclass(frozen=True)
class AuditedSources:
    #: The largest gain first.
    each: Sequence[AuditedSource]
    #: Of the votes weighted by gold, cross-fitted, on the gold rows with a vote.
    accuracy: Share
    #: Of their majority.
    majority: Share
    #: Against the majority, where that is how the pool's votes are combined.
    models: Sequence[VoteModel] = ()


def audit_sources(data: AuditData, pool: Pool | None) -> AuditedSources | None:
    """Every source of the votes; None for other labels."""
    on_gold = data.gold.labels
    on_pool = on_gold if pool is None else pool.teacher
    if not isinstance(on_gold, Votes) or not isinstance(on_pool, Votes):
        return None
    truth = torch.from_numpy(data.truth)
    loss, predicted, fold = without_each(on_gold.votes, truth, on_gold.classes)
    gained, own = loss[:, :, 1:] - loss[:, :, :1], (fold, torch.arange(len(fold)))
    effects = fold_effects(gained.numpy(), gained[own].numpy())
    right = predicted[own] == truth.unsqueeze(1)
    voted = on_gold.votes >= 0
    correct = ((on_gold.votes == truth.unsqueeze(1)) & voted).sum(0).tolist()
    gains = [Interval.of(gain).widened(effect) for gain, effect in zip(gained[own].T.tolist(), effects, strict=True)]
    net_correct = (right[:, :1].long() - right[:, 1:].long()).sum(0).tolist()
    names = on_gold.sources or tuple(map(str, range(len(correct))))
    accuracies, p_values = map(exact, correct, voted.sum(0).tolist()), holm([gain.p_value for gain in gains]).tolist()
    each = list(map(AuditedSource, names, accuracies, *_overlaps(on_pool.votes), gains, net_correct, p_values))
    majority = Votes(on_gold.votes, on_gold.classes).top1() == truth
    weighted = cross_validated(int(right[:, 0].sum()), len(truth), disagreement(list(predicted[:, :, 0].numpy())))
    each.sort(key=lambda source: -source.gain.mean)
    return AuditedSources(each, weighted, exact(int(majority.sum()), len(truth)), _models(data, on_gold, truth))


def _models(data: AuditData, on_gold: Votes, truth: Tensor) -> list[VoteModel]:
    pool = None if data.pool is None else data.pool.labels
    if not isinstance(pool, Votes) or pool.by != "majority":
        return []
    by_gold, known = Votes(on_gold.votes, on_gold.classes, by="gold"), torch.ones_like(truth, dtype=torch.bool)
    by_model = Votes(on_gold.votes, on_gold.classes, by=pool.dawid_skene())
    combined = {"gold": by_gold.cross_fitted(truth, known), "dawid_skene": by_model}
    wrong = {by: votes.top1().numpy() != data.truth for by, votes in combined.items()}
    return [VoteModel(by, int((data.wrong & ~w).sum()), int((w & ~data.wrong).sum())) for by, w in wrong.items()]


def _overlaps(votes: Tensor) -> tuple[list[float], list[float], list[float]]:
    """Per source: coverage; of the rows it votes on, those with another vote, and those with a conflicting one."""
    voted = votes >= 0
    several = voted.sum(1, keepdim=True) > 1
    low = torch.where(voted, votes, torch.iinfo(votes.dtype).max).amin(1, keepdim=True)
    disputed = (low != votes.amax(1, keepdim=True)) & several
    count = voted.sum(0)
    overlap, conflict = ((voted & which).sum(0) / count.clamp(min=1) for which in (several, disputed))
    return (count / max(len(votes), 1)).tolist(), overlap.tolist(), conflict.tolist()
