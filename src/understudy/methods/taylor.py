"""Taylor cross-entropy: a loss that stops growing where the label looks hopeless (Feng et al., IJCAI 2020).

−log f expanded around f = 1 and cut after ``degree`` terms,

    Σ_{i=1..t} (1 − f)^i / i

lies between the mean absolute error (degree 1: robust to random label noise, slow to fit) and cross-entropy (degree
→ ∞). A baseline of SLaM's paper, which uses degree 2 (Appendix D.6). Soft labels, which the original does not treat,
take the label-weighted sum over the classes. This is not the Taylor *softmax* of another paper.

    us.train(student, gold, pool, us.taylor(degree=2), epochs=30)
    us.slam(loss=us.taylor_loss(2))                       # the loss alone, in any method's slot
"""

from dataclasses import dataclass
from typing import Unpack

from torch import Tensor

from understudy.errors import UnderstudyError
from understudy.maths import losses
from understudy.method_options import TemperedSlots, method
from understudy.methods.vanilla import vanilla
from understudy.objective import Objective

__all__ = ["taylor", "taylor_loss"]


@dataclass(frozen=True)
class TaylorLoss:
    """The loss as a slot."""

    degree: int = 2

    def __post_init__(self) -> None:
        if not isinstance(self.degree, int) or self.degree < 1:
            raise UnderstudyError(f"taylor(degree={self.degree}): the number of terms is a whole number of at least 1")

    def __call__(self, log_prediction: Tensor, target: Tensor) -> Tensor:
        return losses.taylor(log_prediction, target, degree=self.degree)


taylor_loss = TaylorLoss


@method
def taylor(degree: int = 2, **slots: Unpack[TemperedSlots]) -> Objective:
    # No traits: against a soft label the cut series is least at the label's best class, not at the label itself.
    return vanilla(loss=taylor_loss(degree), **slots).replace(name="taylor", traits=frozenset())
