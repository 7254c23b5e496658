"""A finished experiment as a Markdown page: what became of the claims, our table, the paper's, and what differs."""

from collections.abc import Sequence
from typing import Any

from experiments.claims import MEASURES, WITHOUT_CURVE, Verdict, decide
from experiments.experiment import PAPERS, Part, Published, reductions
from experiments.plot import is_drawn
from experiments.published import setting_of
from experiments.runner import Finished, machine
from experiments.sweep import GOLD_ROWS, PLAIN_ROWS, Cell
from experiments.table import markdown, percent
from understudy.comparison.interval import Interval, span


def verdicts_of(finished: Finished) -> list[list[Verdict]]:
    parts = zip(finished.experiment.parts, finished.cells, strict=True)
    return [decide(part.judged(), cells) for part, cells in parts]


def page(finished: Finished) -> str:
    experiment = finished.experiment
    text = [
        f"# {experiment.name}",
        f"{PAPERS[experiment.paper]}, {experiment.shows}: {experiment.what}",
        f"`understudy reproduce {experiment.name}`" + (" `--scale full`" if finished.scale == "full" else ""),
    ]
    if is_drawn(finished):
        text.append(f"![{experiment.shows} at {finished.scale} scale]({experiment.name}.png)")
    for part, cells, verdicts in zip(experiment.parts, finished.cells, verdicts_of(finished), strict=True):
        heading = [f"## {part.title}"] if len(experiment.parts) > 1 else []
        text += [*heading, _part(part, cells, verdicts, finished)]
    if experiment.remarks:
        text.append("\n".join(f"- {remark}" for remark in experiment.remarks))
    if experiment.not_reproduced:
        text.append("Not reproduced: " + "; ".join(experiment.not_reproduced) + ".")
    text.append(f"*{provenance(finished)}*")
    return "\n\n".join(text) + "\n"


def _part(part: Part, cells: Sequence[Cell], verdicts: Sequence[Verdict], finished: Finished) -> str:
    count = len({cell.seed for cell in cells})
    seeds = f"{count} seed{'s' if count > 1 else ''}"
    text = [
        f"**Claims of the paper**, {finished.scale} run",
        markdown(VERDICT_COLUMNS, [verdict_row(verdict) for verdict in verdicts]),
        f"**Our cells**, {finished.scale} scale, in %, {seeds}, mean ± half of the 95% interval; last epoch",
        ours(cells, errors=part.errors),
        *gold_alone(cells, part.errors),
    ]
    if any(cell.selected is not None for cell in cells):
        text += ["**Our cells at the epoch chosen on gold**, in %", ours(cells, "selected", part.errors)]
    if any(cell.facts for cell in cells):
        text += ["**Weight statistics**, mean over columns and seeds", found(cells)]
    if any(claim.measure not in WITHOUT_CURVE for claim in part.claims):
        text += ["**Our cells along training**, test accuracy in %, mean over columns and seeds", along_training(cells)]
    text += paper_text(part.published)
    if finished.scale == "reduced":
        rows = [list(change) for change in reductions(part.full, part.reduced)]
        text += ["**What was reduced**", markdown(["setting", "paper", "ours"], rows)]
    return "\n\n".join(text)


VERDICT_COLUMNS = ["claim", "the paper's, points", "ours, points", "99% interval", "seeds", "verdict"]


def verdict_rows(verdicts: Sequence[Verdict]) -> dict[str, Any]:
    """As a record keeps them."""
    return {
        "claims": [verdict_row(verdict) for verdict in verdicts],
        "answers": [verdict.answer for verdict in verdicts],
    }


def verdict_row(verdict: Verdict) -> list[str]:
    claim, gap = verdict.claim, verdict.difference
    how = "" if claim.measure == "last" else f" ({MEASURES[claim.measure][0]})"
    limit = ""
    if claim.beyond:
        size = f"{100 * claim.beyond:g}"
        limit = f", by more than {size} points" if claim.lower else f": above {size}%"
    why = claim.structural or claim.aside
    why = f"; {why}" if why else ""
    paper = "" if claim.effect is None else points(claim.effect / 100)
    return [
        claim.text + limit + how + why, paper, points(gap.mean), span(gap, points), str(verdict.seeds), verdict.shown
    ]  # fmt: skip


def points(difference: float) -> str:
    """Two digits: the papers' effects are often a few tenths."""
    text = f"{100 * difference:+.2f}"
    return "0.00" if float(text) == 0 else text.replace("-", "−")


