"""Curves of top-k accuracy: what a ranking of the classes says for every k, and isotonic steps against it.

*Covariates.* Class probabilities in descending order, possibly only the first K of C. For the k-th column the covariate
is ``topk_margin(p, k)`` or minus ``grouped_entropy(p, k)``; computing all of them from one sort costs O(C) per row
instead of O(C²). They need no order of the classes and, for margins, only the k + 1 largest entries: ``leading`` gives
just those, thirty times faster than a stable sort and, for k = 1 and 2, eighty times.

*Steps.* ``sklearn.isotonic.IsotonicRegression`` interpolates between the fitted points; an accuracy estimate must not
invent values there, so the curve stays a step function: the value at c is the fitted value of the smallest training
covariate >= c, and the last value beyond the end. The pool-adjacent-violators fit itself is scipy's.

*Bands.* How sure an estimate of trust is: bootstrap bands.

The gold rows are redrawn, the curve fitted again, and the middle ``level`` of its values at a row is the band there.
Rows and responses are both redrawn: a step's responses come from its accuracy with one more right and one more wrong
row (Laplace). Redrawing the rows as they are would call a step certain where its few rows happened to be all right, and
then a 95% band held the truth in 30 to 70% of simulations at the sure end. An isotonic fit also bends at its ends, and
redrawn it bends once more, away from a flat truth: the band is the wider of the plain quantiles and the bias-corrected
ones (Efron, 1981), in order. It holds the truth in 97 to 99% where accuracy rises with confidence and in 92 to 98 where
it is flat (plain quantiles: 85 to 89), at the very ends of a flat one in 82 (58).

    curve = fit_steps(covariate, right)                                  # a StepCurve: call it with covariates
    curve_bands(covariate, right, queries, lower=0.5, level=0.95, repeats=200, rng=rng)
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from numpy.random import Generator
from numpy.typing import NDArray
from torch import Tensor

from understudy.maths.weights import neighbour_count, neighbour_means

Floats = NDArray[np.float64]
# Of rows as long as this, the three largest entries are found sooner one after the other than by a sort.
LONG_ROW = 200
# Entries ranked together: 0.5 MB as float32, which stay in the second-level cache.
_PIECE = 1 << 17
# Covariates compared with all knots at a time: 64 KB. A search of so few knots guesses its branches wrong, and takes as
# long as some 75 comparisons.
_TOGETHER, _FEW_KNOTS = 1 << 13, 64
# A class with few gold rows leans on the overall accuracy as if it had this many more rows of it.
PSEUDO_COUNT = 10


class Leading(NamedTuple):
    """The K largest entries ``(n, K)``, descending, without their classes; ``rest (n,)`` is the next largest.

    Grouped certainties need all the mass: read them off only where each unlisted class holds ``rest``.
    """

    probs: Tensor
    rest: Tensor
    classes: int

    @property
    def depths(self) -> int:
        """How many k have a covariate: top-k for k = 1 … depths, k < classes."""
        return min(self.probs.shape[1], self.classes - 1)


def as_entries(probs: Tensor) -> Floats:
    """As numpy's: it compares and counts 1,000 entries several times as fast as torch."""
    return (probs if probs.dtype in (torch.float32, torch.float64) else probs.float()).cpu().numpy()


