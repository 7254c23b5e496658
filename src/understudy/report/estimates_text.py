"""Estimates on a terminal."""

from collections.abc import Sequence

from rich.console import Console
from rich.markup import escape

from understudy.auditing.pool_estimates import Estimate
from understudy.comparison.interval import signed
from understudy.maths.proportions import Share
from understudy.report.templates import UNKNOWN, ci, print_table


def print_estimates(found: Sequence[Estimate]) -> None:
    """One table of values, and one of differences between groups."""
    out = Console()
    values, differences = ([one for one in found if one.difference is kind] for kind in (False, True))
    grouped = any(one.group for one in found)
    headings = ["what", "class", *(["group"] if grouped else []), "estimate", "95% CI", "gold alone", "worth"]
    rows = [
        [*_names(one, grouped), _percent(one.value), ci(one.value), _alone(one.gold_only), _worth(one)]
        for one in values
    ]
    print_table(out, "[bold]Of the pool (worth: times as many gold rows alone)[/]", rows, headings, left=2 + grouped)
    if differences:
        rows = [
            [*_names(one, grouped), signed(one.value.estimate), f"{signed(one.value.low)} to {signed(one.value.high)}"]
            if one.value.known
            else [*_names(one, grouped), UNKNOWN, UNKNOWN]
            for one in differences
        ]
        title = "[bold]Each group minus all other rows, points[/]"
        print_table(out, title, rows, ["what", "class", "group", "difference", "95% CI"], left=3)


def _names(one: Estimate, grouped: bool) -> list[str]:
    named = [one.what, escape(one.name or "all")]
    return [*named, escape(one.group or "all")] if grouped else named


def _percent(share: Share) -> str:
    return f"{share.estimate:.1%}" if share.known else UNKNOWN


def _alone(share: Share | None) -> str:
    return UNKNOWN if share is None else ci(share)


def _worth(one: Estimate) -> str:
    return UNKNOWN if one.worth is None else f"{one.worth:.1f}×"
