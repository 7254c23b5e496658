"""Requests to one model, repeated until each row has its answers.

Temporary failures (429, a server error, a cut connection, a time-out) are retried with jittered exponential backoff;
where the server gives a time, all requests to it wait that long. Everything that was sent is in the ledger, every
answer in the journal before it counts.

An endpoint is one model at one server: it sends a request's body, and returns the response's body or raises what went
wrong. The client is OpenAI's own, with its retries off: ours are counted, budgeted and written down. The key comes from
the environment, is in a header and nowhere else: it is cut out of every message of a server. OpenAI's key goes to
OpenAI alone, unless its variable is named.
"""

import asyncio
import json
import os
import random
import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit

from understudy.errors import UnderstudyError, first_line, warn
from understudy.llm.ledger import Journal, Ledger, usage_of
from understudy.llm.request import OPENAI, Prompt, RequestOptions, Row, ServerFeatures, most_tokens, request_body

KEY = "OPENAI_API_KEY"
_LOCAL = ("localhost", "127.0.0.1", "::1")
# Overload: refused before any work was done, so free.
_FREE = {503, 529}
_LONGEST_WAIT = 3600.0
#: Least length of a real key. Shorter ones ("none", "EMPTY") are for servers without keys, and may occur in answers.
_SECRET = 8


@dataclass(eq=False)
class RefusedError(Exception):
    """The server refused the request: a 4xx, or an overload."""

    status: int
    message: str
    #: Seconds until the next try, where the server gives them.
    wait: float | None = None

    @property
    def passes(self) -> bool:
        """Whether the same request may be accepted later."""
        return self.status in (408, 409, 425, 429) or self.status in _FREE

    @property
    def is_final(self) -> bool:
        """Whether no request will be accepted: no key, no credit, no such model."""
        spent = self.status == 429 and "insufficient_quota" in self.message
        return spent or self.status in (401, 402, 403, 404, 405)


@dataclass(eq=False)
class LostError(Exception):
    """No complete answer came back; ``paid``: it may be charged all the same."""

    kind: str
    message: str
    paid: bool = True
    wait: float | None = None


class Endpoint:
    def __init__(self, model: str, base_url: str, key_env: str | None = None, *, timeout: float = 60.0) -> None:
        self.model, self.base_url, self.timeout = model, base_url.rstrip("/"), timeout
        self._key = read_key(self.base_url, key_env)
        _openai()  # whether it is there
        self._client: Any = None

    async def __aenter__(self) -> "Endpoint":
        openai = _openai()
        self._client = openai.AsyncOpenAI(
            api_key=self._key or "none", base_url=self.base_url, max_retries=0, timeout=self.timeout
        )
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._client.close()

    async def send(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """The response's body, with at least one choice; RefusedError or LostError."""
        openai = _openai()
        try:
            async with asyncio.timeout(self.timeout):  # of the request, and not of each read
                raw = await self._client.chat.completions.with_raw_response.create(**body)
                content = raw.http_response.content
        except (TimeoutError, openai.APITimeoutError):
            raise LostError("time-out", f"no answer within {self.timeout:g} s") from None
        except openai.APIStatusError as error:
            raise self._refused(error) from None
        except openai.APIConnectionError as error:
            never_sent = type(error.__cause__).__name__ in ("ConnectError", "ConnectTimeout")
            kind = "no connection" if never_sent else "connection cut"
            raise LostError(kind, self._clean(first_line(error.__cause__ or error)), paid=not never_sent) from None
        except openai.OpenAIError as error:
            raise LostError("broken answer", self._clean(first_line(error))) from None
        return self._body(content)

    def _body(self, content: bytes) -> dict[str, Any]:
        try:
            body = json.loads(self._clean(content.decode()))
        except (ValueError, RecursionError):
            body = None
        if not isinstance(body, dict) or not isinstance(body.get("choices"), list) or not body["choices"]:
            raise LostError("broken answer", "not a chat completion")
        return body

    def _refused(self, error: Any) -> RefusedError | LostError:
        wait, message = _retry_after(error.response.headers), self._clean(_message(error))
        if error.status_code < 500 or error.status_code in _FREE:
            return RefusedError(error.status_code, message, wait)
        return LostError("server error", f"status {error.status_code}: {message}", wait=wait)

    def _clean(self, text: str) -> str:
        return text.replace(self._key, "…") if len(self._key) >= _SECRET else text


def read_key(base_url: str, key_env: str | None) -> str:
    """The key from the environment; "" where none is needed."""
    try:
        parts = urlsplit(base_url)
        host = parts.hostname
    except ValueError:
        host = None
    if host is None or parts.scheme not in ("http", "https"):
        raise UnderstudyError(f"--base-url {base_url!r} is not an address; write e.g. http://localhost:8000/v1")
    if parts.username or parts.password or parts.query:
        raise UnderstudyError("--base-url holds a user, a password or a query; keys come from the environment alone")
    name = key_env or (KEY if base_url.rstrip("/") == OPENAI else None)
    key = "" if name is None else os.environ.get(name, "").strip()
    if not key and name is not None:
        raise UnderstudyError(f"the environment has no {name}; set it, or name another with --key-env")
    if key and parts.scheme == "http" and host not in _LOCAL:
        warn(f"the key is sent to {host} unencrypted; use https, or a tunnel")
    return key


def _openai() -> Any:
    try:
        import openai
    except ImportError as error:
        raise UnderstudyError("asking an LLM needs openai: pip install 'understudy[llm]'") from error
    return openai


def _message(error: Any) -> str:
    """The server's message, JSON or text, in one line."""
    found = error.body
    if isinstance(found, dict):
        found = found.get("message") or found.get("detail") or found
        code = error.body.get("code")
        found = f"{found if isinstance(found, str) else json.dumps(found)}{f' ({code})' if code else ''}"
    else:
        try:
            found = error.response.text or error.message
        except Exception:  # a body that was never read
            found = error.message
    return " ".join(str(found).split())[:500]


def _retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds, as a number or until a date."""
    given = headers.get("retry-after")
    if given is None:
        return None
    try:
        seconds = float(given)
    except ValueError:
        try:
            seconds = parsedate_to_datetime(given).timestamp() - time.time()
        except (ValueError, TypeError):
            return None
    return min(max(0.0, seconds), _LONGEST_WAIT) if seconds == seconds else None


_LONGEST_PAUSE = 60.0
_TICK = 0.2
# Consecutive rows without an answer after which no more requests are sent.
FAILURES = 10


@dataclass
class PendingRow:
    """A row without all its answers: its id, and how many choices it lacks."""

    name: str | int
    row: Row
    #: A fingerprint of the row, stored with its answers.
    pin: str
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
    #: Whether it is known which fields the server accepts.
    known: bool = False
    stopping: Callable[[], bool] = lambda: False
    #: Called with the fields that the server accepts, for the next run.
    remember: Callable[[ServerFeatures], None] = lambda features: None
    #: Failed requests, by reason.
    lost: Counter[str] = field(default_factory=Counter)
    #: Monotonic time before which nothing is sent.
    waiting: float = 0.0
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
