"""Early-learning regularisation: hold the student to its earlier predictions of each row (Liu et al., NeurIPS 2020).

Liu et al., "Early-Learning Regularization Prevents Memorization of Noisy Labels" (NeurIPS 2020), Equations 6 and 9:

    ce(q, f) + λ log(1 − ⟨f, t⟩),        t ← β t + (1 − β) f   at every visit of the row, from 0

t is detached and holds this visit's prediction too. A net fits right labels first; as f and t agree, the gradient of
the second term outgrows that of a wrong label, which is then never memorised. No gold is needed. As in the authors'
code, f is clamped to [1e-4, 1 − 1e-4] there (and normalised in t), so that the logarithm is finite. λ = 3, β = 0.7 are
theirs for CIFAR-10; 7 and 0.9 for CIFAR-100. ELR+ (two nets, mixup, an average of weights) is not reproduced.

    us.train(student, None, us.Pool(x, noisy_labels), us.elr(strength=3.0), epochs=120)
    us.slam(terms=(us.elr_term(),))
"""

from dataclasses import dataclass
from typing import Unpack

import torch
from torch import Tensor, nn

from understudy.method_options import Slots, method
from understudy.methods.vanilla import vanilla
from understudy.objective import Columns, Context, Objective, Step, Term
from understudy.store.option_fields import check_interval

__all__ = ["elr", "elr_term"]

SMALLEST = 1e-4


def clamped_prediction(step: Step) -> Tensor:
    """The student's probabilities within [1e-4, 1 − 1e-4], ``(B, C)``."""
    return (step.outputs.logits / step.temperature).softmax(-1).clamp(SMALLEST, 1 - SMALLEST)


@dataclass(frozen=True)
class ElrTerm(Term):
    """The regulariser as a slot."""

    strength: float = 3.0
    decay: float = 0.7
    name: str = "elr"

    def __post_init__(self) -> None:
        check_interval("elr", "[0, inf)", strength=self.strength)
        check_interval("elr", "[0, 1)", decay=self.decay)

    def module(self, context: Context) -> nn.Module:
        """Holds t of every pool row, kept with the run."""
        moving = nn.Module()
        moving.register_buffer("average", torch.zeros(len(context.pool), context.classes))
        return moving

    def observe(self, step: Step) -> Columns:
        average, f = step.modules[self.name].get_buffer("average"), clamped_prediction(step)
        rows = step.rows.to(average.device)
        t = average[rows].lerp((f / f.sum(-1, keepdim=True)).to(average.dtype), 1 - self.decay)
        average[rows] = t
        return {"average": t}

    def __call__(self, step: Step) -> Tensor:
        agreement = (clamped_prediction(step) * step.columns[f"{self.name}.average"]).sum(-1)
        return self.strength * torch.log1p(-agreement)


elr_term = ElrTerm


@method
def elr(strength: float = 3.0, *, decay: float = 0.7, **slots: Unpack[Slots]) -> Objective:
    plain = vanilla(**slots)
    return plain.replace(name="elr", terms=(elr_term(strength, decay), *plain.terms), traits=frozenset())
