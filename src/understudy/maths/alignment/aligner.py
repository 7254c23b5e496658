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

*Passes that leave no trace.* The closures that `alignment` evaluates call the user's model as it is, so the tensors
inside the model have to change, not the call: dual parameters for the forward-mode pass, shifted ones for a finite
difference, and throw-away copies of the buffers for a pass that must leave BatchNorm's running statistics alone.
(`torch.func.functional_call` with parameters only would still update them.) A pass that is repeated must also see the
same random draws, and the values that differentiation holds constant.
"""

import importlib
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import cache, partial
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.autograd import forward_ad
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.overrides import TorchFunctionMode

from understudy.errors import UnderstudyError, first_line, warn
from understudy.maths.alignment.forward_mode import Direction, FusedRules, gradient_of

Loss = Callable[[Tensor, Tensor], Tensor]
Route = Literal["forward", "unfused attention", "difference"]

_WORKAROUNDS = {
    "unfused attention": "fused attention has no forward-mode rule: the alignment pass uses the unfused kernel instead",
    "difference": "{cause}: the alignment is a central difference along the gold gradient, good to about 3 digits; "
    "build the layer from elementary operators for exact values",
}


PER_EXAMPLE: Loss = partial(F.cross_entropy, reduction="none")


def alignment(
    model: nn.Module, x: Tensor, y: Tensor, gold_x: Tensor, gold_y: Tensor, loss: Loss = PER_EXAMPLE
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
            raise UnderstudyError(f"{type(model).__name__} has no trainable parameter; unfreeze some (requires_grad_)")

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
        raise UnderstudyError(f"the losses have shape {tuple(losses.shape)}, not one per example; use reduction='none'")
    return losses


def _logits(output: Tensor) -> Tensor:
    return output if isinstance(output, Tensor) else output.logits


@contextmanager
def _replaced(model: nn.Module, kind: str, substitute: Callable[[Any], Tensor]) -> Iterator[None]:
    """Every tensor among the modules' ``_parameters`` or ``_buffers`` replaced; the originals come back."""
    tables = [getattr(module, kind) for module in model.modules()]
    held = [(table, name, tensor) for table in tables for name, tensor in table.items() if tensor is not None]
    try:
        for table, name, tensor in held:
            table[name] = substitute(tensor)
        yield
    finally:
        for table, name, tensor in held:
            table[name] = tensor


@contextmanager
def parameters_as(model: nn.Module, substitutes: Mapping[nn.Parameter, Tensor]) -> Iterator[None]:
    """Every place of `model` that holds one of these parameters holds its substitute instead (tied weights too)."""
    try:
        with _replaced(model, "_parameters", lambda parameter: substitutes.get(parameter, parameter)):
            yield
    finally:
        for module in model.modules():
            # It caches its weights, and would keep the substitutes till its next call.
            if isinstance(module, nn.RNNBase):
                module._init_flat_weights()


def buffers_untouched(model: nn.Module) -> AbstractContextManager[None]:
    """Passes inside the block write to copies of the buffers; the originals come back as they were."""
    return _replaced(model, "_buffers", Tensor.clone)


def same_draws(model: nn.Module) -> AbstractContextManager[None]:
    """On leaving, the random state of the CPU and of every device the model is on is what it was."""
    devices = {p.device for p in model.parameters() if p.device.type != "cpu"}
    kind = next(iter(devices)).type if devices else "cuda"
    return torch.random.fork_rng([device.index for device in devices], device_type=kind)


@contextmanager
def undone_on_failure(model: nn.Module) -> Iterator[None]:
    """A pass that breaks off half-way leaves neither half-updated buffers nor a moved random state behind."""
    before = [(buffer, buffer.clone()) for buffer in model.buffers()]
    state = torch.get_rng_state()
    cuda_states = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else []
    try:
        yield
    except RuntimeError:
        for buffer, value in before:
            buffer.copy_(value)
        torch.set_rng_state(state)
        for device, cuda_state in enumerate(cuda_states):
            torch.cuda.set_rng_state(cuda_state, device)
        raise


class Constants(TorchFunctionMode):
    """Holds detached values still: the first `with` block notes them, each later one gets them back in the same order.

    A loss may contain a target made of the model's own prediction, detached or computed under `no_grad`.
    Differentiation treats it as a constant; evaluating the loss again at shifted parameters would move it.

        constants = Constants()
        with constants: middle = loss()           # notes
        with constants: shifted = loss()          # replays
    """

    def __init__(self) -> None:
        super().__init__()
        self.noted: list[Tensor | None] = []
        self._replay: Iterator[Tensor | None] | None = None
        self._entered = 0

    def __enter__(self) -> "Constants":
        self._replay = iter(self.noted) if self._entered else None
        self._entered += 1
        self._stopped = False
        super().__enter__()  # type: ignore[no-untyped-call]
        return self

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if func is torch._C._set_grad_enabled:
            # Seen for `no_grad` blocks only: inside a custom autograd.Function grad mode is off as well, unseen, but
            # there it does not mean "constant", and neither does a `detach`.
            self._stopped = not args[0]
        constant = self._stopped or (func is Tensor.detach and torch.is_grad_enabled())
        if not constant or not _has_tensor([*args, *kwargs.values()]):
            return func(*args, **kwargs)
        noted = next(self._replay, None) if self._replay is not None else None
        if noted is not None:
            return noted
        result = func(*args, **kwargs)
        if self._replay is None:
            # A fresh tensor can be handed out again; what works in place has to be done again, on constants.
            fresh = isinstance(result, Tensor) and not any(result is value for value in args)
            self.noted.append(result.clone() if fresh else None)
        return result


def _has_tensor(values: Sequence[Any]) -> bool:
    return any(isinstance(v, Tensor) or (isinstance(v, (list, tuple)) and _has_tensor(v)) for v in values)
