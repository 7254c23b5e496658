"""How well a number tells two kinds of rows apart: the area under the ROC curve, with an interval.

    area(scores, wrong)         # Share: 0.5 is a coin, 1 tells them apart without a miss

The area is the chance that a row of the kind scores higher than one that is not, ties counting half. Its interval is
Hanley and McNeil's (1982), from an area that is pulled towards 0.5 by one pair, so that a few rows told apart without a
miss are not called certain.
"""

import math

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtri

from understudy.maths.proportions import LEVEL, UNKNOWN, Share


def area(scores: ArrayLike, is_kind: ArrayLike, *, level: float = LEVEL) -> Share:
    """Unknown where all rows are of one kind."""
    score, kind = np.asarray(scores, dtype=np.float64), np.asarray(is_kind, dtype=bool)
    ours, others = int(kind.sum()), int((~kind).sum())
    if not ours or not others:
        return UNKNOWN
    _, place, counts = np.unique(score, return_inverse=True, return_counts=True)
    # Mean rank of each distinct value: ties share theirs.
    rank = (counts.cumsum() - (counts - 1) / 2)[place]
    found = (rank[kind].sum() - ours * (ours + 1) / 2) / (ours * others)
    pulled = (found * ours * others + 0.5) / (ours * others + 1)
    both_ours, both_others = pulled / (2 - pulled), 2 * pulled**2 / (1 + pulled)
    variance = (
        pulled * (1 - pulled) + (ours - 1) * (both_ours - pulled**2) + (others - 1) * (both_others - pulled**2)
    ) / (ours * others)
    half = float(ndtri((1 + level) / 2)) * math.sqrt(variance)
    return Share(float(found), max(0.0, float(pulled) - half), min(1.0, float(pulled) + half), ours + others)
