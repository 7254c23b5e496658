"""How a run of ``understudy train`` stands: on the test rows, else on gold rows that students like it did not see.

    found = standing_of(run, build, examples, us.slam(), recipe)         # for report/answers.py; None where unknown

Beside it a student of gold alone, where there is a pool to be worth something.
"""

import warnings
from collections.abc import Callable, Mapping
from typing import Any

from torch import nn

from understudy.data.examples import Gold
from understudy.data.texts import is_text
from understudy.errors import UnderstudyWarning
from understudy.inference.passes import predicted
from understudy.io.read import Examples
from understudy.methods import METHODS
from understudy.objective import Objective
from understudy.reconciling.base_models import gold_only_recipe
from understudy.report.answers import Standing, standing
from understudy.training.defaults import suitable_epochs
from understudy.training.held_out import ask_held_out
from understudy.training.options import LBFGS, TrainingOptions
from understudy.training.run import Run
from understudy.training.train import train

Build = Callable[[], nn.Module]


def standing_of(
    run: Run, build: Build, examples: Examples, objective: Objective | None, recipe: Mapping[str, Any]
) -> Standing | None:
    """``objective``: None where a pilot chose it, which has asked about gold already."""
    gold, pool, test = examples.gold, examples.pool, examples.test
    given = {**recipe, "ema": None, "patience": None}
    if gold is None or is_text(gold.rows) or not len(gold.training_rows()):
        return standing(run, gold=gold, test=test)  # a net that reads texts takes too long to train once more
    if test is not None:
        right = predicted(run.student, test.rows) == test.y
        on_gold = None if pool is None else predicted(_on_gold(build, gold, given), test.rows) == test.y
        return standing(run, gold=gold, test=test, right=right, gold_only=on_gold)
    if objective is None or objective.relabel is not None:
        return standing(run, gold=gold)  # every part would make its labels anew
    # What was chosen on gold is one number of many rows, through which no row says much of itself.
    told = TrainingOptions(**given | {"weight_decay": run.config["weight_decay"]})
    held_out = ask_held_out(build, gold, pool, objective, told)
    if held_out is None or pool is None or pool.teacher is None:
        return standing(run, gold=gold, right=held_out)
    gold_only = ask_held_out(build, gold, None, METHODS["vanilla"](), gold_only_recipe(told, gold, pool))
    return standing(run, gold=gold, right=held_out, gold_only=gold_only)


def _on_gold(build: Build, gold: Gold, recipe: dict[str, Any]) -> nn.Module:
    """A student of gold alone, for as many steps as suit so few rows."""
    if recipe["optimizer"] != LBFGS:
        recipe |= {"epochs": suitable_epochs(len(gold), recipe["batch_size"])}
    recipe |= {"pretrain_epochs": 0, "finetune_epochs": 0, "checkpoint_every": None, "gold_repeat": 1}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnderstudyWarning)
        return train(build, gold, None, METHODS["vanilla"](), progress=False, **recipe).student
