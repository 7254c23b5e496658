"""The linear theory behind the methods: algorithms with guarantees, and the problems that show them."""

from understudy.theory.halfspace import *  # noqa: F403
from understudy.theory.reweighted_sgd import *  # noqa: F403
