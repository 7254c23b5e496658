"""What training says about the labels themselves: which look wrong, and what they should have been.

A student first learns what many labels agree on, and only later memorises the odd ones. Its predictions *averaged over
training* therefore tell wrong labels from right ones far better than its last predictions do (see Swayamdipta et al.,
2020, on training dynamics). The forward passes are made anyway; this only adds them up.
"""

from collections.abc import Mapping

import torch
from torch import Tensor

from understudy.labels.forms import Labels
from understudy.objective import Columns

# 4 bytes each: beyond 400 MB the averages cost more than they tell.
MOST_ENTRIES = 100_000_000


class RefinedLabels:
    """Sums of the student's predictions and of the example weights, per pool row; a few indexed additions a step."""

    def __init__(self, rows: int, classes: int) -> None:
        self.probs = torch.zeros(rows, classes)
        self.weights = torch.zeros(rows)
        self.visits = torch.zeros(rows)

    @staticmethod
    def fits(rows: int, classes: int) -> bool:
        return rows * classes <= MOST_ENTRIES

    def add(self, rows: Tensor, logits: Tensor, weights: Tensor | None) -> None:
        once = torch.ones(len(rows))
        self.probs.index_add_(0, rows, logits.detach().float().softmax(-1).cpu())
        self.weights.index_add_(0, rows, once if weights is None else weights.float().cpu())
        self.visits.index_add_(0, rows, once)

    def state_dict(self) -> dict[str, Tensor]:
        return {"probs": self.probs, "weights": self.weights, "visits": self.visits}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        for name, sums in self.state_dict().items():
            sums.copy_(state[name])

    def columns(self, teacher: Labels) -> Columns:
        """``refined.wrong`` (chance that the label is wrong), ``refined.label`` (suggestion), ``refined.weight``.

        A row never drawn (``resample``) keeps its label, with wrong = NaN and weight 0: nothing is known of it.
        """
        seen, label = self.visits > 0, teacher.top1()
        on_label = self.probs.gather(1, label.unsqueeze(1)).squeeze(1) / self.visits
        return {
            "refined.wrong": (1 - on_label).clamp(0, 1),
            "refined.label": torch.where(seen, self.probs.argmax(1), label),
            "refined.weight": self.weights / self.visits.clamp(min=1),
        }
