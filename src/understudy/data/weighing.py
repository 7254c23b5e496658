"""Where gold and pool meet: labels that have yet to learn from gold how to weigh (``us.Votes(by="gold")``) learn it.

Whoever starts from gold and pool asks here first, with exactly the gold rows it may use: a fold of gold, a part dealt
for training. Sets without such labels come back as they are.

    gold, pool = weigh_by_gold(gold, pool)
"""

import copy

import torch

from understudy.data.examples import Gold, Part, Pool
from understudy.errors import UnderstudyError
from understudy.labels.class_names import check_same_classes


def weigh_by_gold(gold: Gold | None, pool: Pool | None) -> tuple[Gold | None, Pool | None]:
    """Both sets with labels; those of gold rows are cross-fitted. Classes and columns must be in one order."""
    check_meeting(gold, pool, "gold", "the pool")
    return weighed(gold, gold), weighed(pool, gold)


def check_meeting(one: Gold | Pool | None, other: Gold | Pool | None, what: str, another: str) -> None:
    """Refuses sets whose classes, or whose frames' columns, are in different orders."""
    if not (isinstance(one, Gold | Pool) and isinstance(other, Gold | Pool)):
        return
    if not isinstance(other, Pool) or other.teacher is not None:
        check_same_classes(one.class_order, other.class_order, what, another)
    mine, theirs = one.rows.names, other.rows.names
    if mine is not None and theirs is not None and mine != theirs:
        raise UnderstudyError(
            f"{what}.x has the columns {', '.join(mine[:8])}, {another}'s x {', '.join(theirs[:8])}; pass the same "
            "columns in the same order"
        )


def weighed(part: Part, gold: Gold | None) -> Part:
    """``part`` with labels weighed as ``gold`` says; where it is gold itself, each row by the others."""
    # What is no set at all is refused where it is read.
    if not isinstance(part, Gold | Pool) or part.teacher is None or not part.teacher.needs_gold:
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
