"""The requests of the page, one route each, and who may send them.

| request | response |
| --- | --- |
| ``GET /open/TOKEN`` | the cookie, and on to the page |
| ``GET /`` ``/page.css`` ``/page.js`` | the page |
| ``GET /api/session`` | the annotator, the classes, the last answers (for undo) |
| ``POST /api/sync`` | answers in; the next rows and the progress out |
| ``GET /api/agreement`` | Krippendorff's alpha |
| ``GET /image?id=…`` | a row's picture |

``sync`` takes *events*, each with a name made by the browser (``{"name", "id", "label"}``, ``label`` null: skipped;
``{"name", "undoes"}``), and may be repeated: an event is stored once. Answers and the leases of the next rows are one
transaction.

A token in the link moves to a cookie, and only requests of the page itself are answered:

| what could happen | what stops it |
| --- | --- |
| another program or person on this machine opens the port | a token of 256 bits, compared in constant time |
| the link stays in a history or a log | it only sets a cookie (HttpOnly, SameSite=Strict); nothing logs it |
| another site's page sends answers through your browser | its Origin, Sec-Fetch-Site and missing cookie |
| a site's name is made to point here (DNS rebinding) | the Host header names this machine, or the request is refused |
| a row's text holds markup | texts are set as texts, and the Content-Security-Policy runs no other script |

The tokens follow from a secret file beside the book, so that links hold when the server is started again.
"""

import hmac
import ipaddress
import json
import os
import re
import secrets
import socket
import time
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.middleware.base import BaseHTTPMiddleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from understudy.errors import UnderstudyError
from understudy.web.answer_book import AnswerBook
from understudy.web.cards import Card, Cards, guideline_html

MOST_EVENTS, MOST_ROWS, MOST_BYTES = 200, 20, 1 << 18
LOOPBACK = ("127.0.0.1", "localhost", "::1")
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
_PARTS = {"page.css": "text/css", "page.js": "text/javascript"}
_NAME = re.compile(r"[A-Za-z0-9_-]{8,64}")
_TAB = re.compile(r"[A-Za-z0-9_-]{0,64}")
_OPEN = """<!doctype html><html lang="en"><meta charset="utf-8"><title>Understudy</title>
<link rel="icon" href="data:,"><meta http-equiv="refresh" content="0;url=/"><a href="/">Go to the page</a></html>"""
_STRANGER = "Open the link that understudy label printed: it holds the key to this page."


class Access:
    def __init__(self, secret_file: Path, annotators: Sequence[str], *, host: str, book: str) -> None:
        secret = _secret(secret_file)
        self.tokens = {name: _token(secret, name) for name in annotators}
        #: One per book: cookies are not separate by port.
        self.cookie = f"understudy-{book}"
        self._host = host

    def annotator(self, token: str) -> str | None:
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
        if method != "GET" and origin is None:
            return "answers come with the Origin header that browsers send"
        if method == "GET" and site in ("cross-site", "same-site") and headers.get("sec-fetch-mode") != "navigate":
            return "other sites may not send requests"
        return None

    def _is_ours(self, header: str) -> bool:
        """The port is left open: a tunnel may change it, and names are what rebinding needs."""
        name = header.rsplit(":", 1)[0] if not header.endswith("]") else header
        name = name.strip("[]").lower()
        if name in LOOPBACK or name == self._host.lower():
            return True
        if self._host in LOOPBACK:
            return False
        # Served to others: an address cannot be rebound, and the machine knows its own name.
        return _is_address(name) or name in (socket.gethostname().lower(), socket.getfqdn().lower())


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _token(secret: bytes, annotator: str) -> str:
    return hmac.new(secret, b"label page\0" + annotator.encode(), "sha256").hexdigest()


def _secret(path: Path) -> bytes:
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
        os.link(temporary, path)
    except FileExistsError:
        pass
    finally:
        temporary.unlink()


