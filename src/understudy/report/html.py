"""Runs, comparisons, audits and reliabilities as the output of a notebook's cell: the parts of their pages.

html_of(run)                                     # what run._repr_html_() returns
"""

from functools import singledispatch
from typing import Any

from understudy.auditing.audit import Audit
from understudy.comparison.outcome import Comparison
from understudy.labels.reliability import Reliability
from understudy.report.audit_page import TITLE, audit_parts
from understudy.report.comparison_page import comparison_parts
from understudy.report.figures import MeasuredTeacher, teacher_section
from understudy.report.run_page import run_parts
from understudy.report.templates import page
from understudy.training.run import Run


def html_of(value: Any) -> str:
    return page("notebook.html.jinja", **parts_of(value))


@singledispatch
def parts_of(value: Any) -> dict[str, Any]:
    raise TypeError(f"a {type(value).__name__} has no page")


parts_of.register(Run)(run_parts)


@parts_of.register
def _(comparison: Comparison) -> dict[str, Any]:
    found = comparison.recommendation
    title = "Recommended method" if found is not None else "Comparison of methods"
    return {
        "title": title,
        "verdict": comparison.sentences,
        "warnings": comparison.warnings,
        **comparison_parts(comparison),
    }


@parts_of.register
def _(audit: Audit) -> dict[str, Any]:
    return {"title": TITLE, **audit_parts(audit)}


@parts_of.register
def _(trust: Reliability) -> dict[str, Any]:
    right = trust.gold_right.bool()
    lead = f"{len(right):,} gold rows, {trust.classes} classes; teacher accuracy {right.double().mean():.1%}."
    seen = MeasuredTeacher(trust, trust.gold_covariate, right, trust.gold_named)
    return {"title": "Reliability of the teacher", "lead": lead, **teacher_section(seen)}
