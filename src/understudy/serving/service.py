"""The routes of ``understudy serve``.

| request | response |
| --- | --- |
| ``POST /predict`` | ``{"rows": [row, …]}`` or ``{"row": row}``: label, probabilities, whether deferred, who answered |
| ``POST /v1/chat/completions`` | the same in OpenAI's protocol (``serving/chat_protocol.py``), streamed on request |
| ``GET /v1/models`` | the one model |
| ``GET /health`` | 200 while it serves, 503 where the log cannot be written; needs no token |
| ``GET /metrics`` | counts, as Prometheus reads them |
| ``POST /reload`` | reads the folder again, as SIGHUP does; requests under way are answered by the old model |
| ``GET /`` | a page with the share deferred, the cost saved and the latency |

A deferred row is answered by teacher and student together, or as its rule says; where the teacher fails or is too slow,
the student's answer is given, and ``note`` says why. Bodies are limited, and who may send them is ``web/access.py``.
"""

import asyncio
import json
import re
import signal
import threading
import time
from base64 import b64encode
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import jinja2
import numpy as np
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from understudy.errors import UnderstudyError
from understudy.inference.cascade import ABSTAIN
from understudy.llm.ask_options import TeacherOptions
from understudy.serving.answer_log import AnswerLog
from understudy.serving.chat_protocol import completion, events, row_in
from understudy.serving.live_figures import LiveFigures
from understudy.serving.served_model import BatchWorker, Row, ServedModel
from understudy.store.console import complain
from understudy.store.files import refuse_constant
from understudy.web.access import Access, Guard, read_body

if TYPE_CHECKING:
    from understudy.serving.teacher_client import TeacherClient

MOST_BYTES, MOST_ROWS = 16_000_000, 10_000
STUDENT, TEACHER, BOTH = "student", "teacher", "student and teacher"
STRANGER = "send the server's token as the API key (Authorization: Bearer), or open /open/TOKEN in a browser"
# What a row that cannot be read raises; anything else is a bug.
_BAD_ROW = (
    ValueError, TypeError, KeyError, OverflowError, OSError, AttributeError, RecursionError,
    SyntaxError, EOFError,  # Pillow, of a broken image
)  # fmt: skip


