"""Progress of long work: a bar on a terminal, one plain line per epoch elsewhere."""

import sys
from types import TracebackType
from typing import Self

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn


class EpochProgress:
    def __init__(self, title: str, epochs: int, *, shown: bool) -> None:
        self.title, self.epochs, self.shown = title, epochs, shown
        self.bar: Progress | None = None
        if shown and sys.stderr.isatty():
            from rich.console import Console

            self.bar = Progress(
                TextColumn("[bold]{task.description}"),
                BarColumn(),
                MofNCompleteColumn(),
                TextColumn("{task.fields[line]}"),
                TimeRemainingColumn(),
                console=Console(stderr=True),
            )
            self.task = self.bar.add_task(title, total=epochs, line="")

    def __enter__(self) -> Self:
        if self.bar is not None:
            self.bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.bar is not None:
            self.bar.stop()

    def skip(self, history: list[dict[str, float]]) -> None:
        """A resumed training has these epochs behind it."""
        if self.bar is not None:
            self.bar.update(self.task, completed=len(history))
        elif self.shown:
            print(f"{self.title}  resumed after epoch {len(history)}/{self.epochs}", file=sys.stderr, flush=True)

    def epoch(self, record: dict[str, float]) -> None:
        shown = ("loss", "select_accuracy", "test_accuracy")
        line = "  ".join(f"{name} {record[name]:.4f}" for name in shown if name in record)
        if self.bar is not None:
            self.bar.update(self.task, advance=1, line=line)
        elif self.shown:
            print(
                f"{self.title}  epoch {record['epoch']:.0f}/{self.epochs}  {line}",
                file=sys.stderr,
                flush=True,
            )
