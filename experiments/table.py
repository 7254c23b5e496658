"""What the experiments share: jobs in processes, results over seeds as Markdown, and where and when they were made."""

import math
import platform
import re
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import TypeVar

import torch

from understudy.comparison.interval import Interval
from understudy.comparison.outcome import Comparison
from understudy.errors import UnderstudyError
from understudy.parallel.executors import WorkerProcesses
from understudy.report.recommendation_text import row_texts
from understudy.store.files import write_text

Job = TypeVar("Job")
Result = TypeVar("Result")
_STARTED = time.perf_counter()
# Read at the start: by the end of a long experiment the checkout may be another one.
_COMMIT = subprocess.run(["git", "describe", "--always", "--dirty"], capture_output=True, text=True).stdout.strip()


def in_processes(work: Callable[[Job], Result], jobs: Sequence[Job], workers: int) -> Iterator[Result]:
    """Every job's result, in order, from processes of one thread each: two threads in one training gain little."""
    finished: dict[int, Result] = {}
    following = 0
    with closing(WorkerProcesses(workers).map(work, jobs)) as results:
        for number, result in results:
            finished[number] = result
            while following in finished:
                yield finished.pop(following)
                following += 1


def percent(values: Sequence[float], *, signed: bool = False) -> str:
    """Shares as "mean ± half of the 95% interval", in percent (points for differences); a single seed has no ±."""
    interval = Interval.of(values)
    shown = f"{100 * interval.mean:{'+' if signed else ''}.2f}"
    half = 100 * (interval.high - interval.mean)
    return shown if math.isinf(half) else f"{shown} ± {half:.2f}"


def paired(values: Sequence[float], base: Sequence[float]) -> str:
    """The difference to a baseline on the same seeds, in points."""
    return percent([value - other for value, other in zip(values, base, strict=True)], signed=True)


def markdown(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows]) + "\n"


def comparison_table(comparison: Comparison) -> str:
    """In percent: last epoch, gold-selected epoch, and the paired difference, with 95% intervals."""
    columns = {
        "last": "last epoch", "last_span": "95% interval", "selected": "epoch chosen on gold",
        "difference": f"minus {comparison.reference}", "difference_span": "95% interval",
    }  # fmt: skip
    rows = [[line.method, *map(row_texts(line).__getitem__, columns)] for line in comparison.rows()]
    return markdown(["method", *columns.values()], rows)


def publish(text: str, out: Path | None) -> None:
    print(text)
    save(out, text)


def save(path: Path | None, content: str) -> None:
    """Write the tables with their provenance; ``page.md#name`` replaces the page's section of that name."""
    if path is None:
        return
    minutes = (time.perf_counter() - _STARTED) / 60
    made = (
        f"*{time.strftime('%Y-%m-%d')}, commit {_COMMIT or 'unknown'}, torch {torch.__version__}, "
        f"{platform.machine()}, one thread, {minutes:.0f} minutes.*"
    )
    page, _, section = str(path).partition("#")
    if section:
        write_text(
            Path(page), replaced(Path(page).read_text(encoding="utf-8"), section, f"{content.rstrip()}\n\n{made}")
        )
    else:
        write_text(path, f"{content.rstrip()}\n\n{made}\n")


def replaced(page: str, section: str, content: str) -> str:
    """The page with new content between ``<!-- section -->`` and ``<!-- /section -->``, its headings a level lower."""
    opening, closing = f"<!-- {section} -->", f"<!-- /{section} -->"
    if opening not in page or closing not in page:
        raise UnderstudyError(f"the page has no section {section!r}: add the lines {opening} and {closing} to it")
    before, _, rest = page.partition(opening)
    inside = re.sub(r"^#(?=#+ )", "##", re.sub(r"^# .*\n+", "", content), flags=re.MULTILINE)
    return f"{before}{opening}\n\n{inside}\n\n{closing}{rest.partition(closing)[2]}"