class LabelApp:
    """The responses to the page of one book."""

    def __init__(
        self,
        book: AnswerBook,
        cards: Cards,
        access: Access,
        *,
        title: str,
        guideline: Path | None = None,
        show_suggestion: bool = False,
    ) -> None:
        self.book, self.cards, self.access, self.title, self.guideline = book, cards, access, title, guideline
        self._suggests = cards.suggests if show_suggestion else None
        self._alpha: tuple[float, Any] = (0.0, None)
        page = files("understudy.web") / "page"
        self._files = {name: (page / name).read_text(encoding="utf-8") for name in ("page.html", *_PARTS)}
        routes = [
            Route("/", self.page),
            *(Route(f"/{name}", self.part) for name in _PARTS),
            Route("/api/session", self.session),
            Route("/api/sync", self.sync, methods=["POST"]),
            Route("/api/agreement", self.agreement),
            Route("/image", self.image),
        ]
        self.asgi = Guard(Starlette(routes=routes), access)

    def page(self, request: Request) -> Response:
        return HTMLResponse(self._files["page.html"].replace("<!-- guideline -->", guideline_html(self.guideline)))

    def part(self, request: Request) -> Response:
        name = request.scope["path"][1:]
        return Response(self._files[name], media_type=_PARTS[name])

    def session(self, request: Request) -> Response:
        annotator: str = request.state.annotator
        answered = [{"name": name, "id": id, "label": label} for name, id, label in self.book.history(annotator)]
        found = {
            "book": self.book.settings["book"], "annotator": annotator, "title": self.title,
            "classes": self.book.classes, "lease": self.book.lease, "several": len(self.access.tokens) > 1,
            "guideline": self.guideline is not None, "history": answered,
        }  # fmt: skip
        return JSONResponse(found)

    async def sync(self, request: Request) -> Response:
        body = b""
        async for part in request.stream():
            body += part
            if len(body) > MOST_BYTES:
                return PlainTextResponse("too much at once", 413)
        try:
            sync = SyncRequest(json.loads(body))
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            return PlainTextResponse("not what the page sends", 400)
        if sync.book != self.book.settings["book"] or sync.annotator != request.state.annotator:
            return PlainTextResponse("another book or another person's link was opened in this browser", 409)
        return JSONResponse(await run_in_threadpool(self._sync, sync))

    def _sync(self, sync: "SyncRequest") -> dict[str, Any]:
        who, book = sync.annotator, self.book
        with book.together():
            results = [self._take(event, sync) for event in sync.events]
            if sync.leaves:
                book.give_back(who, tab=sync.tab)
            have = book.are_open(sync.have, who)
            rows = book.hand_out(who, tab=sync.tab, count=sync.count, have=have, suggests=self._suggests)
            progress = book.progress(who)
        return {
            "results": results,
            "rows": [self._card(id, shown) for id, shown in rows.items()],
            "gone": [id for id in sync.have if id not in have],
            "progress": progress,
        }

    def _take(self, event: Mapping[str, Any], sync: "SyncRequest") -> dict[str, Any]:
        """The outcome of an event; a refused one changes nothing and stops no other."""
        who, name = sync.annotator, event["name"]
        try:
            if "undoes" not in event:
                seconds = _seconds(event.get("seconds"))
                self.book.answer(event["id"], event["label"], annotator=who, name=name, seconds=seconds)
                return {"name": name, "kept": True}
            id = self.book.undo(annotator=who, undoes=event["undoes"], name=name, tab=sync.tab)
            assert id is not None
            return {"name": name, "kept": True, "row": self._card(id, self.book.show(id, who, self._suggests))}
        except UnderstudyError as error:
            return {"name": name, "kept": False, "why": str(error)}

    def _card(self, id: str, shown: bool) -> Card:
        if id not in self.cards.places:  # answered in an earlier file, and undone
            return {"id": id, "text": [("(the file has no such row any more)", False)], "image": False, "fields": []}
        return {**self.cards.card(id), "suggestion": self.cards.suggestion(id) if shown else None}

    def agreement(self, request: Request) -> Response:
        """Computed at most every five seconds, over all shared rows."""
        made, found = self._alpha
        if time.monotonic() - made > 5:
            found = self.book.agreement()
            self._alpha = time.monotonic(), found
        return JSONResponse({"alpha": found[0], "rows": found[1]})

    def image(self, request: Request) -> Response:
        try:
            content, kind = self.cards.picture(request.query_params.get("id", ""))
        except (UnderstudyError, OSError) as error:
            return PlainTextResponse(str(error), 404)
        # Cached while the page is open.
        return Response(content, media_type=kind, headers={"Cache-Control": "private, max-age=600"})


class SyncRequest:
    """A checked request of the page; anything wrong raises."""

    def __init__(self, given: Any) -> None:
        self.book, self.annotator, self.tab = _text(given["book"]), _text(given["annotator"]), _text(given["tab"])
        if not _TAB.fullmatch(self.tab):
            raise ValueError
        self.events: list[dict[str, Any]] = [_event(event) for event in _listed(given["events"], MOST_EVENTS)]
        self.have = [_text(id) for id in _listed(given["have"], MOST_ROWS)]
        self.leaves = given.get("leave") is True
        if not isinstance(given["count"], int):
            raise TypeError
        self.count = min(max(given["count"], 0), MOST_ROWS)


def _event(event: Any) -> dict[str, Any]:
    if not _NAME.fullmatch(_text(event["name"])):
        raise ValueError
    if not event.get("undoes", True):
        raise ValueError
    if "undoes" in event:
        return {"name": event["name"], "undoes": _text(event["undoes"])}
    label = None if event["label"] is None else _text(event["label"])
    return {"name": event["name"], "id": _text(event["id"]), "label": label, "seconds": event.get("seconds")}


def _listed(value: Any, most: int) -> list[Any]:
    if not isinstance(value, list) or len(value) > most:
        raise ValueError
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError
    value.encode()  # half a character (a lone surrogate) raises
    return value


def _seconds(value: Any) -> float | None:
    """A time up to half an hour; a row left open over lunch does not count."""
    return float(value) if isinstance(value, int | float) and 0 <= value <= 1800 else None


class Guard(BaseHTTPMiddleware):  # type: ignore[misc]
    """Lets requests with a token through, and gives every response its headers."""

    def __init__(self, app: Any, access: Access) -> None:
        super().__init__(app)
        self.access = access

    async def dispatch(self, request: Request, call_next: Any) -> Response:
        response: Response = self._refused(request) or await call_next(request)
        for name, value in HEADERS.items():
            response.headers.setdefault(name, value)
        return response

    def _refused(self, request: Request) -> Response | None:
        """What to say instead; None where the request goes on."""
        why = self.access.refusal(request.method, request.headers)
        if why is not None:
            return PlainTextResponse(why, 403)
        path: str = request.scope["path"]
        opens = path.startswith("/open/") and request.method == "GET"
        token = path.removeprefix("/open/") if opens else request.cookies.get(self.access.cookie, "")
        annotator = self.access.annotator(token)
        if annotator is None:
            return PlainTextResponse(_STRANGER, 401)
        request.state.annotator = annotator
        if not opens:
            return None
        # No redirect: after one that began at another site (a mail, a chat) a strict cookie would not be sent.
        response = HTMLResponse(_OPEN)
        response.set_cookie(self.access.cookie, token, httponly=True, samesite="strict", path="/")
        return response
