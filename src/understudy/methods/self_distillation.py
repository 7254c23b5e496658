"""Self-distillation (AIR): the student's own prediction gradually replaces the given label (Dong et al., 2019).

Dong et al., "Distillation ≈ Early Stopping? Harvesting Dark Knowledge Utilizing Anisotropic Information Retrieval for
Overparameterized Neural Network" (2019), Algorithm 1. The target at step t is

    α_t y + (1 − α_t) h(f),        1 − α_t = clip(λ · batch accuracy against the given labels, 0, 1)

detached, with h the student's best class or, with ``target="soft"``, its softmax at a low ``target_temperature``, 0.5
where it is not given. The paper names both ("hardmax or softmax with a low temperature") and no temperature; hardmax,
named first, is the default here. With λ > 1 at 60% noise and more it can drop a class for good (a class that is never
the best one gets no target any more), which the soft target does not: look at ``worst_class`` in the metrics.

While the student agrees with few labels it learns from them; the more it agrees, the more it keeps to itself, so that
the wrong labels are never memorised and training need not be stopped early. No gold is needed. The paper's λ on
Fashion-MNIST: 0.6, 1, 1, 1.4, 1.6 at 0, 20, 40, 60, 80% symmetric noise. ``schedule`` gives α of training progress (0
… 1) instead.

    us.train(student, None, us.Pool(x, noisy_labels), us.self_distillation(strength=1.0), epochs=40)
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Unpack

from torch import Tensor

from understudy.errors import UnderstudyError
from understudy.maths.mixing import best_class
from understudy.method_options import Slots, method
from understudy.objective import Objective, Step, Target, TeacherTarget
from understudy.store.option_fields import check_interval

__all__ = ["self_distillation", "self_distillation_target"]

LOW_TEMPERATURE = 0.5
Alpha = Callable[[float], float]


@dataclass(frozen=True, kw_only=True)
class SelfDistillationTarget(Target):
    """The blended target as a slot."""

    strength: float = 1.0
    schedule: Alpha | None = None
    target: str = "hard"
    target_temperature: float | None = None
    hard: bool = False
    name: str = "self_distillation"

    def __post_init__(self) -> None:
        check_interval("self_distillation", "[0, inf)", strength=self.strength)
        if self.target not in ("hard", "soft"):
            raise UnderstudyError(f"self_distillation(target={self.target!r}): use 'hard' (the best class) or 'soft'")
        if self.target_temperature is not None:
            if self.target == "hard":
                raise UnderstudyError("self_distillation(target_temperature=…): pass target='soft'")
            check_interval("self_distillation", "(0, inf)", target_temperature=self.target_temperature)
        if self.schedule is not None:
            _check_schedule(self.schedule)

    @property
    def whole_batch(self) -> bool:  # type: ignore[override]
        return self.schedule is None

    @property
    def wants_progress(self) -> bool:
        return self.schedule is not None

    def trust(self, step: Step) -> Tensor:
        """1 − α_t: the share of the target that is the student's own prediction."""
        if self.schedule is not None:
            return step.outputs.logits.new_tensor(1 - self.schedule(step.progress))
        agrees = step.outputs.logits.argmax(-1) == step.teacher.argmax(-1)
        return (self.strength * agrees.to(step.outputs.logits.dtype).mean()).clamp(0, 1)

    def __call__(self, step: Step) -> Tensor:
        logits, trust = step.outputs.logits.detach(), self.trust(step)
        if self.target == "hard":
            own = best_class(logits)
        else:
            own = (logits / (self.target_temperature or LOW_TEMPERATURE)).softmax(-1)
        return (1 - trust) * TeacherTarget(self.hard)(step) + trust * own


self_distillation_target = SelfDistillationTarget


def _check_schedule(schedule: Alpha) -> None:
    if not callable(schedule):
        raise UnderstudyError(f"self_distillation(schedule={schedule!r}): give α as a function of progress (0 … 1)")
    alphas = [schedule(number / 100) for number in range(101)]
    if not all(0 <= alpha <= 1 for alpha in alphas) or any(later > earlier for earlier, later in pairwise(alphas)):
        raise UnderstudyError("self_distillation(schedule=…) must fall from 1 towards 0: lambda progress: 1 - progress")


@method
def self_distillation(
    strength: float = 1.0,
    *,
    schedule: Alpha | None = None,
    target: str = "hard",
    target_temperature: float | None = None,
    **slots: Unpack[Slots],
) -> Objective:
    hard = slots.get("hard", False)
    blend = self_distillation_target(
        strength=strength, schedule=schedule, target=target, target_temperature=target_temperature, hard=hard
    )
    return Objective(name="self_distillation", target=blend, **slots)
