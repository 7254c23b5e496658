"""A teacher's reliability, estimated on gold rows it had not trained on (SLaM, Algorithm 2).

``alpha(teacher)`` is the probability that the teacher's best class is correct, ``k(teacher)`` how many of its best
classes must be kept so that the truth is among them with a given probability. For soft labels both come from isotonic
curves of top-k accuracy against the top-k margin, one curve per k. The paper prints the top-1 error as every curve's
response; its text means top-k accuracy, which is what is fitted. Top-k lists have curves up to their length; past it
only k = C is certain. Hard labels without a score get one accuracy per class. ``bands``: confidence bands of alpha.

    trust = us.Reliability.fit(teacher_on_gold, y_gold, lower_bound=0.5, threshold=0.9)
    trust.alpha(teacher_on_pool), trust.k(teacher_on_pool)
    trust.bands(teacher_on_pool).lower

*Is there enough gold, and is it a sample of the pool?* Reliability is estimated on gold and applied to the pool, which
is valid only where gold is a random sample of it. The pool has no truth, so the teacher's predicted classes are
compared: those on the calibration rows and on the pool are two rows of a contingency table. Their total variation
distance is the size of the shift, a chi-square test of homogeneity its significance. Classes too rare for the test
(fewer than 5 expected gold rows) are pooled. Chance alone raises the alarm (p < 0.001 *and* distance > 0.1) in about 1
of 1,000 trainings at most.

    shift = class_shift(gold_labels, pool_labels, classes=10)
    shift.distance, shift.p_value, shift.alarming
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import chain, islice
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from understudy.data.checks import check_labels, check_length, first_bad
from understudy.errors import UnderstudyError, warn
from understudy.labels.forms import Labels, Ranking, as_labels
from understudy.maths import accuracy_curves
from understudy.maths.accuracy_curves import COVARIATES, Bands, Floats, NeighbourCurve, StepCurve, fit_steps
from understudy.store.console import Shown
from understudy.store.option_fields import check_interval, checked

ESTIMATORS = ("isotonic", "knn")
SIGNIFICANT, LARGE = 1e-3, 0.1
# The chi-square approximation's usual condition.
_EXPECTED = 5.0
# Scores and rows looked at together while predicting: 64 MB as float64, 256 KB for each number of a row.
_BUDGET, _ROWS = 1 << 23, 1 << 15
# Most rows reach the threshold within a few classes; only the others are ranked so deep, then four times as deep.
_SECOND_DEPTH = 192


@dataclass(frozen=True, eq=False)
class Reliability(Shown):
    """A fitted estimate of a teacher's accuracy. Apply it to any labels of the same teacher."""

    classes: int
    lower_bound: float
    threshold: float
    #: What alpha depends on: "margin" or "entropy" of labels that rank, the "confidence" given, the "class" named.
    covariate: str
    estimator: str
    #: ``curves[k − 1]`` is top-k accuracy against the top-k covariate, up to the first k that is enough for every row;
    #: only the first where labels do not rank.
    curves: list[StepCurve]
    #: Called with k, gives the curves for k, k + 1, …, each fitted as it is taken, to gold's labels, which must stay.
    deeper_curves: Callable[[int], Iterator[StepCurve]] | None = field(repr=False)
    #: alpha against ``covariate_of``: the first curve, or a mean over neighbours; None where it goes by the class.
    alpha_curve: Callable[[Tensor], Tensor] | None
    #: alpha by the class the teacher named, where it goes by that.
    per_class: Tensor | None
    #: Share of the gold rows whose label is among the teacher's top k, for k = 1, 2, …
    top_k_accuracy_on_gold: Tensor
    gold_covariate: Tensor
    gold_named: Tensor
    #: Of the gold rows: the covariate, the class named and whether it was right; what the bands redraw.
    gold_right: Tensor

    @staticmethod
    @checked
    def fit(
        probs: Any, labels: Any, lower_bound: float = 0.5, threshold: float = 0.9, *, covariate: str = "margin",
        estimator: str = "isotonic", classes: int | None = None,
    ) -> "Reliability":  # fmt: skip
        """Estimate from the teacher's labels (``probs``, or any label form) of rows whose truth is ``labels``.

        ``covariate``: "margin" or "entropy". ``estimator``: "isotonic", or "knn" for alpha by nearest neighbours.
        """
        check_interval("Reliability.fit", "[0, 1)", lower_bound=lower_bound)
        check_interval("Reliability.fit", "(0, 1]", threshold=threshold)
        for name, value, known in (("covariate", covariate, COVARIATES), ("estimator", estimator, ESTIMATORS)):
            if value not in known:
                raise UnderstudyError(f"{name}={value!r} is unknown; use one of {', '.join(known)}")
        teacher = (probs if isinstance(probs, Labels) else as_labels(probs)).simplest()
        named, labelled = teacher.top1(), teacher.labelled()
        y = check_labels(labels, "labels")
        check_length(len(y), len(named), "labels", "the teacher's labels")
        if len(y) < 2:
            raise UnderstudyError(f"{len(y)} gold rows have a teacher label, 2 are the minimum: pass teacher= for gold")
        if not bool(labelled.all()):
            raise UnderstudyError(f"row {first_bad(~labelled)} has no teacher label (−1); drop it")
        right = (named == y).double()
        curves: list[StepCurve] = []
        deeper_curves: Callable[[int], Iterator[StepCurve]] | None = None
        per_class, top_k_accuracy = None, right.mean().reshape(1)
        if isinstance(teacher, Ranking):
            if int(y.max()) >= teacher.classes:
                raise UnderstudyError(f"labels hold class {y.max()}, but the teacher knows {teacher.classes} classes")
            places = teacher.positions(y).numpy()
            on_gold, classes = _covariate(teacher, covariate, 1), teacher.classes
            deeper_curves = partial(_top_k_curves, teacher, covariate, places, lower_bound)
            for curve in deeper_curves(1):
                curves.append(curve)
                if curve.cutoff(threshold) == -math.inf:
                    break
            accuracies = np.bincount(places, minlength=teacher.listed).cumsum() / len(y)
            top_k_accuracy = torch.from_numpy(accuracies[: min(teacher.listed, classes - 1)])
        else:
            on_gold, estimator = teacher.confidence("margin"), "isotonic"
            covariate = "confidence" if teacher.has_confidence else "class"
            classes = classes or teacher.classes or max(int(named.max()), int(y.max())) + 1
        if covariate == "confidence":
            curves = [fit_steps(on_gold.numpy(), right.numpy(), lower=lower_bound)]
        if covariate == "class":
            per_class = accuracy_curves.class_accuracies(*_class_counts(named, right, classes), lower_bound)
        by_neighbours = NeighbourCurve(on_gold.numpy(), right.numpy(), lower_bound) if estimator == "knn" else None
        return Reliability(
            classes=classes, lower_bound=lower_bound, threshold=threshold, covariate=covariate, estimator=estimator,
            curves=curves, deeper_curves=deeper_curves, alpha_curve=by_neighbours or (curves[0] if curves else None),
            per_class=per_class, top_k_accuracy_on_gold=top_k_accuracy, gold_covariate=on_gold, gold_named=named,
            gold_right=right,
        )  # fmt: skip

    @property
    def alpha_steps(self) -> StepCurve | None:
        """alpha against ``covariate_of`` as steps, to be drawn; None where it goes by the class."""
        if self.alpha_curve is None or self.estimator == "isotonic":
            return self.curves[0] if self.curves else None
        knots = self.gold_covariate.unique()
        return StepCurve(knots, self.alpha_curve(knots))

    def covariate_of(self, probs: Any) -> Tensor:
        """What alpha is read off by, ``(N,)`` float64: the top-1 margin or certainty, or the confidence given."""
        teacher = self._checked(probs)
        return _covariate(teacher, self.covariate, 1) if isinstance(teacher, Ranking) else teacher.confidence("margin")

    def alpha(self, probs: Any) -> Tensor:
        """Probability that the teacher's best class is correct, ``(N,)`` in [lower_bound, 1]; NaN without a label."""
        return self.topk_accuracy(probs, 1)

    def topk_accuracy(self, probs: Any, k: int) -> Tensor:
        """Probability that the truth is among the teacher's k best classes, ``(N,)``."""
        if not 1 <= k <= self.classes:
            raise UnderstudyError(f"k={k} is not between 1 and the {self.classes} classes")
        teacher = self._checked(probs)
        if k == 1 and self.per_class is not None:
            values = self.per_class[teacher.top1().clamp(min=0)]
        elif k == 1 and self.alpha_curve is not None:
            # Rows without a label may have NaN for a confidence; any number does until they are blanked.
            values = self.alpha_curve(self.covariate_of(teacher).nan_to_num())
        elif not isinstance(teacher, Ranking) and k < self.classes:
            raise UnderstudyError(f"hard labels do not rank the classes, so there is no top-{k} accuracy")
        elif not isinstance(teacher, Ranking) or k > len(self.top_k_accuracy_on_gold):
            values = torch.ones(len(teacher), dtype=torch.float64)
        else:
            curve = next(self.deeper_curves(k)) if self.deeper_curves and k > len(self.curves) else self.curves[k - 1]
            values = curve(_covariate(teacher, self.covariate, k))
        return _blank(values, teacher.labelled(), float("nan"))

    def k(self, probs: Any) -> Tensor:
        """Smallest k whose estimated top-k accuracy reaches the threshold, floored at 2, ``(N,)``; C where none does.

        −1 where a row has no label. Where labels do not rank, the truth may be any class: C.
        """
        teacher = self._checked(probs)
        known = teacher.labelled()
        if not isinstance(teacher, Ranking):
            return _blank(torch.full((len(known),), self.classes), known, -1)
        return _blank(self._first_and_k(teacher)[1], known, -1)

    def alpha_and_k(self, probs: Any) -> tuple[Tensor, Tensor]:
        """Both, as ``slam`` wants them; for scores in one pass over the labels."""
        teacher, curve = self._checked(probs), self.alpha_curve
        if not isinstance(teacher, Ranking) or curve is None:
            return self.alpha(teacher), self.k(teacher)
        (first, k), labelled = self._first_and_k(teacher), teacher.labelled()
        return _blank(curve(first), labelled, float("nan")), _blank(k, labelled, -1)

    def fixed_k(self, share: float = 0.6) -> int:
        """The smallest k for all rows whose top-k accuracy on gold is at least ``share``, never below 2."""
        enough = (self.top_k_accuracy_on_gold >= share).nonzero()
        return max(2, int(enough[0, 0]) + 1) if len(enough) else self.classes

    def bands(self, probs: Any, *, level: float = 0.95, repeats: int = 200, seed: int = 0) -> Bands:
        """Bootstrap bands of ``alpha(probs)``."""
        if not 0 < level < 1 or repeats < 20:
            wanted = "a level between 0 and 1, and at least 20 redraws"
            raise UnderstudyError(f"bands(level={level}, repeats={repeats}) needs {wanted}")
        teacher, rng = self._checked(probs), np.random.default_rng(seed)
        if self.per_class is not None:
            counts = _class_counts(self.gold_named, self.gold_right, self.classes)
            return accuracy_curves.class_bands(
                *counts, teacher.top1(), lower=self.lower_bound, level=level, repeats=repeats, rng=rng
            )
        covariate = _blank(self.covariate_of(teacher), teacher.labelled(), float("nan"))
        return accuracy_curves.curve_bands(
            self.gold_covariate, self.gold_right, covariate,
            lower=self.lower_bound, level=level, repeats=repeats, rng=rng,
        )  # fmt: skip

    def _checked(self, probs: Any) -> Labels:
        """Labels of the kind that was fitted."""
        by_score, teacher = self.covariate in COVARIATES, probs if isinstance(probs, Labels) else as_labels(probs)
        teacher = teacher if by_score else teacher.simplest()
        named = teacher.classes if by_score or not len(teacher) else int(teacher.top1().max()) + 1
        alike = teacher.ranks == by_score and (teacher.has_confidence or self.covariate != "confidence")
        if not alike or (named != self.classes if by_score else (named or 0) > self.classes):
            fitted = f"reliability was fitted by {self.covariate} over {self.classes} classes"
            raise UnderstudyError(f"{fitted}, these are {teacher.title} over {named}; use labels of the same teacher")
        return teacher

    def _first_and_k(self, teacher: Ranking, depth: int = 0) -> tuple[Tensor, Tensor]:
        """The top-1 covariate of every row and its smallest k, ``(N,)`` each."""
        deepest = min(len(self.curves), teacher.listed)
        # Entropies rank all classes anyway.
        depth = min(depth or teacher.first_depth, deepest) if self.covariate == "margin" else deepest
        # α_k(c) >= t exactly where c exceeds the curve's cutoff: a comparison instead of a lookup.
        cutoffs = [curve.cutoff(self.threshold) for curve in self.curves[:depth]]
        # Lists of a single class do not say which class comes second.
        least = 2 if teacher.listed > 1 else self.classes
        k_after = np.array([*range(1, depth + 1), self.classes]).clip(min=least)
        first, smallest = np.empty(len(teacher)), np.empty(len(teacher), dtype=np.int64)
        for rows, covariates in _in_turn(teacher, self.covariate, depth):
            first[rows] = top_1 = next(covariates)
            too_small, failed = np.ones(len(top_1), dtype=bool), np.zeros(len(top_1), np.min_scalar_type(depth))
            for k, (covariate, cutoff) in enumerate(zip(chain([top_1], covariates), cutoffs, strict=False)):
                too_small &= covariate <= cutoff
                failed += too_small
                if k % 8 == 7 and not too_small.any():
                    break
            smallest[rows] = k_after[failed]
        left = torch.from_numpy(np.flatnonzero(smallest == self.classes))
        if depth < deepest and len(left):
            smallest[left] = self._first_and_k(teacher.take(left), max(_SECOND_DEPTH, 4 * depth))[1]
        return torch.from_numpy(first), torch.from_numpy(smallest)


