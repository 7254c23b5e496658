"""The same rows by several features: label sources see all of them, the student only its own.

    others = {"TF-IDF": View(build, gold, pool, {"optimizer": "lbfgs"})}
    us.auto(student, gold, pool, features="MiniLM", others=others)

A text as TF-IDF and as vectors of an encoder gives sources that make different errors. The labels reconciled from both
train a student on either: one on TF-IDF is small and needs the encoder no more.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from understudy.data.examples import Gold, Pool
from understudy.data.fitted_rows import mark_fitted
from understudy.models.registry import Student
from understudy.reconciling.cross_fitting import OutOfFold


@dataclass(frozen=True, eq=False)
class View:
    """Gold and pool, in the same order as by the other features, a student for them, and its training options."""

    student: Student
    gold: Gold
    pool: Pool
    options: Mapping[str, Any]
    test: Any = None
    select: Any = None
    #: No student that is kept takes these features.
    sources_only: bool = False


def mark_views(views: Mapping[str, View]) -> Mapping[str, View]:
    """The views, the gold rows that the pool's labels were fitted to marked as chosen in each (``mark_fitted``)."""
    first = next(iter(views.values()))
    gold = mark_fitted(first.gold, first.pool)
    if gold is first.gold:
        return views
    return {name: replace(view, gold=view.gold.marked_chosen(gold.chosen)) for name, view in views.items()}


def joint_predictions(by_view: Mapping[str, OutOfFold]) -> OutOfFold:
    """The base models of all views as sources beside each other: ``gce``, and of the others ``gce (TF-IDF)``."""
    joint = OutOfFold()
    for number, (view, found) in enumerate(by_view.items()):
        for name in found.gold:
            shown = f"{name} ({view})" if number else name
            joint.gold[shown] = found.gold[name]
            if name in found.pool:
                joint.pool[shown], joint.by_fold[shown] = found.pool[name], found.by_fold[name]
    return joint
