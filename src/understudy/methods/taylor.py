"""Taylor cross-entropy: a loss that stops growing where the label looks hopeless (Feng et al., 2020).

−log f expanded around f = 1 and cut after ``degree`` terms,

    Σ_{i=1..t} (1 − f)^i / i

lies between the mean absolute error (degree 1: robust to random label noise, slow to fit) and cross-entropy (degree
→ ∞). A baseline of SLaM's paper, which uses degree 2 (Appendix D.6). Soft labels, which the original does not treat,
take the label-weighted sum over the classes. This is not the Taylor *softmax* of another paper.

    us.train(student, gold, pool, us.taylor(degree=2), epochs=30)
    us.slam(loss=us.taylor_loss(2))                       # the loss alone, in any method's slot
"""

from dataclasses import dataclass

from torch import Tensor

from understudy.errors import UnderstudyError
from understudy.maths import losses
from understudy.methods.vanilla import vanilla
from understudy.objective import Objective, Term, Weight

__all__ = ["taylor", "taylor_loss"]


@dataclass(frozen=True)
class TaylorLoss:
    degree: int

    def __call__(self, log_prediction: Tensor, target: Tensor) -> Tensor:
        return losses.taylor(log_prediction, target, degree=self.degree)


def taylor_loss(degree: int = 2) -> TaylorLoss:
    """The loss as a slot."""
    if not isinstance(degree, int) or degree < 1:
        raise UnderstudyError(f"taylor(degree={degree}): the number of terms is a whole number of at least 1")
    return TaylorLoss(degree)


def taylor(
    degree: int = 2,
    *,
    hard: bool = False,
    weight: Weight | None = None,
    terms: tuple[Term, ...] = (),
    temperature: float | tuple[float, float] = 1.0,
    temperature_scale: bool | None = None,
) -> Objective:
    objective = vanilla(
        hard=hard,
        loss=taylor_loss(degree),
        weight=weight,
        terms=terms,
        temperature=temperature,
        temperature_scale=temperature_scale,
    )
    # Against a soft label the cut series is least at the label's best class, not at the label itself.
    return objective.replace(name="taylor", traits=frozenset())
