"""How strongly a linear student is held back: scikit-learn's C as a ``weight_decay`` of L-BFGS, and its choice on gold.

    us.train(us.models.linear(x.shape[1], 2), None, pool, us.vanilla(), epochs=100, optimizer="lbfgs",
             weight_decay=us.l2_of_c(10, rows=len(pool), classes=2))
    us.train(us.models.linear(x.shape[1], 2), gold, pool, us.slam(), optimizer="lbfgs", weight_decay="auto")

Minimised is ``mean loss + weight_decay / 2 · ‖W‖²`` with one row of W per class, scikit-learn's is ``Σ loss + ‖W‖² /
2C``: the same where ``weight_decay = 1 / (C · rows)``. For two classes scikit-learn has one weight vector w; the
softmax that predicts alike has the rows −w/2 and w/2, whose squares are half as large: twice the penalty is the same.

``"auto"`` takes the C of ``GRID``, divided by the rows' mean squared length (what a penalty does depends on the scale
of what it weighs; TF-IDF rows have length 1), with the least log-loss on gold rows that did not train: each third of
gold in turn is left out, and the rest and the pool are trained on as asked, from the strongest penalty to the weakest,
each from where the one before ended. Accuracy would not tell: between neighbours of the grid a hundred rows rarely
differ in it. Without gold it is C = 1 for rows of length 1.
"""

import warnings
from collections.abc import Callable

import torch
from torch import nn

from understudy.arguments import checked
from understudy.data.examples import Gold
from understudy.data.rows import Rows, is_sparse, take_sparse
from understudy.data.splits import fold_rows
from understudy.errors import UnderstudyError, UnderstudyWarning
from understudy.inference.passes import evaluate

__all__ = ["l2_of_c"]

GRID = (0.1, 1.0, 10.0, 100.0)
FOLDS, LEAST_ROWS = 3, 10
EPOCHS_TO_CHOOSE = 3
"""60 steps each: what is left to gain then does not change the choice."""
UNKNOWN = 1.0
"""scikit-learn's own."""

Fit = Callable[[Gold, nn.Module | None, float], nn.Module]
"""``(gold to train on, student to start from, weight_decay) -> student``; None: as the training would start."""


@checked
def l2_of_c(c: float, rows: int, classes: int) -> float:
    """The ``weight_decay`` under which L-BFGS minimises what ``LogisticRegression(C=c)`` does on so many rows."""
    if not c > 0 or rows < 1 or classes < 1:
        raise UnderstudyError(
            f"C={c} of {rows} rows, {classes} classes is no penalty; C is above 0, the others at least 1"
        )
    return (2 if classes == 2 else 1) / (c * rows)


def mean_square(rows: Rows) -> float:
    """The mean squared length of (the first thousand) rows."""
    first = torch.arange(min(len(rows), 1000))
    values = take_sparse(rows, first).data if is_sparse(rows) else rows.take(first)
    return max(float(torch.as_tensor(values).double().square().sum()) / len(first), 1e-12)


def choose_c(
    fit: Fit, gold: Gold | None, *, rows: int, classes: int, seed: int, length: float = 1.0
) -> tuple[float, dict[str, float]]:
    """The C of the least loss, and per C the mean log-loss of the gold rows that were left out; ``rows``: how many a
    training has. Where fewer than ``LEAST_ROWS`` gold rows train there is nothing to choose on: ``UNKNOWN``, {}."""
    training = torch.empty(0) if gold is None else gold.training_rows()
    if gold is None or len(training) < LEAST_ROWS:
        return UNKNOWN / length, {}
    grid = [c / length for c in GRID]
    totals = dict.fromkeys(grid, 0.0)
    for _, fold in fold_rows(gold.y[training], FOLDS, seed):
        left_out = gold.take(training[fold])
        kept = torch.ones(len(gold), dtype=torch.bool)
        kept[training[fold]] = False
        rest, student = gold.take(kept.nonzero().squeeze(1)), None
        for c in grid:
            with warnings.catch_warnings():
                # What fewer gold rows cannot tell is said of all of them, once, where the student is trained.
                warnings.simplefilter("ignore", UnderstudyWarning)
                student = fit(rest, student, l2_of_c(c, rows, classes))
            totals[c] += evaluate(student, left_out)["loss"] * len(fold) / len(training)
    return min(grid, key=totals.__getitem__), {f"{c:g}": loss for c, loss in totals.items()}
