"""What a pool is made of, with intervals that hold although its labels are imperfect.

    found = us.estimate(gold, pool, what=["share", "accuracy"], class_names=["billing", "other"])
    found[0].value                       # Share(estimate=0.212, low=0.189, high=0.237, …): of the pool, class "billing"
    found[0].gold_only, found[0].worth   # from gold alone, and how many times as many gold rows that would take
    us.estimate(gold, pool, by=(gold_months, pool_months))      # each month, and its difference from the others

Gold rows must be a random sample of the rows that the pool is, or drawn with a known ``probability`` each; without it,
rows chosen by active learning are left out. They need the teacher's labels, which sort gold and pool into strata: by
class and, where gold is large enough, by confidence. Shares within strata are measured on gold and weighted as the pool
has them (``maths/score_intervals.py``). The worse the teacher, the wider the interval; it is never wrong for it.
"""

import copy
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from understudy.auditing.measures import AuditData, Floats, Ints, audit_data
from understudy.data.examples import Gold, Pool, check_probability, check_sets, weighed
from understudy.errors import UnderstudyError
from understudy.labels.class_names import joint_names
from understudy.maths.proportions import Share, wilson
from understudy.maths.score_intervals import score_intervals
from understudy.store.option_fields import checked_plainly

WHAT = ("share", "accuracy", "precision", "recall", "f1")
#: Of a class, or of the teacher as a whole.
BY_CLASS = ("share", "precision", "recall", "f1")
#: Sums over rows, of which groups have a difference.
ADDITIVE = ("share", "accuracy")
# Gold rows of a stratum, and of each of a class's bins of confidence.
FEWEST, PER_BIN, MOST_BINS = 2, 30, 4
# Stands for no gold row at all: an interval then ends where the strata's sizes alone end it.
NO_ROWS = 1e-6


@dataclass(frozen=True)
class Estimate:
    what: str
    #: Class number and name; None: of all classes.
    label: int | None
    name: str | None
    #: The value of ``by``; None: all rows.
    group: str | None
    #: Whether it is the group's difference from all other rows.
    difference: bool
    value: Share
    #: From gold alone (Wilson); None where there is no such interval.
    gold_only: Share | None

    @property
    def worth(self) -> float | None:
        """How many times as many gold rows alone would give an interval as narrow."""
        if self.gold_only is None or self.value.width <= 0:
            return None
        return (self.gold_only.width / self.value.width) ** 2


def as_records(found: Sequence[Estimate]) -> list[dict[str, Any]]:
    """Ready for JSON."""
    return [asdict(one) | {"worth": one.worth} for one in found]


class Group(NamedTuple):
    """Its value of ``by``, and which of the measured gold rows and of the labelled pool rows are in it."""

    name: str | None
    gold: Any
    pool: Any


class Tally(NamedTuple):
    """Strata of one estimate: hits and rows of gold, rows of the pool, and whether the teacher predicts the class."""

    hits: Floats
    rows: Floats
    pool: Floats
    predicted: NDArray[np.bool_]


@checked_plainly
def estimate(
    gold: Gold,
    pool: Pool,
    *,
    what: Sequence[str] = ("share",),
    by: tuple[Any, Any] | None = None,
    probability: Any = None,
    class_names: Sequence[Any] | None = None,
) -> list[Estimate]:
    """Estimate class shares of the pool, and the teacher's accuracy, precision, recall and F1 on it.

    ``what``: any of "share", "accuracy", "precision", "recall", "f1". ``by``: a value per gold row and one per pool
    row; shares and accuracy are then also estimated within each group, and as the difference from all other rows.
    ``probability``: with which each gold row was drawn (NaN: one of a random sample); default: ``gold.probability``.
    """
    if unknown := [name for name in what if name not in WHAT]:
        raise UnderstudyError(f"estimate(what={unknown[0]!r}) is not known; choose from {', '.join(WHAT)}")
    check_sets(gold, pool, both_for="estimate")
    gold, pool = weighed(gold, gold), weighed(pool, gold)
    if probability is not None:
        gold = copy.copy(gold)
        gold.probability = check_probability(probability, len(gold), "probability")
    weights = np.ones(len(gold))
    if gold.probability is not None:
        gold, weights = copy.copy(gold), draw_weights(gold.probability.numpy())
        gold.chosen = gold.chosen & gold.probability.isnan()
    named = joint_names(gold.class_order, pool.class_order)
    data = audit_data(gold, pool, class_names or (named.names if named else None))
    weights = weights[data.gold.rows.numpy()]
    groups: list[Group] = [Group(None, slice(None), slice(None))]
    if by is not None:
        groups += _groups(data, by, len(gold), len(pool))
    return [one for name in what for one in _estimates(data, name, weights, groups if name in ADDITIVE else groups[:1])]


