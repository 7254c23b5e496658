"""Understudy: train a small model from a few trusted labels and many imperfect ones.

import understudy as us
model = us.fit("gold.csv", "pool.csv", text="message", label="checked", teacher="llm")
model.predict(["How do I reset my pin?"])
run = us.train(student, us.Gold(x, y, teacher=probs), us.Pool(x_pool, probs_pool), us.slam(), epochs=30)
"""

import importlib
from importlib.util import find_spec
from typing import Any

__version__ = "0.1.0"

# Nothing is loaded before it is used: PyTorch alone takes seconds, and who asks the command line for help, or for one
# prediction, should not wait for what others need. Type checkers read ``__init__.pyi``; a test holds the two together.
_HOMES = {
    "acquisition.select": "select selection_probability",
    "active.label_plan": "plan_labels",
    "auditing.audit": "audit",
    "auditing.deferral": "defer",
    "auditing.pool_estimates": "estimate",
    "auditing.teacher_watch": "TeacherWatch",
    "comparison.auto": "auto",
    "comparison.compare": "compare",
    "data": "augment noise",
    "data.examples": "Gold Pool",
    "data.rows": "mapped_rows",
    "data.splits": "Splits cross_fit cross_fitted_alpha split",
    "errors": "UnderstudyError UnderstudyWarning",
    "hf.text": "text",
    "inference.export": "export",
    "inference.passes": "evaluate",
    "inference.teacher": "Passes stochastic_passes teach teacher_features",
    "io.read": "read_examples",
    "labels.forms": "Hard Soft",
    "labels.answer_labels": "read_answers",
    "labels.reliability": "Reliability",
    "labels.label_store": "LabelStore label_missing",
    "labels.soft": "TopK",
    "labels.votes": "Votes fit_votes",
    "data.leaks": "leaks_between",
    "llm.asking": "ask",
    "maths.alignment.aligner": "alignment",
    "methods": "METHODS",
    "model": "Model fit load",
    "objective": "Objective",
    "parallel.map_shards": "map_shards",
    "parallel.ray_tasks": "ray",
    "reconciling.relabel": "reconcile",
    "samples": "digits",
    "store.remote": "unlock",
    "training.callbacks": "Callback LogTo MLflow TensorBoard WandB",
    "training.automatic_options": "default_student l2_of_c",
    "training.averages": "EMA",
    "training.run": "Run",
    "training.session": "Session",
    "training.train": "train",
}
_HOME = {name: f"understudy.{home}" for home, names in _HOMES.items() for name in names.split()}
__all__ = sorted([*_HOME, "maths", "models"])


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
