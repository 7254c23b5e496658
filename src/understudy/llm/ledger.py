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
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from understudy.errors import UnderstudyError
from understudy.store.log import Log


class Journal:
    def __init__(self, path: Path) -> None:
        self._log = Log(path)
        self._waiting: list[tuple[Mapping[str, Any], asyncio.Future[None]]] = []
        self._writing: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._log.append([])
        return self

    async def __aexit__(self, *error: object) -> None:
        if self._writing is not None:
            await asyncio.wait([self._writing])

    async def add(self, entry: Mapping[str, Any]) -> None:
        """Returns when the line is on the disk, even where the coroutine that waits is cancelled."""
        written = self._enter(entry)
        await asyncio.shield(written)

    def note(self, entry: Mapping[str, Any]) -> None:
        """A line that may be lost with the power: no coroutine waits for it."""
        self._enter(entry).add_done_callback(lambda written: written.cancelled() or written.exception())

    def _enter(self, entry: Mapping[str, Any]) -> "asyncio.Future[None]":
        written = asyncio.get_running_loop().create_future()
        self._waiting.append((dict(entry), written))
        if self._writing is None or self._writing.done():
            self._writing = asyncio.create_task(self._write())
        return written

    async def _write(self) -> None:
        while self._waiting:
            lines, self._waiting = self._waiting, []
            try:
                await asyncio.to_thread(self._log.append, [entry for entry, _ in lines])
            except UnderstudyError as error:
                for _, written in lines:
                    if not written.done():
                        written.set_exception(error)
                continue
            for _, written in lines:
                if not written.done():
                    written.set_result(None)


_MILLION = 1_000_000


@dataclass(frozen=True)
class Price:
    """Of a million tokens, in any currency."""

    input: float = 0.0
    output: float = 0.0

    def of(self, tokens_in: int, tokens_out: int) -> float:
        return (self.input * tokens_in + self.output * tokens_out) / _MILLION


@dataclass
class Tally:
    """Tokens of one model: of answers, of requests without one, and of those under way."""

    requests: int = 0
    tokens_in: int = 0
    tokens_out: int = 0


class Ledger:
    def __init__(self, path: Path, prices: Mapping[str, Price], budget: float | None = None) -> None:
        self.path, self.prices, self.budget = path, prices, budget
        self.open = 0
        self.total = {model: Tally() for model in prices}
        self._reserved = 0.0
        self._number = 0
        self._changed = asyncio.Condition()
        self.journal = Journal(path)
        self._read()

    def _read(self) -> None:
        begun: dict[int, tuple[str, int, int]] = {}
        for entry in Log(self.path).entries():
            number, model = int(entry["request"]), str(entry["model"])
            self._number = max(self._number, number)
            begun[number] = (model, int(entry["in"]), int(entry["out"]))
        for model, tokens_in, tokens_out in begun.values():
            self._count(model, tokens_in, tokens_out)

    def _count(self, model: str, tokens_in: int, tokens_out: int) -> None:
        tally = self.total.setdefault(model, Tally())
        tally.requests += 1
        tally.tokens_in += tokens_in
        tally.tokens_out += tokens_out

    @property
    def spent(self) -> float:
        """The cost of all tokens so far; summed over tokens, so that rounding does not add up."""
        unpriced = Price()
        return sum(
            self.prices.get(model, unpriced).of(tally.tokens_in, tally.tokens_out)
            for model, tally in self.total.items()
        )

    def totals(self) -> tuple[int, int, int]:
        """Requests, tokens in and tokens out, of all models and runs."""
        tallies = self.total.values()
        requests = sum(tally.requests for tally in tallies)
        return requests, sum(tally.tokens_in for tally in tallies), sum(tally.tokens_out for tally in tallies)

    async def reserve(self, model: str, tokens_in: int, tokens_out: int) -> "Reservation | None":
        """None where the budget would be exceeded even after everything under way has ended."""
        cost = self.prices[model].of(tokens_in, tokens_out)
        async with self._changed:
            while self.budget is not None and self.spent + self._reserved + cost > self.budget:
                if not self.open:
                    return None
                await self._changed.wait()
            self._reserved, self.open, self._number = self._reserved + cost, self.open + 1, self._number + 1
            reservation = Reservation(self._number, model, tokens_in, tokens_out, cost)
        await self.journal.add(reservation.line(tokens_in, tokens_out))
        return reservation

    def note(self, model: str, tokens_in: int, tokens_out: int) -> None:
        """Count a request that a batch service has sent."""
        self._number += 1
        self.journal.note(Reservation(self._number, model, 0, 0, 0.0).line(tokens_in, tokens_out))
        self._count(model, tokens_in, tokens_out)

    async def close(self, reservation: "Reservation", tokens_in: int, tokens_out: int) -> None:
        """Replace the reservation by the actual tokens."""
        self.journal.note(reservation.line(tokens_in, tokens_out))
        async with self._changed:
            self.open -= 1
            self._reserved = self._reserved - reservation.cost if self.open else 0.0  # rounding adds up
            self._count(reservation.model, tokens_in, tokens_out)
            self._changed.notify_all()


@dataclass(frozen=True)
class Reservation:
    number: int
    model: str
    tokens_in: int
    tokens_out: int
    cost: float

    def line(self, tokens_in: int, tokens_out: int) -> dict[str, Any]:
        return {"request": self.number, "model": self.model, "in": tokens_in, "out": tokens_out}


def usage_of(body: Mapping[str, Any]) -> tuple[int, int] | None:
    """Tokens in and out as counted by the server; None where it reports none."""
    usage = body.get("usage")
    names = ("prompt_tokens", "completion_tokens")
    found = [usage.get(name) for name in names] if isinstance(usage, dict) else []
    counted = [value for value in found if isinstance(value, int) and not isinstance(value, bool) and value >= 0]
    return (counted[0], counted[1]) if len(counted) == 2 else None
