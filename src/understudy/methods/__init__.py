"""One file per method. A method is a function, named like its file, that returns an Objective.

Every module here is found by itself: its function joins ``METHODS``, and what its ``__all__`` lists becomes a public
name of ``understudy``. Adding a method therefore touches its own file and its own test, and README's table, which
holds the first line of each file.
"""

import importlib
import pkgutil
from collections.abc import Callable
from typing import Any

METHODS: dict[str, Callable[..., Any]] = {}
"""name -> factory of an Objective."""

PUBLIC: dict[str, Any] = {}
"""Every name the method modules export."""

for _module in sorted(module.name for module in pkgutil.iter_modules(__path__)):
    _loaded = importlib.import_module(f"{__name__}.{_module}")
    METHODS[_module] = getattr(_loaded, _module)
    PUBLIC.update({name: getattr(_loaded, name) for name in _loaded.__all__})
