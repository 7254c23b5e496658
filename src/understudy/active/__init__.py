"""Active learning: loops that label what is worth it, a watch over noisy picks, and the benchmark for both."""

from understudy.active.benchmark import Benchmark, Cell, benchmark
from understudy.active.explain import explain
from understudy.active.heteroskedastic import KINDS, Heteroskedastic, heteroskedastic
from understudy.active.loop import Loop
from understudy.active.noise_watch import NoiseWatch, noise_watch
from understudy.active.result import Result
from understudy.active.scores import Scores, score

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
