"""Hugging Face front ends (extra ``hf``): ``us.hf.Trainer``, the Trainer on gold and pool."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from understudy.errors import UnderstudyError

if TYPE_CHECKING:
    from understudy.hf.trainer import Trainer

__all__ = ["Trainer"]

_HOMES = {"Trainer": "understudy.hf.trainer"}


def __getattr__(name: str) -> Any:
    """Found at first use: transformers takes seconds to load."""
    if name not in _HOMES:
        raise AttributeError(f"module 'understudy.hf' has no attribute {name!r}")
    try:
        import_module("accelerate")
        value = getattr(import_module(_HOMES[name]), name)
    except ImportError as error:
        missing = "transformers and accelerate: pip install 'understudy[hf]'"
        raise UnderstudyError(f"us.hf.{name} needs {missing}") from error
    globals()[name] = value
    return value
