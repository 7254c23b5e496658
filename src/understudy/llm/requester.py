"""Requests to one model, repeated until each row has its answers.

Temporary failures (429, a server error, a cut connection, a time-out) are retried with jittered exponential backoff;
where the server gives a time, all requests to it wait that long. Everything that was sent is in the ledger, every
answer in the journal before it counts.
"""

import asyncio
import json
import random
import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self

from understudy.llm.endpoint import Endpoint, LostError, RefusedError
from understudy.llm.journal import Journal
from understudy.llm.ledger import Ledger, usage_of
from understudy.llm.prompt import Prompt, Row
from understudy.llm.request import RequestOptions, ServerFeatures, most_tokens, request_body

_LONGEST_PAUSE = 60.0
_TICK = 0.2
# Consecutive rows without an answer after which no more requests are sent.
FAILURES = 10


@dataclass
class PendingRow:
    """A row without all its answers: its id, and how many choices it lacks."""

    name: str | int
    row: Row
    pin: str
    """A fingerprint of the row, stored with its answers."""
    wanted: int


class StopRequestsError(Exception):
    """Nothing more is to be sent; the reason."""


@dataclass
class Requester:
    endpoint: Endpoint
    prompt: Prompt
    options: RequestOptions
    ledger: Ledger
    answers: Path
    features: ServerFeatures
    known: bool = False
    """Whether it is known which fields the server accepts."""
    stopping: Callable[[], bool] = lambda: False
    remember: Callable[[ServerFeatures], None] = lambda features: None
    """Called with the fields that the server accepts, for the next run."""
    lost: Counter[str] = field(default_factory=Counter)
    """Failed requests, by reason."""
    waiting: float = 0.0
    """Monotonic time before which nothing is sent."""
    _in_a_row: int = 0
    _first: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def __aenter__(self) -> Self:
        self._stack = AsyncExitStack()
        self.journal = await self._stack.enter_async_context(Journal(self.answers))
        await self._stack.enter_async_context(self.endpoint)
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._stack.aclose()

    def body(self, row: Row, choices: int) -> dict[str, Any]:
        return request_body(self.endpoint.model, self.prompt, self.options, self.features, row, choices)

    async def ask(self, pending: PendingRow) -> bool:
        """Repeats until all choices are in the journal; False where the row has to wait for another run."""
        if not self.known:
            async with self._first:  # one at a time, until the accepted fields are known
                if not self.known:
                    return await self._ask(pending)
        return await self._ask(pending)

    async def _ask(self, pending: PendingRow) -> bool:
        while pending.wanted > 0:
            wanted, several = pending.wanted, self.features.several
            if not await self._until_answered(pending):
                return False
            if several and 0 < pending.wanted < wanted:  # n is accepted and ignored
                self.features = replace(self.features, several=False)
                self.remember(self.features)
        return True

    async def _until_answered(self, pending: PendingRow) -> bool:
        why = ""
        for attempt in range(self.options.retries + 1):
            if attempt:
                await self._sleep(self._pause(attempt))
            await self._sleep(self.waiting - time.monotonic(), spread=True)
            if self.stopping():
                return False
            try:
                answered = await self._once(pending)
            except RefusedError as error:
                if error.is_final:
                    raise StopRequestsError(self._final(error)) from None
                if not error.passes:
                    return await self._refused_for_good(pending, error)
                why = f"status {error.status}"
                self._lost(why, error.wait)
            except LostError as error:
                why = error.kind
                self._lost(why, error.wait)
            else:
                self._in_a_row = 0
                return answered
        return self._give_up(pending, why)

    async def _once(self, pending: PendingRow) -> bool:
        """One request, or several while the accepted fields are not known."""
        while True:
            if self.stopping():
                return False
            body = self.body(pending.row, pending.wanted if self.features.several else 1)
            try:
                response = await self._send(body)
            except RefusedError as error:
                less = None if self.known or error.passes or error.is_final else self._less(error, body)
                if less is None:
                    raise
                self.features = less
                continue
            if not self.known:
                self.known = True
                self.remember(self.features)
            await self._keep(pending, response)
            pending.wanted -= len(response["choices"])
            return True

    def _less(self, error: RefusedError, body: Mapping[str, Any]) -> ServerFeatures | None:
        return self.features.without_refused(error.message, body) if error.status in (400, 422, 501) else None

    async def _send(self, body: Mapping[str, Any]) -> dict[str, Any]:
        extra = len(json.dumps(body.get("response_format", "")))
        most_in, most_out = most_tokens(body["messages"], extra=extra), self.options.max_tokens * body.get("n", 1)
        reservation = await self.ledger.reserve(self.endpoint.model, most_in, most_out)
        if reservation is None:
            raise StopRequestsError("budget")
        used = 0, 0
        try:
            if self.stopping():
                raise StopRequestsError("interrupted")
            used = most_in, most_out
            response = await self.endpoint.send(body)
            used = usage_of(response) or used
            return response
        except RefusedError:
            used = 0, 0
            raise
        except LostError as error:
            used = used if error.paid else (0, 0)
            raise
        finally:
            await self.ledger.close(reservation, *used)

    async def _keep(self, pending: PendingRow, response: dict[str, Any]) -> None:
        line = {"custom_id": pending.name, "row": pending.pin, "model": self.endpoint.model}
        await self.journal.add({**line, "response": {"status_code": 200, "body": response}, "error": None})

    async def _refused_for_good(self, pending: PendingRow, error: RefusedError) -> bool:
        """This row will never be accepted (it is too long, say): the refusal is stored as its answer."""
        if not self.known:
            self._in_a_row += 1
            if self._in_a_row >= 3:
                raise StopRequestsError(self._final(error))
        line = {"custom_id": pending.name, "row": pending.pin, "model": self.endpoint.model}
        body = {"error": {"message": error.message}}
        await self.journal.add({**line, "response": {"status_code": error.status, "body": body}, "error": None})
        pending.wanted = 0
        return True

    def _final(self, error: RefusedError) -> str:
        key = "check the key in the variable that --key-env names"
        cure = {401: key, 403: key, 404: "check --model and --base-url"}.get(error.status)
        refusal = f"{self.endpoint.base_url} refused {self.endpoint.model} (status {error.status}: {error.message})"
        return f"{refusal}; {cure or 'nothing more was sent'}"

    def _lost(self, kind: str, wait: float | None) -> None:
        self.lost[kind] += 1
        if wait is not None:
            self.waiting = max(self.waiting, time.monotonic() + wait)

    def _give_up(self, pending: PendingRow, why: str) -> bool:
        self._in_a_row += 1
        if self._in_a_row >= FAILURES:
            raise StopRequestsError(
                f"{self.endpoint.base_url} failed {FAILURES} rows in a row ({why}); nothing more was sent: check the "
                "server, then repeat the command"
            )
        return False

    def _pause(self, attempt: int) -> float:
        return min(_LONGEST_PAUSE, self.options.pause * 2.0 ** (attempt - 1)) * random.uniform(0.5, 1.5)

    async def _sleep(self, seconds: float, *, spread: bool = False) -> None:
        """``spread``: with jitter, so that waiting requests do not all start at once."""
        if seconds <= 0:
            return
        end = time.monotonic() + seconds + (random.uniform(0, self.options.pause) if spread else 0.0)
        while (left := end - time.monotonic()) > 0 and not self.stopping():
            await asyncio.sleep(min(left, _TICK))
