"""The moving average of a module: a second, smoother model for S-Badge and LHD to compare with.

β ← decay · β + (1 − decay) · θ after every step, decay = min(1 − 1/(t + 1), 0.999) with t the updates made
before this one. The warm-up makes the first updates a plain mean of the iterates: the first copies θ, the
second averages two, …; a fixed 0.999 remembers the random initialisation for thousands of steps.
``warmup=False`` is that: Equation 1 of S-Badge's paper as printed, β starting at the initial θ. Buffers
(BatchNorm's statistics and counters) are copied. The average is always in eval mode and never asks for
gradients; `reset` starts it again for the next round. (PyTorch's own AveragedModel takes 1.2 to 1.4 times as long per
update, and pairs parameters by position without a word where a model is not the one it was made from.)

    ema = EMA(model)
    for batch in batches:
        step(model, batch)
        ema.update(model)
    hidden_ema = features(ema.module, pool)

**Refined labels** are the student's predictions of the pool averaged over training, which show wrong labels.

    run.columns["refined.wrong"]     # the probability that a row's label is wrong; and refined.label, refined.weight
"""

import copy
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from understudy.errors import UnderstudyError, first_line
from understudy.labels.base import Labels
from understudy.objective import Columns
from understudy.store.option_fields import checked
from understudy.training.processes import Processes

# 4 bytes each: beyond 400 MB the averages cost more than they tell.
MOST_ENTRIES = 100_000_000
# A method weighs all batches or none; adding up several at once spares small nets three operators a step.
BATCHES_TOGETHER = 16


class EMA:
    """`module` holds the averaged parameters; `updates` counts how many went in."""

    @checked
    def __init__(self, model: nn.Module, *, decay: float = 0.999, warmup: bool = True) -> None:
        if not isinstance(model, nn.Module):
            raise UnderstudyError(f"EMA averages a module, not a {type(model).__name__}; pass the student")
        if not 0 <= decay < 1:
            raise UnderstudyError(f"EMA decay = {decay}: use a number from 0 to below 1, usually 0.999")
        self.decay, self.warmup = decay, warmup
        self.updates = 0
        self.module = copy.deepcopy(model).requires_grad_(False).eval()

    @torch.no_grad()
    def update(self, model: nn.Module) -> None:
        """Move the average towards the model as it is now."""
        decay = min(1 - 1 / (self.updates + 1), self.decay) if self.warmup else self.decay
        average, current = self._parameters(model)
        if average:
            torch._foreach_lerp_(average, current, 1 - decay)
        self._copy_buffers(model)
        self.updates += 1

    @torch.no_grad()
    def reset(self, model: nn.Module) -> None:
        """Forget everything and start from the model as it is now."""
        average, current = self._parameters(model)
        if average:
            torch._foreach_copy_(average, current)
        self._copy_buffers(model)
        self.updates = 0

    def state_dict(self) -> dict[str, Tensor]:
        """Tensors only, as safetensors wants: the module's state under `module.`, and `updates`."""
        state = {f"module.{name}": value for name, value in self.module.state_dict().items()}
        return state | {"updates": torch.tensor(self.updates)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        if "updates" not in state:
            raise UnderstudyError("not the state of an EMA, 'updates' is missing: pass what EMA.state_dict() returned")
        module = {name.removeprefix("module."): value for name, value in state.items() if name != "updates"}
        try:
            self.module.load_state_dict(module)
        except RuntimeError as error:
            raise UnderstudyError(f"this EMA state belongs to another model: {first_line(error)}") from error
        self.updates = int(state["updates"])

    def _parameters(self, model: nn.Module) -> tuple[list[Tensor], list[Tensor]]:
        average, current = dict(self.module.named_parameters()), dict(model.named_parameters())
        if {k: v.shape for k, v in average.items()} != {k: v.shape for k, v in current.items()}:
            raise UnderstudyError("the model's parameters are not those this EMA was made from: make a new EMA(model)")
        return list(average.values()), [current[name].detach() for name in average]

    def _copy_buffers(self, model: nn.Module) -> None:
        current = dict(model.named_buffers())
        for name, buffer in self.module.named_buffers():
            buffer.copy_(current[name])


class RefinedLabels:
    """Sums of predictions and weights per pool row.

    A student first learns what many labels agree on, and only later memorises the odd ones. Its predictions *averaged
    over training* therefore separate wrong labels from right ones far better than its last predictions do (see
    Swayamdipta et al., 2020, on training dynamics). The forward passes are made anyway; this only adds them up.
    """

    def __init__(self, rows: int, classes: int) -> None:
        self.probs = torch.zeros(rows, classes)
        self.weights = torch.zeros(rows)
        self.visits = torch.zeros(rows)
        self._waiting: list[tuple[Tensor, Tensor, Tensor | None]] = []

    def add(self, rows: Tensor, logits: Tensor, weights: Tensor | None) -> None:
        # Copies: a view of the logits would keep the whole graph of the step alive.
        self._waiting.append((rows, logits.detach().clone(), weights))
        if len(self._waiting) == BATCHES_TOGETHER:
            self._add_up()

    def _add_up(self) -> None:
        if not self._waiting:
            return
        rows, logits, weights = zip(*self._waiting, strict=True)
        self._waiting.clear()
        every, ones = torch.cat(rows), torch.ones(sum(map(len, rows)))
        weighed = [part for part in weights if part is not None]
        # Batch by batch: how a row is rounded may depend on how many there are, and a checkpoint adds up fewer batches.
        self.probs.index_add_(0, every, torch.cat([_softmax(part.float()) for part in logits]).cpu())
        self.weights.index_add_(0, every, torch.cat(weighed).float().cpu() if weighed else ones)
        self.visits.index_add_(0, every, ones)

    def add_to_first(self, processes: Processes) -> None:
        """Process 0 has what all of them have seen; the others go on from nothing."""
        self._add_up()
        processes.add_to_first([self.probs, self.weights, self.visits])

    def clear(self) -> None:
        for sums in self.state_dict().values():
            sums.zero_()

    def mean_weight(self) -> float:
        """Over all rows and epochs, as they were drawn."""
        self._add_up()
        return float(self.weights.double().sum() / self.visits.double().sum().clamp(min=1))

    def state_dict(self) -> dict[str, Tensor]:
        self._add_up()
        return {"probs": self.probs, "weights": self.weights, "visits": self.visits}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        for name, sums in self.state_dict().items():
            sums.copy_(state[name])

    def columns(self, teacher: Labels) -> Columns:
        """``refined.wrong`` (chance that the label is wrong), ``refined.label`` (suggestion), ``refined.weight``.

        A row never drawn (``resample``) keeps its label, with wrong = NaN and weight 0: nothing is known of it.
        """
        self._add_up()
        seen, label = self.visits > 0, teacher.top1()
        on_label = self.probs.gather(1, label.unsqueeze(1)).squeeze(1) / self.visits
        return {
            "refined.wrong": (1 - on_label).clamp(0, 1),
            "refined.label": torch.where(seen, self.probs.argmax(1), label),
            "refined.weight": self.weights / self.visits.clamp(min=1),
        }


def _softmax(logits: Tensor) -> Tensor:
    """Along a short last axis PyTorch takes up to seven times as long as along the first."""
    return logits.t().softmax(0).t() if logits.shape[1] < 8 else logits.softmax(-1)
