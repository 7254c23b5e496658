"""The choice of ``us.auto``, explained in one line.

choice_reason(run)      # "slam: score +2.1 ± 0.8 points over vanilla …"
"""

from understudy.comparison.candidates import RECONCILED, VANILLA
from understudy.comparison.interval import signed
from understudy.training.run import Run


def choice_reason(run: Run) -> str | None:
    """The method that ``us.auto`` chose, and why, in one line; None for a run without a pilot."""
    decision = run.config.get("auto")
    if decision is None:
        return None
    choice, by_name = decision["choice"], {one["method"]: one for one in decision["candidates"]}
    if not by_name:
        return f"{choice}, because gold has too few rows to choose a method on"
    chosen, rival = by_name[choice], decision.get("ruled_out")
    reference = RECONCILED if RECONCILED in by_name else VANILLA
    where = f"cross-validated on {chosen['rows']:,} gold rows in a pilot on {decision['pilot_rows']:,} pool rows"
    if choice == reference:
        reason = f"{choice}: no other method is significantly better {where}"
    else:
        score = f"{signed(chosen['gain'])} ± {100 * chosen['error']:.1f} points"
        reason = f"{choice}: score {score} over {reference} (accuracy {signed(chosen['accuracy_gain'])}) {where}"
    if choice == RECONCILED:
        weights = [f"{one['name']} {one['weight']:.2f}" for one in decision["sources"] if one["weight"] > 0.005]
        reason += f"; weights: {', '.join(weights)}"
    if rival is not None:
        reason += f"; {rival} was ahead, but not more accurate than the teacher, which the full pool would approach"
    return reason
