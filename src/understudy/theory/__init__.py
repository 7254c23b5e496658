"""The linear theory behind the methods: algorithms with guarantees, and the problems that show them."""

from understudy.theory.halfspace import BackwardHalfspace, HalfspaceInputError, SlamHalfspace
from understudy.theory.instances import (
    NoisyHalfspace,
    failing_radius,
    noisy_halfspace,
    rotated_direction,
    rotated_labels,
)
from understudy.theory.mean_squared_error import debiased_mse, unweighted_is_closer, unweighted_mse
from understudy.theory.reweighted_sgd import (
    NoisyRows,
    advised,
    advised_weight,
    best_iterate,
    cross_entropy,
    debias_weight,
    debiased,
    last_iterate_steps,
    logistic_loss,
    multi_pass_sgd,
    project_to_unit_ball,
    single_pass_sgd,
    unweighted,
)

__all__ = [
    "BackwardHalfspace",
    "HalfspaceInputError",
    "NoisyHalfspace",
    "NoisyRows",
    "SlamHalfspace",
    "advised",
    "advised_weight",
    "best_iterate",
    "cross_entropy",
    "debias_weight",
    "debiased",
    "debiased_mse",
    "failing_radius",
    "last_iterate_steps",
    "logistic_loss",
    "multi_pass_sgd",
    "noisy_halfspace",
    "project_to_unit_ball",
    "rotated_direction",
    "rotated_labels",
    "single_pass_sgd",
    "unweighted",
    "unweighted_is_closer",
    "unweighted_mse",
]
