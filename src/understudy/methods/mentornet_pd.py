"""MentorNet's predefined curriculum: train on rows whose loss is below a moving percentile (Jiang et al., ICML 2018).

Jiang et al., "MentorNet: Learning Data-Driven Curriculum for Very Deep Neural Networks on Corrupted Labels" (ICML
2018), the predefined form: ``v = 1`` where ``loss ≤ λ``, else 0, with λ a moving average of the batches' p-th loss
percentile

    λ ← d λ + (1 − d) percentile_p(losses of the batch)

Wrong labels have the larger losses while the student has not memorised them. ``percentile`` is best near the share of
right labels. During ``warmup`` (a share of training) every row counts and λ already moves. The learned
curriculum (MentorNet DD) is not reproduced.

    us.train(student, None, us.Pool(x, noisy_labels), us.mentornet_pd(percentile=0.6), epochs=30)
"""

from dataclasses import dataclass
from typing import Unpack

import torch
from torch import Tensor, nn

from understudy.method_options import Slots, method, with_weight
from understudy.objective import Context, Objective, Step, Weight
from understudy.store.option_fields import check_interval

__all__ = ["curriculum_weight", "mentornet_pd"]


@dataclass(frozen=True, kw_only=True)
class CurriculumWeight(Weight):
    """The curriculum as a slot."""

    percentile: float = 0.75
    decay: float = 0.9
    warmup: float = 0.1
    name: str = "mentornet"
    can_vanish = True
    whole_batch = True

    def __post_init__(self) -> None:
        check_interval("mentornet_pd", "(0, 1]", percentile=self.percentile)
        check_interval("mentornet_pd", "[0, 1)", decay=self.decay)
        check_interval("mentornet_pd", "[0, 1]", warmup=self.warmup)

    def module(self, context: Context) -> nn.Module:
        """Holds λ, kept with the run; NaN before the first batch, whose percentile it then takes whole."""
        moving = nn.Module()
        moving.register_buffer("level", torch.tensor(torch.nan))
        return moving

    @property
    def wants_progress(self) -> bool:
        return self.warmup > 0

    def __call__(self, losses: Tensor, step: Step) -> Tensor:
        if not len(losses):
            return losses
        level = step.modules[self.name].get_buffer("level")
        percentile = losses.quantile(self.percentile).to(level.dtype)
        level.copy_(torch.where(level.isnan(), percentile, level.lerp(percentile, 1 - self.decay)))
        return ((losses <= level) | (step.progress < self.warmup)).to(losses.dtype)


curriculum_weight = CurriculumWeight


@method
def mentornet_pd(
    percentile: float = 0.75, *, decay: float = 0.9, warmup: float = 0.1, **slots: Unpack[Slots]
) -> Objective:
    curriculum = curriculum_weight(percentile=percentile, decay=decay, warmup=warmup)
    return Objective(name="mentornet_pd", **with_weight(slots, curriculum))
