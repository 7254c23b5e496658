"""Requests to one model, repeated until each row has its answers.

Temporary failures (429, a server error, a cut connection, a time-out) are retried with jittered exponential backoff;
where the server gives a time, all requests to it wait that long. Everything that was sent is in the ledger, every
answer in the journal before it counts.

An endpoint is one model at one server: it sends a request's body, and returns the response's body or raises what went
wrong. Retries are counted, budgeted and written down. The key comes from the environment, is in a header and nowhere
else: it is cut out of every message of a server. OpenAI's key goes to OpenAI alone, unless its variable is named.
"""

import asyncio
import json
import os
import random
import re
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import urlsplit

from understudy.errors import UnderstudyError, first_line, optional, warn
from understudy.llm.answer_folder import AskFolder, answer_line
from understudy.llm.ledger import Journal, Ledger, usage_of
from understudy.llm.request import OPENAI, AskPlan, LabelModel, Row, most_tokens, request_body

KEY = "OPENAI_API_KEY"
_LOCAL = ("localhost", "127.0.0.1", "::1")
# Overload: refused before any work was done, so free.
_FREE = {503, 529}
_LONGEST_WAIT = 3600.0
# Seconds to wait for a connection.
_CONNECT = 10.0
NO_CONNECTION, TIME_OUT = "no connection", "time-out"
#: Least length of a real key. Shorter ones ("none", "EMPTY") are for servers without keys, and may occur in answers.
_SECRET = 8
#: Of a response; its line in the file of answers then stays readable (``labels/answer_lines.py``).
MOST_BYTES = 1 << 23


@dataclass(eq=False)
class RequestError(Exception):
    """A request without an answer: refused (a 4xx, or an overload) or lost."""

    kind: str
    message: str
    #: Of a refusal.
    status: int | None = None
    #: Seconds until the next try, where the server gives them.
    wait: float | None = None
    #: Whether it may be charged all the same.
    paid: bool = True

    @property
    def passes(self) -> bool:
        """Whether the same request may succeed later."""
        return self.status is None or self.status in (408, 409, 425, 429, *_FREE)

    @property
    def is_final(self) -> bool:
        """Whether no request will be accepted: no key, no credit, no such model."""
        spent = self.status == 429 and "insufficient_quota" in self.message
        return spent or self.status in (401, 402, 403, 404, 405)


