"""The page of ``experiments.alternatives``: the best alternative of each setting, ours beside it, and the targets.

The best alternative is the one with the highest mean over the seeds, which only the test rows show: a user who
picks one beforehand does no better. Differences are paired by seed.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import mean

from experiments.alternatives_data import HELD_OUT
from experiments.alternatives_methods import OURS, REFERENCES, RIVALS
from experiments.table import markdown, percent
from understudy.comparison.interval import Interval

MAIN = "auto"
# In accuracy, not in points.
WANTED, ALLOWED = 0.02, 0.005
NONE = "–"


@dataclass(frozen=True)
class Cell:
    """One setting under one seed: test accuracy and seconds of each method; None where a method does not apply."""

    accuracy: dict[str, float | None] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)


Found = Mapping[str, Sequence[Cell]]


def over_seeds(cells: Sequence[Cell], method: str) -> list[float] | None:
    """Its accuracies; None unless every seed has one."""
    values = [value for cell in cells if (value := cell.accuracy.get(method)) is not None]
    return values if len(values) == len(cells) else None


def best(cells: Sequence[Cell], methods: Sequence[str]) -> str | None:
    means = {name: mean(values) for name in methods if (values := over_seeds(cells, name)) is not None}
    return max(means, key=lambda name: means[name]) if means else None


def gap(cells: Sequence[Cell], method: str) -> list[float] | None:
    """By seed, what a method of ours has over the best alternative."""
    mine, rival = over_seeds(cells, method), best(cells, list(RIVALS))
    if mine is None or rival is None:
        return None
    theirs = over_seeds(cells, rival)
    assert theirs is not None
    return [value - other for value, other in zip(mine, theirs, strict=True)]


def gaps(found: Found, method: str) -> dict[str, list[float]]:
    return {setting: values for setting, cells in found.items() if (values := gap(cells, method)) is not None}


def targets(found: Found, method: str) -> str:
    """Whether a method of ours meets its target; settings it has not run in are not counted as kept."""
    have = gaps(found, method)
    means = {setting: mean(values) for setting, values in have.items()}
    below = [f"{setting} ({100 * value:+.1f})" for setting, value in means.items() if value < -ALLOWED]
    whole = len(have) == len(found)
    # A seed's mean over the settings is one value; settings are given, seeds are drawn.
    seeds = [mean(values) for values in zip(*have.values(), strict=True)]
    unseen = [value for setting, value in means.items() if setting in HELD_OUT]
    rows = [
        [
            f"{method} − best alternative, mean over {len(have)} of {len(found)} settings",
            percent(seeds, signed=True) if seeds else NONE,
            f"≥ +{100 * WANTED:.0f}",
            met(whole and bool(seeds) and mean(seeds) >= WANTED),
        ],
        [
            f"settings below it by more than {100 * ALLOWED:.1f}",
            f"{len(below)}{': ' if below else ''}{', '.join(below)}",
            "0",
            met(whole and not below),
        ],
        ["the mean over the held-out settings alone", f"{100 * mean(unseen):+.2f}" if unseen else NONE, "", ""],
    ]
    return markdown(["what", "found", "target", "met"], rows)


def met(yes: bool) -> str:
    return "yes" if yes else "**no**"


def shown(values: Sequence[float] | None) -> str:
    return NONE if values is None else f"{100 * mean(values):.1f}"


def history_beside(found: Found) -> str:
    """A row per setting: the teacher, the best alternative, our best method and ``auto``, and the difference."""
    rows = []
    for setting, cells in found.items():
        rival, own = best(cells, list(RIVALS)), best(cells, list(OURS))
        difference = gap(cells, MAIN)
        rows.append(
            [
                setting + (" (held out)" if setting in HELD_OUT else ""),
                *(shown(over_seeds(cells, name)) for name in REFERENCES),
                NONE if rival is None else f"{rival} {shown(over_seeds(cells, rival))}",
                NONE if own is None else f"{own} {shown(over_seeds(cells, own))}",
                shown(over_seeds(cells, MAIN)),
                NONE if difference is None else _interval(difference),
            ]
        )
    return markdown(
        ["setting", *REFERENCES, "best alternative", "our best", MAIN, f"{MAIN} − best alternative (95%)"], rows
    )


def _interval(values: Sequence[float]) -> str:
    found = Interval.of(values)
    if found.count < 2:
        return f"{100 * found.mean:+.1f}"
    return f"{100 * found.mean:+.1f} ({100 * found.low:+.1f} to {100 * found.high:+.1f})"


def every(found: Found) -> str:
    names = [name for name in (*REFERENCES, *RIVALS, *OURS) if any(over_seeds(c, name) for c in found.values())]
    rows = [[setting, *(shown(over_seeds(cells, name)) for name in names)] for setting, cells in found.items()]
    whole = [[over_seeds(cells, name) for cells in found.values()] for name in names]
    means = [NONE if None in values else shown([mean(v) for v in values if v]) for values in whole]
    return markdown(["setting", *names], [*rows, ["mean", *means]])


def seconds(found: Found) -> str:
    """Per method the mean and the longest; what several methods need is counted with the first that asks."""
    rows = []
    for name in (*REFERENCES, *RIVALS, *OURS):
        taken = [
            cell.seconds[name] for cells in found.values() for cell in cells if cell.accuracy.get(name) is not None
        ]
        if taken:
            rows.append([name, f"{mean(taken):.1f}", f"{max(taken):.1f}", f"{sum(taken):.0f}"])
    return markdown(["method", "mean", "longest", "all cells"], rows)


def page(found: Found, missing: Mapping[str, str]) -> str:
    count = max((len(cells) for cells in found.values()), default=0)
    ours = [name for name in (MAIN, "reconciled, linear") if gaps(found, name)]
    left_out = [f"- {name}: {why}" for name, why in missing.items()]
    parts = [
        f"**Ours beside what a user would pick instead** (test accuracy in %, {count} seeds; same features, same gold, "
        "same rows tested). The best alternative is the best by the test rows, out of all that are not ours; the "
        "teacher and LR on the true labels are shown and not counted.",
        *(targets(found, name) for name in ours),
        history_beside(found),
        "Every method:",
        every(found),
        "Seconds of one core (what several methods need is counted with the first that asks):",
        seconds(found),
        *(["Left out:\n\n" + "\n".join(left_out)] if left_out else []),
    ]
    return "\n\n".join(part.rstrip() for part in parts) + "\n"
