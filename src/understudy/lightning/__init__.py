"""A Lightning front end (extra ``lightning``): ``us.lightning.UnderstudyModule``, a student on gold and pool."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from understudy.errors import UnderstudyError

if TYPE_CHECKING:
    from understudy.lightning.module import UnderstudyModule

__all__ = ["UnderstudyModule"]


def __getattr__(name: str) -> Any:
    """Found at first use: Lightning takes seconds to load."""
    if name not in __all__:
        raise AttributeError(f"module 'understudy.lightning' has no attribute {name!r}")
    try:
        value = getattr(import_module("understudy.lightning.module"), name)
    except ImportError as error:
        raise UnderstudyError(f"us.lightning.{name} needs Lightning: pip install 'understudy[lightning]'") from error
    globals()[name] = value
    return value