def draw_weights(probability: Floats) -> Floats:
    """1 / probability, with as large a sum as equal weights of the same precision would have (Kish's number of rows);
    1 where it is NaN: rows of a random sample of their own, with which these are then averaged by their precision."""
    known = ~np.isnan(probability)
    inverse = 1 / probability[known]
    weights = np.ones(len(probability))
    weights[known] = inverse * (inverse.sum() / (inverse**2).sum() if len(inverse) else 1.0)
    return weights


def _groups(data: AuditData, by: tuple[Any, Any], *sizes: int) -> list[Group]:
    """The groups that the pool has, in the order of their names."""
    assert data.pool is not None
    values = []
    for given, labels, size, where in zip(by, (data.gold, data.pool), sizes, ("gold", "pool"), strict=True):
        texts = np.asarray(given).astype(str)
        if texts.shape != (size,):
            raise UnderstudyError(f"by holds {len(texts)} values for {size} {where} rows; give one per row")
        values.append(texts[labels.rows.numpy()])
    return [Group(name, values[0] == name, values[1] == name) for name in np.unique(values[1]).tolist()]


def _estimates(data: AuditData, what: str, weights: Floats, groups: list[Group]) -> list[Estimate]:
    """Of every class, or of all, in each group; then the groups' differences from the rows outside them."""
    labels: list[int | None] = list(range(data.classes)) if what in BY_CLASS else [None]
    keys = [(label, group) for group in groups for label in labels]
    tallies = [_tally(data, what, label, weights, group.gold, group.pool) for label, group in keys]
    values, low, high = _measure(what, tallies)
    alone = [_of_gold(what, tally) for tally in tallies]
    found = [
        _estimate(data, what, key, False, ends, one)
        for key, one, *ends in zip(keys, alone, values, low, high, strict=True)
    ]
    others = [place for place, (_, group) in enumerate(keys) if group.name is not None and not group.pool.all()]
    if others:
        outside = [
            _tally(data, what, label, weights, ~group.gold, ~group.pool) for label, group in (keys[i] for i in others)
        ]
        differences = _differences([tallies[place] for place in others], outside)
        found += [
            _estimate(data, what, keys[place], True, ends, None)
            for place, *ends in zip(others, *differences, strict=True)
        ]
    return found


def _tally(data: AuditData, what: str, label: int | None, weights: Floats, mine: Any, theirs: Any) -> Tally:
    assert data.pool is not None
    truth, predicted, on_pool = data.truth[mine], data.gold.predicted[mine], data.pool.predicted[theirs]
    if label is None:
        hit = truth == predicted
        counts = np.bincount(predicted, minlength=data.classes)
        # Classes that are predicted on few gold rows share a stratum.
        place = np.where(counts < FEWEST, 0, 1 + np.arange(data.classes))
        strata, pool_strata, size = place[predicted], place[on_pool], data.classes + 1
        if (np.bincount(strata, minlength=size) < FEWEST)[np.unique(pool_strata)].any():
            strata, pool_strata, size = np.zeros_like(strata), np.zeros_like(pool_strata), 1
        of_class = np.ones(size, dtype=bool)
    else:
        hit = truth == label
        edges = _confidence_bins(data, label, predicted, mine)
        strata = _strata(predicted == label, data.gold.confidence, mine, edges)
        pool_strata = _strata(on_pool == label, data.pool.confidence, theirs, edges)
        size = 2 + len(edges)
        of_class = np.arange(size) > 0
        if what == "share" and (np.bincount(strata, minlength=size) < FEWEST)[np.unique(pool_strata)].any():
            strata, pool_strata, size, of_class = np.zeros_like(strata), np.zeros_like(pool_strata), 1, of_class[:1]
    weight = weights[mine]
    total, squares, right = (np.bincount(strata, each, size) for each in (weight, weight**2, weight * hit))
    # Kish's effective number of rows; with equal weights, their number.
    rows = np.divide(total**2, squares, out=np.zeros(size), where=squares > 0)
    hits = rows * np.divide(right, total, out=np.zeros(size), where=total > 0)
    return Tally(hits, rows, np.bincount(pool_strata, minlength=size).astype(np.float64), of_class)


