"""Active learning: a loop of select, label, train; a check for noisy batches; the plan of a label budget."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from understudy.acquisition.select import Scores, explain
    from understudy.active.loop import Loop, score
    from understudy.active.loop_state import Result
    from understudy.active.watch import NoiseWatch, noise_watch

__all__ = ["Loop", "NoiseWatch", "Result", "Scores", "explain", "noise_watch", "score"]

# Found at first use: the command line reads ``loop_options`` without PyTorch.
_HOMES = {
    "Loop": "active.loop", "NoiseWatch": "active.watch", "Result": "active.loop_state", "Scores": "acquisition.select",
    "explain": "acquisition.select", "noise_watch": "active.watch", "score": "active.loop",
}  # fmt: skip


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"understudy.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return __all__
