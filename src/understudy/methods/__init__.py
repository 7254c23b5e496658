"""One file per method. A method is a function, named like its file, that returns an Objective.

Every module here is found by itself: its function joins ``METHODS``, and what its ``__all__`` lists becomes a public
name of ``understudy``. Adding a method therefore touches its own file and its own test, and README's table, which
holds the first line of each file.

    NAMES                                       # known without loading a method, hence without PyTorch
    METHODS["slam"](lower_bound=0.6)            # loads them all, once
"""

import importlib
import pkgutil
from collections.abc import Callable
from typing import Any

NAMES = tuple(sorted(module.name for module in pkgutil.iter_modules(__path__)))

#: name -> factory of an Objective.
METHODS: dict[str, Callable[..., Any]]

#: Every name the method modules export.
PUBLIC: dict[str, Any]


def __getattr__(name: str) -> Any:
    if name not in ("METHODS", "PUBLIC"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    loaded = {each: importlib.import_module(f"{__name__}.{each}") for each in NAMES}
    globals()["METHODS"] = {each: getattr(module, each) for each, module in loaded.items()}
    globals()["PUBLIC"] = {each: getattr(module, each) for module in loaded.values() for each in module.__all__}
    return globals()[name]
