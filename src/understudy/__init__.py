"""Understudy: train a small model from a few trusted labels and many imperfect ones.

import understudy as us
run = us.train(student, us.Gold(x, y, teacher=probs), us.Pool(x_pool, probs_pool), us.slam(), epochs=30)
"""

import importlib
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from understudy import maths, models
    from understudy.acquisition.select import select
    from understudy.active.label_plan import plan_labels
    from understudy.auditing.audit import audit
    from understudy.comparison.auto import auto
    from understudy.comparison.compare import compare
    from understudy.data import augment, noise
    from understudy.data.builtin import digits
    from understudy.data.examples import Gold, Pool
    from understudy.data.rows import mapped_rows
    from understudy.data.splits import Splits, cross_fit, cross_fitted_alpha, split
    from understudy.errors import UnderstudyError, UnderstudyWarning
    from understudy.hf.text import text
    from understudy.inference.export import export
    from understudy.inference.passes import evaluate
    from understudy.inference.teacher import Passes, stochastic_passes, teach, teacher_features
    from understudy.io.read import read_examples
    from understudy.labels.forms import Hard, Soft
    from understudy.labels.llm.answer_labels import read_answers
    from understudy.labels.reliability import Reliability
    from understudy.labels.store.label_store import LabelStore, label_missing
    from understudy.labels.topk import TopK
    from understudy.labels.votes import Votes, fit_votes
    from understudy.leaks.between import leaks_between
    from understudy.llm.asking import ask
    from understudy.maths.alignment.aligner import alignment
    from understudy.methods import METHODS
    from understudy.objective import Objective
    from understudy.parallel.map_shards import map_shards
    from understudy.parallel.ray_tasks import ray
    from understudy.reconciling.relabel import reconcile
    from understudy.store.remote_lock import unlock
    from understudy.training.callbacks import Callback, LogTo, MLflow, TensorBoard, WandB
    from understudy.training.choose import default_student, l2_of_c
    from understudy.training.ema import EMA
    from understudy.training.run import Run
    from understudy.training.session import Session
    from understudy.training.train import train

__version__ = "0.1.0"

__all__ = [
    "EMA",
    "METHODS",
    "Callback",
    "Gold",
    "Hard",
    "LabelStore",
    "LogTo",
    "MLflow",
    "Objective",
    "Passes",
    "Pool",
    "Reliability",
    "Run",
    "Session",
    "Soft",
    "Splits",
    "TensorBoard",
    "TopK",
    "UnderstudyError",
    "UnderstudyWarning",
    "Votes",
    "WandB",
    "alignment",
    "ask",
    "audit",
    "augment",
    "auto",
    "compare",
    "cross_fit",
    "cross_fitted_alpha",
    "default_student",
    "digits",
    "evaluate",
    "export",
    "fit_votes",
    "l2_of_c",
    "label_missing",
    "leaks_between",
    "map_shards",
    "mapped_rows",
    "maths",
    "models",
    "noise",
    "plan_labels",
    "ray",
    "read_answers",
    "read_examples",
    "reconcile",
    "select",
    "split",
    "stochastic_passes",
    "teach",
    "teacher_features",
    "text",
    "train",
    "unlock",
]

# Nothing is loaded before it is used: PyTorch alone takes seconds, and who asks the command line for help, or for one
# prediction, should not wait for what others need. A test holds this table to the imports above.
_HOMES = {
    "acquisition.select": "select",
    "active.label_plan": "plan_labels",
    "auditing.audit": "audit",
    "comparison.auto": "auto",
    "comparison.compare": "compare",
    "reconciling.relabel": "reconcile",
    "data": "augment noise",
    "data.builtin": "digits",
    "data.examples": "Gold Pool",
    "data.rows": "mapped_rows",
    "data.splits": "Splits cross_fit cross_fitted_alpha split",
    "parallel.ray_tasks": "ray",
    "errors": "UnderstudyError UnderstudyWarning",
    "hf.text": "text",
    "inference.export": "export",
    "inference.passes": "evaluate",
    "inference.teacher": "Passes stochastic_passes teach teacher_features",
    "labels.forms": "Hard Soft",
    "labels.llm.answer_labels": "read_answers",
    "labels.reliability": "Reliability",
    "labels.store.label_store": "LabelStore label_missing",
    "labels.topk": "TopK",
    "labels.votes": "Votes fit_votes",
    "leaks.between": "leaks_between",
    "llm.asking": "ask",
    "maths.alignment.aligner": "alignment",
    "methods": "METHODS",
    "objective": "Objective",
    "parallel.map_shards": "map_shards",
    "store.remote_lock": "unlock",
    "io.read": "read_examples",
    "training.choose": "default_student l2_of_c",
    "training.ema": "EMA",
    "training.train": "train",
    "training.run": "Run",
    "training.session": "Session",
    "training.callbacks": "Callback LogTo MLflow TensorBoard WandB",
}
_HOME = {name: f"understudy.{home}" for home, names in _HOMES.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    """The public names (PEP 562): those of the table, the package's modules, and what the methods' files export."""
    if name in _HOME:
        value = getattr(__import__(_HOME[name], fromlist=[name]), name)
    elif name.startswith("__") or not name.isidentifier():
        raise AttributeError(f"module 'understudy' has no attribute {name!r}")
    elif find_spec(f"understudy.{name}") is not None:
        value = importlib.import_module(f"understudy.{name}")
    else:
        from understudy.methods import PUBLIC

        if name not in PUBLIC:
            raise AttributeError(f"module 'understudy' has no attribute {name!r}")
        value = PUBLIC[name]
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    from understudy.methods import PUBLIC

    return sorted({*__all__, *PUBLIC, "active"})
