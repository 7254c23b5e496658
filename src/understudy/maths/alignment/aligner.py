"""How much each example's gradient agrees with the gold gradient: uᵢ = ⟨∇ gold loss, ∇ ℓᵢ⟩, positive where it helps.

Learning to reweight (Ren et al. 2018, Algorithm 1) gets uᵢ (up to the learning rate) by differentiating the gold loss,
after one virtual SGD step on Σ εᵢ ℓᵢ, back to ε = 0: a second-order graph. The same numbers are the derivative of the
per-example losses along the gold gradient, θ + s·g at s = 0, and forward-mode gives that exactly, in the pass that
computes the losses anyway. It is exact with BatchNorm in train mode too, where the losses depend on one another.

    u = alignment(model, x, y, gold_x, gold_y)                           # a measurement, nothing is changed

    aligner = Aligner(model)                                             # in a training loop, once per run
    g = aligner.direction(lambda: cross_entropy(model(gold_x), gold_y))  # buffers untouched
    losses, u = aligner.along(g, lambda: per_example(model(x)))          # buffers updated once
    (weights(u) * losses).sum().backward()                               # through the same pass

Differs from the paper: no virtual step and so no dependence on the optimizer. Operators without a forward rule are
worked around: attention by its unfused kernel, which is still exact, anything else by a central difference.
"""

import importlib
import warnings
from collections.abc import Callable
from contextlib import ExitStack
from functools import cache
from typing import Literal

import torch
from torch import Tensor, nn
from torch.autograd import forward_ad
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

from understudy.errors import UnderstudyError, first_line, warn
from understudy.maths.alignment.direction import Direction, gradient_of
from understudy.maths.alignment.repeated_pass import (
    Constants,
    buffers_untouched,
    parameters_as,
    same_draws,
    undone_on_failure,
)
from understudy.maths.alignment.rules import FusedRules

Loss = Callable[[Tensor, Tensor], Tensor]
Route = Literal["forward", "unfused attention", "difference"]

_WORKAROUNDS = {
    "unfused attention": "fused attention has no forward-mode rule: the alignment pass uses the unfused kernel instead",
    "difference": "{cause}: the alignment is a central difference along the gold gradient, good to about 3 digits; "
    "build the layer from elementary operators for exact values",
}


def cross_entropy_per_example(logits: Tensor, labels: Tensor) -> Tensor:
    return F.cross_entropy(logits, labels, reduction="none")


def alignment(
    model: nn.Module, x: Tensor, y: Tensor, gold_x: Tensor, gold_y: Tensor, loss: Loss = cross_entropy_per_example
) -> Tensor:
    """uᵢ = ⟨∇ mean gold loss, ∇ loss(model(x), y)ᵢ⟩, shape (B,), in the model's current mode.

    `loss(logits, labels)` is per example, (B,). Parameters, gradients and buffers of the model stay as they are.
    """
    aligner = Aligner(model)
    direction = aligner.direction(lambda: loss(_logits(model(gold_x)), gold_y).mean())
    with torch.enable_grad(), buffers_untouched(model):
        return aligner.along(direction, lambda: loss(_logits(model(x)), y))[1]


