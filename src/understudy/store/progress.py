"""Progress of long work: a bar on a terminal, plain lines elsewhere."""

import sys
from types import TracebackType
from typing import Self

from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, TextColumn, TimeRemainingColumn


class Bar:
    """``with Bar("title", 30, shown=True) as bar``; ``bar.bar`` is None where lines are printed instead."""

    def __init__(self, title: str, total: int, *columns: ProgressColumn, done: int = 0, shown: bool) -> None:
        self.title, self.total, self.shown = title, total, shown
        self.bar: Progress | None = None
        if shown and sys.stderr.isatty():
            from rich.console import Console

            # Names are texts, whatever brackets and braces they hold.
            name = TextColumn("{task.fields[title]}", style="bold", markup=False)
            fixed = (name, BarColumn(), MofNCompleteColumn(), TextColumn("{task.description}", markup=False))
            self.bar = Progress(*fixed, *columns, console=Console(stderr=True))
            self.task = self.bar.add_task("", total=total, completed=done, title=title)

    def __enter__(self) -> Self:
        if self.bar is not None:
            self.bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.bar is not None:
            self.bar.stop()

    def show(self, done: int, line: str, plain: str) -> None:
        """``line`` beside the bar, or ``plain`` on a line of its own."""
        if self.bar is not None:
            self.bar.update(self.task, total=self.total, completed=done, description=line)
        elif self.shown:
            print(f"{self.title}  {plain}", file=sys.stderr, flush=True)


class EpochProgress(Bar):
    def __init__(self, title: str, epochs: int, *, shown: bool) -> None:
        super().__init__(title, epochs, TimeRemainingColumn(), shown=shown)

    def skip(self, history: list[dict[str, float]]) -> None:
        """A resumed training has these epochs behind it."""
        self.show(len(history), "", f"resumed after epoch {len(history)}/{self.total}")

    def epoch(self, record: dict[str, float]) -> None:
        shown = ("loss", "select_accuracy", "test_accuracy")
        line = "  ".join(f"{name} {record[name]:.4f}" for name in shown if name in record)
        self.show(int(record["epoch"]), line, f"epoch {record['epoch']:.0f}/{self.total}  {line}")
