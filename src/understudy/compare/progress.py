"""How far a comparison or a pilot is: a bar with the time left on a terminal, one line per finished cell elsewhere."""

import sys
import time
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

MINUTE = 60


class CellProgress:
    """``total`` cells, of which ``found`` were finished by an earlier run and say nothing about the pace."""

    def __init__(self, total: int, found: int = 0, *, shown: bool, title: str = "compare") -> None:
        self.title, self.total, self.found, self.done, self.shown = title, total, found, found, shown
        self.started = time.monotonic()
        self.bar: Progress | None = None
        if shown and sys.stderr.isatty():
            columns = (
                TextColumn(f"[bold]{title}"),
                BarColumn(),
                MofNCompleteColumn(),
                TextColumn("{task.description}"),
            )
            self.bar = Progress(*columns, console=Console(stderr=True))
            self.task = self.bar.add_task("", total=total, completed=found)

    def __enter__(self) -> Self:
        if self.bar is not None:
            self.bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.bar is not None:
            self.bar.stop()

    def skip(self) -> None:
        """A cell that an earlier run had finished."""
        self.done, self.found = self.done + 1, self.found + 1

    def cell(self, line: str) -> None:
        self.done += 1
        pace = (time.monotonic() - self.started) / (self.done - self.found)
        text = f"{line}  {time_left(pace * (self.total - self.done))}".rstrip()
        if self.bar is not None:
            self.bar.update(self.task, total=self.total, completed=self.done, description=text)
        elif self.shown:
            print(f"{self.title} {self.done}/{self.total}  {text}", file=sys.stderr, flush=True)


def time_left(seconds: float) -> str:
    if seconds <= 0:
        return ""
    if seconds < MINUTE:
        return f"about {max(1, round(seconds))} s left"
    minutes = seconds / MINUTE
    return f"about {round(minutes)} min left" if minutes < 100 else f"about {minutes / MINUTE:.1f} h left"
