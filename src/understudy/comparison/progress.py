"""How far a comparison or a pilot is: a bar with the time left on a terminal, one line per finished cell elsewhere."""

import time

from understudy.store.progress import Bar

MINUTE = 60


class CellProgress(Bar):
    """``total`` cells, of which ``found`` were finished by an earlier run and say nothing about the pace."""

    def __init__(self, total: int, found: int = 0, *, shown: bool, title: str = "compare") -> None:
        super().__init__(title, total, done=found, shown=shown)
        self.found, self.done = found, found
        self.started = time.monotonic()

    def skip(self) -> None:
        """A cell that an earlier run had finished."""
        self.done, self.found = self.done + 1, self.found + 1

    def cell(self, line: str) -> None:
        self.done += 1
        pace = (time.monotonic() - self.started) / (self.done - self.found)
        text = f"{line}  {time_left(pace * (self.total - self.done))}".rstrip()
        self.show(self.done, text, f"{self.done}/{self.total}  {text}")


def time_left(seconds: float) -> str:
    if seconds <= 0:
        return ""
    if seconds < MINUTE:
        return f"about {max(1, round(seconds))} s left"
    minutes = seconds / MINUTE
    return f"about {round(minutes)} min left" if minutes < 100 else f"about {minutes / MINUTE:.1f} h left"
