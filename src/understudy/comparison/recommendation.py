"""Which option to take, as a decision: the best expected accuracy given the measurements, and its probability.

Options are all methods, training on gold only, and the teacher's own labels where its accuracy is known. One that is
not better than the majority-class baseline is no option. Expected accuracies and every option's probability of being
the best come from ``uncertainty.py``; p-values against the reference are corrected for the number of methods (Holm).
``report/recommendation_text.py`` puts it into sentences.

    recommend(comparison).choice
"""

import numpy as np

from understudy.comparison.candidates import TEACHER
from understudy.comparison.outcome import Comparison, Recommendation
from understudy.comparison.uncertainty import estimate_options
from understudy.maths.proportions import holm

NOTHING = "nothing"
#: A student so far above the majority class is not at chance level, even where few rows leave it uncertain.
AT_CHANCE = 0.05


def recommend(comparison: Comparison) -> Recommendation:
    adjusted = adjusted_p(comparison)
    at_chance = [name for name in comparison.outcomes if _is_at_chance(comparison, name)]
    options = [name for name in _well_measured(comparison) if name not in at_chance]
    if not options:
        return Recommendation(NOTHING, adjusted, at_chance=at_chance)
    estimates = estimate_options(comparison, options)
    draws = estimates.draws()
    expected = dict(zip(options, draws.mean(0).tolist(), strict=True))
    low, high = np.quantile(draws, (0.025, 0.975), axis=0).clip(0, 1).tolist()
    students = [name for name in options if name != TEACHER]
    return Recommendation(
        choice=max(options, key=lambda name: expected[name]),
        adjusted=adjusted,
        student=max(students, key=lambda name: expected[name], default=None),
        expected=expected,
        intervals=dict(zip(options, zip(low, high, strict=True), strict=True)),
        chances=estimates.chances(draws),
        at_chance=at_chance,
        posterior=estimates,
    )


def adjusted_p(comparison: Comparison) -> dict[str, float]:
    """Every method's p-value against the reference, corrected for their number."""
    theirs = comparison.outcomes.get(comparison.reference, {})
    rivals = [
        name
        for name, mine in comparison.outcomes.items()
        if name not in (comparison.reference, TEACHER) and mine.keys() & theirs.keys()
    ]
    values = [comparison.difference(name, comparison.reference).p_value for name in rivals]
    return dict(zip(rivals, holm(values).tolist(), strict=True))


def _is_at_chance(comparison: Comparison, name: str) -> bool:
    above = comparison.above_majority(name)
    if above is None:
        return False
    return above.mean <= 0 or (above.mean < AT_CHANCE and not above.low > 0)


def _well_measured(comparison: Comparison) -> list[str]:
    """The options with results for more than half of the seeds, students first.

    All are compared with each other, so they must share a seed: those with the most seeds come before the others.
    """
    enough, shared = len(comparison.seeds) / 2, set(comparison.seeds)
    names = []
    for name, by_seed in sorted(comparison.outcomes.items(), key=lambda item: -len(item[1])):
        if len(by_seed) > enough and shared & by_seed.keys():
            names.append(name)
            shared &= by_seed.keys()
    order = list(comparison.outcomes)
    return sorted(names, key=lambda name: (name == TEACHER, order.index(name)))
