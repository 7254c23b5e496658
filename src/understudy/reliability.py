"""How far a teacher can be trusted, estimated on gold rows it had not trained on (SLaM, Algorithm 2).

``alpha(teacher)`` is the chance that the teacher's best class is right, ``k(teacher)`` how many of its favourites
must be kept so that the truth is among them with the wanted chance. For soft labels both come from isotonic curves of
top-k accuracy against the top-k margin, one curve per k. The paper prints the top-1 error as every curve's response;
its text means top-k accuracy, which is what is fitted. Hard labels without a score get one accuracy per class.

    trust = us.Reliability.fit(teacher_on_gold, y_gold, lower_bound=0.5, threshold=0.9)
    trust.alpha(teacher_on_pool), trust.k(teacher_on_pool)
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from understudy.data.checks import check_labels, check_length
from understudy.data.labels import Hard, Labels, Ranking, as_labels
from understudy.errors import UnderstudyError
from understudy.maths.isotonic import StepCurve, fit_steps
from understudy.maths.neighbours import neighbour_means
from understudy.maths.ranking import Ranked, grouped_certainties, hits, topk_margins
from understudy.maths.weights import neighbour_count

COVARIATES: dict[str, Callable[[Ranked], Tensor]] = {"margin": topk_margins, "entropy": grouped_certainties}
# A class with few gold rows leans on the overall accuracy as if it had this many more rows of it.
PSEUDO_COUNT = 10
# float64 entries held at once while predicting: 64 MB.
_BUDGET = 1 << 23


class Reliability(ABC):
    """Fitted trust in a teacher. Apply it to any labels of the same teacher."""

    classes: int
    lower_bound: float
    threshold: float
    top_k_accuracy_on_gold: Tensor
    """Share of the gold rows whose label is among the teacher's top k, for k = 1, 2, …"""

    @staticmethod
    def fit(
        probs: Any,
        labels: Any,
        lower_bound: float = 0.5,
        threshold: float = 0.9,
        *,
        covariate: str = "margin",
        estimator: str = "isotonic",
        classes: int | None = None,
    ) -> "Reliability":
        """Estimate from what the teacher said (``probs``, or any label form) of rows whose truth is ``labels``.

        ``covariate``: "margin" or "entropy". ``estimator``: "isotonic", or "knn" for alpha by nearest neighbours.
        """
        if not 0 <= lower_bound < 1:
            raise UnderstudyError(f"lower_bound={lower_bound} is not in [0, 1)")
        if not 0 < threshold <= 1:
            raise UnderstudyError(f"threshold={threshold} is not in (0, 1]")
        if covariate not in COVARIATES:
            raise UnderstudyError(f"covariate={covariate!r} is unknown; use one of {', '.join(COVARIATES)}")
        if estimator not in ("isotonic", "knn"):
            raise UnderstudyError(f"estimator={estimator!r} is unknown; use isotonic or knn")
        teacher = as_labels(probs).simplest()
        y = check_labels(labels, "labels")
        check_length(len(y), len(teacher), "labels", "the teacher's labels")
        if len(y) < 2:
            raise UnderstudyError(
                f"only {len(y)} gold rows carry a teacher label; at least 2 are needed (some hundred are better): "
                "pass teacher= for gold rows the teacher had not trained on"
            )
        if isinstance(teacher, Hard):
            return _fit_hard(teacher, y, lower_bound, threshold, classes or teacher.classes)
        assert isinstance(teacher, Ranking)
        return _fit_ranked(teacher, y, lower_bound, threshold, covariate, estimator)

    @abstractmethod
    def alpha(self, probs: Any) -> Tensor:
        """Chance that the teacher's best class is right, ``(N,)`` float64 in [lower_bound, 1]."""

    @abstractmethod
    def k(self, probs: Any) -> Tensor:
        """Smallest k >= 2 whose estimated top-k accuracy reaches the threshold, ``(N,)``; C where none does."""

    @abstractmethod
    def topk_accuracy(self, probs: Any, k: int) -> Tensor:
        """Chance that the truth is among the teacher's k best classes, ``(N,)``."""

    def fixed_k(self, share: float = 0.6) -> int:
        """The smallest k for all rows whose top-k accuracy on gold is at least ``share``, never below 2."""
        enough = (self.top_k_accuracy_on_gold >= share).nonzero()
        return max(2, int(enough[0, 0]) + 1) if len(enough) else self.classes


