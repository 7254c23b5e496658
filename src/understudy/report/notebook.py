"""Runs, comparisons, audits and reliabilities as the output of a notebook's cell: their page's own parts.

    html_of(run)                                     # what run._repr_html_() returns

Their classes find this by its name when a notebook asks (``store/notebook.py``): they lie below the reports.
"""

from functools import singledispatch
from typing import Any

from understudy.auditing.result import Audit
from understudy.comparison.outcome import Comparison
from understudy.labels.reliability import Reliability
from understudy.report.audit import audit_parts
from understudy.report.comparison import comparison_parts
from understudy.report.figures import Trust
from understudy.report.page import page, run_parts, trust_section
from understudy.training.run import Run


def html_of(value: Any) -> str:
    return page("notebook.html.jinja", **parts_of(value))


@singledispatch
def parts_of(value: Any) -> dict[str, Any]:
    raise TypeError(f"a {type(value).__name__} has no page")


@parts_of.register
def _(run: Run) -> dict[str, Any]:
    return run_parts(run)


@parts_of.register
def _(comparison: Comparison) -> dict[str, Any]:
    found = comparison.recommendation
    verdict = [*(() if found is None else found.sentences), *comparison.notes]
    title = "Which method to take" if found is not None else "Methods compared"
    return {"title": title, "verdict": verdict, "warnings": comparison.warnings, **comparison_parts(comparison)}


@parts_of.register
def _(audit: Audit) -> dict[str, Any]:
    return {"title": "How good are these labels?", **audit_parts(audit)}


@parts_of.register
def _(trust: Reliability) -> dict[str, Any]:
    right = trust.gold_right.bool()
    lead = f"{len(right):,} gold rows, {trust.classes} classes; the teacher was right on {right.double().mean():.1%}."
    seen = Trust(trust, trust.gold_covariate, right, trust.gold_named)
    return {"title": "Trust in the teacher", "lead": lead, **trust_section(seen)}
