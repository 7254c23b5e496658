"""One file per selection strategy: an object named like its file, found by itself.

NAMES                     # known without loading a strategy, hence without PyTorch
STRATEGIES["badge"]       # loads them all, once
"""

import importlib
import pkgutil
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from understudy.acquisition.strategy import Strategy

NAMES = tuple(sorted(module.name for module in pkgutil.iter_modules(__path__)))

#: name -> strategy.
STRATEGIES: dict[str, "Strategy"]


def __getattr__(name: str) -> Any:
    if name != "STRATEGIES":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    strategies = {each: getattr(importlib.import_module(f"{__name__}.{each}"), each) for each in NAMES}
    # From the one that looks at nothing to the ones that look at most.
    globals()[name] = dict(sorted(strategies.items(), key=lambda item: len(item[1].needs)))
    return globals()[name]
