"""Noise watch: does a batch come from places where labels look random?

Every labelled row's k nearest labelled rows (itself left out) vote on its label; t labels tied for the most votes get
1/t each. A row is *contradicted* as far as the vote is not for its own label. Labels that have nothing to do with the
place would be contradicted at the rate *chance* = 1 − Σ_c (share of label c)(share of votes for c), as in Cohen's
kappa.

An unlabelled row lies in a place that *looks random* where its own k nearest labelled rows are contradicted more than
half as often as by chance, and more often than luck explains: P(Binomial(k, chance / 2) ≥ contradicted) ≤ 5%. With
ten even classes and k = 15 that is eleven or more. A border between classes stays below it as long as most labels
agree with their own neighbours. Distances are Euclidean between penultimate features; rows tied with the k-th
neighbour count as well.

The batch's share of such rows is compared with that of unlabelled rows drawn at random (`random_share`). `p_value` is
the chance of a batch at least so noisy if it had been drawn at random with them (hypergeometric, Fisher's exact test);
the warning needs p ≤ 1% and an excess of at least 10 points, because a useful batch may lie a little nearer to hard
places.

    watch = noise_watch(hidden, labelled, labels, batch, seed=0)
    watch.share, watch.random_share, watch.alarm
"""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from scipy.stats import binom, hypergeom
from torch import Tensor

from understudy.data.splits import random_rows

NEIGHBOURS = 15
TAIL = 0.05
ALARM_P_VALUE = 0.01
ALARM_EXCESS = 0.10
REFERENCE_ROWS = 1000  # keeps the standard error of the random share below 1.6 points


class NoiseWatch(NamedTuple):
    #: Of the batch: rows in places where labels look random.
    share: float
    #: The same of unlabelled rows drawn at random.
    random_share: float
    p_value: float

    def __str__(self) -> str:
        return (
            f"{self.share:.0%} of the batch comes from regions where labels look random, {self.random_share:.0%} of a "
            "random batch would"
        )

    @property
    def alarm(self) -> bool:
        return self.p_value <= ALARM_P_VALUE and self.share - self.random_share >= ALARM_EXCESS


def noise_watch(hidden: Tensor, labelled: Tensor, labels: Tensor, batch: Tensor, *, seed: int = 0) -> NoiseWatch:
    """``hidden`` (N, d) of the whole pool, row numbers and labels of the labelled rows, row numbers of the batch."""
    rest = torch.ones(len(hidden), dtype=torch.bool).index_fill(0, labelled, False).nonzero().squeeze(1)
    drawn = rest[random_rows(len(rest), REFERENCE_ROWS, seed)]
    return watch_features(hidden[labelled], labels, hidden[batch], hidden[drawn])


def watch_features(known: Tensor, labels: Tensor, batch: Tensor, drawn: Tensor) -> NoiseWatch:
    """The same of features alone: of the labelled rows, of the batch, and of unlabelled rows drawn at random."""
    k = min(NEIGHBOURS, len(known) - 1)
    if k < 1 or not len(batch):
        return NoiseWatch(0.0, 0.0, 1.0)
    known = known.double()
    wrong, chance = contradicted(known, labels, k)
    picked, reference = (looks_random(rows.double(), known, wrong, chance, k) for rows in (batch, drawn))
    noisy = int(picked.sum() + reference.sum())
    p_value = hypergeom.sf(int(picked.sum()) - 1, len(batch) + len(drawn), noisy, len(batch))
    return NoiseWatch(float(picked.double().mean()), float(reference.double().mean()), float(p_value))


def contradicted(known: Tensor, labels: Tensor, k: int) -> tuple[Tensor, float]:
    """(m,) in 0 … 1: how far its neighbours' vote is against each labelled row's label; and the rate by chance."""
    onehot = F.one_hot(labels).to(known.dtype)
    parts = []
    for rows in torch.arange(len(known)).split(1024):
        distance = _distances(known[rows], known)
        distance[torch.arange(len(rows)), rows] = torch.inf
        counts = _nearest(distance, k) @ onehot
        winners = (counts == counts.amax(1, keepdim=True)).to(known.dtype)
        parts.append(winners / winners.sum(1, keepdim=True))
    votes = torch.cat(parts)
    chance = 1 - float((onehot.mean(0) * votes.mean(0)).sum())
    return 1 - votes.gather(1, labels[:, None]).squeeze(1), chance


def looks_random(rows: Tensor, known: Tensor, wrong: Tensor, chance: float, k: int) -> Tensor:
    """(n,) bool: more contradicted labelled rows nearby than half the chance rate explains."""
    parts = []
    for part in rows.split(1024):
        near = _nearest(_distances(part, known), k)
        # Ties between votes leave fractions; the whole number below keeps the test on the safe side.
        count = (near @ wrong + 1e-9).floor()
        tail = binom.sf(count.numpy() - 1, near.sum(1).numpy(), chance / 2)
        parts.append(torch.from_numpy(tail <= TAIL))
    return torch.cat(parts)


def _distances(rows: Tensor, known: Tensor) -> Tensor:
    """Euclidean, in units of the labelled rows' typical length."""
    scale = known.square().sum(1).mean().sqrt().clamp_min(torch.finfo(known.dtype).tiny)
    return torch.cdist(rows / scale, known / scale)


def _nearest(distance: Tensor, k: int) -> Tensor:
    """1 for the k nearest columns of each row and those tied with the k-th, else 0."""
    last = distance.kthvalue(k, dim=1, keepdim=True).values
    # Equal images differ by 1e-7 after a float32 pass, and by 1e-8 after the matrix product of the distances.
    return (distance <= last + 1e-5).to(distance.dtype)
