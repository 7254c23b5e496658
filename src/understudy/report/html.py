"""Models, runs, comparisons, audits and reliabilities as the output of a notebook's cell: the parts of their pages.

html_of(run)                                     # what run._repr_html_() returns
"""

from typing import Any

from understudy.auditing.audit import Audit
from understudy.comparison.outcome import Comparison
from understudy.labels.reliability import Reliability
from understudy.model import Model
from understudy.report.audit_page import TITLE, audit_parts
from understudy.report.comparison_page import comparison_parts
from understudy.report.figures import MeasuredTeacher, teacher_section
from understudy.report.run_page import run_parts
from understudy.report.run_text import summary
from understudy.report.templates import page
from understudy.training.run import Run


def html_of(value: Model | Run | Comparison | Audit | Reliability) -> str:
    return page("notebook.html.jinja", **_parts(value))


def _parts(value: Model | Run | Comparison | Audit | Reliability) -> dict[str, Any]:
    if isinstance(value, Model):
        warnings = [] if value.job is None else value.job.warnings
        return run_parts(value.run) | {"summary": summary(value.run, warnings), "warnings": warnings}
    if isinstance(value, Run):
        return run_parts(value)
    if isinstance(value, Audit):
        return {"title": TITLE, **audit_parts(value)}
    if isinstance(value, Comparison):
        title = "Comparison of methods" if value.recommendation is None else "Recommended method"
        return {"title": title, "verdict": value.sentences, "warnings": value.warnings, **comparison_parts(value)}
    right = value.gold_right.bool()
    lead = f"{len(right):,} gold rows, {value.classes} classes; teacher accuracy {right.double().mean():.1%}."
    seen = MeasuredTeacher(value, value.gold_covariate, right, value.gold_named)
    return {"title": "Reliability of the teacher", "lead": lead, **teacher_section(seen)}
