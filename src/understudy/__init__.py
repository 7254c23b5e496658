"""Understudy: train a small model from a few trusted labels and many imperfect ones.

import understudy as us
run = us.train(student, us.Gold(x, y, teacher=probs), us.Pool(x_pool, probs_pool), us.slam(), epochs=30)
"""

from typing import Any

from understudy import maths, models
from understudy.data.builtin import digits
from understudy.data.examples import Gold, Pool
from understudy.data.labels import Hard, Soft
from understudy.data.splits import Splits, split
from understudy.errors import UnderstudyError, UnderstudyWarning
from understudy.evaluate import evaluate
from understudy.maths.weights import debias_weights
from understudy.methods import METHODS, PUBLIC
from understudy.reliability import Reliability
from understudy.run import Run
from understudy.teach import teach
from understudy.train import train
from understudy.types import Objective

__version__ = "0.1.0"

__all__ = [
    "METHODS",
    "Gold",
    "Hard",
    "Objective",
    "Pool",
    "Reliability",
    "Run",
    "Soft",
    "Splits",
    "UnderstudyError",
    "UnderstudyWarning",
    "debias_weights",
    "digits",
    "evaluate",
    "maths",
    "models",
    "split",
    "teach",
    "train",
]


def __getattr__(name: str) -> Any:
    # Every method file's names (us.slam, us.slam_link, …) are public without being listed here.
    if name in PUBLIC:
        return PUBLIC[name]
    raise AttributeError(f"module 'understudy' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*__all__, *PUBLIC})
