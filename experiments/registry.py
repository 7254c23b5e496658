"""Every experiment by name. A file of a paper's folder that declares EXPERIMENT, or EXPERIMENTS, is in; no list else.

all_experiments()["slam_table1"].shows            # "Table 1"
"""

import importlib
import pkgutil
from functools import cache

import experiments
from experiments.experiment import PAPERS, Experiment
from understudy.errors import UnderstudyError

__all__ = ["PAPERS", "all_experiments", "find"]

FOLDERS = ("p000_weighted_distillation", "p001_slam", "p002_heteroskedastic", "p003_self_distillation", "p004_reweight")


@cache
def all_experiments() -> dict[str, Experiment]:
    """In the order of the papers, then of their names."""
    found: dict[str, Experiment] = {}
    for folder in FOLDERS:
        package = importlib.import_module(f"{experiments.__name__}.{folder}")
        modules = [
            importlib.import_module(f"{package.__name__}.{one.name}") for one in pkgutil.iter_modules(package.__path__)
        ]
        alone = [module.EXPERIMENT for module in modules if hasattr(module, "EXPERIMENT")]
        together = [one for module in modules for one in getattr(module, "EXPERIMENTS", ())]
        found |= {one.name: one for one in sorted([*alone, *together], key=lambda one: one.name)}
    return found


def find(name: str) -> Experiment:
    known = all_experiments()
    if name not in known:
        close = [other for other in known if name.lower() in other] or list(known)
        raise UnderstudyError(f"there is no experiment {name!r}; there is {', '.join(close)}")
    return known[name]
