"""What a pool is made of and how good its labels are, with intervals that hold although the labels are imperfect.

    found = us.estimate(gold, pool, what=["share", "accuracy"], class_names=["billing", "other"])
    found[0].value                       # Share(estimate=0.212, low=0.189, high=0.237, …): of the pool, class "billing"
    found[0].gold_only, found[0].worth   # from gold alone, and how many times as many gold rows that would take
    found[0].more_gold_rows(0.02)        # about how many more gold rows narrow the interval to 2 points
    us.estimate(gold, pool, by=(gold_months, pool_months))      # each month, and its difference from the others
    us.estimate(gold, pool, what=["f1"], labels=(others_on_gold, others_on_pool))               # of other labels

Gold rows must be a random sample of the rows that the pool is, or drawn with a known ``probability`` each; without it,
rows chosen by active learning are left out. A *proxy* sorts gold and pool into strata (``pool_strata.py``): the
teacher's label and confidence, or the reconciled probability, which is cross-fitted, so that no gold row's own truth is
in it. Shares within strata are measured on gold and weighted as the pool has them (``maths/score_intervals.py``). The
worse the proxy, the wider the interval. How often intervals hold the truth is simulated in
``experiments/estimate_coverage.py``.
"""

import copy
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch

from understudy.auditing import pool_strata
from understudy.auditing.measures import AuditData, TeacherLabels, audit_data
from understudy.auditing.pool_strata import FEWEST, PER_WEIGHT, Ends, Proxy, Tally, merge_cells, tally
from understudy.data.checks import check_probability
from understudy.data.examples import Gold, Pool, check_sets, weighed
from understudy.data.fitted_rows import mark_fitted
from understudy.errors import UnderstudyError, warn
from understudy.labels.class_names import joint_names
from understudy.maths.proportions import Bools, Floats, Ints, Share, exact
from understudy.maths.random_order import draw_weights
from understudy.models.small_nets import linear
from understudy.reconciling.label_sources import ReconciledPool
from understudy.reconciling.relabel import reconcile
from understudy.store.option_fields import checked_plainly
from understudy.store.settings import without_nan
from understudy.training.automatic_options import row_shape

WHAT = ("share", "accuracy", "precision", "recall", "f1", "confusion")


@dataclass(frozen=True)
class Estimate:
    what: str
    #: Class number and name; None: of all classes. Of a confusion, the class of the labels, and "truth→label".
    label: int | None
    name: str | None
    #: The value of ``by``; None: all rows.
    group: str | None
    #: Whether it is the group's difference from all other rows.
    difference: bool
    #: Unknown (``rows`` is 0) where no gold row tells it.
    value: Share
    #: From gold alone (Wilson's, of the pool's own figure, as ``value`` is); None for differences.
    gold_only: Share | None

    @property
    def worth(self) -> float | None:
        """How many times as many gold rows alone would give an interval as narrow."""
        if self.gold_only is None or not self.value.known or self.value.width <= 0:
            return None
        return (self.gold_only.width / self.value.width) ** 2

    def more_gold_rows(self, width: float) -> int | None:
        """About how many more gold rows, of the same mix, narrow the interval to so many points from end to end."""
        return self.value.more_rows_for(width / 2, round(self.value.rows)) if self.value.known else None


def as_records(found: Sequence[Estimate], width: float | None = None) -> list[dict[str, Any]]:
    """Ready for JSON: what is unknown is None."""
    records = []
    for one in found:
        more = {} if width is None else {"more_gold_rows": one.more_gold_rows(width)}
        records.append(asdict(one) | {"worth": one.worth} | more)
    return list(without_nan(records))


