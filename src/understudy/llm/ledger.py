"""Tokens and cost so far, and the budget that is never exceeded.

Before a request is sent, its maximum cost is reserved, on the disk too: a killed process has spent at most what was
reserved. Once the answer is there, its actual tokens count instead. A request that ended without one (a time-out, a
cut connection, a server error) may have been charged, and counts in full; one that was refused (429 or another 4xx, an
overload) is free.

A journal is a log (``store/log.py``) for coroutines: each line is on the disk before anything is done with it.

    async with Journal(path) as journal:
        await journal.add({"custom_id": "r1", …})         # on the disk when it returns; many at once share one sync
"""

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Self

from understudy.store.log import Log

#: Of one request: beyond every model's context.
MOST_TOKENS = 10**8


class Journal:
    def __init__(self, path: Path) -> None:
        self._log = Log(path)
        self._waiting: list[Mapping[str, Any]] = []
        #: Writes all that waits, once the one before has ended.
        self._writing: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._log.append([])
        return self

    async def __aexit__(self, *error: object) -> None:
        if self._writing is not None:
            await asyncio.wait([self._writing])

    async def add(self, *entries: Mapping[str, Any]) -> None:
        """Returns when the lines are on the disk, even where the coroutine that waits is cancelled."""
        for written in [self.note(entry) for entry in entries][-1:]:  # they are written together
            await asyncio.shield(written)

    def note(self, entry: Mapping[str, Any]) -> "asyncio.Task[None]":
        """A line that may be lost with the power: no coroutine need wait for it."""
        if not self._waiting or self._writing is None:
            self._writing = asyncio.create_task(self._write(self._writing))
            self._writing.add_done_callback(lambda written: written.cancelled() or written.exception())
        self._waiting.append(entry)
        return self._writing

    async def _write(self, before: "asyncio.Task[None] | None") -> None:
        if before is not None:
            await asyncio.wait([before])
        lines, self._waiting = self._waiting, []
        await asyncio.to_thread(self._log.append, lines)


class Price(NamedTuple):
    """Of a million tokens, in any currency."""

    input: float = 0.0
    output: float = 0.0

    def of(self, tokens_in: int, tokens_out: int) -> float:
        return (self.input * tokens_in + self.output * tokens_out) / 1_000_000


class Ledger:
    def __init__(
        self, path: Path, prices: Mapping[str, Price], budget: float | None = None, *, sealed: str = ""
    ) -> None:
        """``sealed``: the checksum of the last line that an earlier run left."""
        self.path, self.prices, self.budget, self.journal = path, prices, budget, Journal(path)
        self._changed = asyncio.Condition()
        #: The maximum cost of each request under way.
        self._open: dict[int, float] = {}
        #: By model: requests, tokens in, tokens out; of answers, and of requests without one.
        self._total: dict[str, tuple[int, int, int]] = dict.fromkeys(prices, (0, 0, 0))
        begun = {entry["request"]: entry for entry in Log(path).entries(sealed)}
        self._number = max(begun, default=0)
        for entry in begun.values():
            self._count(entry["model"], entry["in"], entry["out"])

    def _count(self, model: str, tokens_in: int, tokens_out: int) -> None:
        requests, total_in, total_out = self._total.get(model, (0, 0, 0))
        self._total[model] = requests + 1, total_in + tokens_in, total_out + tokens_out

    @property
    def spent(self) -> float:
        """The cost of all tokens so far; summed over tokens, so that rounding does not add up."""
        return sum(self.prices.get(model, Price()).of(*tokens) for model, (_, *tokens) in self._total.items())

    def totals(self) -> tuple[int, int, int]:
        """Requests, tokens in and tokens out, of all models and runs."""
        requests, tokens_in, tokens_out = map(sum, zip(*self._total.values(), strict=True))
        return requests, tokens_in, tokens_out

    async def reserve(self, model: str, tokens_in: int, tokens_out: int) -> int | None:
        """A number for the request; None where the budget would be exceeded even after all under way have ended."""
        cost = self.prices[model].of(tokens_in, tokens_out)
        async with self._changed:
            while self.budget is not None and self.spent + sum(self._open.values()) + cost > self.budget:
                if not self._open:
                    return None
                await self._changed.wait()
            number = self._number = self._number + 1
            self._open[number] = cost
        try:
            await self.journal.add(_line(number, model, tokens_in, tokens_out))
        except BaseException:  # nothing is sent; others would wait for its end
            async with self._changed:
                del self._open[number]
                self._changed.notify_all()
            raise
        return number

    async def close(self, number: int, model: str, tokens_in: int, tokens_out: int) -> None:
        """Replace the reservation by the actual tokens."""
        self.journal.note(_line(number, model, tokens_in, tokens_out))
        async with self._changed:
            del self._open[number]
            self._count(model, tokens_in, tokens_out)
            self._changed.notify_all()

    def add_batch(self, requests: Sequence[tuple[str, int, int]]) -> None:
        """Write down the models and tokens of requests that a batch service has sent."""
        Log(self.path).append([_line(number, *each) for number, each in enumerate(requests, self._number + 1)])


def _line(number: int, model: str, tokens_in: int, tokens_out: int) -> dict[str, Any]:
    return {"request": number, "model": model, "in": tokens_in, "out": tokens_out}


def usage_of(body: Mapping[str, Any]) -> tuple[int, int] | None:
    """Tokens in and out as counted by the server; None where it reports none, or numbers that cannot be."""
    usage = body.get("usage")
    names = ("prompt_tokens", "completion_tokens")
    found = [usage.get(name) for name in names] if isinstance(usage, dict) else []
    counted = [value for value in found if type(value) is int and 0 <= value <= MOST_TOKENS]
    return (counted[0], counted[1]) if len(counted) == 2 else None
