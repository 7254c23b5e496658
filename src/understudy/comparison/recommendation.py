"""Which option to take, as a decision: the best expected accuracy under what was measured, and how sure that is.

Options are all methods, training on gold alone, and the teacher's own labels where its accuracy is known. One that does
no better than naming the most common class every time is none, and is told what ails it (``diagnosis.py``). The
expected accuracies and every option's chance of being the best come from ``uncertainty.py``. Where the choice is not
sure, the text says what would settle it, if the gap is as measured: more seeds, more test rows, or neither because
little is at stake.

What a sentence *claims* about a difference is held to the usual standard beside that: paired intervals, and p-values
against the reference corrected for how many were compared (Holm).

    recommend(comparison).choice
"""

import math

import numpy as np

from understudy.comparison.candidates import GOLD_ONLY, TEACHER
from understudy.comparison.diagnosis import diagnosis
from understudy.comparison.interval import Array, Interval, chance, percent, signed
from understudy.comparison.outcome import LEVEL, Comparison, Recommendation
from understudy.comparison.uncertainty import Measured, measured
from understudy.maths.proportions import holm

NOTHING = "nothing"
AT_CHANCE = 0.05
"""So far above the most common class, a student is not at chance, even where few rows leave that open."""
SURE = 0.95
AT_STAKE = 0.005
"""Differences below half a point are not worth settling."""
MOST_SEEDS = 50
"""Nobody runs more."""


def recommend(comparison: Comparison) -> Recommendation:
    adjusted = adjusted_p(comparison)
    poor = [name for name in comparison.outcomes if _is_at_chance(comparison, name)]
    options = [name for name in _well_measured(comparison) if name not in poor]
    ailments = _ailments(comparison, poor)
    if not options:
        return Recommendation(NOTHING, [_nothing(comparison), *ailments], adjusted, at_chance=poor)
    known = measured(comparison, options)
    draws = known.draws()
    expected = dict(zip(options, draws.mean(0).tolist(), strict=True))
    chances = known.chances(draws)
    choice = max(options, key=lambda name: expected[name])
    student = max((name for name in options if name != TEACHER), key=lambda name: expected[name], default=None)
    sentences = _decision(known, draws, choice, student, chances)
    sentences += _against_reference(comparison, student, adjusted) + _gold(comparison, student)
    sentences += _teacher(comparison, student) + ailments + _left_out(comparison, options, poor)
    return Recommendation(choice, sentences, adjusted, student, expected, chances, poor)


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
    above = comparison.above_constant(name)
    if above is None:
        return False
    return above.mean <= 0 or (above.mean < AT_CHANCE and not above.low > 0)


def _well_measured(comparison: Comparison) -> list[str]:
    """Who was run under most seeds; what failed oftener than not is no option. Students first.

    All are held against each other, so some seed must be everybody's: who has the most seeds comes before the others.
    """
    enough, shared = len(comparison.seeds) / 2, set(comparison.seeds)
    names = []
    for name, by_seed in sorted(comparison.outcomes.items(), key=lambda item: -len(item[1])):
        if len(by_seed) > enough and shared & by_seed.keys():
            names.append(name)
            shared &= by_seed.keys()
    order = list(comparison.outcomes)
    return sorted(names, key=lambda name: (name == TEACHER, order.index(name)))


def _decision(known: Measured, draws: Array, choice: str, student: str | None, chances: dict[str, float]) -> list[str]:
    what = f"Take {choice}"
    if choice == GOLD_ONLY:
        what = "Train on gold alone"
    if choice == TEACHER:
        what = "Use the teacher's own labels, where it can be asked"
    sentences = [
        f"{what}: {_of(known, draws, choice)}; its chance of being the best of the {len(chances)} options is "
        f"{chance(chances[choice])}."
    ]
    if choice == TEACHER and student is not None:
        sentences.append(f"For a student, take {student}: {_of(known, draws, student)}.")
    if known.seeds == 1:
        sentences.append(
            "A single seed shows nothing of what another start would change (1 point is taken for it); run 5."
        )
    rivals = sorted((name for name in chances if name != choice and chances[name] >= 0.05), key=lambda n: -chances[n])
    if rivals:
        shown = [f"{name} {_mean(known, draws, name)}% ({chance(chances[name])})" for name in rivals[:4]]
        sentences.append(f"Also possible: {', '.join(shown)}.")
    if chances[choice] < SURE and rivals:
        sentences.append(_settles(known, draws, choice, rivals[0]))
    return sentences


