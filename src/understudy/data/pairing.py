"""Gold and pool together: checked once, where they enter, and votes weighed by gold (``us.Votes(by="gold")``).

check_sets(gold, pool)                         # at the top of us.train, us.Session, us.compare, us.auto, us.audit
gold, pool = weigh_by_gold(gold, pool)         # with exactly the gold rows that may be used: a fold, a part
pool, rows = drop_unlabelled(pool)
"""

import copy
from typing import Any

import torch
from torch import Tensor

from understudy.data.examples import Gold, Part, Pool
from understudy.errors import UnderstudyError
from understudy.labels.class_names import check_same_classes


def check_sets(gold: Any, pool: Any, *, both_for: str = "") -> None:
    """Refuses what is not a gold set and a pool (or None), and sets whose classes or columns differ.

    ``both_for``: what needs both of them, for the message.
    """
    if both_for and (gold is None or pool is None):
        raise UnderstudyError(
            f"{both_for} needs gold and a pool; pass us.Gold(x, y, teacher=…) and us.Pool(x, teacher)"
        )
    if not isinstance(gold, Gold | None):
        raise UnderstudyError(f"gold is a {type(gold).__name__}; pass us.Gold(x, y)")
    if not isinstance(pool, Pool | None):
        raise UnderstudyError(f"pool is a {type(pool).__name__}; pass us.Pool(x, teacher)")
    check_compatible(gold, pool, "gold", "the pool")


def check_compatible(one: Gold | Pool | None, other: Gold | Pool | None, what: str, another: str) -> None:
    """Refuses sets whose classes, or whose frames' columns, are in different orders."""
    if one is None or other is None:
        return
    if not isinstance(other, Pool) or other.teacher is not None:
        check_same_classes(one.class_order, other.class_order, what, another)
    mine, theirs = one.rows.names, other.rows.names
    if mine is not None and theirs is not None and mine != theirs:
        raise UnderstudyError(
            f"{what}.x has the columns {', '.join(mine[:8])}, {another}'s x {', '.join(theirs[:8])}; pass the same "
            "columns in the same order"
        )


def drop_unlabelled(pool: Pool | None) -> tuple[Pool | None, Tensor | None]:
    """The pool rows with a label, and which they are (None: all)."""
    if pool is None:
        return None, None
    if pool.teacher is None:
        raise UnderstudyError("the pool has no teacher labels; label it (us.teach), or pass pool=None for gold alone")
    if not len(pool):
        raise UnderstudyError("the pool is empty; give it rows, or pass pool=None to train on gold alone")
    labelled = pool.teacher.labelled()
    if bool(labelled.all()):
        return pool, None
    kept = labelled.nonzero().squeeze(1)
    if not len(kept):
        raise UnderstudyError("no pool row has a teacher label (all are −1); label some, or pass pool=None")
    return pool.take(kept), kept


def weigh_by_gold(gold: Gold | None, pool: Pool | None) -> tuple[Gold | None, Pool | None]:
    """Both sets with their votes weighed by gold; those of gold rows are cross-fitted."""
    return weighed(gold, gold), weighed(pool, gold)


def weighed(part: Part, gold: Gold | None) -> Part:
    """``part`` with votes weighed by ``gold``; where it is gold itself, each row by the others."""
    if part is None or part.teacher is None or not part.teacher.needs_gold:
        return part
    rows, labels = (torch.empty(0), None) if gold is None else gold.calibration()
    if gold is None or labels is None or not len(rows):
        raise UnderstudyError(
            'votes by="gold" need gold rows with votes (us.Gold(x, y, teacher=us.Votes(…, by="gold"))); give some, or '
            'use by="majority"'
        )
    if not labels.needs_gold:
        raise UnderstudyError('the pool\'s votes are weighed by="gold", those on gold are not; pass by="gold" to both')
    with_labels = copy.copy(part)
    if part is gold:
        known = torch.isin(gold.teacher_rows, rows)
        with_labels.teacher = part.teacher.cross_fitted(gold.y[gold.teacher_rows], known)
    else:
        with_labels.teacher = part.teacher.learn_from(labels, gold.y[rows])
    return with_labels
