"""Fidelity weights: the less sure the teacher is of a label, the less that label counts (Dehghani et al., ICLR 2018).

    w = exp(−β u / mean u)

With u the entropy of the teacher's label and β = 1 these are the weights of Weighted Distillation's paper (Iliopoulos
et al., NeurIPS 2022, Appendix C.3, after Dehghani et al., 2017); with u the mean class variance over ten augmented
teacher passes, those of SLaM's (Kontonis et al., NeurIPS 2023, Appendix D.4). The latter divides by the *total* of u;
the mean keeps β free of the pool's size. It is the mean over the pool rows; the former paper's is over all training
rows, the teacher's own among them. What it says of those is rarely at hand, and its entropy there is near 0, so that
β would depend on how many they are: with such a mean m, the paper's weights are those of β = mean u / m. Unlike
debiasing, the weights know nothing of the truth or of the student.

Hard labels: where the teacher gave a confidence in [0, 1], u is one minus it; where it gave none, every label is as
sure as the next and all weights are 1.

    us.train(student, gold, pool, us.fidelity(beta=2), epochs=30)
    passes = us.stochastic_passes(teacher, x_pool, augment=understudy.data.augment.crop_resize)
    us.slam(weight=us.fidelity_weight(beta=2, uncertainty=passes.variance))
"""

from dataclasses import dataclass, field
from typing import Any, Unpack

from torch import Tensor

from understudy.errors import UnderstudyError
from understudy.labels.forms import Labels
from understudy.maths import weights
from understudy.method_options import Slots, method
from understudy.methods.vanilla import reweighted
from understudy.objective import Columns, Context, Objective, Weight
from understudy.store.option_fields import check_interval

__all__ = ["fidelity", "fidelity_weight"]


@dataclass(frozen=True, eq=False)
class FidelityWeight(Weight):
    """The weight as a slot. ``uncertainty``: (N,) mean class variance of the teacher, None for its labels' entropy."""

    beta: float = 1.0
    uncertainty: Any = field(default=None, repr=False)
    name: str = field(default="fidelity", kw_only=True)

    def __post_init__(self) -> None:
        check_interval("fidelity", "[0, inf)", beta=self.beta)

    def prepare(self, context: Context) -> Columns:
        if self.uncertainty is None:
            uncertainty = _own_doubt(context.teacher)
        else:
            uncertainty = context.numbers_per_row(self.uncertainty, "fidelity(uncertainty=…)")
        weight = weights.fidelity(uncertainty, self.beta)
        context.facts[f"{self.name}.mean_weight"] = float(weight.mean())
        return {"weight": weight.float()}


def _own_doubt(teacher: Labels) -> Tensor:
    """The entropy of the teacher's labels; for hard labels, what their confidence leaves open."""
    if teacher.ranks or not teacher.has_confidence:
        return teacher.confidence("entropy")
    given = teacher.confidence("margin")
    if bool(((given < 0) | (given > 1)).any()):
        raise UnderstudyError("fidelity: some confidences lie outside [0, 1]; scale them, or pass uncertainty=")
    return 1 - given


fidelity_weight = FidelityWeight


@method
def fidelity(beta: float = 1.0, uncertainty: Any = None, **slots: Unpack[Slots]) -> Objective:
    return reweighted("fidelity", fidelity_weight(beta, uncertainty), slots)
