"""The page of a comparison, and its pictures.

write_comparison_report("report.html", comparison, title="…", verdict=[…])
"""

from pathlib import Path
from typing import Any

import numpy as np
from markupsafe import Markup
from matplotlib.axes import Axes

from understudy.comparison.digits_demo import DemoResult
from understudy.comparison.interval import Interval, chance
from understudy.comparison.outcome import LEVEL, Comparison, Outcome
from understudy.maths.metric_scores import ACCURACY
from understudy.report import figures
from understudy.report.figures import MeasuredTeacher
from understudy.report.recommendation_text import metric_unit, row_texts
from understudy.report.templates import facts, sentences, write_page


def write_comparison_report(
    path: str | Path, comparison: Comparison, trust: MeasuredTeacher | None = None, trust_note: str = "", **parts: Any
) -> None:
    """``parts``: those of every page (``templates.page``); all of it is plain text, and is escaped."""
    write_page(path, **parts, **comparison_parts(comparison), **figures.teacher_section(trust, trust_note))


def comparison_parts(comparison: Comparison) -> dict[str, Any]:
    """What the page of a comparison shows of the comparison itself."""
    chances = {} if comparison.recommendation is None else comparison.recommendation.chances
    # Of trainings to convergence there are a few points, which show nothing.
    longest = max((len(one.history) for by_seed in comparison.outcomes.values() for one in by_seed.values()), default=0)
    trained = longest > 5
    lines = [
        {"method": line.method, "colour": look_of(comparison, line.method)[0], **row_texts(line)}
        | {"chance": chance(chances.get(line.method))}
        for line in comparison.rows()
    ]
    return {
        "template": "comparison.html.jinja",
        "lines": lines,
        "not_run": [name for name in comparison.failed if name not in comparison.outcomes],
        "reference": comparison.reference,
        "seeds": len(comparison.seeds),
        "metric": metric_unit(comparison),
        "interval_svg": interval_figure(comparison),
        "difference_svg": difference_figure(comparison),
        "curves_svg": comparison_curves(comparison) if trained else None,
        "curves_text": "A test accuracy that still rises at the end means that more epochs would help; a test loss "
        "that rises at constant accuracy is growing overconfidence. Lines are means over seeds, shades their range. "
        "The axes fit the second half of training; the beginning may leave the picture.",
    }


def look_of(comparison: Comparison, method: str) -> tuple[str, str]:
    """A method's colour and marker: grey without marker for what was not trained, else by its number."""
    trained = [name for name, by_seed in comparison.outcomes.items() if any(o.history for o in by_seed.values())]
    if method not in trained:
        return figures.GREY, ""
    number = trained.index(method)
    return figures.COLOURS[number % len(figures.COLOURS)], figures.MARKERS[number % len(figures.MARKERS)]


def interval_figure(comparison: Comparison) -> Markup:
    """Per method: every seed as a point, the mean and its 95% interval."""
    lines = comparison.rows()
    with figures.drawing("intervals", 0.75 + 0.42 * len(lines)) as (ax, result):
        for y, line in enumerate(reversed(lines)):
            seeds = [outcome.last for outcome in comparison.outcomes[line.method].values()]
            _draw_interval(ax, y, seeds, line.last, look_of(comparison, line.method)[0])
        figures.name_lines(ax, [line.method for line in lines], f"test {metric_unit(comparison)}")
    return result[0]


def difference_figure(comparison: Comparison) -> Markup | None:
    """Each method's difference to the reference; None where there is nothing to hold against it.

    A full point: the difference holds after correction for the number of methods; a hollow one: it may be luck."""
    differences = {line.method: line.difference for line in comparison.rows() if line.difference is not None}
    if not differences:
        return None
    adjusted = {} if comparison.recommendation is None else comparison.recommendation.adjusted
    theirs = comparison.outcomes[comparison.reference]
    with figures.drawing("differences", 0.85 + 0.42 * len(differences)) as (ax, result):
        ax.axvline(0, color=figures.GREY, lw=1.2)
        for y, (method, difference) in enumerate(reversed(differences.items())):
            mine = comparison.outcomes[method]
            seeds = [seed_difference(mine[seed], theirs[seed]) for seed in mine if seed in theirs]
            full = adjusted.get(method, difference.p_value) < LEVEL
            _draw_interval(ax, y, seeds, difference, look_of(comparison, method)[0], full=full)
        title = f"test {comparison.metric_name} minus {comparison.reference}, points"
        figures.name_lines(ax, list(differences), title)
    return result[0]


