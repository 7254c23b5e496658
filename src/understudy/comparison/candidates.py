"""The methods that are compared, by name: what the user asked for, the baselines that are always there, and the short
list that ``us.auto`` chooses from.

    named_methods(["slam", "slam:lower_bound=0.6"], pool)
    named_methods({"mine": us.slam(weight=us.fidelity_weight(2)), "late": lambda: us.weighted(refresh_every=5)}, pool)
    candidates(gold, pool)
"""

from collections.abc import Callable, Mapping, Sequence

import torch

from understudy.comparison.outcome import GOLD_ONLY, TEACHER, VANILLA
from understudy.data.examples import Gold, Pool
from understudy.errors import UnderstudyError
from understudy.methods import METHODS
from understudy.objective import Objective
from understudy.options import read_options

CONFIDENT = "confident"
FEWEST_ROWS = 20
"""Fewer gold rows than these neither choose a method nor estimate a teacher in parts."""
Methods = Sequence[str] | Mapping[str, Objective | Callable[[], Objective]]


def named_methods(methods: Methods, pool: Pool) -> tuple[dict[str, Objective], list[str]]:
    """Name -> objective, baselines first; and what had to be left out."""
    asked = from_text(methods) if not isinstance(methods, Mapping) else _built(methods)
    for name in (TEACHER, GOLD_ONLY):
        if name in asked:
            raise UnderstudyError(f"{name!r} is always compared; call this method something else")
    baselines = {GOLD_ONLY: METHODS["vanilla"](), VANILLA: asked.get(VANILLA) or METHODS["vanilla"]()}
    notes = []
    if CONFIDENT not in asked:
        if can_rank(pool):
            baselines[CONFIDENT] = METHODS["confident"]()
        else:
            notes.append("confident (keep only confident labels) is left out: all pool labels are equally sure.")
    return baselines | asked, notes


def from_text(methods: Sequence[str]) -> dict[str, Objective]:
    """``name`` or ``name:option=value:option=value`` -> objective."""
    if isinstance(methods, str):
        raise UnderstudyError(f"methods={methods!r} is a text; pass a list of names, e.g. ['slam', 'weighted']")
    objectives: dict[str, Objective] = {}
    for text in methods:
        name, *options = str(text).split(":")
        if name not in METHODS:
            raise UnderstudyError(f"there is no method {name!r}; use one of {', '.join(METHODS)}")
        if text in objectives:
            raise UnderstudyError(f"method {text!r} is named twice; name it once")
        objectives[text] = METHODS[name](**read_options(METHODS[name], options))
    return objectives


def _built(methods: Mapping[str, Objective | Callable[[], Objective]]) -> dict[str, Objective]:
    built = {}
    for name, given in methods.items():
        objective = given() if callable(given) and not isinstance(given, Objective) else given
        if not isinstance(objective, Objective):
            raise UnderstudyError(
                f"methods[{name!r}] is a {type(objective).__name__}; pass what a method returns, e.g. us.slam()"
            )
        built[name] = objective
    return built


def can_rank(pool: Pool) -> bool:
    """Whether the teacher is surer of some labels than of others."""
    assert pool.teacher is not None
    if not pool.teacher.simplest().has_confidence:
        return False
    sure = pool.teacher.confidence("margin")[pool.teacher.labelled()]
    return len(sure) > 0 and bool((sure != sure[0]).any())


def candidates(gold: Gold, pool: Pool) -> dict[str, Objective]:
    """The short list for these labels; who needs the teacher's word on gold stands only where it is known."""
    assert pool.teacher is not None
    soft = pool.teacher.simplest().ranks
    names = ["vanilla", *(["vanilla:hard=true"] if soft else []), "self_distillation", "gce"]
    if can_rank(pool):
        names.append("confident")
    if len(gold.estimate_rows()) >= FEWEST_ROWS:
        names += ["slam", "weighted:refresh_every=5"]
        known = pool.teacher.classes or int(max(gold.y.max(), pool.teacher.top1().max())) + 1
        # Every fold must hold every class.
        if bool((torch.bincount(gold.y[gold.estimate_rows()], minlength=known) > 1).all()):
            names.append("forward")
    return {GOLD_ONLY: METHODS["vanilla"](), **from_text(names)}
