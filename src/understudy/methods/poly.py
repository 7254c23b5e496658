"""PolyLoss: cross-entropy with its leading polynomial term turned up or down (Leng et al., ICLR 2022).

    ce(q, f) + ε Σ q (1 − f)

The expansion of −log f around f = 1 begins with 1 − f; ε changes that one coefficient, which decides how hard a nearly
right prediction still pulls. A baseline of SLaM's paper, which tries ε from −1 to 100 and uses 2 for SLaM × Poly
(Appendix D.6). Soft labels take the label-weighted sum over the classes. Below −1 the loss would grow again as f nears
1, so such ε are refused.

    us.train(student, gold, pool, us.poly(epsilon=2.0), epochs=30)
    us.slam(loss=us.poly_loss(2.0))                       # the loss alone, in any method's slot
"""

from dataclasses import dataclass
from typing import Unpack

from torch import Tensor

from understudy.maths import losses
from understudy.method_options import TemperedSlots, method
from understudy.methods.vanilla import vanilla
from understudy.objective import Objective
from understudy.store.option_fields import check_interval

__all__ = ["poly", "poly_loss"]


@dataclass(frozen=True)
class PolyLoss:
    """The loss as a slot."""

    epsilon: float = 1.0

    def __post_init__(self) -> None:
        check_interval("poly", "[-1, inf)", epsilon=self.epsilon)

    def __call__(self, log_prediction: Tensor, target: Tensor) -> Tensor:
        return losses.poly(log_prediction, target, epsilon=self.epsilon)


poly_loss = PolyLoss


@method
def poly(epsilon: float = 1.0, **slots: Unpack[TemperedSlots]) -> Objective:
    # No traits: ε Σ q (1 − f) draws towards the label's best class, so a soft label itself is not the minimum.
    return vanilla(loss=poly_loss(epsilon), **slots).replace(name="poly", traits=frozenset())
