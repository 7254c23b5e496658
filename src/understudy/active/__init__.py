"""Active learning: loops that label what is worth it, a watch over noisy picks, and the benchmark for both."""

from understudy.acquisition.select import Scores, explain
from understudy.active.loop import Loop, score
from understudy.active.state import Result
from understudy.active.strategies_compared import KINDS, Benchmark, Cell, Heteroskedastic, benchmark, heteroskedastic
from understudy.active.watch import NoiseWatch, noise_watch

__all__ = [
    "KINDS",
    "Benchmark",
    "Cell",
    "Heteroskedastic",
    "Loop",
    "NoiseWatch",
    "Result",
    "Scores",
    "benchmark",
    "explain",
    "heteroskedastic",
    "noise_watch",
    "score",
]