def _in_turn(teacher: Ranking, covariate: str, depth: int) -> Iterator[tuple[slice, Iterator[Floats]]]:
    """Some rows at a time, with their covariates for k = 1 … ``depth``."""
    if depth > min(teacher.listed, teacher.classes - 1):
        raise UnderstudyError(f"these labels list {teacher.listed} classes, too few for a top-{depth} accuracy")
    # Entropies need all the mass, and must add it up in the same order as on gold.
    ranked_to = depth if covariate == "margin" else teacher.classes
    step = min(_ROWS, max(1, _BUDGET // teacher.listed))
    for start in range(0, max(len(teacher), 1), step):
        yield slice(start, start + step), COVARIATES[covariate](teacher.leading(start, start + step, ranked_to))


def _covariate(teacher: Ranking, covariate: str, k: int) -> Tensor:
    """The top-k covariate of every row, ``(N,)``."""
    parts = [next(islice(turns, k - 1, None)) for _, turns in _in_turn(teacher, covariate, k)]
    return torch.from_numpy(np.concatenate(parts))


def _blank(values: Tensor, labelled: Tensor, filler: float) -> Tensor:
    """No estimate where there is no label."""
    return values if bool(labelled.all()) else torch.where(labelled, values, filler)


def _class_counts(named: Tensor, right: Tensor, classes: int) -> tuple[Tensor, Tensor]:
    """How many gold rows each class was named on, and on how many of them rightly, ``(C,)`` each."""
    counts = torch.bincount(named, minlength=classes).double()
    return counts, torch.bincount(named, weights=right, minlength=classes)


def _top_k_curves(
    teacher: Ranking, covariate: str, places: NDArray[np.int64], lower_bound: float, first: int
) -> Iterator[StepCurve]:
    """Top-k accuracy of the gold rows against their top-k covariate for k = ``first``, … ; ``places``: of the truth."""
    deepest = min(teacher.listed, teacher.classes - 1)
    depths = {min(_SECOND_DEPTH, deepest), deepest} if covariate == "margin" else {deepest}
    for depth in sorted(each for each in depths if each >= first):
        scores = teacher.leading(0, len(teacher), depth if covariate == "margin" else teacher.classes)
        for k, column in enumerate(COVARIATES[covariate](scores), start=1):
            if k >= first:
                yield fit_steps(column, (places < k).astype(np.float64), lower=lower_bound)
        first = depth + 1


@dataclass(frozen=True)
class ClassShift:
    #: Total variation: the share of rows that would have to change class.
    distance: float
    p_value: float
    #: The class whose share differs most, and its shares.
    most: int
    gold_share: float
    pool_share: float

    @property
    def alarming(self) -> bool:
        return self.p_value < SIGNIFICANT and self.distance > LARGE


def class_shift(gold: Labels, pool: Labels, classes: int) -> ClassShift:
    """The shift between the classes the teacher predicts on gold and on the pool; rows without a label do not count."""
    best = [gold.top1(), pool.top1()]
    here, there = (np.bincount(each[each >= 0].numpy(), minlength=classes).astype(np.float64) for each in best)
    gold_shares, pool_shares = here / max(here.sum(), 1), there / max(there.sum(), 1)
    most = int(np.abs(gold_shares - pool_shares).argmax())
    return ClassShift(
        distance=float(np.abs(gold_shares - pool_shares).sum() / 2),
        p_value=homogeneity(here, there),
        most=most,
        gold_share=float(gold_shares[most]),
        pool_share=float(pool_shares[most]),
    )


def homogeneity(here: NDArray[np.float64], there: NDArray[np.float64]) -> float:
    """p-value of "both counts ``(C,)`` come from one distribution"; 1 where there are too few rows."""
    table = _merged(np.stack([here, there]))
    totals = table.sum(1, keepdims=True)
    if table.shape[1] < 2 or totals.min() == 0:
        return 1.0
    expected = totals * table.sum(0) / table.sum()
    from scipy.special import chdtrc

    return float(chdtrc(table.shape[1] - 1, ((table - expected) ** 2 / expected).sum()))


def _merged(table: NDArray[np.float64]) -> NDArray[np.float64]:
    """Rare classes in one column; if even that is rare, it joins the next smallest."""
    pooled = table.sum(0)
    expected = pooled * table.sum(1).min() / max(table.sum(), 1)
    order = np.argsort(pooled, kind="stable")
    rare = int((expected < _EXPECTED).sum())
    if rare and expected[order[:rare]].sum() < _EXPECTED:
        rare += 1
    merged = table[:, order[:rare]].sum(1, keepdims=True)
    return np.concatenate([merged, table[:, order[rare:]]], axis=1) if rare else table


def enough_calibration_rows(gold: Labels, classes: int) -> int:
    """How many gold rows an estimate of reliability should have at least.

    Bare hard labels have an accuracy per class: 10 rows for each. Scores and confidences share one curve over all
    classes: 30 rows, and one per class so that the mixture of classes can be represented.
    """
    return max(30, classes) if gold.simplest().has_confidence else 10 * classes


def check_calibration(gold: Labels, pool: Labels, classes: int) -> dict[str, float]:
    """The class shift, with warnings where calibration rows are few, or not a sample of the pool."""
    wanted = enough_calibration_rows(gold, classes)
    if len(gold) < wanted:
        few = f"{len(gold)} gold rows calibrate the teacher over {classes} classes; {wanted} or more"
        warn(f"{few} are needed for a stable estimate: add gold rows with teacher=, or use us.vanilla()")
    if not gold.weighed_like(pool):
        one = "fit one (fit = votes.dawid_skene()) and pass by=fit to both us.Votes"
        warn(f"the votes on gold and on the pool are weighed by different models; {one}")
    shift = class_shift(gold, pool, classes)
    if shift.alarming:
        shares = f"{shift.gold_share:.0%} of gold and {shift.pool_share:.0%} of the pool (p = {shift.p_value:.1g})"
        warn(f"the teacher predicts class {shift.most} on {shares}; draw gold at random from the pool")
    return {"class_shift": shift.distance, "class_shift_p": shift.p_value}
