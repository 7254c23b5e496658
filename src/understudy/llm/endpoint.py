"""One model at one server: sends a request's body, returns the response's body or raises what went wrong.

The client is OpenAI's own, with its retries off: ours are counted, budgeted and written down. The key comes from the
environment, is in a header and nowhere else: it is cut out of every message of a server. OpenAI's key goes to OpenAI
alone, unless its variable is named.
"""

import asyncio
import json
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import urlsplit

from understudy.errors import UnderstudyError, first_line, warn

KEY, OPENAI = "OPENAI_API_KEY", "https://api.openai.com/v1"
_LOCAL = ("localhost", "127.0.0.1", "::1")
# Overload: refused before any work was done, so free.
_FREE = {503, 529}
_LONGEST_WAIT = 3600.0
_SECRET = 8
"""Least length of a real key. Shorter ones ("none", "EMPTY") are for servers without keys, and may occur in answers."""


@dataclass(eq=False)
class RefusedError(Exception):
    """The server refused the request: a 4xx, or an overload."""

    status: int
    message: str
    wait: float | None = None
    """Seconds until the next try, where the server gives them."""

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
