"""Estimates on a terminal."""

from collections.abc import Sequence

from understudy.auditing.pool_estimates import Estimate
from understudy.comparison.interval import signed
from understudy.maths.proportions import Share
from understudy.report.templates import UNKNOWN, ci, print_table, two_digits, wide_console


def print_estimates(found: Sequence[Estimate], width: float | None = None) -> None:
    """One table of values, and one of differences between groups. ``width``: that gold rows are counted for."""
    out = wide_console(110)
    grouped = any(one.group for one in found)
    for table in estimate_tables(found, width):
        print_table(out, *table, left=2 + grouped)


def estimate_tables(found: Sequence[Estimate], width: float | None) -> list[tuple[str, list[str], list[list[str]]]]:
    """Title, headings and rows of each table."""
    values, differences = ([one for one in found if one.difference is kind] for kind in (False, True))
    names = ["what", "class", *(["group"] if any(one.group for one in found) else [])]
    more = [] if width is None else [f"gold rows for {100 * width:g} points"]
    headings = [*names, "estimate", "95% CI", "gold alone", "worth", *more]
    rows = [
        [
            *_names(one, names), f"{one.value.estimate:.1%}" if one.value.known else UNKNOWN, ci(one.value),
            UNKNOWN if one.gold_only is None else ci(one.gold_only),
            UNKNOWN if one.worth is None else f"{one.worth:.1f}×", *([] if width is None else [_more(one, width)]),
        ]
        for one in values
    ]  # fmt: skip
    tables = [("Of the pool (worth: times as many gold rows alone)", headings, rows)]
    if differences:
        rows = [[*_names(one, names), *_difference(one.value)] for one in differences]
        tables.append(("Each group minus all other rows, points", [*names, "difference", "95% CI"], rows))
    return tables


def _names(one: Estimate, names: list[str]) -> list[str]:
    return [one.what.replace("f1", "F1"), one.name or "all", one.group or "all"][: len(names)]


def _difference(share: Share) -> list[str]:
    known = [signed(share.estimate), f"{signed(share.low)} to {signed(share.high)}"]
    return known if share.known else [UNKNOWN, UNKNOWN]


def _more(one: Estimate, width: float) -> str:
    more = one.more_gold_rows(width)
    return UNKNOWN if more is None else "enough" if more == 0 else f"{two_digits(more, up=True)} more"
