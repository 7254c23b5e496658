"""What another answer about a row is worth, and the best use of a labelling budget.

A row whose truth has the chances p is worth so many *clean labels*, its purity:

    w(p) = (C Σ_c p_c² − 1) / (C − 1)                       1: the truth is known, 0: every class is as likely

For labels that are wrong with chance e, the other classes alike, w = (1 − e C / (C − 1))²: of n labels with errors at
that rate a learner has as much as of n·w without (Angluin and Laird, 1988, for two classes: (1 − 2e)²). A source that
answers l where the truth is c with chance M_cl answers l with chance q_l = Σ_c p_c M_cl, which leaves p_c M_cl / q_l:

    E w = (C Σ_l Σ_c (p_c M_cl)² / q_l − 1) / (C − 1)       never below w(p): an answer can be ignored

The rate of errors, 1 − max p, is blind where w is not: at p = (0.9, 0.1) an answer that is right four times in five
turns no label, though two of them would. Several sources that label one row are independent given the truth.

A budget is a *multiple-choice knapsack*: of every row at most one option (a source, or two of them) is chosen. Each
row's options are reduced to the ones on their upper hull, gain against price, and the steps along all hulls are taken
by gain per price. No plan of the same price has more, but for what the last step that did not fit would have brought
(Sinha and Zoltners, 1979).

    purity(probs)                                           # (N,)
    purity_after(probs, confusion)                          # (N,), confusion (C, L)
    taken(steps_by_worth(gain, price), rows, budget)        # (N,) option of each row, −1: none
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

# Numbers looked at together: 8 MB as float64.
_BUDGET = 1 << 20


def purity(probs: Tensor) -> Tensor:
    """Clean labels that each row is worth, ``(N,)``."""
    classes = probs.shape[1]
    return (classes * probs.square().sum(1) - 1) / (classes - 1)


def purity_after(probs: Tensor, confusion: Tensor) -> Tensor:
    """The same after an answer of a source with P(answer | truth) ``(C, L)``, in expectation."""
    classes = probs.shape[1]

    def squares(part: Tensor) -> Tensor:
        joint = part.unsqueeze(2) * confusion
        given = joint.sum(1)
        return torch.where(given > 0, joint.square().sum(1) / given, 0.0).sum(1)

    return (classes * _by_chunk(squares, probs, confusion) - 1) / (classes - 1)


def error_after(probs: Tensor, confusion: Tensor) -> Tensor:
    """The chance that the most likely class is wrong after such an answer, ``(N,)``."""
    return 1 - _by_chunk(lambda part: (part.unsqueeze(2) * confusion).amax(1).sum(1), probs, confusion)


def answered_together(one: Tensor, other: Tensor) -> Tensor:
    """The confusion ``(C, L·K)`` of two sources that both label a row."""
    return (one.unsqueeze(2) * other.unsqueeze(1)).flatten(1)


def regret(probs: Tensor, assumed: Tensor, true: Tensor) -> Tensor:
    """Clean labels lost, ``(N,)``, where a source's confusion is ``true`` and taken to be ``assumed``; (C, L) each.

    The Brier score lost by chances p' where p are right is |p' − p|², in the units of purity.
    """
    classes = probs.shape[1]

    def distances(part: Tensor) -> Tensor:
        joints = [part.unsqueeze(2) * confusion for confusion in (assumed, true)]
        wrong, right = (joint / joint.sum(1, keepdim=True).clamp_min(1e-300) for joint in joints)
        return ((wrong - right).square().sum(1) * joints[1].sum(1)).sum(1)

    return classes / (classes - 1) * _by_chunk(distances, probs, assumed)


class Steps(NamedTuple):
    """Purchasable steps, the best first."""

    row: Tensor
    #: What the row has after the step.
    option: Tensor
    #: By the step alone; so is ``price``.
    gain: Tensor
    price: Tensor


def steps_by_worth(gain: Tensor, price: Tensor) -> Steps:
    """Every row's hull as steps, in the order of gain per price. ``gain (N, O)``: −inf where an option is none;
    ``price (O,)``."""
    rows = torch.arange(len(gain))
    parts: list[Steps] = []
    now_gain, now_price = torch.zeros(len(gain), dtype=torch.float64), torch.zeros(len(gain), dtype=torch.float64)
    for _ in range(gain.shape[1]):
        more, extra_price = gain - now_gain.unsqueeze(1), price - now_price.unsqueeze(1)
        # What is free is worth any gain; among that, the largest gain.
        worth = torch.where(extra_price > 0, more / extra_price, torch.where(extra_price == 0, math.inf, -math.inf))
        worth = torch.where(more > 0, worth, -math.inf)
        best = worth.amax(1, keepdim=True)
        option = torch.where((worth == best) & (best > 0), more, -math.inf).argmax(1)
        moves = best.squeeze(1) > 0
        mine = (rows[moves], option[moves], more[rows, option][moves], extra_price[rows, option][moves])
        parts.append(Steps(*mine))
        now_gain = torch.where(moves, gain[rows, option], now_gain)
        now_price = torch.where(moves, price[option], now_price)
        if not bool(moves.any()):
            break
    steps = Steps(*(torch.cat(values) for values in zip(*parts, strict=True)))
    order = (steps.gain / steps.price).argsort(descending=True, stable=True)
    return Steps(*(values[order] for values in steps))


def taken(steps: Steps, rows: int, budget: float) -> Tensor:
    """The steps that fit, the best first; what is left of the budget goes to the best ones that still fit."""
    left = budget + 1e-9 * max(budget, 1.0)  # ten times 0.1 is 1
    chosen = steps.price.cumsum(0) <= left
    left -= float(steps.price[chosen].sum())
    while True:
        rest = (~chosen).nonzero().squeeze(1)
        # A row's steps stand in its own order, and none is skipped.
        following = rest[np.sort(np.unique(steps.row[rest].numpy(), return_index=True)[1])]
        following = following[steps.price[following] <= left]
        following = following[steps.price[following].cumsum(0) <= left]
        if not len(following):
            break
        chosen[following] = True
        left -= float(steps.price[following].sum())
    at = chosen.nonzero().squeeze(1)
    last = torch.full((rows,), -1).scatter_reduce(0, steps.row[at], at, "amax")
    return torch.where(last >= 0, torch.cat([steps.option, torch.tensor([-1])])[last], -1)


def _by_chunk(function: Callable[[Tensor], Tensor], probs: Tensor, confusion: Tensor) -> Tensor:
    parts = probs.split(max(1, _BUDGET // confusion.numel()))
    return torch.cat([function(part) for part in parts]) if len(probs) else probs.new_zeros(0)
