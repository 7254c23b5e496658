"""Hugging Face front ends (extra ``hf``): ``us.hf.Trainer``, the Trainer on gold and pool."""

from typing import TYPE_CHECKING, Any

from understudy.errors import optional

if TYPE_CHECKING:
    from understudy.hf.trainer import Trainer

__all__ = ["Trainer"]


def __getattr__(name: str) -> Any:
    """Found at first use: transformers takes seconds to load."""
    if name not in __all__:
        raise AttributeError(f"module 'understudy.hf' has no attribute {name!r}")
    for module in ("accelerate", "understudy.hf.trainer"):
        found = optional(module, f"us.hf.{name} needs transformers and accelerate", "hf")
    globals()[name] = found.Trainer
    return globals()[name]
