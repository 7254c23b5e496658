"""The optimizer of the options, from PyTorch, and the parameters that learn at a rate of their own.

    groups = {"classifier.*": {"lr_scale": 10}, "*.bias": {"weight_decay": 0}}
    options = TrainingOptions(epochs=30, optimizer="adamw", groups=groups)
    optimizer = make_optimizer(options, student)
    set_lr(optimizer, options.lr_at(progress))
    loss.backward(); optimizer.step()

A group is named as files are in a shell; where several fit a parameter, the last one that says something of it counts.
**L-BFGS** minimises the loss of all rows at once, until its gradient shows that there is nothing left to gain.

    optimizer = LBFGS(parameters, penalised=weights, weight_decay=1e-4)
    optimizer.minimise(loss_of_everything, iterations=20)      # and again: it goes on where it was
    optimizer.idle                                             # the last call found nothing to do

Minimised is ``loss + weight_decay / 2 · Σ w²`` over the penalised parameters. The direction is that of Liu & Nocedal
(1989) from the last ``MEMORY`` steps; the step length meets the weak Wolfe conditions, and is found between what was
too long and what was too short (Lewis & Overton, 2013); the length 1 is tried first and nearly always does. It is
converged where the next step promises to gain no more than ``TOLERANCE``, ½ gᵀHg for a mean over rows. A bound of the
gradient says little: at scikit-learn's 1e-4 what is left to gain is 1e-5 of frequent words' weights and 1e-3 of many
numbers'.

Of a linear student the diagonal of the second derivative is known before the first step, and scales every direction
(``models.small_nets.curvatures``): rare words need long steps. On TF-IDF that spares two of three iterations.

What it remembers is tensors, so that a training that is resumed goes on to the same bits; where the function is not the
one of the call before (other weights, refreshed columns), it starts with an empty memory.
"""

import inspect
import math
import sys
from collections.abc import Callable, Iterable, Mapping
from fnmatch import fnmatchcase
from typing import Any

import torch
from torch import Tensor, nn

from understudy.errors import UnderstudyError
from understudy.models.small_nets import curvatures
from understudy.training.options import LR_SCALE, Groups, TrainingOptions

WEIGHT_DECAY, _COMPILER = "weight_decay", "torch._dynamo"


def grouped(student: nn.Module, groups: Groups | None) -> list[dict[str, Any]]:
    """The student's trained parameters as an optimizer takes them: together what shares rate and decay."""
    _check(student, groups or {})
    found: dict[tuple[tuple[str, float], ...], list[nn.Parameter]] = {}
    for name, parameter in student.named_parameters():
        settings: dict[str, float] = {}
        for pattern, given_settings in (groups or {}).items():
            settings |= given_settings if fnmatchcase(name, pattern) else {}
        if parameter.requires_grad:
            found.setdefault(tuple(sorted(settings.items())), []).append(parameter)
    return [{"params": parameters, **dict(settings)} for settings, parameters in found.items()]


def _check(student: nn.Module, groups: Groups) -> None:
    names = [name for name, _ in student.named_parameters()]
    for pattern, given_settings in groups.items():
        if not any(fnmatchcase(name, pattern) for name in names):
            raise UnderstudyError(f"groups: no parameter is called {pattern!r}; there is {names[0]!r} … {names[-1]!r}")
        for key, value in given_settings.items():
            if key not in (LR_SCALE, WEIGHT_DECAY):
                raise UnderstudyError(f"groups[{pattern!r}]: {key!r} is unknown; say {LR_SCALE} or {WEIGHT_DECAY}")
            if not value >= 0:
                raise UnderstudyError(f"groups[{pattern!r}]: {key}={value} must be a number and not negative")


def make_optimizer(
    options: TrainingOptions, student: nn.Module, beside: Iterable[nn.Parameter] = ()
) -> torch.optim.Optimizer:
    """The fused kernels update all tensors of a group in one call; they exist for CPU and CUDA.

    The fused SGD wants every parameter of a group to have a gradient from its first step on, or none: ``beside``, what
    a method trains beside the student, which batches of gold alone do not touch, is a group of its own.
    """
    groups = grouped(student, options.groups)
    if others := [parameter for parameter in beside if parameter.requires_grad]:
        groups.append({"params": others})
    every = [parameter for group in groups for parameter in group["params"]]
    fused = all(each.device.type in ("cpu", "cuda") and each.is_floating_point() for each in every)
    settings: dict[str, Any] = {"lr": options.lr, "weight_decay": options.weight_decay, "fused": fused}
    _leave_compiler_out()
    if options.optimizer == "sgd":
        return _SGD(groups, momentum=options.momentum, **settings)
    return (_Adam if options.optimizer == "adam" else _AdamW)(groups, **settings)


