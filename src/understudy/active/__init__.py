"""Active learning: a loop of select, label, train; a check for noisy batches; the plan of a label budget."""

from understudy.acquisition.select import Scores, explain
from understudy.active.loop import Loop, score
from understudy.active.state import Result
from understudy.active.watch import NoiseWatch, noise_watch

__all__ = ["Loop", "NoiseWatch", "Result", "Scores", "explain", "noise_watch", "score"]
