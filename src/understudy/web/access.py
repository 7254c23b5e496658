"""Who may send requests to a server of this package, and what its responses forbid browsers.

| what could happen | what stops it |
| --- | --- |
| another program or person on this machine opens the port | a token of 256 bits, compared in constant time |
| the link stays in a history or a log | it only sets a cookie (HttpOnly, SameSite=Strict); nothing logs it |
| another site's page sends requests through your browser | its Origin, Sec-Fetch-Site and missing cookie |
| a site's name is made to point here (DNS rebinding) | the Host header names this machine, or the request is refused |
| a row's text holds markup | texts are set as texts, and the Content-Security-Policy runs no other script |
"""

import hmac
import ipaddress
import os
import secrets
import socket
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response

from understudy.errors import UnderstudyError
from understudy.web.server import LOOPBACK

HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Cache-Control": "no-store",
}
_OPEN = """<!doctype html><html lang="en"><meta charset="utf-8"><title>Understudy</title>
<link rel="icon" href="data:,"><meta http-equiv="refresh" content="0;url=/"><a href="/">Go to the page</a></html>"""
_RAW = [(name.lower().encode(), value.encode()) for name, value in HEADERS.items()]
_OF_DATA = [pair for pair in _RAW if pair[0] in (b"x-content-type-options", b"cache-control")]


class Access(NamedTuple):
    """``tokens``: by their owners; none: every program that reaches the server may send requests."""

    host: str
    tokens: Mapping[str, str]
    cookie: str
    #: What to say to a request without a token.
    stranger: str
    #: Whether browsers alone may send: other programs give no Origin.
    page_only: bool = True
    #: Paths that need no token.
    free: frozenset[str] = frozenset()

    def owner(self, token: str) -> str | None:
        """The owner of a token; all are compared, so that the time taken reveals nothing."""
        given = token.encode("utf-8", "replace")
        same = [name for name, own in self.tokens.items() if hmac.compare_digest(own.encode(), given)]
        return same[0] if same else None

    def refusal(self, method: str, headers: Mapping[str, str]) -> str | None:
        """Why a request is not from the page; None where it may be."""
        host = headers.get("host", "")
        if not self._is_ours(host):
            return "this page is served to the address it was started for"
        site, origin = headers.get("sec-fetch-site"), headers.get("origin")
        # Typed addresses have none; links from elsewhere lead to the page, but not to its data.
        if method != "GET" and site not in (None, "same-origin"):
            return "only the page itself may send answers"
        if origin is not None and origin not in (f"http://{host}", f"https://{host}"):
            return "only the page itself may send requests"
        if self.page_only and method != "GET" and origin is None:
            return "answers come with the Origin header that browsers send"
        if method == "GET" and site in ("cross-site", "same-site") and headers.get("sec-fetch-mode") != "navigate":
            return "other sites may not send requests"
        return None

    def _is_ours(self, header: str) -> bool:
        """The port is left open: a tunnel may change it, and names are what rebinding needs."""
        name = header.rsplit(":", 1)[0] if not header.endswith("]") else header
        name = name.strip("[]").lower()
        if name in LOOPBACK or name == self.host.lower():
            return True
        if self.host in LOOPBACK:
            return False
        # Served to others: an address cannot be rebound, and the machine knows its own name.
        return _is_address(name) or name in _own_names()


@cache
def _own_names() -> tuple[str, str]:
    """Looked up once: the second may take the time of a name server's answer, during which nothing else is served."""
    return socket.gethostname().lower(), socket.getfqdn().lower()


def _is_address(name: str) -> bool:
    with suppress(ValueError):
        return bool(ipaddress.ip_address(name))
    return False


def token_of(secret: bytes, annotator: str) -> str:
    return hmac.new(secret, b"label page\0" + annotator.encode(), "sha256").hexdigest()


def stored_secret(path: Path) -> bytes:
    """Made once, readable by its owner alone."""
    try:
        if not path.exists():
            _make_secret(path)
        secret = path.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise UnderstudyError(f"cannot use the secret {path} of the page's links: {error}; remove it") from error
    if len(secret) != 64:
        raise UnderstudyError(f"{path} does not hold the secret of the page's links; remove it, and links are new")
    return secret.encode()


def _make_secret(path: Path) -> None:
    """Whole under a name of its own, then linked: of two processes that begin at once one is first."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    with os.fdopen(os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "w") as file:
        file.write(secrets.token_hex(32))
    try:
        with suppress(FileExistsError):
            os.link(temporary, path)
    finally:
        temporary.unlink()


class Guard:
    """Lets requests with a token through, and gives every response its headers."""

    def __init__(self, app: Any, access: Access) -> None:
        self.app, self.access = app, access

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        async def send_with_headers(message: Any) -> None:
            if message["type"] == "http.response.start":
                given = dict(message["headers"])
                is_page = self.access.page_only or b"html" in given.get(b"content-type", b"")
                added = _RAW if is_page else _OF_DATA  # a header costs 10 µs
                message["headers"] = [*message["headers"], *(pair for pair in added if pair[0] not in given)]
            await send(message)

        http = scope["type"] == "http"
        refused = self._refused(Request(scope)) if http else None
        await (refused or self.app)(scope, receive, send_with_headers if http else send)

    def _refused(self, request: Request) -> Response | None:
        """What to say instead; None where the request goes on."""
        access, path = self.access, request.scope["path"]
        bearer = request.headers.get("authorization", "")
        if path in access.free or (not access.page_only and access.owner(bearer.removeprefix("Bearer ")) is not None):
            return None  # no browser sends a token of its own accord, whatever a name was made to point to
        why = access.refusal(request.method, request.headers)
        if why is not None:
            return PlainTextResponse(why, 403)
        if not access.tokens:
            return None
        opens = path.startswith("/open/") and request.method == "GET"
        owner = access.owner(path.removeprefix("/open/") if opens else request.cookies.get(access.cookie, ""))
        if owner is None:
            return PlainTextResponse(access.stranger, 401)
        request.state.annotator = owner
        if not opens:
            return None
        # No redirect: after one that began at another site (a mail, a chat) a strict cookie would not be sent.
        response = HTMLResponse(_OPEN)
        response.set_cookie(access.cookie, path.removeprefix("/open/"), httponly=True, samesite="strict", path="/")
        return response


async def read_body(request: Request, most: int) -> bytes | None:
    """None where it is longer than ``most``: the rest is not read. Empty where its client is gone."""
    body = bytearray()
    try:
        async for part in request.stream():
            body += part
            if len(body) > most:
                return None
    except ClientDisconnect:
        return b""
    return bytes(body)
