"""The linear theory behind the methods: algorithms with guarantees, and the problems that show them."""

from experiments.theory.halfspace import *  # noqa: F403
from experiments.theory.reweighted_sgd import *  # noqa: F403
