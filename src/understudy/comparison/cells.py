"""Methods under seeds, one after the other in this process: what a caller's own functions trained or measured."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from understudy.comparison.outcome import Comparison, Outcome

Trainings = Callable[[int], Mapping[str, Callable[[], Any]]]
"""seed -> method -> a function that trains and returns a Run, or measures and returns an accuracy."""


def run_cells(
    trainings: Trainings,
    seeds: Iterable[int],
    *,
    reference: str,
    on_done: Callable[[str, int, Outcome], None] = lambda method, seed, outcome: None,
) -> Comparison:
    """Every method under every seed, one after the other."""
    comparison = Comparison(reference)
    for seed in seeds:
        for method, train in trainings(seed).items():
            outcome = Outcome.of(train())
            comparison.add(method, seed, outcome)
            on_done(method, seed, outcome)
    return comparison
