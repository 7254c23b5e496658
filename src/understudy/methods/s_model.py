"""S-model: forward correction whose noise matrix is learned with the student (Goldberger & Ben-Reuven, ICLR 2017).

Goldberger & Ben-Reuven, "Training Deep Neural-Networks Using a Noise Adaptation Layer" (ICLR 2017), their simple
model: a softmax layer maps truth to label, ``ce(q, Tᵀ f)`` with ``T[i, ·] = softmax(W[i, ·])`` trained and saved with
the student and absent from ``predict``. Nothing but its start ties T to the noise, so the start matters:
``T = (1 − s) T₀ + s / C`` with T₀ the identity (``init="identity"``) or the teacher's confusion on gold
(``init="confusion"``), s the smoothing, without which W would begin at −∞. The papers do not give s.

    us.train(student, us.Gold(x_gold, y, teacher=labels_gold), us.Pool(x, labels), us.s_model("confusion"), epochs=30)
"""

from dataclasses import dataclass
from typing import Unpack

import torch
from torch import Tensor, nn

from understudy.errors import UnderstudyError
from understudy.maths.mixing import forward_correction
from understudy.methods.forward import transition_on_gold
from understudy.objective import Context, Link, Objective, Step, TeacherTarget
from understudy.options import Slots, method

__all__ = ["s_model", "s_model_link"]


class TransitionLayer(nn.Module):
    """A trainable noise matrix; its rows are softmaxes of a square weight."""

    def __init__(self, start: Tensor) -> None:
        super().__init__()
        self.weight = nn.Parameter(start.log())

    def transition(self) -> Tensor:
        return self.weight.softmax(-1)


@dataclass(frozen=True, kw_only=True)
class SModelLink(Link):
    """The layer as a slot."""

    init: str = "identity"
    smoothing: float = 0.1
    hard: bool = False
    name: str = "s_model"

    def __post_init__(self) -> None:
        if self.init not in ("identity", "confusion"):
            raise UnderstudyError(f"s_model(init={self.init!r}): use 'identity' or 'confusion' (estimated on gold)")
        if not 0 < self.smoothing <= 1:
            raise UnderstudyError(
                f"s_model(smoothing={self.smoothing}) must lie in (0, 1]; at 0 the layer cannot learn"
            )

    def module(self, context: Context) -> nn.Module:
        start = torch.eye(context.classes, dtype=torch.float64)
        if self.init == "confusion":
            start = transition_on_gold(context, hard=self.hard, who="s_model(init='confusion')")
        return TransitionLayer(((1 - self.smoothing) * start + self.smoothing / context.classes).float())

    def __call__(self, logits: Tensor, step: Step) -> Tensor:
        layer = step.modules[self.name]
        assert isinstance(layer, TransitionLayer)
        return forward_correction(logits, layer.transition())


s_model_link = SModelLink


@method
def s_model(init: str = "identity", *, smoothing: float = 0.1, hard: bool = False, **slots: Unpack[Slots]) -> Objective:
    link = s_model_link(init=init, smoothing=smoothing, hard=hard)
    return Objective(name="s_model", target=TeacherTarget(hard=hard), link=link, **slots)
