"""The looks of a watch on a terminal."""

from rich.console import Console

from understudy.auditing.teacher_watch import Look, TeacherWatch
from understudy.report.templates import UNKNOWN, ci, print_lines, print_table, sentences, shorten

# Of the last looks; all are in the folder's log.
SHOWN = 12


def print_looks(watch: TeacherWatch, added: int | None) -> None:
    """``added``: how many looks are new; None: no answers were given."""
    out = Console()
    if watch.looks:
        headings = ["look", "anchors", "right", "accuracy on anchors", "95% CI at all looks", "new rows", "alarm"]
        print_table(out, "The last looks", headings, map(_cells, watch.looks[-SHOWN:]))
    print_lines(out, sentences("watch", "verdict", watch, added))


def _cells(look: Look) -> list[str]:
    right = f"{look.right / look.anchors:.1%}" if look.anchors else UNKNOWN
    so_far = f"{look.accuracy.estimate:.1%}" if look.accuracy.known else UNKNOWN
    alarm = "yes" if look.alarm else "no"
    return [shorten(look.name), f"{look.anchors:,}", right, so_far, ci(look.accuracy), f"{look.new_rows:,}", alarm]
