"""Pure functions on tensors: no files, no configuration, no hidden randomness."""

from understudy.maths import confidence, losses, mixing

__all__ = ["confidence", "losses", "mixing"]