def seed_difference(one: Outcome, other: Outcome) -> float:
    """On the rows that both have: the teacher may have labelled some only."""
    if one.judged is not None and other.judged is not None:
        _, mine, theirs = np.intersect1d(one.judged.rows, other.judged.rows, return_indices=True)
        if len(mine):
            return float(np.mean(one.judged.right[mine].astype(float) - other.judged.right[theirs]))
    return one.last - other.last


def _draw_interval(ax: Axes, y: int, seeds: list[float], interval: Interval, colour: str, *, full: bool = True) -> None:
    ax.scatter([100 * value for value in seeds], [y + 0.2] * len(seeds), s=12, color=colour, alpha=0.45, linewidths=0)
    if interval.count > 1:
        ax.plot([100 * interval.low, 100 * interval.high], [y, y], color=colour, lw=3, solid_capstyle="butt")
    inside = colour if full else "white"
    ax.scatter([100 * interval.mean], [y], s=42, zorder=3, edgecolors=colour, linewidths=1.6, facecolors=inside)


def comparison_curves(comparison: Comparison) -> Markup:
    """Test accuracy and test loss over training, the mean of the seeds, with the range over seeds as a shade."""
    with figures.drawing("curves", 3.6, legend=6, ncols=2) as (axes, result):
        for method, by_seed in comparison.outcomes.items():
            colour, marker = look_of(comparison, method)
            histories = [outcome.history for outcome in by_seed.values() if outcome.history]
            if not histories and comparison.metric != ACCURACY:
                continue
            if not histories:
                mean = 100 * float(np.mean([outcome.last for outcome in by_seed.values()]))
                axes[0].axhline(mean, color=colour, ls="--", lw=1.2, label=method)
                continue
            # A seed that stopped early stays where it was.
            longest = max(map(len, histories))
            histories = [history + [history[-1]] * (longest - len(history)) for history in histories]
            for ax, name, scale in ((axes[0], "test_accuracy", 100), (axes[1], "test_loss", 1)):
                stack = scale * np.array([[record[name] for record in history] for history in histories])
                done = 100 * np.arange(1, longest + 1) / longest
                keep = figures.thinned(longest)
                ax.fill_between(done[keep], stack.min(0)[keep], stack.max(0)[keep], color=colour, alpha=0.09, lw=0)
                ax.plot(
                    done[keep], stack.mean(0)[keep], color=colour, lw=1.5, label=method,
                    marker=marker, markersize=4, markevery=max(1, len(keep) // 8),
                )  # fmt: skip
        for ax, title in zip(axes, ("test accuracy, %", "test loss"), strict=True):
            ax.set(title=title, xlabel="share of training done, %", xlim=(0, 100))
            _fit_second_half(ax)
    return result[0]


def _fit_second_half(ax: Axes) -> None:
    """Limits by the second half of training: the first rise or fall would flatten what tells methods apart."""
    ends = [np.asarray(line.get_ydata(), dtype=float) for line in ax.lines]
    late = np.concatenate([end if len(end) <= 2 else end[len(end) // 2 :] for end in ends])
    margin = 0.12 * (late.max() - late.min() or 1.0)
    ax.set_ylim(late.min() - margin, late.max() + margin)


def write_demo_report(path: str | Path, result: DemoResult) -> None:
    write_comparison_report(
        path,
        result.comparison,
        title="Demo: few trusted labels, many doubtful ones",
        lead=sentences("demo", "lead", result.setting)[0],
        verdict=sentences("demo", "verdict", result.comparison),
        trust=figures.measure_teacher(result.first.gold, result.first.pool),
        trust_note="Shown is the first seed.",
        facts=facts("demo", result.setting, len(result.first.test)),
        warnings=result.warnings,
    )