def _leave_compiler_out() -> None:
    """PyTorch's optimizers load its compiler, which takes a second, to tell it to leave some methods alone. Until
    something else loads it there is nothing to tell."""
    for name in ("add_param_group", "state_dict", "load_state_dict"):
        method = getattr(getattr(torch.optim.Optimizer, name), "__wrapped__", None)
        if method is not None and _COMPILER not in sys.modules:
            vars(method).setdefault("__dynamo_disable", method)


class _Light(torch.optim.Optimizer):
    @torch.no_grad()
    def step(self, closure: Any = None) -> Any:
        """The step beneath PyTorch's wrappers: one would load the compiler, the other calls the hooks that the
        wrapper of this very class calls too.
        """
        return inspect.unwrap(super().step.__func__)(self, closure)  # type: ignore[attr-defined]


class _SGD(_Light, torch.optim.SGD): ...


class _Adam(_Light, torch.optim.Adam): ...


class _AdamW(_Light, torch.optim.AdamW): ...


#: Of the mean loss, in nats.
TOLERANCE = 3e-6
#: Of one epoch: enough for most trainings, and few enough for weights that follow the student.
ITERATIONS = 20
MEMORY = 10
_SUFFICIENT, _CURVATURE = 1e-4, 0.9
_TRIALS = 25
_LEAST_CURVATURE = 1e-8

#: Parameters and gradient, flat; the loss in float64: sums of neighbours differ in their eighth digit.
Point = tuple[Tensor, Tensor, Tensor]


