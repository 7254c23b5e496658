"""Methods by name: those the user names, the baselines of a comparison, and the candidates of ``us.auto``.

named_methods(["slam", "slam:lower_bound=0.6"], pool)
named_methods({"mine": us.slam(weight=us.fidelity_weight(2)), "late": lambda: us.weighted(refresh_every=5)}, pool)
candidates(gold, pool)
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import torch

from understudy import methods as registry
from understudy.comparison.comparison_options import Methods
from understudy.data.examples import Gold, Pool
from understudy.errors import UnderstudyError
from understudy.method_options import read_options
from understudy.objective import Objective
from understudy.training.options import AUTO

TEACHER, GOLD_ONLY, VANILLA, RECONCILED = "teacher", "gold only", "vanilla", "reconciled"
CONFIDENT = "confident"
#: With fewer gold rows no method is chosen, no label source weighted and no teacher estimated in folds.
FEWEST_ROWS = 20


def named_methods(methods: Methods, pool: Pool, *, auto: bool = False) -> tuple[dict[str, Objective], list[str]]:
    """Name -> objective, baselines first; and notes on what was left out. ``auto``: whether it may be among them."""
    named = named_objectives(methods, auto=auto)
    baselines = {GOLD_ONLY: registry.METHODS["vanilla"](), VANILLA: named.get(VANILLA) or registry.METHODS["vanilla"]()}
    notes = []
    if CONFIDENT not in named:
        if can_rank(pool):
            baselines[CONFIDENT] = registry.METHODS["confident"]()
        else:
            notes.append("confident (keep only confident labels) is left out: all labels have the same confidence.")
    return baselines | named, notes


def named_objectives(methods: Methods, *, auto: bool = False) -> dict[str, Objective]:
    """The user's methods by name."""
    named = _built(methods) if isinstance(methods, Mapping) else parse_methods(methods)
    for name in (TEACHER, GOLD_ONLY):
        if name in named:
            raise UnderstudyError(f"{name!r} is always compared; give this method another name")
    if AUTO in named and (isinstance(methods, Mapping) or not auto):
        raise UnderstudyError(f"{AUTO!r} chooses among methods and is none itself; name others")
    return named


def parse_methods(methods: Sequence[str]) -> dict[str, Objective]:
    """``name`` or ``name:option=value:option=value`` -> objective; ``auto`` -> what stands for it."""
    if isinstance(methods, str):
        raise UnderstudyError(f"methods={methods!r} is a text; pass a list of names, e.g. ['slam', 'weighted']")
    if not isinstance(methods, Iterable):
        raise UnderstudyError(
            f"methods= is a {type(methods).__name__}; pass a list of names, e.g. ['slam', 'weighted'], or a mapping"
        )
    objectives: dict[str, Objective] = {}
    for text in methods:
        name, *options = str(text).split(":")
        if text in objectives:
            raise UnderstudyError(f"method {text!r} is named twice; name it once")
        if text == AUTO:
            name = RECONCILED  # the default of us.auto, which a comparison calls
        if name == AUTO and options:
            raise UnderstudyError(f"{AUTO!r} takes no options in a comparison; name it alone")
        objectives[text], _ = build_method(name, options)
    return objectives


def build_method(name: str, options: Sequence[str], *, auto: bool = True) -> tuple[Objective, dict[str, Any]]:
    """A method by its name, with options as they were typed, and these options; ``auto``: whether it may be that."""
    if name not in registry.METHODS:
        known = ", ".join(registry.METHODS) + (f", or {AUTO}" if auto else "")
        raise UnderstudyError(f"there is no method {name!r}; use one of {known}")
    given = read_options(registry.METHODS[name], options)
    return registry.METHODS[name](**given), given


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
    """Whether the teacher's labels differ in their confidence."""
    assert pool.teacher is not None
    if not pool.teacher.simplest().has_confidence:
        return False
    confidence = pool.teacher.confidence("margin")[pool.teacher.labelled()]
    return len(confidence) > 0 and bool((confidence != confidence[0]).any())


def candidates(gold: Gold, pool: Pool, *, converges: bool = False, sources: bool = False) -> dict[str, Objective]:
    """The short list for these labels; methods that need the teacher's labels of gold only where there are any.

    ``converges``: whether students are trained until they converge, which leaves no early predictions to distil;
    ``sources``: only those that are worth their time as label sources. Of 50 pilots with reconciled labels none chose
    another (``docs/results/auto.md``).
    """
    assert pool.teacher is not None
    soft = pool.teacher.simplest().ranks
    names = ["vanilla", *(["vanilla:hard=true"] if soft and not sources else [])]
    names += ["gce"] if converges else ["self_distillation", "gce"]
    if can_rank(pool) and not sources:
        names.append("confident")
    if len(gold.calibration_rows()) >= FEWEST_ROWS:
        names += [] if sources else ["slam", "weighted:refresh_every=5"]
        known = pool.teacher.classes or int(max(gold.y.max(), pool.teacher.top1().max())) + 1
        # Every fold must hold every class.
        if bool((torch.bincount(gold.y[gold.calibration_rows()], minlength=known) > 1).all()):
            names.append("forward")
    return {**({GOLD_ONLY: registry.METHODS["vanilla"]()} if len(gold.training_rows()) else {}), **parse_methods(names)}
