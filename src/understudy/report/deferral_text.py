"""A deferral rule on a terminal: its sentences, and the curve as a table."""

from rich.console import Console
from rich.markup import escape

from understudy.auditing.deferral import Deferral
from understudy.report.templates import UNKNOWN, percent_range, print_table, sentences

NAMES = {"combined": "together", "teacher": "teacher's label", "abstain": "answered rows"}
#: Shares of the table; the page's picture has all.
SHOWN = (0.0, 0.02, 0.06, 0.1, 0.16, 0.24, 0.34, 0.5, 0.7, 1.0)
Table = tuple[str, list[str], list[list[str]]]


def print_deferral(found: Deferral) -> None:
    out = Console(width=max(100, Console().width))
    for title, headings, rows in deferral_tables(found):
        print_table(out, f"[bold]{escape(title)}[/]", [[escape(cell) for cell in row] for row in rows], headings)
    for line in deferral_lines(found):
        out.print(escape(line), highlight=False, soft_wrap=True)


def deferral_lines(found: Deferral) -> list[str]:
    return sentences("deferral", "verdict", found)


def deferral_tables(found: Deferral) -> list[Table]:
    """Title, headings and rows: everybody alone, the curve, and the classes where each has a threshold."""
    alone = {"student": found.student, "teacher": found.teacher, "together": found.combined}
    shares = [[name, percent_range(share)] for name, share in alone.items() if share is not None]
    sure = f"{100 * (1 - found.delta):.3g}"
    first = next(iter(found.curves.values()))
    places = sorted({min(range(len(first.share)), key=lambda at: abs(first.share[at] - wanted)) for wanted in SHOWN})
    priced = [] if found.price is None else ["cost per 1,000 rows"]
    headings = ["deferred", *(NAMES[name] for name in found.curves), *priced]
    rows = [
        [
            f"{first.share[at]:.1%}",
            *(f"{c.accuracy[at]:.1%} ({100 * c.low[at]:.1f}–{100 * c.high[at]:.1f})" for c in found.curves.values()),
            *([] if found.price is None else [f"{1000 * first.share[at] * found.price:,.4g}"]),
        ]
        for at in reversed(places)
        if found.answer != "abstain" or first.share[at] < 1
    ]
    tables = [(f"Each on all {found.rows:,} rows (95% CI)", ["", "accuracy"], shares)]
    tables.append((f"Accuracy by the share deferred ({sure}% band, at all shares at once)", headings, rows))
    if found.classes:
        names = found.class_names or [str(each.number) for each in found.classes]
        cells = [
            [names[each.number], f"{each.rows:,}", "yes" if each.promised else "no", f"{each.share:.0%}",
             UNKNOWN if each.share == 1 and found.answer == "abstain" else f"{each.accuracy:.1%}"]
            for each in found.classes
        ]  # fmt: skip
        tables.append(
            ("By the class that the student predicts", ["class", "rows", "promised", "deferred", "accuracy"], cells)
        )
    return tables
