"""Refined labels: the student's predictions of the pool averaged over training, which show wrong labels.

run.columns["refined.wrong"]         # the probability that a row's label is wrong; and refined.label, refined.weight
"""

from collections.abc import Mapping

import torch
from torch import Tensor

from understudy.labels.base import Labels
from understudy.objective import Columns
from understudy.training.processes import Processes

# 4 bytes each: beyond 400 MB the averages cost more than they tell.
MOST_ENTRIES = 100_000_000
# A method weighs all batches or none; adding up several at once spares small nets three operators a step.
BATCHES_TOGETHER = 16


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