@dataclass(frozen=True)
class Measured:
    """Gold rows, and the pool rows they stand for."""

    truth: Ints
    #: The labels whose accuracy is estimated, of gold and pool.
    labels: tuple[Ints, Ints]
    proxies: tuple[Proxy, Proxy]
    names: list[str]
    #: 1 / the probability with which gold rows were drawn, and those of the pool would have been, where it is known;
    #: None: all gold rows alike.
    weights: tuple[Floats, Floats | None] | None = None
    #: How many rows of the pool each of these stands for; None: one.
    counts: Floats | None = None

    def take(self, gold: Bools | Ints, pool: Bools | Ints) -> "Measured":
        (mine, theirs), (of_gold, of_pool), weights = self.labels, self.proxies, self.weights
        if weights is not None:
            weights = weights[0][gold], None if weights[1] is None else weights[1][pool]
        return replace(
            self, truth=self.truth[gold], labels=(mine[gold], theirs[pool]),
            proxies=(of_gold.take(gold), of_pool.take(pool)), weights=weights,
            counts=None if self.counts is None else self.counts[pool],
        )  # fmt: skip

    @property
    def estimated(self) -> bool:
        """Whether the strata's sizes are known by the gold rows' weights alone."""
        return self.weights is not None and self.weights[1] is None


@dataclass(frozen=True)
class Question:
    """One number to estimate: of a class or a pair of classes, in a group."""

    what: str
    label: int | None
    truth: int | None
    group: str | None
    data: Measured

    @property
    def name(self) -> str | None:
        if self.label is None or self.truth is None:
            return None
        names = self.data.names
        return names[self.label] if self.what != "confusion" else f"{names[self.truth]}→{names[self.label]}"

    @property
    def hit(self) -> Bools:
        return np.equal(self.data.truth, self.data.labels[0] if self.truth is None else self.truth)

    def cells(self) -> tuple[Ints, Ints]:
        """Of gold and pool rows. Of a class: 1 where it is predicted, else 0."""
        labels, proxies = self.data.labels, self.data.proxies
        if self.what != "accuracy":
            by = tuple(one.predicted for one in proxies) if self.what == "share" else labels
            mine, theirs = ((each == self.label).astype(np.int64) for each in by)
            if self.what != "share":
                return mine, theirs
            known = by[0] >= 0, by[1] >= 0
            cells = tuple(np.full(len(each), pool_strata.NO_LABEL) for each in by)
            cells[0][known[0]], cells[1][known[1]] = merge_cells(mine[known[0]], theirs[known[1]], 2, FEWEST)
            return cells[0], cells[1]
        agree = [one.predicted == each for one, each in zip(proxies, labels, strict=True)]
        if proxies[0].confidence is not None or proxies[0].probs is not None:
            mine, theirs = (each.astype(np.int64) for each in agree)
            return merge_cells(mine, theirs, 2, pool_strata.FEWEST_OF_MANY)
        count = len(self.data.names)
        mine, theirs = (np.where(same, each, count) for same, each in zip(agree, labels, strict=True))
        return merge_cells(mine, theirs, count + 1, pool_strata.FEWEST_OF_MANY)

    def tally(self) -> Tally:
        cells = self.cells()
        if self.data.weights is not None:
            return tally(self.hit, cells, self.data.weights, PER_WEIGHT, self.data.weights[0], self.data.counts)
        scores = [
            one.score(labels if self.truth is None else self.truth)
            for one, labels in zip(self.data.proxies, self.data.labels, strict=True)
        ]
        return tally(self.hit, cells, (scores[0], scores[1]), pool_strata.PER_SCORE, None, self.data.counts)

    def gold_tally(self) -> Tally:
        """The gold rows that count where there is no pool, and the hits among them. F1 is 2r / (1 + r), where r is the
        share of both truth and label among the rows that have either."""
        hit, labelled = self.hit, self.data.labels[0] == self.label
        counts = {
            "precision": (labelled, hit), "confusion": (labelled, hit), "recall": (hit, labelled),
            "f1": (hit | labelled, hit & labelled),
        }  # fmt: skip
        rows, right = counts.get(self.what, (np.ones_like(hit), hit))
        weights = None if self.data.weights is None else self.data.weights[0][rows]
        cells = np.zeros(rows.sum(), dtype=np.int64), np.zeros(0, dtype=np.int64)
        found = tally(right[rows], cells, (weights, None), PER_WEIGHT, weights)
        # The pool's own figure is a draw too: of as many times more rows as the pool has.
        pool = len(self.data.labels[1]) if self.data.counts is None else self.data.counts.sum()
        return found._replace(pool=found.rows * pool / max(len(hit), 1))