def ours(cells: Sequence[Cell], measure: str = "last", errors: bool = False) -> str:
    """Rows without an epoch to choose (a teacher's) show the value they have; † marks what gold alone does better."""
    columns = list(dict.fromkeys(cell.column for cell in cells))
    value = MEASURES[measure][1]
    names = list(dict.fromkeys(cell.row for cell in cells))
    gold = next((name for name in GOLD_ROWS if name in names), "")

    def shown(name: str, column: str) -> str:
        mine, trusted = (
            [value(cell) for cell in cells if (cell.row, cell.column) == (row, column)] for row in (name, gold)
        )
        if not mine:
            return ""
        is_student = name != "Teacher" and ": " not in name
        worse = trusted and is_student and (Interval.of(mine).mean - Interval.of(trusted).mean) * (1 - 2 * errors) < 0
        return percent(mine) + ("†" if worse else "")

    return markdown(["", *columns], [[name, *(shown(name, column) for column in columns)] for name in names])


def gold_alone(cells: Sequence[Cell], errors: bool = False) -> list[str]:
    """A sentence on the columns where gold alone does better than the imperfect labels as they are."""
    rows = {cell.row for cell in cells}
    gold, plain = ([name for name in names if name in rows] for names in (GOLD_ROWS, PLAIN_ROWS))
    if not gold or not plain:
        return []
    better = []
    for column in dict.fromkeys(cell.column for cell in cells):
        here = [cell for cell in cells if cell.column == column]
        values = [[cell.value for cell in here if cell.row == name] for name in (gold[0], plain[0])]
        if not all(values):  # a column may leave rows out
            continue
        means = [Interval.of(each).mean for each in values]
        lead = (means[0] - means[1]) * (1 - 2 * errors)
        if lead > 0:
            better.append(f"{column} (by {100 * lead:.1f})")
    if not better:
        return []
    return [f"{gold[0]} is better than {plain[0]} at {', '.join(better)}."]


FACTS = {
    "mean_weight": "mean weight",
    "share_weight_1": "share of weights at exactly 1",
    "mean_alpha": "mean α",
    "mean_k": "mean k",
    "share_at_lower_bound": "share of α at its lower bound",
}


def found(cells: Sequence[Cell]) -> str:
    """Facts under their last word's name, whichever slot found them: "debias.mean_weight" is a mean weight."""
    names = list(dict.fromkeys(fact for cell in cells for fact in cell.facts))
    rows = []
    for name in dict.fromkeys(cell.row for cell in cells if cell.facts):
        mine = [cell.facts for cell in cells if cell.row == name]
        values = [[facts[fact] for facts in mine if fact in facts] for fact in names]
        rows.append([name, *(f"{sum(each) / len(each):.3f}" if each else "" for each in values)])
    return markdown(["", *map(_fact, names)], rows)


def _fact(name: str) -> str:
    slot, _, what = name.rpartition(".")
    return f"{FACTS.get(what, what.replace('_', ' '))} ({slot})"


def along_training(cells: Sequence[Cell]) -> str:
    """Five looks at each curve, at equal shares of its epochs."""
    shares = (0.0, 0.25, 0.5, 0.75, 1.0)
    rows = []
    for name in dict.fromkeys(cell.row for cell in cells if cell.curve):
        curves = [cell.curve for cell in cells if cell.row == name and cell.curve]
        looks = [[curve[round(share * (len(curve) - 1))] for curve in curves] for share in shares]
        rows.append([name, *(f"{100 * sum(look) / len(look):.1f}" for look in looks)])
    return markdown(["", "first epoch", *(f"{share:.0%}" for share in shares[1:-1]), "last epoch"], rows)


def paper_text(published: Published | None) -> list[str]:
    if published is None:
        return ["The paper plots its figures and does not print them."]
    rows = [[name, *values] for name, values in published.rows.items()]
    return [f"**The paper's cells** ({published.where}, its own setting)", markdown(["", *published.columns], rows)]


def provenance(finished: Finished) -> str:
    return (
        f"{', '.join(finished.all_of('dates'))}, commit {', '.join(finished.all_of('commits'))}, {machine()}, "
        "one thread per process, "
        f"{_range(finished.seeds)} seeds, {finished.seconds / 60:.1f} minutes of CPU"
    )


def _range(counts: Sequence[int]) -> str:
    return f"{min(counts)} to {max(counts)}" if min(counts) < max(counts) else str(counts[0])


def record(finished: Finished) -> dict[str, Any]:
    """The same as data, for the papers' pages and for other readers of the numbers."""
    experiment = finished.experiment
    return {
        "name": experiment.name,
        "paper": experiment.paper,
        "shows": experiment.shows,
        "what": experiment.what,
        "scale": finished.scale,
        "seeds": finished.seeds,
        "seconds": round(finished.seconds, 1),
        "dates": finished.all_of("dates"),
        "commits": finished.all_of("commits"),
        "machine": machine(),
        "not_reproduced": list(experiment.not_reproduced),
        "parts": [
            {"title": part.title, **verdict_rows(verdicts), "setting": setting_of(sweep), **made,
             "cells": [vars(cell) for cell in cells]}
            for part, cells, made, sweep, verdicts in zip(
                experiment.parts, finished.cells, finished.made, experiment.sweeps(finished.scale),
                verdicts_of(finished), strict=True,
            )
        ],
    }  # fmt: skip
