"""Which method to take, in words; "no method differs from vanilla" and "train on gold alone" are answers.

Every method is held against the reference by its paired difference. With several methods one of them looks good by
luck, so the p-values are Holm-corrected: the smallest is multiplied by the number of methods, the next by one less, and
so on. Where nothing differs in truth, some method is declared different in at most 5% of comparisons. Among those that
are better, the simplest that cannot be told apart from the highest mean is taken where that is training on gold alone.
"""

from understudy.comparison.interval import Interval, percent, signed
from understudy.comparison.outcome import GOLD_ONLY, TEACHER, Comparison, Recommendation
from understudy.maths.proportions import holm

LEVEL = 0.05


def recommend(comparison: Comparison, *, gold_only: str = GOLD_ONLY, teacher: str = TEACHER) -> Recommendation:
    reference = comparison.reference
    rivals = [method for method in comparison.outcomes if method not in (reference, teacher)]
    gaps = {method: comparison.difference(method, reference) for method in rivals}
    adjusted = dict(zip(rivals, holm([gap.p_value for gap in gaps.values()]).tolist(), strict=True))
    if len(comparison.seeds) < 2:
        sentence = f"A single seed cannot tell the methods apart; run 5 or more. Until then take {reference}."
        return Recommendation(reference, [sentence], adjusted)
    differs = [method for method in rivals if adjusted[method] < LEVEL]
    better = [method for method in differs if gaps[method].mean > 0]
    choice = _choice(comparison, better, gold_only)
    if choice == reference:
        sentences = [_nothing_better(reference, differs, len(rivals))]
    else:
        sentences = [_take(choice, gaps[choice], reference, len(rivals), gold_only)]
        sentences += _also(comparison, choice, better)
    sentences += _gold(comparison, choice, gold_only) + _teacher(comparison, choice, teacher)
    return Recommendation(choice, sentences, adjusted)


def _choice(comparison: Comparison, better: list[str], gold_only: str) -> str:
    if not better:
        return comparison.reference
    best = max(better, key=lambda method: comparison.accuracy(method).mean)
    if gold_only in better and not comparison.difference(best, gold_only).excludes_zero:
        return gold_only
    return best


def _nothing_better(reference: str, differs: list[str], count: int) -> str:
    if not differs:
        return f"No method differs from {reference} (of {count} compared, corrected for that number): take {reference}."
    worse = ", ".join(differs)
    return f"No method is better than {reference}, and {worse} {_is(differs)} worse: take {reference}."


def _take(choice: str, gap: Interval, reference: str, count: int, gold_only: str) -> str:
    what = "Train on gold alone: the pool's labels do harm here" if choice == gold_only else f"Take {choice}"
    return (
        f"{what}. It is ahead of {reference} by {_numbers(gap)}, which holds after correction for the {count} methods "
        "compared."
    )


def _also(comparison: Comparison, choice: str, better: list[str]) -> list[str]:
    alike = [m for m in better if m != choice and not comparison.difference(m, choice).excludes_zero]
    return [f"It cannot be told apart from {', '.join(alike)}."] if alike else []


def _gold(comparison: Comparison, choice: str, gold_only: str) -> list[str]:
    """Whether the pool is worth having."""
    if gold_only not in comparison.outcomes or choice == gold_only:
        return []
    gap = comparison.difference(choice, gold_only)
    if not gap.excludes_zero:
        return [f"The pool is not shown to help: {choice} minus training on gold alone is {_numbers(gap)}."]
    if gap.mean > 0:
        return [f"The pool pays: {choice} is ahead of training on gold alone by {_numbers(gap)}."]
    return [f"Training on gold alone is ahead of {choice} by {_numbers(_flip(gap))} before correction; look again."]


def _teacher(comparison: Comparison, choice: str, teacher: str) -> list[str]:
    if teacher not in comparison.outcomes:
        return []
    gap, right = comparison.difference(choice, teacher), percent(comparison.accuracy(teacher).mean)
    if not gap.excludes_zero:
        return [f"The student cannot be told apart from its teacher ({right}%)."]
    side = "beats its teacher" if gap.mean > 0 else "stays behind its teacher"
    return [f"The student {side} ({right}%) by {_numbers(gap if gap.mean > 0 else _flip(gap))}."]


def _numbers(gap: Interval) -> str:
    return f"{signed(gap.mean).lstrip('+')} points (95% interval {signed(gap.low)} to {signed(gap.high)})"


def _flip(gap: Interval) -> Interval:
    return Interval(-gap.mean, -gap.high, -gap.low, gap.count, gap.error, gap.freedom)


def _is(names: list[str]) -> str:
    return "is" if len(names) == 1 else "are"