@checked_plainly
def estimate(
    gold: Gold, pool: Pool, *, what: Sequence[str] = ("share",), by: tuple[Any, Any] | None = None,
    labels: tuple[Any, Any] | None = None, proxy: str | ReconciledPool = "teacher", probability: Any = None,
    class_names: Sequence[Any] | None = None,
) -> list[Estimate]:  # fmt: skip
    """Estimate class shares of the pool, and accuracy, precision, recall, F1 and confusions of its labels.

    ``what``: any of "share", "accuracy", "precision", "recall", "f1", "confusion" (of each pair of classes that gold
    shows: the share of the true class among the rows labelled otherwise). ``by``: a value per gold row and one per pool
    row; everything is then also estimated within each group and, but for recall and F1, as the difference from all
    other rows. ``labels``: class numbers per gold and per pool row (−1: none), whose accuracy is estimated instead of
    the teacher's. ``proxy``: "teacher", or "reconciled", which trains linear students on the features of gold and pool;
    or a pool that ``us.reconcile(student, gold, pool, rows=len(pool))`` made. ``probability``: with which each gold row
    was drawn (NaN: one of a random sample); default: ``gold.probability``; a pair of arrays where those of the pool
    rows are known too, which narrows the intervals.
    """
    what = [what] if isinstance(what, str) else list(what or ())
    if unknown := [name for name in what or [""] if name not in WHAT]:
        raise UnderstudyError(f"estimate(what={unknown[0]!r}) is not known; choose from {', '.join(WHAT)}")
    check_sets(gold, pool, both_for="estimate")
    gold, pool = weighed(gold, gold), weighed(pool, gold)
    sizes = len(gold), len(pool)
    gold, weights = _weighted(gold, pool, probability)
    gold = mark_fitted(gold, pool)
    named = joint_names(gold.class_order, pool.class_order)
    audited = audit_data(gold, pool, class_names or (named.names if named else None))
    data, rows = _measured(audited, gold, len(pool), weights)
    if proxy != "teacher":
        data = replace(data, proxies=_reconciled(proxy, gold, pool, rows))
    groups = None if by is None else _per_row(by, sizes, rows, "by")
    if labels is not None:
        given = _per_row(labels, sizes, rows, "labels")
        if any(each.dtype.kind not in "biu" for each in given):
            raise UnderstudyError("labels holds no whole numbers; pass class numbers, −1 where there is none")
        if not all((each >= 0).any() for each in given):
            raise UnderstudyError("labels holds only −1 for gold or for the pool; pass labels of rows of both")
        mine, theirs = (each.astype(np.int64) for each in given)
        if max(mine.max(), theirs.max()) >= len(data.names):
            raise UnderstudyError(f"labels holds a class above {len(data.names) - 1}; name all in class_names")
        data = replace(data, labels=(mine, theirs))
    texts = [each.astype(str) for each in groups or ()]
    if texts and not np.isin(*texts).any():
        some = [sorted(set(each.tolist()))[:3] for each in texts]
        raise UnderstudyError(f"by has no group that gold and pool share ({some[0]}, {some[1]}); spell both alike")
    if texts and len(set(texts[1].tolist())) > max(len(texts[0]), 50):  # few are shown however few gold rows there are
        raise UnderstudyError("by makes more groups of the pool than there are gold rows; make fewer: month:COLUMN")
    parts = {name: (texts[0] == name, texts[1] == name) for name in (np.unique(texts[1]).tolist() if texts else ())}
    return [one for name in what for one in _estimates(name, data, parts)]