def _settles(known: Measured, draws: Array, choice: str, rival: str) -> str:
    """How many seeds and rows would make the measured gap exceed two standard errors."""
    gap, by_seeds, by_rows = known.gap(choice, rival)
    pair = f"{choice} and {rival}"
    if abs(gap) < AT_STAKE:
        return f"Between {pair} less than half a point is at stake: either will do."
    if TEACHER in (choice, rival):
        return f"The teacher's word on more rows whose truth is known would settle it between {pair}."
    wanted, what = (gap / 2) ** 2, "gold rows" if known.folds else "test rows"
    if known.folds or by_seeds < 1e-9:
        # The seeds' spread is that of their rows too: only more of them can tell.
        times = (by_seeds + by_rows) / wanted
        return f"About {_round(times * known.rows)} {what} ({known.rows:,} now) would settle it between {pair}."
    seeds = by_seeds * known.seeds / (wanted - by_rows) if wanted > by_rows else math.inf
    if seeds <= MOST_SEEDS:
        return f"About {max(math.ceil(round(seeds, 6)), known.seeds + 1)} seeds would settle it between {pair}."
    if not known.rows:
        return f"More seeds than anybody runs would be needed to settle it between {pair}."
    seeds, rows = (math.ceil(2 * part / wanted) for part in (by_seeds * known.seeds, by_rows * known.rows))
    return (
        f"More seeds alone would not settle it between {pair}: about {_round(max(rows, known.rows))} {what} "
        f"({known.rows:,} now) and {max(seeds, known.seeds)} seeds would."
    )


def _round(count: float) -> str:
    """To two figures: it is a guess."""
    digits = max(len(str(math.ceil(count))) - 2, 0)
    return f"{math.ceil(count / 10**digits) * 10**digits:,}"


def _of(known: Measured, draws: Array, name: str) -> str:
    low, high = np.quantile(draws[:, known.names.index(name)], (0.025, 0.975)).clip(0, 1)
    return f"{_mean(known, draws, name)}% is expected of it (95%: {percent(low)} to {percent(high)})"


def _mean(known: Measured, draws: Array, name: str) -> str:
    return percent(float(draws[:, known.names.index(name)].mean()))


def _nothing(comparison: Comparison) -> str:
    if not comparison.constant:
        return "Nothing can be recommended: no method was run under most of the seeds."
    level = percent(Interval.of([one.last for one in comparison.constant.values()]).mean)
    return f"Nothing can be recommended: nobody is above naming the most common class every time ({level}%)."


def _ailments(comparison: Comparison, poor: list[str]) -> list[str]:
    """What is at chance, and why that may be; one sentence for those that ail alike."""
    by_cause: dict[str, list[str]] = {}
    for name in poor:
        cause = "its labels say nothing" if name == TEACHER else diagnosis(list(comparison.outcomes[name].values()))
        by_cause.setdefault(cause, []).append(name)
    return [f"At chance: {', '.join(names)} ({cause})." for cause, names in by_cause.items()]


def _left_out(comparison: Comparison, options: list[str], poor: list[str]) -> list[str]:
    left = [name for name in comparison.outcomes if name not in options and name not in poor]
    return [f"Not considered, for want of seeds that could be run: {', '.join(left)}."] if left else []


def _against_reference(comparison: Comparison, student: str | None, adjusted: dict[str, float]) -> list[str]:
    """What is claimed of the difference to the reference."""
    if student is None or student not in adjusted:
        return []
    gap = comparison.difference(student, comparison.reference)
    if gap.count < 2:
        return []
    if adjusted[student] < LEVEL:
        way = "ahead of" if gap.mean > 0 else "behind"
        sure = f"which holds after correction for the {len(adjusted)} methods compared"
        return [f"{student} is {way} {comparison.reference} by {_numbers(gap, away=True)}, {sure}."]
    return [f"That {student} differs from {comparison.reference} is not shown: {_numbers(gap)}."]


def _gold(comparison: Comparison, student: str | None) -> list[str]:
    """Whether the pool is worth having."""
    if student is None or student == GOLD_ONLY or not _share_seeds(comparison, student, GOLD_ONLY):
        return []
    gap = comparison.difference(student, GOLD_ONLY)
    if not gap.excludes_zero:
        return [f"The pool is not shown to help: {student} minus training on gold alone is {_numbers(gap)}."]
    if gap.mean > 0:
        return [f"The pool pays: {student} is ahead of training on gold alone by {_numbers(gap)}."]
    return [
        f"Training on gold alone is ahead of {student} by {_numbers(gap, away=True)} before correction; look again."
    ]


def _teacher(comparison: Comparison, student: str | None) -> list[str]:
    if student is None or not _share_seeds(comparison, student, TEACHER):
        return []
    gap, right = comparison.difference(student, TEACHER), percent(comparison.accuracy(TEACHER).mean)
    if not gap.excludes_zero:
        return [f"{student} cannot be told apart from its teacher ({right}%)."]
    verb = "beats" if gap.mean > 0 else "stays behind"
    return [f"{student} {verb} its teacher ({right}%) by {_numbers(gap, away=True)}."]


def _share_seeds(comparison: Comparison, name: str, other: str) -> bool:
    return not comparison.outcomes[name].keys().isdisjoint(comparison.outcomes.get(other, {}))


def _numbers(gap: Interval, *, away: bool = False) -> str:
    """``away``: the words say in which direction."""
    low, high, mean = gap.low, gap.high, gap.mean
    if away and mean < 0:
        low, high, mean = -high, -low, -mean
    shown = signed(mean).lstrip("+") if away else signed(mean)
    return f"{shown} points (95% interval {signed(low)} to {signed(high)})"