class Endpoint:
    def __init__(self, model: LabelModel, timeout: float) -> None:
        self.model, self.timeout = model, timeout
        key = read_key(model.base_url, model.key_env)
        # Every letter as it is or as JSON may escape it, also in JSON within JSON; "(?!)" matches nothing.
        plain = [r"(?<=\\)" if letter == "\\" else re.escape(letter) for letter in key]
        letters = [rf"\\*+(?:{same}|u(?i:{ord(letter):04x}))" for same, letter in zip(plain, key, strict=True)]
        self._secret = re.compile(r"(?<!\\)" + "".join(letters) if len(letters) >= _SECRET else "(?!)")
        self._httpx = optional("httpx2", "asking an LLM needs httpx2", "llm")

        # A server that is not there is found out in seconds, however long its answers may take.
        waits = self._httpx.Timeout(timeout, connect=min(timeout, _CONNECT))
        #: To be entered and left with all requests.
        self.client = self._httpx.AsyncClient(
            headers={"Authorization": f"Bearer {key or 'none'}"}, timeout=waits, follow_redirects=True,
            limits=self._httpx.Limits(max_connections=None),
        )  # fmt: skip

    async def send(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """The response's body, with at least one choice; or a RequestError."""
        httpx = self._httpx
        try:
            async with asyncio.timeout(self.timeout):  # of the request, and not of each read
                response, content = await self._post(body)
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:
            raise RequestError(NO_CONNECTION, self._clean(first_line(error)), paid=False) from None
        except (TimeoutError, httpx.TimeoutException):
            raise RequestError(TIME_OUT, f"no answer within {self.timeout:g} s") from None
        except httpx.HTTPError as error:
            raise RequestError("connection cut", self._clean(first_line(error))) from None
        text = content.decode(errors="replace")  # half a letter loses no answer
        if response.is_error:
            raise self._refused(response, text)
        try:
            answer = json.loads(self._clean(text), parse_int=_whole_number)
        except (ValueError, RecursionError) as error:
            raise RequestError("broken answer", self._clean(first_line(error))) from None
        if not isinstance(answer, dict) or not isinstance(answer.get("choices"), list) or not answer["choices"]:
            raise RequestError("broken answer", "not a chat completion")
        return answer

    async def _post(self, body: Mapping[str, Any]) -> tuple[Any, bytes]:
        """The response, and its body up to ``MOST_BYTES``, unpacked."""
        content = bytearray()
        async with self.client.stream("POST", f"{self.model.base_url}/chat/completions", json=body) as response:
            async for part in response.aiter_bytes():
                content += part
                if len(content) > MOST_BYTES:
                    raise RequestError("broken answer", f"longer than {MOST_BYTES >> 20} MiB")
        return response, bytes(content)

    def _refused(self, response: Any, text: str) -> RequestError:
        status, wait = response.status_code, _retry_after(response.headers)
        message = self._clean(_message(text))[:500]
        if status < 500 or status in _FREE:
            return RequestError(f"status {status}", message, status, wait, paid=False)
        return RequestError("server error", f"status {status}: {message}", wait=wait)

    def _clean(self, text: str) -> str:
        return self._secret.sub("…", text)


def _whole_number(digits: str) -> int | float:
    """Python refuses to read digits by the thousand, which no answer needs."""
    return int(digits) if len(digits) < 20 else float(digits)


def read_key(base_url: str, key_env: str | None) -> str:
    """The key from the environment; "" where none is needed."""
    try:
        parts = urlsplit(base_url)
        host, _ = parts.hostname, parts.port
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
    if not (key.isascii() and key.isprintable()):
        raise UnderstudyError(f"{name} in the environment holds letters that no key has; copy it again")
    if key and parts.scheme == "http" and host not in _LOCAL:
        warn(f"the key is sent to {host} unencrypted; use https, or a tunnel")
    return key


def _message(text: str) -> str:
    """The server's message, JSON or text, in one line."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        found = None
    error = found.get("error", found) if isinstance(found, dict) else None
    if isinstance(error, dict):
        message, code = error.get("message") or error.get("detail") or error, error.get("code")
        text = f"{message if isinstance(message, str) else json.dumps(message)}{f' ({code})' if code else ''}"
    return " ".join(text.split()) or "no message"


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


#: Seconds before the first retry.
PAUSE = 0.5
_LONGEST_PAUSE = 60.0
_TICK = 0.2
# Consecutive rows without an answer after which no more requests are sent; one where the server never gave any.
FAILURES = 10


@dataclass
class PendingRow:
    """A row without all its answers: its id, and how many choices it lacks."""

    name: str | int
    row: Row
    #: A fingerprint of the row, stored with its answers.
    pin: str
    wanted: int
    #: The last response, once it is in the journal.
    response: dict[str, Any] | None = None


class StopRequestsError(Exception):
    """Nothing more is to be sent; the reason."""


class Requester:
    """Requests to the model of this number in the plan."""

    def __init__(
        self, plan: AskPlan, number: int, folder: AskFolder, ledger: Ledger, stopping: Callable[[], bool]
    ) -> None:
        self.plan, self.model, self.folder, self.ledger, self.stopping = (
            plan, plan.models[number], folder, ledger, stopping,
        )  # fmt: skip
        self.endpoint, self.journal = Endpoint(self.model, plan.options.timeout), Journal(folder.answers(number))
        known = folder.features(self.model)
        #: Whether it is known which fields the server accepts.
        self.known, self.features = known is not None, known or plan.features
        #: Failed requests, by reason.
        self.lost: Counter[str] = Counter()
        #: Monotonic time before which nothing is sent.
        self._waiting = 0.0
        #: Whether the server has answered in this run.
        self._answered = False
        self._in_a_row = 0
        self._first = asyncio.Lock()

    async def ask(self, pending: PendingRow) -> bool:
        """Repeats until all choices are in the journal; False where the row has to wait for another run."""
        if not self.known:
            async with self._first:  # one at a time, until the accepted fields are known
                if not self.known:
                    return await self._ask(pending)
        return await self._ask(pending)

    async def _ask(self, pending: PendingRow) -> bool:
        failed = 0
        while pending.wanted > 0:
            await self._sleep(self._waiting - time.monotonic(), spread=PAUSE)
            if self.stopping():
                return False
            choices = pending.wanted if self.features.several else 1
            body = request_body(self.plan, self.model.name, self.features, pending.row, choices)
            try:
                response = await self._send(body)
            except RequestError as error:
                less = None
                if not self.known and error.status in (400, 422, 501):
                    less = self.features.without_refused(error.message, body)
                if less is not None:
                    self.features = less
                    continue
                failed += 1
                if not await self._retries(pending, error, failed):
                    return pending.wanted == 0
                continue
            self._answered, failed, self._in_a_row = True, 0, 0
            ignored = len(response["choices"]) < choices  # n is accepted and ignored
            if ignored or not self.known:
                self.known, self.features = True, replace(self.features, several=self.features.several and not ignored)
                self.folder.remember(self.model, self.features)
            await self.journal.add(answer_line(pending.name, pending.pin, self.model.name, response))
            pending.wanted, pending.response = pending.wanted - len(response["choices"]), response
        return True

    async def _retries(self, pending: PendingRow, error: RequestError, failed: int) -> bool:
        """Whether to send the request again, after a pause."""
        if error.is_final:
            raise StopRequestsError(self._final(error))
        if not error.passes:  # ever (the row is too long, say): the refusal is stored as its answer
            self._in_a_row += not self.known
            if not self.known and self._in_a_row >= 3:
                raise StopRequestsError(self._final(error))
            body = {"error": {"message": error.message}}
            await self.journal.add(answer_line(pending.name, pending.pin, self.model.name, body, error.status))
            pending.wanted = 0
            return False
        if error.kind == NO_CONNECTION and not self._answered:
            raise StopRequestsError(f"cannot reach {self.model.base_url} ({error.message}); is it running?")
        if error.kind == TIME_OUT and not self._answered:  # repeating it takes as long each time, and may be charged
            hung = f"{self.model.base_url} takes requests and has never answered ({error.message})"
            raise StopRequestsError(f"{hung}; check it, or give a slow one more time: --timeout")
        if not self._answered and not self.lost:
            warn(f"{self.model.base_url} has not answered yet ({error.kind}: {error.message}); the request is repeated")
        self.lost[error.kind] += 1
        if error.wait is not None:
            self._waiting = max(self._waiting, time.monotonic() + error.wait)
        if failed <= self.plan.options.retries:
            await self._sleep(min(_LONGEST_PAUSE, PAUSE * 2.0 ** (failed - 1)) * random.uniform(0.5, 1.5))
            return True
        self._in_a_row += 1
        if self._in_a_row >= FAILURES or not self._answered:
            rows = f"failed {FAILURES} rows in a row" if self._answered else f"failed {failed} times, answered never"
            server = f"{self.model.base_url} {rows} ({error.kind}: {error.message})"
            raise StopRequestsError(f"{server}; nothing more was sent: check the server, then repeat the command")
        return False

    async def _send(self, body: Mapping[str, Any]) -> dict[str, Any]:
        extra = len(json.dumps(body.get("response_format", "")))
        most = most_tokens(body["messages"], extra=extra), self.plan.max_tokens * body.get("n", 1)
        number = await self.ledger.reserve(self.model.name, *most)
        if number is None:
            raise StopRequestsError("budget")
        used = 0, 0
        try:
            if self.stopping():
                raise StopRequestsError("interrupted")
            used = most
            response = await self.endpoint.send(body)
            used = usage_of(response) or most
            return response
        except RequestError as error:
            used = most if error.paid else (0, 0)
            raise
        finally:
            await self.ledger.close(number, self.model.name, *used)

    def _final(self, error: RequestError) -> str:
        key = "check the key in the variable that --key-env names"
        cure = {401: key, 403: key, 404: "check --model and --base-url"}.get(error.status or 0, "nothing more was sent")
        return f"{self.model.base_url} refused {self.model.name} (status {error.status}: {error.message}); {cure}"

    async def _sleep(self, seconds: float, spread: float = 0.0) -> None:
        """``spread``: seconds of jitter, so that waiting requests do not all start at once."""
        end = time.monotonic() + seconds + random.uniform(0, spread) if seconds > 0 else 0.0
        while (left := end - time.monotonic()) > 0 and not self.stopping():
            await asyncio.sleep(min(left, _TICK))
