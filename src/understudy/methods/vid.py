"""VID: the student's features should tell what the teacher's logits are (Ahn et al., CVPR 2019).

Ahn et al., "Variational Information Distillation for Knowledge Transfer" (CVPR 2019), Equations 2, 4 and 6, the last of
which is on the logits, as both distillation papers use it (SLaM, Remark D.1: only the student had to be modified).
Added to the loss of each pool row, times ``strength``:

    −log N(t; μ(h), σ²) = Σ_c ½ [ (t_c − μ_c(h))² / σ²_c + log σ²_c + log 2π ],      σ²_c = softplus(a_c) + ε

t the teacher's logits, h the student's penultimate features, μ a trained linear projection, a one trained number per
channel. Soft labels tell the logits up to a number per row; here each row's mean is 0: t_c = log s_c − mean log s, with
probabilities under 1e-7 counted as 1e-7 (a label of float32 means no more). They are not tempered. With
``teacher_features`` t is the teacher's penultimate features instead: Equation 4 on one layer. Hard labels have no
logits and need them.

The sum is over channels (many public versions take the mean, which divides ``strength`` by their number). Variances
start at 1: scale features to about that. A weight covers the whole, ``w · (loss + strength · vid)``: Weighted VID is
``us.weighted(terms=(us.vid_term(),))``. The head is trained and saved with the student, and absent from
``predict``; ``us.VidHead.from_state(run.module_states["vid"])`` gives it back from a loaded run.

    us.train(student, gold, pool, us.vid(strength=0.1), epochs=30)
    features = us.teacher_features(teacher, x_pool)
    us.train(student, gold, pool, us.vid(features, strength=0.1), epochs=30)
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Unpack

import numpy as np
import torch
from torch import Tensor, nn

from understudy.data.checks import check_finite, to_tensor
from understudy.data.rows import SubsetRows
from understudy.errors import UnderstudyError
from understudy.method_options import Slots, method
from understudy.methods.vanilla import vanilla
from understudy.objective import Columns, Context, Objective, Step, Term
from understudy.store.option_fields import check_interval

__all__ = ["VidHead", "vid", "vid_term"]

# softplus underflows to 0 in float32 from about −104; ε keeps the variance above it, and 1/σ² below 1e5.
EPSILON = 1e-5
# Softmax in float32 says nothing of what is smaller.
SMALLEST = 1e-7


def centred_logits(probs: Tensor) -> Tensor:
    """log p less its mean over the classes, ``(B, C)``: the logits, up to what softmax forgets."""
    logits = probs.clamp(min=SMALLEST).log()
    return logits - logits.mean(-1, keepdim=True)


class VidHead(nn.Module):
    """A Gaussian of the teacher's logits or features, its mean linear in the student's features."""

    def __init__(self, student_features: int, teacher_features: int) -> None:
        super().__init__()
        self.projection = nn.Linear(student_features, teacher_features)
        # softplus(log(e − 1)) = 1.
        self.raw_variance = nn.Parameter(torch.full((teacher_features,), math.log(math.expm1(1.0))))

    @property
    def variance(self) -> Tensor:
        """σ², one per teacher channel; positive for every value of the parameter."""
        return nn.functional.softplus(self.raw_variance) + EPSILON

    def forward(self, student: Tensor, teacher: Tensor) -> Tensor:
        """−log N(teacher; projection of student, variance), summed over channels, ``(B,)``."""
        variance = self.variance
        residual: Tensor = teacher.to(variance.dtype) - self.projection(student.to(variance.dtype))
        return 0.5 * (residual.square() / variance + variance.log() + math.log(2 * math.pi)).sum(-1)

    @classmethod
    def from_state(cls, state: Mapping[str, Tensor]) -> "VidHead":
        """The head that a run saved; its sizes are those of its weights."""
        teacher_features, student_features = state["projection.weight"].shape
        head = cls(student_features, teacher_features)
        head.load_state_dict(dict(state))
        return head


@dataclass(frozen=True, eq=False)
class VidTerm(Term):
    """The extra cost as a slot, for any method: ``us.slam(terms=(us.vid_term(),))``.

    ``teacher_features``: (N, d), or None for the logits that the teacher's soft labels tell.
    """

    teacher_features: Any = field(default=None, repr=False)
    strength: float = 1.0
    name: str = field(default="vid", kw_only=True)

    wants_features = True

    def __post_init__(self) -> None:
        check_interval("vid", "[0, inf)", strength=self.strength)

    def prepare(self, context: Context) -> Columns:
        if self.teacher_features is None:
            if not context.teacher.simplest().ranks:
                raise UnderstudyError("vid predicts logits; hard labels have none: give soft, or teacher_features=")
            return {}
        features = context.per_row(self._features(), "vid(teacher_features=…)")
        if not isinstance(self.teacher_features, np.memmap):
            check_finite(features, "vid(teacher_features=…)")
        return {"teacher_features": features}

    def _features(self) -> Tensor:
        where = "vid(teacher_features=…)"
        features = to_tensor(self.teacher_features, where)
        if features.dim() != 2:
            raise UnderstudyError(f"{where} has shape {tuple(features.shape)}; features are (rows, channels)")
        return features

    def module(self, context: Context) -> nn.Module:
        first_row = SubsetRows(context.pool.rows, torch.arange(1))
        channels = context.classes if self.teacher_features is None else self._features().shape[1]
        return VidHead(context.features(first_row).shape[1], channels)

    def __call__(self, step: Step) -> Tensor:
        assert step.outputs.features is not None  # wants_features
        given = step.columns.get(f"{self.name}.teacher_features")
        teacher = centred_logits(step.teacher) if given is None else given
        cost: Tensor = step.modules[self.name](step.outputs.features, teacher)
        return self.strength * cost


vid_term = VidTerm


@method
def vid(teacher_features: Any = None, strength: float = 1.0, **slots: Unpack[Slots]) -> Objective:
    plain, own = vanilla(**slots), vid_term(teacher_features, strength)
    return plain.replace(name="vid", terms=(own, *plain.terms), traits=frozenset({"perfect_is_minimal"}))
