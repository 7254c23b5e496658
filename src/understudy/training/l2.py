"""How strongly a linear student is held back: scikit-learn's C as a ``weight_decay`` of L-BFGS.

    us.train(us.models.linear(x.shape[1], 2), None, pool, us.vanilla(), epochs=100, optimizer="lbfgs",
             weight_decay=us.l2_of_c(10, rows=len(pool), classes=2))

Minimised is ``mean loss + weight_decay / 2 · ‖W‖²`` with one row of W per class, scikit-learn's is ``Σ loss + ‖W‖² /
2C``: the same where ``weight_decay = 1 / (C · rows)``. For two classes scikit-learn has one weight vector w; the
softmax that predicts alike has the rows −w/2 and w/2, whose squares are half as large: twice the penalty is the same.
"""

from understudy.errors import UnderstudyError

__all__ = ["l2_of_c"]


def l2_of_c(c: float, rows: int, classes: int) -> float:
    """The ``weight_decay`` under which L-BFGS minimises what ``LogisticRegression(C=c)`` does on so many rows."""
    if not c > 0 or rows < 1:
        raise UnderstudyError(f"C={c} of {rows} rows is no penalty; C is greater than 0, rows at least 1")
    return (2 if classes == 2 else 1) / (c * rows)
