"""Timing two or more functions fairly on a noisy machine: interleaved repetitions, medians, ratios.

Everything here runs on one thread of the CPU, so processor time is what a call costs; unlike wall time it does not
count the moments in which another process had the core.
"""

import statistics
import time
from collections.abc import Callable


def interleave(functions: dict[str, Callable[[], object]], *, repeats: int, warm_up: int = 1) -> dict[str, float]:
    """Median seconds per call of each function, called in turn so that a slow moment hits all alike."""
    seconds: dict[str, list[float]] = {name: [] for name in functions}
    for turn in range(repeats + warm_up):
        for name, function in functions.items():
            start = time.process_time()
            function()
            if turn >= warm_up:
                seconds[name].append(time.process_time() - start)
    return {name: statistics.median(times) for name, times in seconds.items()}
