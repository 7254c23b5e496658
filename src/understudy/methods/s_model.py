"""S-model: forward correction whose noise matrix is learned with the student (Goldberger & Ben-Reuven, ICLR 2017).

Goldberger & Ben-Reuven, "Training Deep Neural-Networks Using a Noise Adaptation Layer" (ICLR 2017), their simple
model: a softmax layer maps truth to label, ``ce(q, Tᵀ f)`` with ``T[i, ·] = softmax(W[i, ·])`` trained and saved with
the student and absent from ``predict``. Nothing but its start ties T to the noise, so the start matters:
``T = (1 − s) T₀ + s / C``, s the smoothing, without which W would begin at −∞ (the papers do not give s), and T₀

    init="identity"      the identity
    init="confusion"     the teacher's confusion on gold
    init="predictions"   a pretrained net's confusion with the labels, T₀[i, j] = Σ_t q_t(j) p_t(i) / Σ_t p_t(i): p is
                         ``noisy_probs``, its predictions of the pool rows, and q their labels. That is the start of
                         Goldberger & Ben-Reuven (section 3) and of Ren et al.'s S-model +Conf; it needs no gold.

    us.train(student, us.Gold(x_gold, y, teacher=labels_gold), us.Pool(x, labels), us.s_model("confusion"), epochs=30)
"""

from dataclasses import dataclass
from typing import Any, Unpack

import torch
from torch import Tensor, nn

from understudy.errors import UnderstudyError
from understudy.maths.mixing import forward_correction
from understudy.method_options import Slots, method
from understudy.methods.forward import label_shares, transition_on_gold
from understudy.objective import Context, Link, Objective, Step
from understudy.store.option_fields import check_interval

__all__ = ["s_model", "s_model_link"]


class TransitionLayer(nn.Module):
    """A trainable noise matrix; its rows are softmaxes of a square weight."""

    def __init__(self, start: Tensor) -> None:
        super().__init__()
        self.weight = nn.Parameter(start.log())

    def transition(self) -> Tensor:
        return self.weight.softmax(-1)


@dataclass(frozen=True, eq=False, kw_only=True)
class SModelLink(Link):
    """The layer as a slot."""

    init: str = "identity"
    smoothing: float = 0.1
    noisy_probs: Any = None
    hard: bool = False
    name: str = "s_model"

    def __post_init__(self) -> None:
        if self.init not in ("identity", "confusion", "predictions"):
            raise UnderstudyError(f"s_model(init={self.init!r}): use 'identity', 'confusion' or 'predictions'")
        if (self.init == "predictions") != (self.noisy_probs is not None):
            raise UnderstudyError("s_model: init='predictions' and noisy_probs= go together; pass both, or neither")
        check_interval("s_model", "(0, 1]", smoothing=self.smoothing)

    def start(self, context: Context) -> Tensor:
        """T₀."""
        if self.init == "confusion":
            return transition_on_gold(context, hard=self.hard, who="s_model(init='confusion')")
        if self.init == "identity":
            return torch.eye(context.classes, dtype=torch.float64)
        where = "s_model(noisy_probs=…)"
        probs = context.numbers_per_row(self.noisy_probs, where, context.classes)
        missing = (probs.sum(0) <= 0).nonzero().squeeze(1).tolist()
        if missing:
            raise UnderstudyError(f"{where} never names class {missing[0]}; use init='identity'")
        return probs.T @ label_shares(context.teacher, context.classes, hard=self.hard) / probs.sum(0).unsqueeze(1)

    def module(self, context: Context) -> nn.Module:
        start = self.start(context)
        return TransitionLayer(((1 - self.smoothing) * start + self.smoothing / context.classes).float())

    def __call__(self, logits: Tensor, step: Step) -> Tensor:
        layer = step.modules[self.name]
        assert isinstance(layer, TransitionLayer)
        return forward_correction(logits, layer.transition())


s_model_link = SModelLink


@method
def s_model(
    init: str = "identity", *, smoothing: float = 0.1, noisy_probs: Any = None, **slots: Unpack[Slots]
) -> Objective:
    link = s_model_link(init=init, smoothing=smoothing, noisy_probs=noisy_probs, hard=slots.get("hard", False))
    return Objective(name="s_model", link=link, **slots)
