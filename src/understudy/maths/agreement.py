"""Krippendorff's alpha: how far several annotators agree beyond what chance would bring (nominal data, gaps allowed).

Krippendorff, "Computing Krippendorff's Alpha-Reliability" (2011). Row u got m_u answers, n_uc of them c. Every ordered
pair of answers to one row is a coincidence, weighed so that a row counts as much as it has answers:

    o_ck = Σ_u n_uc (n_uk − [c = k]) / (m_u − 1)      over rows with m_u ≥ 2
    n_c = Σ_k o_ck,   n = Σ_c n_c
    α = 1 − D_o / D_e = 1 − (n − 1) (n − Σ_c o_cc) / (n² − Σ_c n_c²)

1: they always agree; 0: as if answers were dealt at random; below: worse than that. Where only one class was ever named
there is nothing that chance could have got wrong, and alpha is not defined.

    krippendorff_alpha(votes, classes=5)          # (N, A) class numbers, −1: no answer
"""

import torch
from torch import Tensor


def krippendorff_alpha(votes: Tensor, classes: int) -> float | None:
    """None where no row has two answers, or only one class was named."""
    counts = torch.zeros(len(votes), classes + 1, dtype=torch.float64)
    # Gaps fall into a column of their own, which is cut off.
    answers = torch.where(votes < 0, classes, votes.long())
    counts.scatter_add_(1, answers, torch.ones((), dtype=torch.float64).expand(answers.shape))
    counts = counts[:, :classes]
    counts = counts[counts.sum(1) >= 2]
    size = counts.sum(1, keepdim=True)  # m_u
    agreeing = float((counts * (counts - 1) / (size - 1)).sum())  # Σ_c o_cc
    by_class = counts.sum(0)  # n_c: the pairs of a row add up to its answers
    total = float(by_class.sum())
    by_chance = total**2 - float((by_class**2).sum())
    return 1 - (total - 1) * (total - agreeing) / by_chance if by_chance > 0 else None