def _weighted(gold: Gold, pool: Pool, probability: Any) -> tuple[Gold, tuple[Floats, Floats | None] | None]:
    """Gold, of whose chosen rows those with a probability count; and the weights of gold and pool."""
    drawn, batch, on_pool = gold.probability, gold.batch, None
    if probability is not None:
        given = probability if isinstance(probability, tuple) else (probability, None)
        if len(given) != 2:
            raise UnderstudyError(f"probability is a tuple of {len(given)}; pass gold's, or gold's and the pool's")
        mine, on_pool = given
        drawn, batch = check_probability(mine, len(gold), "probability"), torch.zeros(len(gold), dtype=torch.long)
    if bool(drawn.isnan().all()):
        return gold, None
    gold = copy.copy(gold)
    gold.chosen = gold.chosen & drawn.isnan()
    if on_pool is None or bool(drawn.isnan().any()):
        return gold, (draw_weights(drawn.numpy(), batch.numpy()), None)
    theirs = check_probability(on_pool, len(pool), "probability of the pool")
    if bool(theirs.isnan().any()):
        raise UnderstudyError("probability of the pool is not known (NaN) in some rows; give all, or gold's alone")
    return gold, (1 / drawn.numpy(), 1 / theirs.numpy())


def _per_row(given: tuple[Any, Any], sizes: tuple[int, int], rows: list[Ints], what: str) -> list[Any]:
    """Values of the measured gold rows and of the labelled pool rows."""
    values = []
    for each, size, kept, where in zip(given, sizes, rows, ("gold", "pool"), strict=True):
        array = np.asarray(each)
        if array.shape != (size,):
            raise UnderstudyError(f"{what} holds {array.size} values for {size} {where} rows; give one per row")
        values.append(array[kept])
    return values


def _measured(
    found: AuditData, gold: Gold, pool_rows: int, weights: tuple[Floats, Floats | None] | None
) -> tuple[Measured, list[Ints]]:
    """The gold and pool rows, and where they lie; those without the teacher's label (−1) where the pool has such."""
    assert found.pool is not None
    sides, sizes = (found.gold, found.pool), (len(gold), pool_rows)
    rows = [found.gold.rows.numpy(), np.arange(pool_rows)]
    if found.unlabelled:
        rows[0] = np.flatnonzero(~gold.chosen.numpy())
        without, share = len(rows[0]) - len(found.gold), found.unlabelled / pool_rows
        if weights is None and not (likely := exact(without, len(rows[0]), level=0.999)).low <= share <= likely.high:
            warn(
                f"{share:.1%} of the pool rows have no label, but {likely.estimate:.1%} of the gold rows: gold is no "
                "random sample of both kinds, and shares are less sure; draw gold from all rows, and ask the teacher"
            )
    has_confidence = all(side.confidence is not None for side in sides)

    def proxy(side: TeacherLabels, size: int, kept: Ints) -> Proxy:
        predicted, confidence = np.full(size, -1), np.zeros(size)
        predicted[side.rows.numpy()] = side.predicted
        confidence[side.rows.numpy()] = 0 if side.confidence is None else side.confidence
        return Proxy(predicted[kept], confidence[kept] if has_confidence else None)

    of_gold, of_pool = (proxy(*each) for each in zip(sides, sizes, rows, strict=True))
    if weights is not None:
        weights = weights[0][rows[0]], weights[1]
    truth = gold.y.numpy()[rows[0]]
    return Measured(truth, (of_gold.predicted, of_pool.predicted), (of_gold, of_pool), found.names, weights), rows


