"""Understudy: train a small model from a few trusted labels and many imperfect ones.

import understudy as us
run = us.train(student, us.Gold(x, y, teacher=probs), us.Pool(x_pool, probs_pool), us.slam(), epochs=30)
"""

import importlib
from typing import Any

from understudy import maths, models
from understudy.acquisition.select import select
from understudy.auditing.audit import audit
from understudy.comparison.auto import auto
from understudy.comparison.compare import compare
from understudy.comparison.reconcile import reconcile
from understudy.data import augment, noise
from understudy.data.builtin import digits
from understudy.data.examples import Gold, Pool
from understudy.data.rows import mapped_rows
from understudy.data.splits import Splits, cross_fit, cross_fitted_alpha, split
from understudy.errors import UnderstudyError, UnderstudyWarning
from understudy.inference.export import export
from understudy.inference.passes import evaluate
from understudy.inference.teacher import Passes, stochastic_passes, teach, teacher_features
from understudy.labels.forms import Hard, Soft
from understudy.labels.llm.answers import read_answers
from understudy.labels.reliability import Reliability
from understudy.labels.store.label_store import LabelStore, label_missing
from understudy.labels.topk import TopK
from understudy.labels.votes import Votes, fit_votes
from understudy.leaks.between import leaks_between
from understudy.maths.alignment.aligner import alignment
from understudy.methods import METHODS, PUBLIC
from understudy.objective import Objective
from understudy.tables.read import read_examples
from understudy.training.callbacks import Callback
from understudy.training.defaults import suitable_student
from understudy.training.ema import EMA
from understudy.training.l2 import l2_of_c
from understudy.training.loop import train
from understudy.training.run import Run
from understudy.training.session import Session

__version__ = "0.1.0"

__all__ = [
    "EMA",
    "METHODS",
    "Callback",
    "Gold",
    "Hard",
    "LabelStore",
    "Objective",
    "Passes",
    "Pool",
    "Reliability",
    "Run",
    "Session",
    "Soft",
    "Splits",
    "TopK",
    "UnderstudyError",
    "UnderstudyWarning",
    "Votes",
    "alignment",
    "audit",
    "augment",
    "auto",
    "compare",
    "cross_fit",
    "cross_fitted_alpha",
    "digits",
    "evaluate",
    "export",
    "fit_votes",
    "l2_of_c",
    "label_missing",
    "leaks_between",
    "mapped_rows",
    "maths",
    "models",
    "noise",
    "read_answers",
    "read_examples",
    "reconcile",
    "select",
    "split",
    "stochastic_passes",
    "suitable_student",
    "teach",
    "teacher_features",
    "train",
]


# Every method file's names (us.slam, us.slam_link, …) are public without being listed here.
globals().update(PUBLIC)

# Loaded at first use: they bring matplotlib and scipy.stats along, a second of start-up nobody else should pay.
_LAZY = ("active", "theory")


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return importlib.import_module(f"understudy.{name}")
    raise AttributeError(f"module 'understudy' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*__all__, *PUBLIC, *_LAZY})
