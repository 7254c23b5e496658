"""How often a student is right on gold rows that it was trained without: an accuracy where there are no test rows.

    right = ask_held_out(build, gold, pool, us.slam(), recipe)      # (n,) true or false; None: cannot be told

Gold is cut into ``FOLDS`` parts, and a student is trained as the real one was without each of them and asked about it.
Each of these has learned from fewer gold rows than the real one, so that the figure is a little too low rather than too
high. Rows chosen by active learning are no sample: they train and are not asked about.
"""

import warnings
from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor, nn

from understudy.data.examples import Gold, Pool
from understudy.data.splits import fold_rows
from understudy.errors import UnderstudyError, UnderstudyWarning
from understudy.inference.passes import predicted
from understudy.objective import Objective
from understudy.training.options import TrainingOptions
from understudy.training.train import train

FOLDS = 4
LEAST_ROWS, MOST_ROWS = 20, 20_000
"""Of gold, to be asked about, and of gold and pool, to be trained on ``FOLDS`` times more."""


def ask_held_out(
    student: nn.Module | Callable[[], nn.Module],
    gold: Gold,
    pool: Pool | None,
    objective: Objective,
    recipe: TrainingOptions,
) -> Tensor | None:
    """Whether each gold row (but for chosen ones) was named rightly. None where gold is too small, all rows are too
    many, or a part of gold is too little for what the method estimates."""
    asked = (~gold.chosen).nonzero().squeeze(1)
    if len(asked) < LEAST_ROWS or len(gold) + (0 if pool is None else len(pool)) > MOST_ROWS:
        return None
    plain = replace(recipe, refine=False, patience=None, ema=None, checkpoint_every=None)
    right = torch.zeros(len(asked), dtype=torch.bool)
    for _, fold in fold_rows(gold.y[asked], FOLDS, recipe.seed):
        kept = torch.ones(len(gold), dtype=torch.bool)
        kept[asked[fold]] = False
        held_out = gold.take(asked[fold])
        try:
            with warnings.catch_warnings():
                # What a part of gold cannot tell was said of all of it, once, where the student was trained.
                warnings.simplefilter("ignore", UnderstudyWarning)
                rest = gold.take(kept.nonzero().squeeze(1))
                run = train(student, rest, pool, objective, progress=False, **plain.arguments())
        except UnderstudyError:
            return None
        right[fold] = predicted(run.student, held_out.rows) == held_out.y
    return right
