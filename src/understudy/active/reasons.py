"""Why each row was picked, in one number and one phrase computed from what the strategy looked at.

| strategy | score | phrase |
| --- | --- | --- |
| confidence, margin, entropy | the quantity that is ranked | what the student says of the row |
| coreset | distance to the nearest labelled or earlier pick | that distance |
| badge, s_badge, lhd | length of the row's vector | that length, and the distance to the nearest earlier pick |
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from understudy.acquisition.badge import logit_gradient
from understudy.acquisition.lhd import loss_difference
from understudy.acquisition.s_badge import mean_absolute_difference
from understudy.active.scores import Scores
from understudy.maths.confidence import entropy
from understudy.maths.spread.spread import Factored, factored, squared_distances

Reasons = tuple[list[float], list[str]]


def explain(
    strategy: str, picks: Tensor, scores: Scores, labelled: Tensor, *, names: Sequence[str] | None = None
) -> Reasons:
    """Scores and phrases of the picks, in their order. ``labelled``: row numbers that had labels before."""
    picked = Scores(*(None if array is None else array[picks] for array in scores))  # type: ignore[arg-type]
    if strategy == "coreset":
        return _coreset(picked, scores.hidden[labelled])
    if strategy in _NAMING:
        return _NAMING[strategy](picked, names or list(map(str, range(picked.probs.shape[1]))))
    return _REASONS[strategy](picked)


def _random(picked: Scores) -> Reasons:
    return [0.0] * len(picked.probs), ["drawn at random"] * len(picked.probs)


def _confidence(picked: Scores, names: Sequence[str]) -> Reasons:
    top = picked.probs.max(1)
    phrases = [f"only {p:.1%} for its top class {names[c]}" for p, c in _pairs(top.values, top.indices)]
    return top.values.tolist(), phrases


def _margin(picked: Scores, names: Sequence[str]) -> Reasons:
    top = picked.probs.topk(min(2, picked.probs.shape[1]), dim=1)
    gap = top.values[:, 0] - top.values[:, -1]
    phrases = [
        f"class {names[c[0]]} at {p[0]:.1%}, class {names[c[-1]]} at {p[-1]:.1%}"
        for p, c in _pairs(top.values, top.indices)
    ]
    return gap.tolist(), phrases


def _entropy(picked: Scores) -> Reasons:
    value = entropy(picked.probs)
    most = torch.tensor(float(picked.probs.shape[1])).log()
    return value.tolist(), [f"entropy {h:.2f} of at most {most:.2f}" for h in value.tolist()]


def _coreset(picked: Scores, labelled: Tensor) -> Reasons:
    rows = factored(picked.hidden)
    nearest = _to_earlier(rows)
    if len(labelled):
        nearest = torch.minimum(nearest, squared_distances(rows, factored(labelled)).amin(1).clamp_min(0).sqrt())
    phrases = [
        "largest features, first pick" if d == torch.inf else f"{d:.3g} from the nearest labelled or picked row"
        for d in nearest.tolist()
    ]
    return _finite(nearest), phrases


def _badge(picked: Scores) -> Reasons:
    rows = factored(picked.hidden, left=logit_gradient(picked.probs))
    return _spread(rows, "gradient", ["" for _ in picked.probs])


def _s_badge(picked: Scores) -> Reasons:
    assert picked.hidden_ema is not None
    scale = mean_absolute_difference(picked.hidden_ema, picked.hidden)
    rows = factored(picked.hidden, left=logit_gradient(picked.probs) * scale[:, None])
    return _spread(rows, "scaled gradient", [f"features {s:.2g} off their average, " for s in scale.tolist()])


def _lhd(picked: Scores) -> Reasons:
    assert picked.hidden_ema is not None and picked.probs_ema is not None
    scale = loss_difference(picked.probs, picked.probs_ema)
    rows = factored(picked.hidden_ema - picked.hidden, left=scale[:, None])
    return _spread(rows, "scaled difference", [f"loss {s:.2g} off its average, " for s in scale.tolist()])


def _spread(rows: Factored, what: str, before: list[str]) -> Reasons:
    length = rows.squared_norms.sqrt()
    phrases = [
        f"{start}{what} {size:.3g}, " + ("the largest" if d == torch.inf else f"{d:.3g} from the nearest earlier pick")
        for start, size, d in zip(before, length.tolist(), _to_earlier(rows).tolist(), strict=True)
    ]
    return length.tolist(), phrases


def _to_earlier(rows: Factored) -> Tensor:
    """Distance to the nearest row before it; infinite for the first."""
    mutual = squared_distances(rows, rows)
    later = torch.ones_like(mutual, dtype=torch.bool).triu()
    return mutual.masked_fill(later, torch.inf).amin(1).clamp_min(0).sqrt()


def _finite(values: Tensor) -> list[float]:
    return torch.where(values.isfinite(), values, 0.0).tolist()


def _pairs(values: Tensor, classes: Tensor) -> list[tuple[Any, Any]]:
    return list(zip(values.tolist(), classes.tolist(), strict=True))


_NAMING: dict[str, Callable[[Scores, Sequence[str]], Reasons]] = {"confidence": _confidence, "margin": _margin}
_REASONS: dict[str, Callable[[Scores], Reasons]] = {
    "random": _random,
    "entropy": _entropy,
    "badge": _badge,
    "s_badge": _s_badge,
    "lhd": _lhd,
}
