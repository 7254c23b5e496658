"""What the strategies look at, from one pass: class probabilities and penultimate features of every pool row."""

from typing import Any, NamedTuple

from torch import Tensor, nn

from understudy.acquisition.select import STRATEGIES
from understudy.errors import UnderstudyError
from understudy.inference.features import FeatureTap
from understudy.inference.passes import over_rows
from understudy.training.ema import EMA


class Scores(NamedTuple):
    probs: Tensor
    hidden: Tensor
    probs_ema: Tensor | None = None
    hidden_ema: Tensor | None = None

    def arrays(self) -> dict[str, Tensor]:
        """As ``us.select`` takes them."""
        return {name: value for name, value in self._asdict().items() if value is not None}


def score(student: nn.Module, x: Any, *, ema: EMA | None = None, layer: str | None = None) -> Scores:
    """Probabilities (N, C) and features (N, d), and the moving average's where there is one; eval mode, on the CPU."""
    probs, hidden = _pass(student, x, layer)
    return Scores(probs, hidden, *(_pass(ema.module, x, layer) if ema is not None else ()))


def needs_ema(strategy: str) -> bool:
    if strategy not in STRATEGIES:
        raise UnderstudyError(f"unknown strategy {strategy!r}: use one of {', '.join(STRATEGIES)}")
    return any(name.endswith("_ema") for name in STRATEGIES[strategy].needs)


def _pass(model: nn.Module, x: Any, layer: str | None) -> list[Tensor]:
    tap = FeatureTap(model, layer)

    def look(batch: Any, index: Tensor) -> tuple[Tensor, Tensor]:
        logits, features = tap(batch)
        return logits.float().softmax(-1), features.float()

    return over_rows(model, x, look, outputs=2)
