"""What one seed deals: gold that trains and measures the teacher, gold that picks the epoch, rows that test.

With test rows of their own, gold is cut into a training and a select part, anew for each seed. Without, gold is also
cut into folds: seed 0 tests on the first fifth, seed 1 on the second and so on, so that after ``folds`` seeds every
gold row has been tested once by students that never saw it. Rows chosen by active learning are no random sample: they
always train.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from understudy.comparison.interval import Array
from understudy.data.crossfit import fold_rows
from understudy.data.examples import Gold, Pool
from understudy.data.splits import split
from understudy.errors import UnderstudyError

FOLDS = 5


@dataclass(frozen=True)
class Dealt:
    gold: Gold
    select: Gold | None
    test: Gold
    rows: Array
    """Which rows of the user's test set (or of gold, where that is cut into folds) test."""


def deal(gold: Gold, *, test: Gold | None, select: Gold | float, seed: int) -> Dealt:
    random = (~gold.chosen).nonzero().squeeze(1)
    if test is None:
        if len(random) < 2 * FOLDS:
            raise UnderstudyError(
                f"{len(random)} gold rows are too few to be cut into {FOLDS} folds; pass test=, or at least "
                f"{2 * FOLDS} gold rows that were not chosen by active learning"
            )
        repetition, fold = divmod(seed, FOLDS)
        rest, held_out = list(fold_rows(gold.take(random), FOLDS, repetition))[fold]
        tested, random = random[held_out], random[rest]
    else:
        tested = torch.arange(len(test))
    picks: Gold | None = select if isinstance(select, Gold) else None
    if isinstance(select, float) and select > 0:
        place, picks = _select_part(gold, random, select, seed)
        random = random[place]
    train = torch.cat([random, gold.chosen.nonzero().squeeze(1)]).sort().values
    mine = gold if len(train) == len(gold) else gold.take(train)
    return Dealt(mine, picks, gold.take(tested) if test is None else test, tested.numpy())


def gold_passes(gold: Gold, pool: Pool, repeat: int) -> int:
    """How often gold is shown per epoch where it trains alone: as many rows as the methods that have the pool.

    ``repeat``: how often they show it.
    """
    assert pool.teacher is not None
    return max(1, repeat + int(pool.teacher.labelled().sum()) // len(gold))


def _select_part(gold: Gold, rows: Tensor, share: float, seed: int) -> tuple[Tensor, Gold]:
    """Where in ``rows`` the training rows are, and the select rows as gold."""
    numbered = Gold(torch.arange(len(rows)), gold.y[rows])
    parts = split(numbered, select=share, seed=seed)
    if parts.select is None or parts.train is None:
        raise UnderstudyError(f"select={share} of {len(rows)} gold rows leaves no row on one side; pass select=0.0")
    train, picks = (part.rows.take(torch.arange(len(part))) for part in (parts.train, parts.select))
    return train, gold.take(rows[picks])