@dataclass(frozen=True)
class RankedReliability(Reliability):
    """For labels with scores: ``curves[k − 1]`` is top-k accuracy against the top-k covariate."""

    curves: list[StepCurve]
    alpha_curve: Callable[[Tensor], Tensor]
    covariate: str
    classes: int
    lower_bound: float
    threshold: float
    top_k_accuracy_on_gold: Tensor

    def alpha(self, probs: Any) -> Tensor:
        return self._by_chunk(probs, lambda covariates: self.alpha_curve(covariates[:, 0]))

    def k(self, probs: Any) -> Tensor:
        # α_k(c) >= t exactly where c exceeds the curve's cutoff: one comparison instead of C − 1 curve lookups.
        cutoffs = torch.tensor([curve.cutoff(self.threshold) for curve in self.curves[1:]], dtype=torch.float64)
        beyond = torch.ones(1, dtype=torch.bool)

        def smallest(covariates: Tensor) -> Tensor:
            reached = covariates[:, 1:] > cutoffs
            first = torch.cat([reached, beyond.expand(len(reached), 1)], dim=1).byte().argmax(1)
            # Listed depths are k = 2 … depths; past them only k = C is sure.
            return torch.where(first < len(cutoffs), first + 2, self.classes)

        return self._by_chunk(probs, smallest)

    def topk_accuracy(self, probs: Any, k: int) -> Tensor:
        if not 1 <= k <= self.classes:
            raise UnderstudyError(f"k={k} is not between 1 and the {self.classes} classes")
        if k > len(self.curves):
            return torch.ones(len(as_labels(probs)), dtype=torch.float64)
        return self._by_chunk(probs, lambda covariates: self.curves[k - 1](covariates[:, k - 1]))

    def _by_chunk(self, probs: Any, read: Callable[[Tensor], Tensor]) -> Tensor:
        teacher = as_labels(probs)
        if not isinstance(teacher, Ranking) or teacher.classes != self.classes:
            raise UnderstudyError(
                f"the curves were fitted on scores over {self.classes} classes, but the labels given are "
                f"{type(teacher).__name__} over {teacher.classes}; use labels of the same teacher"
            )
        step = max(1, _BUDGET // self.classes)
        covariates = COVARIATES[self.covariate]
        parts = [read(covariates(teacher.ranked(i, i + step))) for i in range(0, len(teacher), step)]
        return torch.cat(parts) if parts else torch.empty(0, dtype=torch.float64)


@dataclass(frozen=True)
class HardReliability(Reliability):
    """For hard labels: accuracy per class the teacher named, or a curve over its confidence where it gave one."""

    per_class: Tensor
    curve: StepCurve | None
    classes: int
    lower_bound: float
    threshold: float
    top_k_accuracy_on_gold: Tensor

    def alpha(self, probs: Any) -> Tensor:
        teacher = self._hard(probs)
        if self.curve is not None:
            if teacher.given is None:
                raise UnderstudyError("alpha was fitted on confidences, but these labels have none; use us.Hard(…)")
            return self.curve(teacher.given)
        labels = teacher.top1()
        if len(labels) and int(labels.max()) >= self.classes:
            raise UnderstudyError(
                f"the teacher named class {int(labels.max())}, but the estimate knows {self.classes} classes; "
                "pass classes= to Reliability.fit"
            )
        return self.per_class[labels]

    def k(self, probs: Any) -> Tensor:
        # No ranking to cut: the truth may be any class.
        return torch.full((len(self._hard(probs)),), self.classes)

    def topk_accuracy(self, probs: Any, k: int) -> Tensor:
        if k == 1:
            return self.alpha(probs)
        if k == self.classes:
            return torch.ones(len(self._hard(probs)), dtype=torch.float64)
        raise UnderstudyError(f"hard labels do not rank the classes, so there is no top-{k} accuracy")

    @staticmethod
    def _hard(probs: Any) -> Hard:
        teacher = as_labels(probs).simplest()
        if not isinstance(teacher, Hard):
            raise UnderstudyError(
                "trust was fitted on hard labels, but these are scores; use labels of the same teacher"
            )
        return teacher


def _fit_ranked(
    teacher: Labels, y: Tensor, lower_bound: float, threshold: float, covariate: str, estimator: str
) -> RankedReliability:
    assert isinstance(teacher, Ranking) and teacher.classes is not None
    if int(y.max()) >= teacher.classes:
        raise UnderstudyError(f"labels hold class {int(y.max())}, but the teacher knows {teacher.classes} classes")
    ranked = teacher.ranked(0, len(teacher))
    covariates = COVARIATES[covariate](ranked).numpy()
    responses = hits(ranked, y).double().numpy()
    curves = [fit_steps(covariates[:, j], responses[:, j], lower=lower_bound) for j in range(covariates.shape[1])]
    alpha_curve: Callable[[Tensor], Tensor] = curves[0]
    if estimator == "knn":
        alpha_curve = _NeighbourCurve(covariates[:, :1], responses[:, :1], lower_bound)
    return RankedReliability(
        curves=curves,
        alpha_curve=alpha_curve,
        covariate=covariate,
        classes=teacher.classes,
        lower_bound=lower_bound,
        threshold=threshold,
        top_k_accuracy_on_gold=torch.from_numpy(responses.mean(0)),
    )


@dataclass(frozen=True)
class _NeighbourCurve:
    """Mean response of the nearest gold rows; offered beside isotonic regression for the paper's Figure 1."""

    points: np.ndarray[Any, Any]
    responses: np.ndarray[Any, Any]
    lower: float

    def __call__(self, covariate: Tensor) -> Tensor:
        k = neighbour_count(len(self.points))
        means = neighbour_means(covariate.double().unsqueeze(1).numpy(), self.points, self.responses, k)
        return torch.from_numpy(means[:, 0]).clamp(self.lower, 1.0)


def _fit_hard(teacher: Hard, y: Tensor, lower_bound: float, threshold: float, classes: int | None) -> HardReliability:
    said = teacher.top1()
    classes = classes or max(int(said.max()), int(y.max())) + 1
    right = (said == y).double()
    overall = right.mean()
    named = torch.bincount(said, minlength=classes)
    correct = torch.bincount(said, weights=right, minlength=classes)
    per_class = ((correct + PSEUDO_COUNT * overall) / (named + PSEUDO_COUNT)).clamp(min=lower_bound)
    curve = None
    if teacher.given is not None:
        curve = fit_steps(teacher.given.numpy(), right.numpy(), lower=lower_bound)
    return HardReliability(
        per_class=per_class,
        curve=curve,
        classes=classes,
        lower_bound=lower_bound,
        threshold=threshold,
        top_k_accuracy_on_gold=overall.reshape(1),
    )
