"""More than one look at the teacher: how much its answer wavers, and what it sees on the way.

``stochastic_passes`` asks the teacher m times, each time a little differently: with its dropout left on (BatchNorm
and everything else as in use), or on a freshly augmented batch. UPS reads the standard deviation per class, fidelity
weights the mean class variance. Means and variances are updated as the passes come (Welford), in float64 and batch by
batch, so the m × N × C answers never exist and every row is read once.

    passes = us.stochastic_passes(teacher, x_pool, passes=10)
    pool = us.Pool(x_pool, passes.mean)
    us.ups(std=passes.std), us.fidelity(beta=2, uncertainty=passes.variance)

``teacher_features`` gives the penultimate features VID matches.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from understudy.data.checks import check_probabilities, to_tensor
from understudy.data.rows import as_rows
from understudy.errors import UnderstudyError
from understudy.inference.evaluate import batches_of, device_of, eval_mode, penultimate, to_device
from understudy.inference.features import forward

__all__ = ["Passes", "stochastic_passes", "teacher_features"]

Augment = Callable[[Any, torch.Generator], Any]

_DROPOUTS = (nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d, nn.AlphaDropout, nn.FeatureAlphaDropout)


class Passes(NamedTuple):
    """What several looks at the teacher came to."""

    mean: Tensor
    """Class probabilities ``(N, C)``."""
    std: Tensor
    """Their standard deviation per class (sample form, m − 1), ``(N, C)``; 0 for a single pass."""
    variance: Tensor
    """The mean of the classes' variances, ``(N,)``."""


def stochastic_passes(
    teacher: nn.Module | Callable[[Any], Any],
    x: Any,
    passes: int = 10,
    augment: Augment | None = None,
    *,
    batch_size: int = 1024,
    seed: int = 0,
) -> Passes:
    """Ask the teacher ``passes`` times of every row.

    ``teacher``: a module giving logits, or a function giving probabilities that vary by themselves (a sampled LLM).
    ``augment(x, generator)`` changes each batch anew, with dropout off; without it a module must have dropout. The same
    seed and batch size give the same numbers; the caller's random state is left alone.
    """
    if passes < 1:
        raise UnderstudyError(f"stochastic_passes(passes={passes}): at least 1 pass is needed")
    rows = as_rows(x, "x")
    droppers = _dropout_layers(teacher) if isinstance(teacher, nn.Module) and augment is None else []
    if isinstance(teacher, nn.Module) and augment is None and passes > 1 and not droppers:
        raise UnderstudyError(
            f"{type(teacher).__name__} has no dropout layer, so all {passes} passes would say the same; "
            "pass augment=(x, generator) -> x, or passes=1"
        )
    generator = torch.Generator().manual_seed(seed)
    means, stds, variances = [], [], []
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        for batch in batches_of(rows, batch_size):
            mean = squares = torch.zeros((), dtype=torch.float64)
            for number in range(1, passes + 1):
                said = _ask(teacher, batch if augment is None else augment(batch, generator), droppers)
                mean, squares = _welford(mean, squares, said, number)
            variance = squares / max(1, passes - 1)
            means.append(mean.float())
            stds.append(variance.sqrt().float())
            variances.append(variance.mean(-1).float())
    if not means:
        raise UnderstudyError("x has no rows to ask the teacher about")
    return Passes(torch.cat(means), torch.cat(stds), torch.cat(variances))


def _welford(mean: Tensor, squares: Tensor, value: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The mean and the sum of squared deviations after one more value; no cancellation, unlike E[p²] − E[p]²."""
    before = value - mean
    mean = mean + before / count
    return mean, squares + before * (value - mean)


def _ask(teacher: nn.Module | Callable[[Any], Any], x: Any, droppers: list[nn.Module]) -> Tensor:
    """One pass over one batch: float64 probabilities ``(B, C)`` on the CPU."""
    if isinstance(teacher, nn.Module):
        with eval_mode(teacher), torch.no_grad():
            for layer in droppers:
                layer.training = True
            return forward(teacher, to_device(x, device_of(teacher))).cpu().double().softmax(-1)
    probs = to_tensor(teacher(x), "the teacher's answer").cpu()
    check_probabilities(probs, "the teacher's answer")
    return probs.double()


def _dropout_layers(teacher: nn.Module) -> list[nn.Module]:
    """The modules whose own training flag turns dropout on, and only those with a chance above 0."""
    found = []
    for module in teacher.modules():
        if isinstance(module, _DROPOUTS):
            active = module.p > 0
        elif isinstance(module, nn.MultiheadAttention | nn.RNNBase):
            active = module.dropout > 0
        else:
            # In eval mode this layer takes a fused path that skips the dropout layers inside it.
            active = isinstance(module, nn.TransformerEncoderLayer) and module.dropout.p > 0
        if active:
            found.append(module)
    return found


def teacher_features(teacher: nn.Module, x: Any, layer: str | None = None, *, batch_size: int = 1024) -> Tensor:
    """Penultimate features ``(N, d)``, in eval mode: the input of the last Linear, or the output of a named layer."""
    return penultimate(teacher, x, layer=layer, batch_size=batch_size)