def leading(probs: Tensor, depth: int) -> Leading:
    """The ``depth`` largest entries of dense rows and the one after them."""
    classes, wanted = probs.shape[1], min(depth + 1, probs.shape[1])
    entries = as_entries(probs)
    # Column by column in memory, as the covariates are read.
    largest = np.zeros((len(entries), depth + 1), entries.dtype, order="F")
    for start in range(0, len(entries), size := max(1, _PIECE // classes)):
        piece, out = entries[start : start + size], largest[start : start + size, :wanted]
        if wanted <= 3 and classes >= LONG_ROW:
            # 0.2 µs for each of 1,000 entries.
            _take_maxima(piece.copy(), out)
        else:
            out[:] = _sorted_tail(piece, wanted)[:, : -wanted - 1 : -1]
    found = torch.from_numpy(largest)
    return Leading(found[:, :depth], found[:, depth], classes)


def _sorted_tail(entries: Floats, wanted: int) -> Floats:
    """The ``wanted`` largest entries of each row in ascending order, perhaps behind others.

    Of two ascending lists of n entries, the larger of each entry and its opposite are the n largest. So a row is sorted
    in as many lists as are still long enough, and these are joined in pairs. numpy sorts up to 256 entries without a
    branch: of 1,000, the 250 largest take 2.5 µs, where sorting all takes 6, np.partition 5, and a stable argsort 65.
    """
    rows, classes = entries.shape
    lists = 1 << max(0, (classes // wanted).bit_length() - 1)
    padded = np.pad(entries, ((0, 0), (0, -classes % lists)), constant_values=-1)
    found = np.sort(padded.reshape(rows, lists, -1), axis=2)
    while found.shape[1] > 1:
        found = np.sort(np.maximum(found[:, ::2], found[:, 1::2, ::-1]), axis=2)
    return found[:, 0]


def _take_maxima(entries: Floats, largest: Floats) -> None:
    """The largest entries of each row, one column after the other; overwrites ``entries``."""
    rows = np.arange(len(entries))
    for column in largest.T:
        places = entries.argmax(1)
        column[:] = entries[rows, places]
        entries[rows, places] = -1


def positions(probs: Tensor, labels: Tensor) -> Tensor:
    """How many classes stand before the label in a row's ranking (equal entries in class order), ``(n,)``."""
    entries, own = as_entries(probs), as_entries(probs.gather(1, labels.unsqueeze(1)))
    places, equal = np.count_nonzero(entries > own, axis=1), entries == own
    tied = np.flatnonzero(np.count_nonzero(equal, axis=1) > 1)
    places[tied] += (equal[tied] & (np.arange(probs.shape[1]) < labels.numpy()[tied, None])).sum(1)
    return torch.from_numpy(places)


def margins_in_turn(scores: Leading) -> Iterator[Floats]:
    """``topk_margin(p, k)`` for k = 1, 2, … depths, one ``(n,)`` at a time."""
    columns = [*as_entries(scores.probs).T, as_entries(scores.rest)]
    head, following = 0.0, columns[0].astype(np.float64)
    for column in columns[1 : scores.depths + 1]:
        head, following = head + following, column.astype(np.float64)
        yield head - following


def certainties_in_turn(scores: Leading) -> Iterator[Floats]:
    """``−grouped_entropy(p, k)`` for k = 1, 2, … depths, one ``(n,)`` at a time: larger is surer, like a margin."""
    probs, rest = scores.probs.double(), scores.rest.double()
    head = probs.cumsum(1)
    pieces = probs.xlogy(probs)
    unlisted = (scores.classes - probs.shape[1]) * rest.xlogy(rest)
    after = pieces.sum(1, keepdim=True) - pieces.cumsum(1) + unlisted.unsqueeze(1)
    yield from (head.xlogy(head) + after)[:, : scores.depths].T.numpy()


COVARIATES = {"margin": margins_in_turn, "entropy": certainties_in_turn}


@dataclass(frozen=True)
class StepCurve:
    """``values[j]`` holds on ``(knots[j-1], knots[j]]``; the first reaches down to −∞, the last up to +∞."""

    knots: Tensor
    values: Tensor

    def __call__(self, covariate: Tensor) -> Tensor:
        inner, queries = self.knots[:-1].numpy(), covariate.detach().double().reshape(-1).numpy()
        if len(inner) > _FEW_KNOTS:
            return self.values[np.searchsorted(inner, queries)].reshape(covariate.shape)
        parts = np.split(queries, range(_TOGETHER, len(queries), _TOGETHER))
        # NaN is beyond every knot, as searchsorted has it.
        steps = [(~(part <= inner[:, None])).view(np.int8).sum(0, dtype=np.int8) for part in parts]
        return torch.from_numpy(self.values.numpy().take(np.concatenate(steps))).reshape(covariate.shape)

    def cutoff(self, level: float) -> float:
        """The curve is >= level exactly for covariates strictly greater than this (−∞ always, +∞ never)."""
        reached = int(torch.searchsorted(self.values, level))
        if reached == len(self.values):
            return float("inf")
        return float("-inf") if reached == 0 else float(self.knots[reached - 1])


def fit_steps(covariate: Floats, response: Floats, *, lower: float = 0.0, upper: float = 1.0) -> StepCurve:
    """Non-decreasing fit with values in [lower, upper]; rows with equal covariates share one value.

    Clipping the ordinary isotonic fit is the constrained least-squares solution, so no other solver is needed. Equal
    responses next to each other share a value too, so that rows with a response of 1 are sorted and counted between the
    others: a third of the time where most rows are right.
    """
    from scipy.optimize import isotonic_regression

    is_one = response == 1
    ones, rest = np.sort(covariate[is_one]), np.flatnonzero(~is_one)
    places, group = np.unique(covariate[rest], return_inverse=True)
    # In turn: the ones below the first place, then of each place the rows at it and the ones up to the next.
    ends = np.zeros(2 * len(places) + 2, dtype=np.intp)
    ends[1:-1:2], ends[2:-1:2] = ones.searchsorted(places), ones.searchsorted(places, "right")
    ends[-1] = len(ones)
    mass = (ends[1:] - ends[:-1]).astype(np.float64)
    # Where there is no row, the knot is any; it is dropped.
    knots = ones.take(ends[1:] - 1, mode="clip") if len(ones) else np.zeros(len(mass))
    total = mass.copy()
    mass[1::2] += np.bincount(group, minlength=len(places))
    total[1::2] += np.bincount(group, weights=response[rest], minlength=len(places))
    knots[1::2] = places
    filled = mass > 0
    knots, mass, total = knots[filled], mass[filled], total[filled]
    blocks = isotonic_regression(total / mass, weights=mass).blocks
    # Nine of ten right reach a threshold of 0.9: of means that were added up one by one, some come to 0.8999….
    sums = [np.add.reduceat(part, blocks[:-1]) for part in (total, mass)]
    values = np.clip(sums[0] / sums[1], lower, upper)
    # Clipped steps may be equal: keep the last knot. A curve has few steps, so lookups stay cheap.
    last = np.append(values[1:] != values[:-1], True)
    return StepCurve(torch.from_numpy(knots[blocks[1:] - 1][last]), torch.from_numpy(values[last]))


@dataclass(frozen=True)
class NeighbourCurve:
    """Mean response of the nearest gold rows; offered beside isotonic regression for the paper's Figure 1."""

    points: Floats
    responses: Floats
    lower: float

    def __call__(self, covariate: Tensor) -> Tensor:
        k = neighbour_count(len(self.points))
        points, responses = self.points[:, None], self.responses[:, None]
        means = neighbour_means(covariate.double().unsqueeze(1).numpy(), points, responses, k)
        return torch.from_numpy(means[:, 0]).clamp(self.lower, 1.0)


def class_accuracies(named: Tensor, correct: Tensor, lower: float) -> Tensor:
    """Accuracy per class from counts ``(…, C)``, leaning on the overall accuracy, never below ``lower``."""
    overall = correct.sum(-1, keepdim=True) / named.sum(-1, keepdim=True)
    return ((correct + PSEUDO_COUNT * overall) / (named + PSEUDO_COUNT)).clamp(min=lower)


class Bands(NamedTuple):
    """Where alpha probably lies, ``(N,)`` each; NaN for rows without a label."""

    lower: Tensor
    upper: Tensor


def curve_bands(
    covariate: Tensor, right: Tensor, queries: Tensor, *, lower: float, level: float, repeats: int, rng: Generator
) -> Bands:
    """For an isotonic accuracy curve, at the covariates ``queries`` (NaN where there is none)."""
    from scipy.optimize import isotonic_regression

    knots, group = np.unique(covariate.numpy(), return_inverse=True)
    chance = _laplace(group, right.numpy())
    share = np.bincount(group) / len(group)

    # The curve at every knot, fitted to rows that are drawn again.
    curves = np.empty((repeats, len(knots)))
    for curve in curves:
        drawn = rng.multinomial(len(group), share)
        hits = rng.binomial(drawn, chance)
        here = np.flatnonzero(drawn)
        fitted = isotonic_regression(hits[here] / drawn[here], weights=drawn[here].astype(np.float64)).x
        # A knot that was not drawn has the value of the next one that was, as any covariate in between.
        curve[:] = fitted[np.minimum(np.searchsorted(here, np.arange(len(knots))), len(here) - 1)]
    knot = torch.searchsorted(torch.from_numpy(knots), queries.double().nan_to_num()).clamp(max=len(knots) - 1)
    return _bands(np.clip(curves, lower, 1), knot, queries.isnan(), level, np.clip(chance, lower, 1))


def _laplace(group: NDArray[np.intp], right: Floats) -> Floats:
    """Per knot: the accuracy of its isotonic step, with one more right and one more wrong row."""
    from scipy.optimize import isotonic_regression

    mass = np.bincount(group).astype(np.float64)
    hits = np.bincount(group, weights=right)
    blocks = isotonic_regression(hits / mass, weights=mass).blocks
    starts = blocks[:-1]
    step_mass, step_hits = np.add.reduceat(mass, starts), np.add.reduceat(hits, starts)
    return np.repeat((step_hits + 1) / (step_mass + 2), np.diff(blocks))


def class_bands(
    counts: Tensor, correct: Tensor, queries: Tensor, *, lower: float, level: float, repeats: int, rng: Generator
) -> Bands:
    """For one accuracy per class named, from ``counts (C,)`` of the gold rows by class and of those that were right."""
    share, chance = (counts / counts.sum()).numpy(), ((correct + 1) / (counts + 2)).numpy()
    drawn = rng.multinomial(int(counts.sum()), share, size=repeats)
    hits = rng.binomial(drawn, chance)
    curves = class_accuracies(torch.from_numpy(drawn).double(), torch.from_numpy(hits).double(), lower).numpy()
    return _bands(curves, queries.clamp(min=0), queries < 0, level)


def _limits(curves: Floats, outside: float, centre: Floats | None) -> Floats:
    """Quantiles of redrawn ``curves``; no narrower than those corrected by the ``centre`` of the draws."""
    from scipy.special import ndtr, ndtri

    plain = np.quantile(curves, [outside, 1 - outside], axis=0)
    if centre is None:
        return plain
    last, ordered = len(curves) - 1, np.sort(curves, axis=0)
    below = ((curves < centre).mean(0) + (curves <= centre).mean(0)) / 2
    shift, reach = 2 * ndtri(np.clip(below, 0.5 / len(curves), 1 - 0.5 / len(curves))), ndtri(1 - outside)
    places = np.stack([np.floor(last * ndtr(shift - reach)), np.ceil(last * ndtr(shift + reach))])
    low, high = np.sort(np.take_along_axis(ordered, places.astype(np.intp), axis=0), axis=1)
    return np.stack([np.minimum(plain[0], low), np.maximum(plain[1], high)])


def _bands(curves: Floats, index: Tensor, missing: Tensor, level: float, centre: Floats | None = None) -> Bands:
    """``curves (repeats, …)``: redrawn estimates, one per queried row. ``centre``: of ``_limits``."""
    ends = _limits(curves, (1 - level) / 2, centre)
    return Bands(*(torch.from_numpy(values)[index].masked_fill(missing, float("nan")) for values in ends))
