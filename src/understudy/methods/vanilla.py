"""Vanilla distillation: match the teacher's labels as they are, soft or hard, at any temperature (Hinton et al., 2015).

Cross-entropy on gold and pool alike, ``ce(q, f)`` with q the soft label or, with ``hard=True``, its best class. The
baseline of every paper here. As in them, a temperature T does not multiply the pool loss by T² (Hinton's convention);
``temperature_scale=True`` does.

    us.train(student, gold, pool, us.vanilla(temperature=2), epochs=30)
"""

from typing import Unpack

from understudy.method_options import Slots, method, with_weight
from understudy.objective import Objective, Weight

__all__ = ["vanilla"]


@method
def vanilla(**slots: Unpack[Slots]) -> Objective:
    traits = frozenset({"noise_free_is_vanilla", "perfect_is_minimal"})
    return Objective(name="vanilla", traits=traits, **slots)


def reweighted(name: str, weight: Weight, slots: Slots, *, noise_free: bool = False) -> Objective:
    """Vanilla distillation under a method's own weight; ``noise_free``: without noise it is vanilla itself."""
    objective = vanilla(**with_weight(slots, weight)).replace(name=name)
    return objective if noise_free else objective.replace(traits=frozenset({"perfect_is_minimal"}))
