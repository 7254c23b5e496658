"""The page a training leaves behind: ``write_run_report`` for one run, ``write_comparison_report`` for several."""

from understudy.report.page import write_comparison_report, write_report, write_run_report
from understudy.report.trust import Trust, measure_teacher

__all__ = ["Trust", "measure_teacher", "write_comparison_report", "write_report", "write_run_report"]