class LBFGS:
    def __init__(
        self, parameters: Iterable[nn.Parameter], *, penalised: Iterable[nn.Parameter] = (), weight_decay: float = 0.0,
        add_up: Callable[[Tensor, Tensor], tuple[Tensor, Tensor]] | None = None,
    ) -> None:  # fmt: skip
        """``add_up``: makes loss and gradient of this process's rows those of all, where several share them."""
        self.add_up = add_up
        self.parameters = [parameter for parameter in parameters if parameter.requires_grad]
        under_penalty = {id(parameter) for parameter in penalised}
        self.decays = [weight_decay if id(parameter) in under_penalty else 0.0 for parameter in self.parameters]
        self.sizes = [parameter.numel() for parameter in self.parameters]
        #: Whether the last call began where there was nothing to gain.
        self.idle = False
        #: About the second derivative by each parameter, flat; None: unknown.
        self.curvature: Tensor | None = None
        #: The last steps, what each changed of the gradient, and the product of the two.
        self.memory: list[tuple[Tensor, Tensor, float]] = []
        #: Loss and gradient where the last call ended.
        self._last: tuple[Tensor, Tensor] | None = None

    def measure_curvature(self, nets: Iterable[nn.Module], x: Any, rows: int) -> None:
        """Of the mean loss over so many rows, of which ``x`` are this process's."""
        if self.curvature is not None:
            return
        known = {id(each): value for net in nets for each, value in curvatures(net, x, rows)}
        if all(id(parameter) in known for parameter in self.parameters):
            flat = torch.cat([known[id(parameter)].expand_as(parameter).reshape(-1) for parameter in self.parameters])
            flat = flat if self.add_up is None else self.add_up(flat.new_zeros(()), flat)[1]
            decays = [flat.new_full((size,), decay) for size, decay in zip(self.sizes, self.decays, strict=True)]
            self.curvature = (flat + torch.cat(decays)).clamp(min=_LEAST_CURVATURE)

    def minimise(self, loss: Callable[[], Tensor], iterations: int = ITERATIONS) -> float:
        """At most so many steps; the loss where they end, without the penalty."""
        start = here = self._at(self._read(), loss)
        if self._last is None or not (self._last[0].equal(start[1]) and self._last[1].equal(start[2])):
            self.memory.clear()
        for _ in range(iterations):
            direction = self._direction(here[2])
            # Of a direction in an unknown scale nothing is known.
            if -0.5 * float(direction @ here[2]) <= (TOLERANCE if self._knows_scale else 0):
                break
            there = self._step(here, direction, loss)
            if there is None and self.memory:
                self.memory.clear()  # downhill from here, whatever the memory says
                there = self._step(here, self._direction(here[2]), loss)
            if there is None:
                break  # rounding hides any further descent
            step, change = there[0] - here[0], there[2] - here[2]
            if (curvature := float(step @ change)) > 1e-10 * float(change @ change):
                self.memory = [*self.memory, (step, change, curvature)][-MEMORY:]
            here = there
        self.idle = here is start
        self._write(here[0])
        self._last = here[1], here[2]
        return float(here[1] - self._penalty(here[0]))

    @property
    def _knows_scale(self) -> bool:
        return bool(self.memory) or self.curvature is not None

    def _step(self, here: Point, direction: Tensor, loss: Callable[[], Tensor]) -> Point | None:
        """A point further down; None where there is none to be seen."""
        x, value, gradient = here
        start, slope = float(value), float(direction @ gradient)
        if not slope < 0:
            return None
        low, high, best = 0.0, math.inf, None
        length = 1.0 if self._knows_scale else min(1.0 / float(gradient.norm()), 1e6)
        for _ in range(_TRIALS):
            there = self._at(x + length * direction, loss)
            rise, tilt = float(there[1]) - start, float(there[2] @ direction)
            if not rise <= _SUFFICIENT * length * slope:
                high = length
                # The lowest point of the parabola through what is known, but well inside.
                wanted = -slope * length**2 / (2 * (rise - slope * length)) if math.isfinite(rise) else 0.0
            elif tilt < _CURVATURE * slope:
                low, best = length, there
                wanted = length * slope / (slope - tilt) if tilt > slope else math.inf
            else:
                return there
            length = _between(wanted, low, high)
        return best

    def _direction(self, gradient: Tensor) -> Tensor:
        """−H g, H the inverse Hessian as the remembered steps show it, by the two loops of Nocedal (1980)."""
        direction, shares = -gradient, []
        for step, change, curvature in reversed(self.memory):
            shares.append(float(step @ direction) / curvature)
            direction.sub_(change, alpha=shares[-1])
        scale = 1.0 if self.curvature is None else self.curvature
        if self.memory:
            _, change, curvature = self.memory[-1]
            direction.mul_(curvature / float(change @ (change / scale)))
        direction.div_(scale)
        for step, change, curvature in self.memory:
            direction.add_(step, alpha=shares.pop() - float(change @ direction) / curvature)
        return direction

    def _at(self, x: Tensor, loss: Callable[[], Tensor]) -> Point:
        self._write(x)
        with torch.enable_grad():
            value = loss()
            gradients = torch.autograd.grad(value, self.parameters, allow_unused=True)
        value = value.detach().double()
        if self.add_up is not None:
            sums = [torch.zeros_like(p) if g is None else g for p, g in zip(self.parameters, gradients, strict=True)]
            value, added = self.add_up(value, torch.cat([each.reshape(-1) for each in sums]))
            parts = zip(self.parameters, added.split(self.sizes), strict=True)
            gradients = tuple(part.view(parameter.shape) for parameter, part in parts)
        flat = [
            (decay * p.detach() if g is None else g.add(p.detach(), alpha=decay) if decay else g).reshape(-1)
            for p, g, decay in zip(self.parameters, gradients, self.decays, strict=True)
        ]
        return x, value + self._penalty(x), torch.cat(flat)

    def _penalty(self, x: Tensor) -> Tensor:
        parts = zip(x.split(self.sizes), self.decays, strict=True)
        squares = [0.5 * decay * part.double().square().sum() for part, decay in parts if decay]
        return torch.stack(squares).sum() if squares else x.new_zeros((), dtype=torch.float64)

    def _read(self) -> Tensor:
        return torch.cat([parameter.detach().reshape(-1) for parameter in self.parameters])

    def _write(self, x: Tensor) -> None:
        with torch.no_grad():
            for parameter, part in zip(self.parameters, x.split(self.sizes), strict=True):
                parameter.copy_(part.view_as(parameter))

    def state_dict(self) -> dict[str, Tensor]:
        state = {} if self._last is None else {"loss": self._last[0], "gradient": self._last[1]}
        for number, (step, change, _) in enumerate(self.memory):
            state |= {f"step{number}": step, f"change{number}": change}
        return state

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        device = self.parameters[0].device
        state = {name: value.to(device) for name, value in state.items()}
        pairs = [(state[f"step{n}"], state[f"change{n}"]) for n in range(MEMORY) if f"step{n}" in state]
        self.memory = [(step, change, float(step @ change)) for step, change in pairs]
        self._last = (state["loss"], state["gradient"]) if "loss" in state else None


def _between(wanted: float, low: float, high: float) -> float:
    """A length to try next: the wanted one, but neither at the ends of what is left nor far beyond them."""
    if high == math.inf:
        return min(max(wanted, 2 * low), 10 * low)
    return min(max(wanted, low + 0.1 * (high - low)), high - 0.1 * (high - low))
