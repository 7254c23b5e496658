"""Hugging Face front ends (extra ``hf``): ``us.hf.Trainer``, the Trainer on gold and pool."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from understudy.errors import UnderstudyError, install

if TYPE_CHECKING:
    from understudy.hf.trainer import Trainer

__all__ = ["Trainer"]


def __getattr__(name: str) -> Any:
    """Found at first use: transformers takes seconds to load."""
    if name not in __all__:
        raise AttributeError(f"module 'understudy.hf' has no attribute {name!r}")
    try:
        import_module("accelerate")
        globals()[name] = import_module("understudy.hf.trainer").Trainer
    except ImportError as error:
        raise UnderstudyError(f"us.hf.{name} needs transformers and accelerate: {install('hf')}") from error
    return globals()[name]