def _reconciled(proxy: str | ReconciledPool, gold: Gold, pool: Pool, rows: list[Ints]) -> tuple[Proxy, Proxy]:
    """The reconciled probabilities of the gold rows, each from models that were fitted without its fold, and of the
    pool rows, whose teacher's labels are left out in the same way: so that one rule sorts both into strata."""
    if isinstance(proxy, str):
        if proxy != "reconciled":
            raise UnderstudyError(f"proxy={proxy!r} is not known; choose from teacher, reconciled")
        known = gold.teacher.classes or 0 if gold.teacher else 0
        classes = max(int(gold.y.max()) + 1, known, len(gold.class_names or ()))
        student = partial(linear, inputs=row_shape(pool.rows), classes=classes)
        # All pool rows: those that train no base model would get the mean of several, unlike gold.
        proxy = reconcile(student, gold, pool, rows=len(pool), progress=False)
    if not isinstance(proxy, ReconciledPool) or proxy.teacher is None or not proxy.is_of(gold, pool):
        raise UnderstudyError("proxy was reconciled from other rows; pass us.reconcile(student, gold, pool) of these")
    on_gold = proxy.on_gold[rows[0]].numpy()
    if np.isnan(on_gold).any():
        raise UnderstudyError("proxy knows no label of gold rows that are chosen; reconcile with chosen=False there")
    on_pool = proxy.teacher.dense(torch.from_numpy(rows[1]), on_gold.shape[1]).numpy()
    of_gold, of_pool = (Proxy(probs.argmax(1), probs=probs) for probs in (on_gold, on_pool))
    return of_gold, of_pool


def _estimates(what: str, data: Measured, parts: dict[str, tuple[Bools, Bools]]) -> list[Estimate]:
    """Of every class, or of all, in each group; then the groups' differences from the rows outside them."""
    if what != "share":
        kept = data.labels[0] >= 0, data.labels[1] >= 0
        parts = {name: (mine[kept[0]], theirs[kept[1]]) for name, (mine, theirs) in parts.items()}
        data = data.take(*kept)
    groups = {None: data} | {name: data.take(*rows) for name, rows in parts.items()}
    classes = _classes(what, data)
    questions = [Question(what, *each, group, part) for group, part in groups.items() for each in classes]
    tallies, alone = [each.tally() for each in questions], [each.gold_tally() for each in questions]
    rows = [len(each.data.truth) if one.rows.sum() > 0 else 0 for each, one in zip(questions, alone, strict=True)]
    values, of_gold = pool_strata.measure_pool(what, tallies, data.estimated), pool_strata.measure_gold(what, alone)
    found = [
        Estimate(what, each.label, each.name, each.group, False, _share(ends, n), _share(gold_ends, n))
        for each, n, ends, gold_ends in zip(questions, rows, values, of_gold, strict=True)
    ]
    compared = [place for place, each in enumerate(questions) if each.group and not parts[each.group][1].all()]
    if not compared or what not in pool_strata.OF_ALL + pool_strata.OF_LABELLED:
        return found
    outside = [
        replace(questions[place], data=data.take(*(~kept for kept in parts[questions[place].group or ""])))
        for place in compared
    ]
    others = [each.tally() for each in outside]
    differences = pool_strata.measure_differences(what, [tallies[place] for place in compared], others, data.estimated)
    informed = [
        rows[place] if each.gold_tally().rows.sum() > 0 else 0 for place, each in zip(compared, outside, strict=True)
    ]
    return found + [
        Estimate(what, each.label, each.name, each.group, True, _share(ends, n, -1.0), None)
        for each, n, ends in zip(outside, informed, differences, strict=True)
    ]


def _classes(what: str, data: Measured) -> list[tuple[int | None, int | None]]:
    """Label and truth of each question; of confusions, those that gold shows."""
    if what == "accuracy":
        return [(None, None)]
    if what == "confusion":
        seen = np.stack([data.labels[0], data.truth], 1)
        return [(int(label), int(truth)) for label, truth in np.unique(seen[seen[:, 0] != seen[:, 1]], axis=0)]
    return [(label, label) for label in range(len(data.names))]


def _share(ends: Ends, rows: int, lowest: float = 0.0) -> Share:
    """``rows``: 0 where nothing is known; it may then lie anywhere from ``lowest`` on."""
    estimate, low, high = map(float, ends) if rows else (math.nan, lowest, 1.0)
    return Share(estimate, low, high, rows)