@contextmanager
def reload_waits() -> Iterator[None]:
    """A SIGHUP that comes before the service can hear it waits until then; it would end the process."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGHUP})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class Settings(NamedTuple):
    """``folder``: of a run or an exported model. ``log``: a folder; needed with a teacher."""

    folder: Path
    log: Path | None = None
    content: bool = False
    defer_below: float | None = None
    pattern: re.Pattern[str] | None = None
    teacher: TeacherOptions | None = None
    #: A folder of ``understudy ask`` whose prompt the teacher gets.
    like: Path | None = None
    threads: int = 1

    def load(self) -> ServedModel:
        served = ServedModel.load(self.folder, defer_below=self.defer_below, threads=self.threads)
        rule = served.cascade.rule
        if self.teacher is not None and (rule is None or rule.answer == ABSTAIN):
            why = "no rule" if rule is None else "a rule made without a teacher"
            cure = "run understudy defer with the teacher's labels, or give --defer-below"
            raise UnderstudyError(f"{self.folder} has {why}, so that no row would be sent to it; {cure}")
        return served


class Service:
    """``asgi`` is the application; its lifespan opens and closes the log and the teacher."""

    def __init__(self, settings: Settings, access: Access) -> None:
        self.settings, self.figures, self.started = settings, LiveFigures(), time.time()
        self.worker = BatchWorker(settings.load())
        self.log = None if settings.log is None else AnswerLog(settings.log, content=settings.content)
        self.teacher = self._teacher(self.worker.served)
        self._loading = asyncio.Lock()
        page = files("understudy.serving").joinpath("page.html.jinja").read_text(encoding="utf-8")
        self._page = jinja2.Environment(autoescape=True).from_string(page)
        self._css = files("understudy.web").joinpath("page", "page.css").read_text(encoding="utf-8")
        routes = [
            Route("/predict", partial(self._respond, self._predict), methods=["POST"]),
            Route("/v1/chat/completions", partial(self._respond, self._chat), methods=["POST"]),
            Route("/v1/models", self.models),
            Route("/v1/models/{name:path}", self.models),
            Route("/health", self.health),
            Route("/metrics", self.metrics),
            Route("/reload", self.reload, methods=["POST"]),
            Route("/", self.page),
            Route("/page.css", self.css),
        ]
        self.asgi = Guard(Starlette(routes=routes, lifespan=self._lifespan), access)

    def _teacher(self, served: ServedModel) -> "TeacherClient | None":
        settings = self.settings
        if settings.teacher is None or settings.log is None:
            return None
        from understudy.serving.teacher_client import TeacherClient

        folder, model = settings.log / "teacher", served.model
        return TeacherClient(
            settings.teacher, model.classes, folder, like=settings.like, text=served.text, names=model.names
        )

    @asynccontextmanager
    async def _lifespan(self, app: Any) -> AsyncIterator[None]:
        self.worker.start()
        async with AsyncExitStack() as stack:
            stack.callback(self.worker.stop)
            if self.teacher is not None:
                await stack.enter_async_context(self.teacher)
            if threading.current_thread() is threading.main_thread() and hasattr(signal, "SIGHUP"):
                asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, self._reload_soon)
                signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGHUP})
            yield

    async def _predict(self, body: Mapping[str, Any]) -> Response:
        rows = [body["row"]] if "row" in body else body["rows"]
        columns = [each for each in rows.values() if hasattr(each, "__len__")] if isinstance(rows, dict) else [rows]
        if not isinstance(rows, list | dict) or any(len(each) > MOST_ROWS for each in columns):
            raise ValueError(f"'rows' is a list of at most {MOST_ROWS:,}")
        served, answers = await self.answers(self.worker.served.model.sent_rows(rows))
        return JSONResponse({"predictions": answers, "model": served.name, "version": served.version})

    async def _chat(self, body: Mapping[str, Any]) -> Response:
        model = self.worker.served.model
        row = row_in(body, model.names, self.settings.pattern)
        rows = model.sent_rows([row])
        completion(body, "", "", "", None)  # a mistake shows before anything is paid for
        served, [answer] = await self.answers(rows)
        whole = completion(body, answer["label"], served.name, served.version, answer)
        if body.get("stream") is True:
            return StreamingResponse(events(body, whole), media_type="text/event-stream")
        return JSONResponse(whole)

    async def _respond(self, answer: Any, request: Request) -> Response:
        """The answer to a request with a JSON body, or why there is none, as OpenAI words it."""
        path, status, message = request.url.path, 400, ""
        self.worker.active += 1
        try:
            content = await read_body(request, MOST_BYTES)
            if content is None:
                status, message = 413, f"a request has at most {MOST_BYTES:,} bytes"
            elif not isinstance(body := json.loads(content, parse_constant=refuse_constant), dict):
                message = "the body is a JSON object"
            else:
                response: Response = await answer(body)
                self.figures.requests[path, 200] += 1
                return response
        except KeyError as error:
            message = f"{error} is missing"
        except _BAD_ROW as error:
            message = str(error)[:500] or type(error).__name__
        finally:
            self.worker.active -= 1
        self.figures.requests[path, status] += 1
        refused = {"message": message, "type": "invalid_request_error", "param": None, "code": None}
        return JSONResponse({"error": refused}, status)

    async def answers(self, rows: Sequence[Row]) -> tuple[ServedModel, list[dict[str, Any]]]:
        """What is answered about rows, once it is in the log."""
        begun = time.perf_counter()
        served, probs, deferred = await self.worker.predict(rows)
        labels, notes = np.full(len(rows), -1), [""] * len(rows)
        if self.teacher is not None and deferred.any():
            places = np.flatnonzero(deferred).tolist()
            found = await asyncio.gather(*(self.teacher.label(rows[place]) for place in places))
            for place, (label, why) in zip(places, found, strict=True):
                labels[place], notes[place] = label, why
        final = served.cascade.combine(probs, labels) if (labels >= 0).any() else probs
        together = BOTH if served.cascade.combination is not None else TEACHER
        classes, confidence = served.model.classes, final.max(1).tolist()
        answers = [
            {
                "label": classes[best], "confidence": sure, "probabilities": dict(zip(classes, each, strict=True)),
                "deferred": bool(later), "answered_by": together if label >= 0 else STUDENT,
                "teacher_label": classes[label] if label >= 0 else None, "note": note or None,
            }
            for best, sure, each, later, label, note in zip(
                final.argmax(1).tolist(), confidence, final.tolist(), deferred, labels.tolist(), notes, strict=True
            )
        ]  # fmt: skip
        seconds = time.perf_counter() - begun
        by = Counter(answer["answered_by"] for answer in answers)
        self.figures.answered(seconds, by, int(deferred.sum()), Counter(filter(None, notes)))
        if self.log is not None:
            await self.log.add([_plain(row) for row in rows], [_line(answer, served, seconds) for answer in answers])
        return served, answers

    async def models(self, request: Request) -> Response:
        served = self.worker.served
        name = request.path_params.get("name", served.name)
        if name != served.name:
            return JSONResponse({"error": {"message": f"the model is {served.name}", "type": "not_found"}}, 404)
        model = {"id": served.name, "object": "model", "created": int(self.started), "owned_by": "understudy"}
        return JSONResponse(model if "name" in request.path_params else {"object": "list", "data": [model]})

    async def health(self, request: Request) -> Response:
        if self.log is not None and self.log.failed:
            await asyncio.to_thread(self.log.check)
        failed = self.log is not None and self.log.failed
        state = "the log cannot be written; check the folder and the free space" if failed else "ok"
        return JSONResponse({"status": state}, 503 if failed else 200)

    async def metrics(self, request: Request) -> Response:
        worker = self.worker
        gauges = {"batches_total": worker.batches, "batch_rows_total": worker.rows, **self._costs()}
        lines = self.figures.prometheus(gauges, worker.served.version)
        return PlainTextResponse("".join(f"{line}\n" for line in lines))

    def _costs(self) -> dict[str, float]:
        """Of the teacher, in all; and what the rows without a request would have cost at its mean."""
        if self.teacher is None:
            return {}
        ledger, rows, failed = self.teacher.ledger, self.figures.rows, self.figures.failures
        requested = rows[TEACHER] + rows[BOTH] + failed.total()
        each = ledger.spent / max(1, ledger.totals()[0])
        return {"teacher_cost": ledger.spent, "teacher_cost_saved": each * (rows.total() - requested)}

    async def reload(self, request: Request) -> Response:
        why = await self._reload()
        return JSONResponse({"version": self.worker.served.version, "error": why or None}, 500 if why else 200)

    def _reload_soon(self) -> None:
        self._reloading = asyncio.ensure_future(self._reload())

    async def _reload(self) -> str:
        """Why the new model is not served; "" where it is."""
        async with self._loading:
            try:
                served = await asyncio.to_thread(self.settings.load)
                known = [(each.model.classes, each.model.names, each.text) for each in (served, self.worker.served)]
                if self.teacher is not None and known[0] != known[1]:  # its prompt has those of the start
                    raise UnderstudyError(f"{self.settings.folder} has other classes or columns; restart the server")
            except (UnderstudyError, OSError) as error:
                complain(f"warning: not reloaded: {error}")
                return str(error)
            self.worker.served = served
            self.figures.reloads += 1
            return ""

    async def css(self, request: Request) -> Response:
        return Response(self._css, media_type="text/css")

    async def page(self, request: Request) -> Response:
        served, rule = self.worker.served, self.worker.served.cascade.rule
        known = {
            "served": served, "rule": rule, "recent": self.figures.recent(), "figures": self.figures,
            "costs": self._costs(), "hours": (time.time() - self.started) / 3600, "log": self.log,
        }  # fmt: skip
        return HTMLResponse(self._page.render(known))


def _plain(row: Row) -> dict[str, Any]:
    return {name: b64encode(cell).decode() if isinstance(cell, bytes) else cell for name, cell in row.items()}


def _line(answer: Mapping[str, Any], served: ServedModel, seconds: float) -> dict[str, Any]:
    """A line of the log, under names that no column of a row has."""
    kept = {f"served_{name}": answer[name] for name in ("label", "confidence", "deferred", "note")}
    more = {"served_by": answer["answered_by"], "served_seconds": round(seconds, 6), "served_model": served.version}
    return {**kept, **more, "teacher_label": answer["teacher_label"]}
