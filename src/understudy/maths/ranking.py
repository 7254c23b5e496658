"""Class probabilities in descending order, possibly only the first K of C, and what can be read off them for every k.

For the k-th column the covariate is ``topk_margin(p, k)`` or minus ``grouped_entropy(p, k)``; computing all of them
from one sort costs O(C) per row instead of O(C²). They need no order of the classes and, for margins, only the k + 1
largest entries: ``leading`` gives just those, over ten times faster than a stable sort.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor


class Leading(NamedTuple):
    """The K largest entries ``(n, K)``, descending float64, without their classes; ``rest (n,)`` is the next largest.

    Grouped certainties need all the mass: read them off only where each unlisted class holds ``rest``.
    """

    probs: Tensor
    rest: Tensor
    classes: int

    @property
    def depths(self) -> int:
        """How many k have a covariate: top-k for k = 1 … depths, k < classes."""
        return min(self.probs.shape[1], self.classes - 1)


def leading(probs: Tensor, depth: int) -> Leading:
    """The ``depth`` largest entries of dense rows and the one after them."""
    classes = probs.shape[1]
    # numpy's float sorts are vectorised: 5 µs for 1,000 entries where a stable argsort takes 65.
    entries = (probs if probs.dtype in (torch.float32, torch.float64) else probs.float()).cpu().numpy()
    if depth + 1 < classes:
        cut = classes - depth - 1
        entries = np.partition(entries, cut, axis=1)[:, cut:]
    # Column by column in memory, as the covariates are read.
    largest = torch.from_numpy(np.sort(entries, axis=1)[:, ::-1].astype(np.float64, order="F"))
    rest = largest[:, depth] if depth < classes else largest.new_zeros(len(largest))
    return Leading(largest[:, :depth], rest, classes)


def positions(probs: Tensor, labels: Tensor) -> Tensor:
    """How many classes stand before the label in a row's ranking (equal entries in class order), ``(n,)``."""
    own = probs.gather(1, labels.unsqueeze(1))
    earlier = torch.arange(probs.shape[1]) < labels.unsqueeze(1)
    return ((probs > own) | ((probs == own) & earlier)).sum(1)


def margins_in_turn(scores: Leading) -> Iterator[Tensor]:
    """``topk_margin(p, k)`` for k = 1, 2, … depths, one ``(n,)`` at a time."""
    head = torch.zeros_like(scores.rest)
    for k in range(scores.depths):
        head = head + scores.probs[:, k]
        yield head - (scores.probs[:, k + 1] if k + 1 < scores.probs.shape[1] else scores.rest)


def certainties_in_turn(scores: Leading) -> Iterator[Tensor]:
    """``−grouped_entropy(p, k)`` for k = 1, 2, … depths, one ``(n,)`` at a time: larger is surer, like a margin."""
    head = scores.probs.cumsum(1)
    pieces = scores.probs.xlogy(scores.probs)
    unlisted = (scores.classes - scores.probs.shape[1]) * scores.rest.xlogy(scores.rest)
    after = pieces.sum(1, keepdim=True) - pieces.cumsum(1) + unlisted.unsqueeze(1)
    yield from (head.xlogy(head) + after)[:, : scores.depths].unbind(1)
