"""What a person sees of long work, and how it is stopped: errors, warnings, progress, values in a notebook, SIGTERM.

A user's mistake is one line on stderr, never a traceback. Exit codes: 2 for a mistake (in the arguments, the files or
the data) or too little memory, 130 for Ctrl-C, 143 for SIGTERM.

    with ProgressBar("compare", 30, shown=True) as bar: bar.advance("slam, seed 0: 91.2%")
    class Run(Shown): ...                            # a notebook shows it as its report does

A bar with the time left on a terminal (rich) or in a notebook, else a line per finished part.

At SIGTERM, what is under way is put on the disk, then the program ends:

    with ends_on_sigterm():                        # the command line, us.train(out=…), loops, label stores
        with deferred():                           # a stop waits until the work is at a good place:
            for batch in batches:
                …
                if stop_requested(): save()
                stop_if_requested()                    # here, or at the end of the block

Outside ``deferred`` the program ends where it stands, as it does on Ctrl-C: locks and temporary files go. A second
SIGTERM does that everywhere. Other handlers than the system's own are left alone.
"""

import errno
import os
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from html import escape
from importlib import import_module
from types import FrameType
from typing import Any, ClassVar, Self

from understudy.errors import UnderstudyError, UnderstudyWarning, first_line

MINUTE = 60
CODE = 128 + signal.SIGTERM
NO_MEMORY = ("can't allocate memory", "not enough memory", "out of memory", "bad_alloc", "cannot allocate memory")


class Stopped(SystemExit):
    """Raised where a stop takes place."""

    def __init__(self) -> None:
        super().__init__(CODE)


class _State:
    requested = False
    deferrals = 0


def stop_requested() -> bool:
    return _State.requested


def stop_if_requested() -> None:
    if _State.requested:
        raise Stopped


@contextmanager
def deferred() -> Iterator[None]:
    """In this block a stop waits for ``stop_if_requested``, or for the end of the block."""
    counts = _in_main_thread()  # the one that handlers run in
    _State.deferrals += counts
    try:
        yield
    finally:
        _State.deferrals -= counts
    if not _State.deferrals:
        stop_if_requested()


@contextmanager
def ends_on_sigterm() -> Iterator[None]:
    if not _in_main_thread() or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield
        return
    owner = os.getpid()

    def stop(number: int, frame: FrameType | None) -> None:
        if os.getpid() != owner:  # a fork ends as if it had never heard of this
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            os.kill(os.getpid(), signal.SIGTERM)
            return
        again, _State.requested = _State.requested, True
        if again or not _State.deferrals:
            raise Stopped

    signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        _State.requested = False
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _in_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()


def last_words(error: BaseException) -> tuple[str, int] | None:
    """The line and the exit code with which this ends a command; None for a bug, which shows its traceback."""
    if isinstance(error, UnderstudyError):
        return f"error: {error}", 2
    if isinstance(error, KeyboardInterrupt):
        return "stopped; a training that has begun continues with understudy train --resume", 130
    if isinstance(error, Stopped):
        return "stopped by SIGTERM; what is finished is on the disk", CODE
    if is_out_of_memory(error):
        return f"error: out of memory ({first_line(error)}); take fewer rows or workers, or a smaller batch", 2
    return None


def is_out_of_memory(error: BaseException) -> bool:
    """PyTorch says it in words, on a GPU too; a process that cannot be forked by a number."""
    text = str(error).lower()
    return (
        isinstance(error, MemoryError)
        or (isinstance(error, OSError) and error.errno == errno.ENOMEM)
        or (isinstance(error, RuntimeError) and any(words in text for words in NO_MEMORY))
    )


@contextmanager
def collected_warnings(show: Callable[[str], None] | None = None) -> Iterator[list[str]]:
    """The texts of this package's warnings, each once; shown by ``show``, or else as before. Others as usual."""
    texts: list[str] = []
    usual = warnings.showwarning

    def collect(message: Any, category: type[Warning], *rest: Any, **more: Any) -> None:
        ours = issubclass(category, UnderstudyWarning)
        new = str(message) not in texts
        if ours and new:
            texts.append(str(message))
        if not ours or show is None:
            usual(message, category, *rest, **more)
        elif new:
            show(str(message))

    with warnings.catch_warnings():
        warnings.simplefilter("always", UnderstudyWarning)
        warnings.showwarning = collect
        yield texts


def complain(line: str) -> None:
    print(" ".join(line.splitlines()), file=sys.stderr, flush=True)


class ProgressBar:
    """``with ProgressBar("compare", 30, shown=True) as bar: bar.advance("slam, seed 0: 91.2%")``

    ``total`` parts, of which ``done`` were finished by an earlier run and say nothing about the pace.
    """

    unit = ""
    #: Of the whole program, by ``--quiet``: for bars whose makers know nothing of it.
    muted: ClassVar[bool] = False

    def __init__(self, title: str, total: int, done: int = 0, *, shown: bool) -> None:
        shown = shown and not ProgressBar.muted
        self.title, self.total, self.shown = title, total, shown
        self.done = self.earlier = done
        self.started = time.monotonic()
        self._bar = None
        self._display: Any = notebook_display() if shown else None
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

    def __exit__(self, *error: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def skip(self, parts: int = 1) -> None:
        """Parts that an earlier run had finished."""
        self.done, self.earlier = self.done + parts, self.earlier + parts

    def advance(self, line: str, parts: int = 1) -> None:
        """So many more are finished."""
        self.done += parts
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
        return str(from_report("html").html_of(self))


def notebook_display() -> Any:
    """``IPython.display`` where a notebook's kernel runs this; None elsewhere, a terminal's IPython included."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return import_module("IPython.display") if hasattr(shell, "kernel") else None
