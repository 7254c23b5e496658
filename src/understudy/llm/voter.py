"""One model that is asked: what a request to it looks like, and asking until there is an answer.

Requests that fail for a while (429, a server's error, a cut connection, a time-out) are sent again after a pause that
doubles, with chance in it; where the server says how long, all that go to it wait so long. Everything that was sent is
in the ledger, every answer in the journal before it counts.
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

from understudy.errors import UnderstudyError
from understudy.llm.endpoint import Endpoint, LostError, RefusedError
from understudy.llm.features import Features
from understudy.llm.journal import Journal
from understudy.llm.ledger import Ledger, usage_of
from understudy.llm.prompt import FIELD, Prompt, Row
from understudy.llm.tokens import at_most

_LONGEST_PAUSE = 60.0
_TICK = 0.2
# Rows in a row that were given up: more of the same would only cost time.
FAILURES = 10


@dataclass(frozen=True)
class Manner:
    """How every model is asked."""

    votes: int = 1
    temperature: float = 0.0
    max_tokens: int = 32
    retries: int = 8
    pause: float = 0.5
    """Seconds before the first repetition."""


@dataclass
class Asked:
    """One row that is to be asked: under which name, and how many choices are still wanted."""

    name: str | int
    row: Row
    pin: str
    """A fingerprint of the row, kept beside its answers."""
    wanted: int


class StopAskingError(Exception):
    """Nothing more is to be sent; why."""


@dataclass
class Voter:
    endpoint: Endpoint
    prompt: Prompt
    manner: Manner
    ledger: Ledger
    answers: Path
    features: Features
    known: bool = False
    """Whether the server has shown what it takes."""
    stopping: Callable[[], bool] = lambda: False
    remember: Callable[[Features], None] = lambda features: None
    """Told what the server takes, for the next run."""
    lost: Counter[str] = field(default_factory=Counter)
    """Requests that were sent in vain, by what happened."""
    given_up: dict[str, str] = field(default_factory=dict)
    """Rows without an answer, and why."""
    waiting: float = 0.0
    """Until when (monotonic) nothing is sent."""
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
        return request_body(self.endpoint.model, self.prompt, self.manner, self.features, row, choices)

    async def ask(self, asked: Asked) -> bool:
        """Until all choices that are wanted are in the journal; False where the row has to wait for another run."""
        if not self.known:
            async with self._first:  # one at a time, until the server has shown what it takes
                if not self.known:
                    return await self._ask(asked)
        return await self._ask(asked)

    async def _ask(self, asked: Asked) -> bool:
        while asked.wanted > 0:
            wanted, several = asked.wanted, self.features.several
            if not await self._until_answered(asked):
                return False
            if several and 0 < asked.wanted < wanted:  # it takes n and does not heed it
                self.features = replace(self.features, several=False)
                self.remember(self.features)
        return True

    async def _until_answered(self, asked: Asked) -> bool:
        why = ""
        for attempt in range(self.manner.retries + 1):
            if attempt:
                await self._sleep(self._pause(attempt))
            await self._sleep(self.waiting - time.monotonic(), spread=True)
            if self.stopping():
                return False
            try:
                answered = await self._once(asked)
            except RefusedError as error:
                if error.is_final:
                    raise StopAskingError(self._final(error)) from None
                if not error.passes:
                    return await self._refused_for_good(asked, error)
                why = f"status {error.status}"
                self._lost(why, error.wait)
            except LostError as error:
                why = error.kind
                self._lost(why, error.wait)
            else:
                self._in_a_row = 0
                return answered
        return self._give_up(asked, why)

    async def _once(self, asked: Asked) -> bool:
        """One request, or several to a server that has yet to show what it takes."""
        while True:
            if self.stopping():
                return False
            body = self.body(asked.row, asked.wanted if self.features.several else 1)
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
            await self._keep(asked, response)
            asked.wanted -= len(response["choices"])
            return True

    def _less(self, error: RefusedError, body: Mapping[str, Any]) -> Features | None:
        return self.features.without_refused(error.said, body) if error.status in (400, 422, 501) else None

    async def _send(self, body: Mapping[str, Any]) -> dict[str, Any]:
        beside = len(json.dumps(body.get("response_format", "")))
        most_in, most_out = at_most(body["messages"], beside=beside), self.manner.max_tokens * body.get("n", 1)
        reservation = await self.ledger.reserve(self.endpoint.model, most_in, most_out)
        if reservation is None:
            raise StopAskingError("budget")
        took = 0, 0
        try:
            if self.stopping():
                raise StopAskingError("interrupted")
            took = most_in, most_out
            response = await self.endpoint.send(body)
            took = usage_of(response) or took
            return response
        except RefusedError:
            took = 0, 0
            raise
        except LostError as error:
            took = took if error.paid else (0, 0)
            raise
        finally:
            await self.ledger.settle(reservation, *took)

    async def _keep(self, asked: Asked, response: dict[str, Any]) -> None:
        line = {"custom_id": asked.name, "row": asked.pin, "model": self.endpoint.model}
        await self.journal.add({**line, "response": {"status_code": 200, "body": response}, "error": None})

    async def _refused_for_good(self, asked: Asked, error: RefusedError) -> bool:
        """This row will never be taken (too long, say): that is an answer too, and is not asked for again."""
        if not self.known:
            self._in_a_row += 1
            if self._in_a_row >= 3:
                raise StopAskingError(self._final(error))
        line = {"custom_id": asked.name, "row": asked.pin, "model": self.endpoint.model}
        body = {"error": {"message": error.said}}
        await self.journal.add({**line, "response": {"status_code": error.status, "body": body}, "error": None})
        asked.wanted = 0
        return True

    def _final(self, error: RefusedError) -> str:
        key = "check the key in the variable that --key-env names"
        cure = {401: key, 403: key, 404: "check --model and --base-url"}.get(error.status)
        words = f"{self.endpoint.base_url} refused {self.endpoint.model} (status {error.status}: {error.said})"
        return f"{words}; {cure or 'nothing more was sent'}"

    def _lost(self, kind: str, wait: float | None) -> None:
        self.lost[kind] += 1
        if wait is not None:
            self.waiting = max(self.waiting, time.monotonic() + wait)

    def _give_up(self, asked: Asked, why: str) -> bool:
        self.given_up[str(asked.name)] = why
        self._in_a_row += 1
        if self._in_a_row >= FAILURES:
            raise StopAskingError(
                f"{self.endpoint.base_url} failed {FAILURES} rows in a row ({why}); nothing more was sent: look after "
                "the server, then repeat the command"
            )
        return False

    def _pause(self, attempt: int) -> float:
        return min(_LONGEST_PAUSE, self.manner.pause * 2.0 ** (attempt - 1)) * random.uniform(0.5, 1.5)

    async def _sleep(self, seconds: float, *, spread: bool = False) -> None:
        """``spread``: those who wait for the same moment do not all come at once."""
        if seconds <= 0:
            return
        end = time.monotonic() + seconds + (random.uniform(0, self.manner.pause) if spread else 0.0)
        while (left := end - time.monotonic()) > 0 and not self.stopping():
            await asyncio.sleep(min(left, _TICK))


def request_body(
    model: str, prompt: Prompt, manner: Manner, features: Features, row: Row, choices: int
) -> dict[str, Any]:
    """Of one request, about one row."""
    body: dict[str, Any] = {
        "model": model,
        "messages": prompt.messages(row, structured=features.structured, system=features.system),
        features.limit: manner.max_tokens,
    }
    if features.temperature:
        body["temperature"] = manner.temperature
    if choices > 1:
        body["n"] = choices
    if features.logprobs:
        body |= {"logprobs": True, "top_logprobs": features.logprobs}
    if features.structured:
        body["response_format"] = schema([each.name for each in prompt.classes])
    return body


def schema(names: list[str]) -> dict[str, Any]:
    """Answers held to an object with one entry, which is one of the names."""
    entry = {"type": "string", "enum": names}
    shape = {"type": "object", "properties": {FIELD: entry}, "required": [FIELD], "additionalProperties": False}
    return {"type": "json_schema", "json_schema": {"name": "answer", "strict": True, "schema": shape}}


def checked_manner(votes: int, temperature: float | None, max_tokens: int | None, retries: int, longest: int) -> Manner:
    """``longest``: bytes of the longest class name."""
    if votes < 1 or retries < 0:
        raise UnderstudyError(f"votes={votes} must be 1 or more, retries={retries} 0 or more")
    if temperature is None:
        temperature = 0.0 if votes == 1 else 1.0
    if votes > 1 and temperature == 0:
        raise UnderstudyError(f"votes={votes} at temperature 0 would be the same answer each time; use a temperature")
    tokens = max(32, 24 + longest) if max_tokens is None else max_tokens
    if tokens < 1 or not 0 <= temperature <= 2:
        raise UnderstudyError(f"max_tokens={tokens} must be 1 or more, temperature={temperature} 0 to 2")
    return Manner(votes, temperature, tokens, retries)
