"""One file per selection strategy: an object named like its file, found by itself."""

import importlib
import pkgutil

from understudy.acquisition.strategy import Strategy


def _discovered() -> dict[str, Strategy]:
    names = [module.name for module in pkgutil.iter_modules(__path__)]
    strategies: dict[str, Strategy] = {
        name: getattr(importlib.import_module(f"{__name__}.{name}"), name) for name in sorted(names)
    }
    # From the one that looks at nothing to the ones that look at most.
    return dict(sorted(strategies.items(), key=lambda item: len(item[1].needs)))


STRATEGIES = _discovered()
"""name -> strategy."""
