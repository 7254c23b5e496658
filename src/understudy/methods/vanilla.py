"""Vanilla distillation: match the teacher's labels as they are (Hinton et al., 2015).

Cross-entropy on gold and pool alike, ``ce(q, f)`` with q the soft label or, with ``hard=True``, its best class. The
baseline of every paper here. With a temperature T the pool loss is multiplied by T² (Hinton's convention), unless
``temperature_scale=False``.

    us.train(student, gold, pool, us.vanilla(temperature=2), epochs=30)
"""

from understudy.maths.losses import cross_entropy
from understudy.objective import Loss, Objective, TeacherTarget, Term, Weight

__all__ = ["vanilla"]


def vanilla(
    *,
    hard: bool = False,
    loss: Loss = cross_entropy,
    weight: Weight | None = None,
    terms: tuple[Term, ...] = (),
    temperature: float | tuple[float, float] = 1.0,
    temperature_scale: bool | None = None,
) -> Objective:
    return Objective(
        name="vanilla",
        target=TeacherTarget(hard=hard),
        loss=loss,
        weight=weight,
        terms=terms,
        temperature=temperature,
        temperature_scale=temperature_scale,
        traits=frozenset({"noise_free_is_vanilla", "perfect_is_minimal"}),
    )
