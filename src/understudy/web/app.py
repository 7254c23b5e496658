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

Who may send requests is in ``web/access.py``. The tokens follow from a secret file beside the book, so that links hold
when the server is started again.
"""

import json
import re
import time
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from understudy.errors import UnderstudyError
from understudy.web.access import Access, Guard, read_body
from understudy.web.answer_book import AnswerBook
from understudy.web.cards import Card, Cards, guideline_html

MOST_EVENTS, MOST_ROWS, MOST_BYTES = 200, 20, 1 << 18
_PARTS = {"page.css": "text/css", "page.js": "text/javascript"}
_NAME = re.compile(r"[A-Za-z0-9_-]{8,64}")
_TAB = re.compile(r"[A-Za-z0-9_-]{0,64}")
STRANGER = "Open the link that understudy label printed: it holds the key to this page."


class LabelApp:
    """The responses to the page of one book."""

    def __init__(
        self, book: AnswerBook, cards: Cards, access: Access, title: str, guideline: Path | None, show_suggestion: bool
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
        body = await read_body(request, MOST_BYTES)
        if body is None:
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
        with book.file.writing():  # all of it is one transaction, synced once
            results = [self._take(event, sync) for event in sync.events]
            if sync.leaves:
                book.file.give_back(who, sync.tab)
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