def _confidence_bins(data: AuditData, label: int, predicted: Ints, mine: Any) -> Floats:
    """Where the bins of a predicted class begin, each with at least ``PER_BIN`` gold rows."""
    if data.gold.confidence is None or data.pool is None or data.pool.confidence is None:
        return np.empty(0)
    sure = data.gold.confidence[mine][predicted == label]
    bins = min(MOST_BINS, len(sure) // PER_BIN)
    edges = np.unique(np.quantile(sure, np.arange(1, bins) / bins)) if bins > 1 else np.empty(0)
    filled = np.diff(np.searchsorted(np.sort(sure), [-np.inf, *edges, np.inf]))
    return edges if (filled >= FEWEST).all() else np.empty(0)


def _strata(is_label: NDArray[np.bool_], confidence: Floats | None, rows: Any, edges: Floats) -> Ints:
    """0: another class is predicted; from 1 on the bins of confidence."""
    place = np.zeros(len(is_label), dtype=np.int64)
    if len(edges) and confidence is not None:
        place = np.searchsorted(edges, confidence[rows], side="right")
    return np.where(is_label, 1 + place, 0)


def _measure(what: str, tallies: list[Tally]) -> tuple[Floats, Floats, Floats]:
    """Estimates, and the ends of their intervals."""
    hits, rows, pool, predicted = _stacked(tallies)
    weights = pool / pool.sum(1, keepdims=True)
    true, ours = weights * hits / rows, weights * predicted
    both, named = (true * predicted).sum(1), ours.sum(1)
    equation: Callable[[Floats], tuple[Floats, Floats]]
    if what in ADDITIVE:
        values, equation = true.sum(1), lambda theta: (weights[:, None], theta)
    elif what == "precision":
        share = np.maximum(named[:, None], 1e-300)
        values, equation = both / share[:, 0], lambda theta: ((ours / share)[:, None], theta)
    elif what == "recall":
        values = _ratio(both, true.sum(1))
        equation = lambda theta: (ours[:, None] - theta[..., None] * weights[:, None], np.zeros_like(theta))  # noqa: E731
    else:
        values = _ratio(2 * both, named + true.sum(1))
        equation = lambda theta: (2 * ours[:, None] - theta[..., None] * weights[:, None], theta * named[:, None])  # noqa: E731
    return values, *score_intervals(hits, rows, pool, equation, values)


def _differences(ours: list[Tally], others: list[Tally]) -> tuple[Floats, Floats, Floats]:
    sides = [_stacked(each) for each in (ours, others)]
    hits, rows, pool = (np.concatenate([side[place] for side in sides], axis=1) for place in range(3))
    weights = [side[2] / side[2].sum(1, keepdims=True) for side in sides]
    c = np.concatenate([weights[0], -weights[1]], axis=1)
    values = (c * hits / rows).sum(1)
    return values, *score_intervals(hits, rows, pool, lambda theta: (c[:, None], theta), values, lowest=-1.0)


def _estimate(
    data: AuditData, what: str, key: tuple[int | None, Group], difference: bool, ends: list[float], alone: Share | None
) -> Estimate:
    """``ends``: the estimate and the ends of its interval."""
    label, group = key
    name = None if label is None else data.names[label]
    value, low, high = map(float, ends)
    return Estimate(what, label, name, group.name, difference, Share(value, low, high, len(data.truth)), alone)


def _of_gold(what: str, tally: Tally) -> Share | None:
    """Wilson's interval on the gold rows that count; None for F1, which is no share of rows."""
    hits, rows = tally.hits.sum(), tally.rows.sum()
    if what == "precision":
        hits, rows = tally.hits[tally.predicted].sum(), tally.rows[tally.predicted].sum()
    elif what == "recall":
        hits, rows = tally.hits[tally.predicted].sum(), hits
    elif what == "f1":
        return None
    return wilson(float(hits), float(rows))


def _stacked(tallies: list[Tally]) -> tuple[Floats, Floats, Floats, NDArray[np.bool_]]:
    """``(Q, S)`` each; shorter ones are filled up with strata that the pool has no row in."""
    most = max(len(tally.hits) for tally in tallies)
    hits, rows, pool, predicted = (
        np.stack([np.pad(part, (0, most - len(part))) for part in parts]) for parts in zip(*tallies, strict=True)
    )
    return hits, np.maximum(rows, NO_ROWS), np.maximum(pool, NO_ROWS * 1e-3), predicted.astype(bool)


def _ratio(part: Floats, whole: Floats) -> Floats:
    return np.divide(part, whole, out=np.zeros_like(part), where=whole > 0)
