"""Progress of asking: rows, what they cost so far, and the time left."""

import time

from understudy.llm.ledger import Ledger
from understudy.store.progress import ProgressBar, time_left

_EVERY = 0.2
# Lines in a log that nobody watches.
_LINES = 20


class AskProgress(ProgressBar):
    def __init__(self, total: int, ledger: Ledger, *, shown: bool) -> None:
        super().__init__("ask", total, shown=shown)
        self.ledger = ledger
        self._next = 0.0

    def answered(self) -> None:
        self.done += 1
        passed = time.monotonic() - self.started
        live = self._bar is not None or self._display is not None
        if self.done < self.total and (passed if live else self.done) < self._next:
            return
        self._next = passed + _EVERY if live else self.done + self.total / _LINES
        priced = any(price.input or price.output for price in self.ledger.prices.values())
        cost = f"cost {self.ledger.spent:.4g}" if priced else ""
        self.show("  ".join(filter(None, [cost, time_left(passed / self.done * (self.total - self.done))])))
