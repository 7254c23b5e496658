"""Accuracies of a teacher from its record on gold, where no isotonic curve is asked for: by class, by neighbours."""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from understudy.maths.neighbours import neighbour_means
from understudy.maths.weights import neighbour_count

# A class with few gold rows leans on the overall accuracy as if it had this many more rows of it.
PSEUDO_COUNT = 10


def class_accuracies(named: Tensor, correct: Tensor, lower: float) -> Tensor:
    """Accuracy per class from counts ``(…, C)``, leaning on the overall accuracy, never below ``lower``."""
    overall = correct.sum(-1, keepdim=True) / named.sum(-1, keepdim=True)
    return ((correct + PSEUDO_COUNT * overall) / (named + PSEUDO_COUNT)).clamp(min=lower)


@dataclass(frozen=True)
class NeighbourCurve:
    """Mean response of the nearest gold rows; offered beside isotonic regression for the paper's Figure 1."""

    points: NDArray[np.float64]
    responses: NDArray[np.float64]
    lower: float

    def __call__(self, covariate: Tensor) -> Tensor:
        k = neighbour_count(len(self.points))
        points, responses = self.points[:, None], self.responses[:, None]
        means = neighbour_means(covariate.double().unsqueeze(1).numpy(), points, responses, k)
        return torch.from_numpy(means[:, 0]).clamp(self.lower, 1.0)
