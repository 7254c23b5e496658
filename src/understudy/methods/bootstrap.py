"""Bootstrapping: the label, moved a little towards what the student already believes (Reed et al., 2015).

Reed et al., "Training Deep Neural Networks on Noisy Labels with Bootstrapping" (2015). With q the label and f the
student's prediction, the loss is ``ce(β q + (1 − β) h, f)``:

    target="hard": h = onehot(argmax f), constant, β = 0.8        target="soft": h = f, β = 0.95

In the soft form the gradient flows through h as well, which makes it cross-entropy plus (1 − β) times the prediction's
entropy. The values of β are the ones Ren et al. (2018) took as the best. β stays fixed: ``us.self_distillation`` is the
same blend with a share that grows.

    us.train(student, None, us.Pool(x, noisy_labels), us.bootstrap(target="soft"), epochs=30)
"""

from dataclasses import dataclass
from typing import Unpack

from torch import Tensor

from understudy.errors import UnderstudyError
from understudy.maths.mixing import best_class
from understudy.method_options import Slots, method
from understudy.objective import Objective, Step, Target, TeacherTarget
from understudy.store.option_fields import check_interval

__all__ = ["bootstrap", "bootstrap_target"]

BETA = {"hard": 0.8, "soft": 0.95}


@dataclass(frozen=True, kw_only=True)
class BootstrapTarget(Target):
    """The blended target as a slot."""

    target: str = "hard"
    #: None: as above.
    beta: float | None = None
    hard: bool = False
    name: str = "bootstrap"

    def __post_init__(self) -> None:
        if self.target not in BETA:
            raise UnderstudyError(f"bootstrap(target={self.target!r}): use 'hard' (the best class) or 'soft'")
        check_interval("bootstrap", "[0, 1]", beta=self.share)

    @property
    def share(self) -> float:
        """β."""
        return BETA[self.target] if self.beta is None else self.beta

    def __call__(self, step: Step) -> Tensor:
        logits = step.outputs.logits
        own = best_class(logits) if self.target == "hard" else (logits / step.temperature).softmax(-1)
        return self.share * TeacherTarget(self.hard)(step) + (1 - self.share) * own


bootstrap_target = BootstrapTarget


@method
def bootstrap(*, target: str = "hard", beta: float | None = None, **slots: Unpack[Slots]) -> Objective:
    blend = bootstrap_target(target=target, beta=beta, hard=slots.get("hard", False))
    return Objective(name="bootstrap", target=blend, **slots)
