"""What a distillation is dealt for one seed, and the methods of the two distillation papers as objectives on it.

objective = KINDS["slam"](dealt, None, {"hard": False, "temperature": 1.0})
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from torch import Tensor, nn

import understudy as us


@dataclass(frozen=True)
class Method:
    label: str
    """Its row in the table."""
    kind: str
    """Its key in KINDS."""
    options: tuple[Any, ...] = (None,)
    fixed: tuple[tuple[str, Any], ...] = ()
    """What else it is given, by name: (("tail", "keep"),)."""


@dataclass(frozen=True)
class Dealt:
    """One seed's rows, its teacher's labels, and the student all methods start from."""

    gold: us.Gold
    pool: us.Pool
    select: us.Gold | None
    test: us.Gold
    followed: us.Gold | None
    """Test rows looked at after every epoch."""
    truth: Tensor
    teacher: nn.Module
    start: nn.Module | Callable[[], nn.Module]
    looks: int
    """Of the teacher at augmented images."""

    @cached_property
    def passes(self) -> us.Passes:
        """Looks at randomly cropped and resized images (SLaM, D.4)."""
        return us.stochastic_passes(self.teacher, self.pool.rows, self.looks, us.augment.crop_resize)


Factory = Callable[[Dealt, Any, dict[str, Any]], us.Objective]
"""(dealt, option, given by name: hard, temperature, and what is fixed) -> objective."""

KINDS: dict[str, Factory] = {
    "vanilla": lambda dealt, option, common: us.vanilla(**common),
    # What the library recommends; it combines sources itself, so that no other option means anything to it.
    "reconciled": lambda dealt, option, common: us.reconciled(hard=common["hard"]),
    "oracle": lambda dealt, option, common: us.oracle(dealt.truth, **common),
    # One estimate of the weights, from margins (Weighted Distillation, 3.1).
    "weighted_margin": lambda dealt, option, common: us.weighted(confidence="margin", **common),
    # From entropies; the option is every how many epochs they are estimated anew (3.2).
    "weighted": lambda dealt, option, common: us.weighted(refresh_every=option, **common),
    # On the teacher's logits (equation 6 of Ahn et al., as both papers say); the option is the term's coefficient.
    "vid": lambda dealt, option, common: us.vid(strength=option, **common),
    "weighted_vid": lambda dealt, option, common: us.weighted(
        confidence="margin", terms=(us.vid_term(strength=option),), **common
    ),
    "fidelity": lambda dealt, option, common: us.fidelity(1.0, **common),
    "weighted_fidelity": lambda dealt, option, common: us.weighted(
        refresh_every=option, weight=us.fidelity_weight(1.0), **common
    ),
    "taylor": lambda dealt, option, common: us.taylor(option or 2, **common),
    "poly": lambda dealt, option, common: us.poly(option or 2.0, **common),
    # The option is its τp; 0 is UPS that does nothing.
    "ups": lambda dealt, option, common: (
        us.vanilla(**common)
        if option == 0
        else us.ups(std=dealt.passes.std, **({} if option is None else {"positive_above": option}), **common)
    ),
    "slam": lambda dealt, option, common: us.slam(option or 0.5, **common),
    "slam_taylor": lambda dealt, option, common: us.slam(loss=us.taylor_loss(2), **common),
    "slam_poly": lambda dealt, option, common: us.slam(loss=us.poly_loss(2.0), **common),
    # ImageNet (D.1): k = 5 for all rows; the option is the lower bound.
    "slam_k5": lambda dealt, option, common: us.slam(option, k=_five(dealt), **common),
    "slam_k5_taylor": lambda dealt, option, common: us.slam(option, k=_five(dealt), loss=us.taylor_loss(2), **common),
    "slam_k5_poly": lambda dealt, option, common: us.slam(option, k=_five(dealt), loss=us.poly_loss(2.0), **common),
    "fidelity_passes": lambda dealt, option, common: us.fidelity(option, dealt.passes.variance, **common),
    "slam_fidelity": lambda dealt, option, common: us.slam(
        weight=us.fidelity_weight(option, dealt.passes.variance), **common
    ),
    # The option is a pair of temperatures, for the labelled and for the unlabelled rows (SLaM, D.5).
    "vanilla_temperature": lambda dealt, option, common: us.vanilla(**common | {"temperature": option}),
    "slam_temperature": lambda dealt, option, common: us.slam(**common | {"temperature": option}),
}

FROM_SCRATCH = {"reconciled"}
"""It judges candidates on gold rows that they have not seen; a pretrained student would have seen all of them."""


def _five(dealt: Dealt) -> int:
    assert dealt.pool.teacher is not None and dealt.pool.teacher.classes is not None
    return min(5, dealt.pool.teacher.classes)
