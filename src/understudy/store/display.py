"""Progress of long work, and values in a notebook.

    with ProgressBar("compare", 30, shown=True) as bar: bar.advance("slam, seed 0: 91.2%")
    class Run(Shown): ...                            # a notebook shows it as its report does

A bar with the time left on a terminal (rich) or in a notebook, else a line per finished part.
"""

import sys
import time
from html import escape
from importlib import import_module
from types import TracebackType
from typing import Any, Self

MINUTE = 60


class ProgressBar:
    """``with ProgressBar("compare", 30, shown=True) as bar: bar.advance("slam, seed 0: 91.2%")``

    ``total`` parts, of which ``done`` were finished by an earlier run and say nothing about the pace.
    """

    unit = ""

    def __init__(self, title: str, total: int, done: int = 0, *, shown: bool) -> None:
        self.title, self.total, self.shown = title, total, shown
        self.done = self.earlier = done
        self.started = time.monotonic()
        self._bar = None
        self._display = notebook_display() if shown else None
        #: The place in a notebook's output that is written anew.
        self._cell: Any = None
        if self._display is None and shown and sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

            # Names are texts, whatever brackets and braces they hold.
            name = TextColumn("{task.fields[title]}", style="bold", markup=False)
            line = TextColumn("{task.description}", markup=False)
            self._bar = Progress(name, BarColumn(), MofNCompleteColumn(), line, console=Console(stderr=True))
            self._task = self._bar.add_task("", total=total, completed=done, title=title)

    def __enter__(self) -> Self:
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def skip(self, parts: int = 1) -> None:
        """Parts that an earlier run had finished."""
        self.done, self.earlier = self.done + parts, self.earlier + parts

    def advance(self, line: str) -> None:
        """One more is finished."""
        self.done += 1
        pace = (time.monotonic() - self.started) / (self.done - self.earlier)
        self.show(f"{line}  {time_left(pace * (self.total - self.done))}".rstrip())

    def show(self, line: str) -> None:
        if self._display is not None:
            self._show_in_notebook(line)
        elif self._bar is not None:
            self._bar.update(self._task, total=self.total, completed=self.done, description=line)
        elif self.shown:
            print(f"{self.title}  {self.unit}{self.done}/{self.total}  {line}", file=sys.stderr, flush=True)

    def _show_in_notebook(self, line: str) -> None:
        bar = f'<progress value="{self.done}" max="{self.total}"></progress>'
        html = f"<b>{escape(self.title)}</b> {bar} {self.unit}{self.done}/{self.total} {escape(line)}"
        assert self._display is not None
        if self._cell is None:
            self._cell = self._display.display(self._display.HTML(html), display_id=True)
        else:
            self._cell.update(self._display.HTML(html))


class EpochProgress(ProgressBar):
    unit = "epoch "

    def resume(self, history: list[dict[str, float]]) -> None:
        """A resumed training has these epochs behind it."""
        self.skip(len(history))
        self.show("resumed")

    def epoch(self, record: dict[str, float]) -> None:
        shown = ("loss", "select_accuracy", "test_accuracy")
        self.advance("  ".join(f"{name} {record[name]:.4f}" for name in shown if name in record))


def time_left(seconds: float) -> str:
    if seconds <= 0:
        return ""
    if seconds < MINUTE:
        return f"about {max(1, round(seconds))} s left"
    minutes = seconds / MINUTE
    return f"about {round(minutes)} min left" if minutes < 100 else f"about {minutes / MINUTE:.1f} h left"


def from_report(module: str) -> Any:
    """A module of ``report/``, which lies above everything it shows: found by name, when a user asks for text."""
    return import_module(f"understudy.report.{module}")


class Shown:
    """A value that a notebook shows as the page of its report does."""

    def _repr_html_(self) -> str:
        html: str = from_report("html").html_of(self)
        return html


def notebook_display() -> Any:
    """``IPython.display`` where a notebook's kernel runs this; None elsewhere, a terminal's IPython included."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return import_module("IPython.display") if hasattr(shell, "kernel") else None
