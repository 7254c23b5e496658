"""What the strategies look at, from one pass: class probabilities and penultimate features of every pool row."""

from typing import Any

from torch import Tensor, nn

from understudy.acquisition.select import Scores, strategy_named
from understudy.inference.passes import FeatureTap, over_rows
from understudy.training.ema import EMA


def score(student: nn.Module, x: Any, *, ema: EMA | None = None, layer: str | None = None) -> Scores:
    """Probabilities (N, C) and features (N, d), and the moving average's where there is one; eval mode, on the CPU."""
    probs, hidden = _pass(student, x, layer)
    return Scores(probs, hidden, *(_pass(ema.module, x, layer) if ema is not None else ()))


def needs_ema(strategy: str) -> bool:
    return any(name.endswith("_ema") for name in strategy_named(strategy).needs)


def _pass(model: nn.Module, x: Any, layer: str | None) -> list[Tensor]:
    tap = FeatureTap(model, layer)

    def look(batch: Any, index: Tensor) -> tuple[Tensor, Tensor]:
        logits, features = tap(batch)
        return logits.float().softmax(-1), features.float()

    return over_rows(model, x, look, outputs=2)