class Aligner:
    """Alignment for one model through a training: remembers which route works, and says a workaround only once.

    Both methods take closures, because a route that fails half-way is replaced by one that evaluates again; on the
    usual route each closure runs exactly once. They must call the model given here and draw randomness, if any
    (dropout), from PyTorch's global generators, whose state is put back before every repetition. What they detach or
    compute under `no_grad` is constant. Activation checkpointing inside the model is not supported: it repeats parts of
    the pass after the tangents are gone.
    """

    def __init__(self, model: nn.Module) -> None:
        self.model = model
        self.parameters = tuple(p for p in model.parameters() if p.requires_grad)
        self.route: Route = "forward"
        self._proven = False
        if not self.parameters:
            raise UnderstudyError(
                f"{type(model).__name__} has no trainable parameter to align; unfreeze some with requires_grad_(True)"
            )

    def direction(self, gold_loss: Callable[[], Tensor]) -> Direction:
        """The gradient of a scalar gold loss with respect to the trainable parameters; buffers stay as they are."""
        with torch.enable_grad(), buffers_untouched(self.model):
            return gradient_of(lambda: _scalar(gold_loss()), self.parameters)

    def along(self, direction: Direction, losses: Callable[[], Tensor]) -> tuple[Tensor, Tensor]:
        """(losses, u): the per-example losses with their usual graph, and their derivative along `direction`."""
        if self._proven:
            return self._by_route(direction, losses)
        cause = ""
        for self.route in ("forward", "unfused attention"):
            try:
                with undone_on_failure(self.model):
                    result = self._by_route(direction, losses)
                break
            except RuntimeError as failure:  # includes NotImplementedError, PyTorch's word for "no forward rule"
                cause = cause or first_line(failure).split(". ")[0]
        else:
            self.route = "difference"  # raises again what was not forward mode's fault
            result = self._by_route(direction, losses)
        self._proven = True
        if self.route != "forward":
            warn(_WORKAROUNDS[self.route].format(cause=cause))
        return result

    def _by_route(self, direction: Direction, losses: Callable[[], Tensor]) -> tuple[Tensor, Tensor]:
        if self.route == "difference":
            return self._central_difference(direction, losses)
        _load_forward_rules()
        with ExitStack() as stack:
            stack.enter_context(forward_ad.dual_level())
            if self.route == "unfused attention":
                stack.enter_context(sdpa_kernel(SDPBackend.MATH))
            duals = {p: forward_ad.make_dual(p, g) for p, g in direction.gradients.items()}
            stack.enter_context(parameters_as(self.model, duals))
            with FusedRules(direction.factors):
                dual_losses = _per_example(losses())
            primal, tangent = forward_ad.unpack_dual(dual_losses)
            return primal, torch.zeros_like(primal) if tangent is None else tangent.detach()

    def _central_difference(self, direction: Direction, losses: Callable[[], Tensor]) -> tuple[Tensor, Tensor]:
        """(ℓ(θ + h ĝ) − ℓ(θ − h ĝ)) ‖g‖ / 2h with ĝ = g/‖g‖; all passes see the same random draws and constants."""
        gradients = direction.multiplied().gradients
        norm = torch.stack([g.norm() for g in gradients.values()]).norm()
        size = torch.stack([p.detach().norm() for p in self.parameters]).norm()
        # Truncation grows as h², rounding as eps/h; they meet near the cube root of eps, relative to the parameters.
        step = torch.finfo(size.dtype).eps ** (1 / 3) * size.clamp(min=1e-3)

        constants = Constants()

        def shifted(h: Tensor) -> Tensor:
            moved = {p: p.detach() + (h / norm) * g for p, g in gradients.items()}
            with parameters_as(self.model, moved), buffers_untouched(self.model), same_draws(self.model), constants:
                value = _per_example(losses())
            return value.detach()

        if norm == 0:
            primal = _per_example(losses())
            return primal, torch.zeros_like(primal)
        shifted(torch.zeros_like(step))
        difference = (shifted(step) - shifted(-step)) * (norm / (2 * step))
        return _per_example(losses()), difference


@cache
def _load_forward_rules() -> None:
    """PyTorch compiles some rules on first use through its own, deprecated, scripting: not the user's concern."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        importlib.import_module("torch._decomp.decompositions_for_jvp")


def _scalar(loss: Tensor) -> Tensor:
    if loss.dim() != 0:
        raise UnderstudyError(f"the gold loss has shape {tuple(loss.shape)}; reduce it to one number, e.g. .mean()")
    return loss


def _per_example(losses: Tensor) -> Tensor:
    if losses.dim() != 1:
        raise UnderstudyError(
            f"the losses have shape {tuple(losses.shape)} instead of one per example (B,); use reduction='none'"
        )
    return losses


def _logits(output: Tensor) -> Tensor:
    return output if isinstance(output, Tensor) else output.logits
