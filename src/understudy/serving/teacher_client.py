"""Deferred rows to an LLM, by the prompt, the budget, the retries and the ledger of ``us.ask``.

The folder is one of ``us.ask`` (``llm/answer_folder.py``); a row's id is the fingerprint of its content. A row that was
answered before, in this process or an earlier one, is not paid for again. A request that takes longer than its caller
waits goes on: its answer serves the next request about the row.
"""

import asyncio
import time
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

from understudy.errors import UnderstudyError
from understudy.labels.answer_lines import UnusableError, class_in, replies_in
from understudy.labels.answer_matching import USED, AnswerMatcher
from understudy.llm.answer_folder import ASK, AskFolder, pin_of
from understudy.llm.ask_options import TeacherOptions
from understudy.llm.ledger import Ledger
from understudy.llm.request import Row, make_plan
from understudy.llm.requester import PendingRow, Requester, StopRequestsError
from understudy.store.files import locked
from understudy.store.log import Log

#: Why a row has no label of the teacher's.
BUDGET, LATE, FAILED, UNUSABLE, BUSY = "budget", "time-out", "failed", "unusable answer", "too many waiting"
# Beyond so many rows that wait for a teacher which does not answer, the student's answer is given at once.
MOST_WAITING = 2_000


class TeacherClient:
    """``async with TeacherClient(…) as teacher: number, why = await teacher.label(row)``, −1 where there is none."""

    def __init__(
        self, options: TeacherOptions, classes: Sequence[str], folder: Path, *, like: Path | None = None,
        text: str | None = None, names: Sequence[str] = (),
    ) -> None:  # fmt: skip
        """``like``: a folder of ``understudy ask`` whose prompt is taken. ``text``: the column of texts, where a row
        has no other of the columns ``names``."""
        options = options if like is None else _like(like, options, classes)
        if not options.model:
            raise UnderstudyError("the teacher's model has no name; give --teacher-model, as the server calls it")
        self.plan, self.classes, self.folder, self._text = make_plan(classes, options), classes, AskFolder(folder), text
        self.plan.prompt.messages(self._row(dict.fromkeys(names, "")), structured=True)  # a mistake shows now
        self._matcher = AnswerMatcher(classes, options.aliases)
        self._places = asyncio.Semaphore(options.concurrency)
        self._under_way: dict[str, asyncio.Task[str]] = {}
        self._stopping, self._open = False, AsyncExitStack()
        self._open.enter_context(locked(folder, lend=True))
        self.folder.begin(self.plan)
        answers, model = self.folder.answers(0), self.plan.models[0]
        stored = Log(answers).entries(self.folder.sealed(answers))
        #: By fingerprint: the class number, or −1 and why there is none.
        self._known = {str(entry["custom_id"]): self._read(entry) for entry in stored}
        sealed = self.folder.sealed(self.folder.requests)
        self.ledger = Ledger(self.folder.requests, {model.name: model.price}, options.budget, sealed=sealed)
        self._requester = Requester(self.plan, 0, self.folder, self.ledger, lambda: self._stopping)

    async def __aenter__(self) -> Self:
        self._open.callback(self.folder.seal)  # after the journals have ended, while the folder is still ours
        for part in (self.ledger.journal, self._requester.journal, self._requester.endpoint.client):
            await self._open.enter_async_context(part)
        return self

    async def __aexit__(self, *error: object) -> None:
        self._stopping = True  # what was sent is paid for: its answer is waited for, and nothing more is sent
        if self._under_way:
            await asyncio.wait(self._under_way.values())
        await self._open.aclose()

    async def label(self, row: Mapping[str, Any]) -> tuple[int, str]:
        """The class number; or −1 and why there is none."""
        shown = self._row(row)
        pin = pin_of(shown)
        if pin not in self._known:
            task = self._under_way.get(pin)
            if task is None:
                if len(self._under_way) >= MOST_WAITING:
                    return -1, BUSY
                task = self._under_way[pin] = asyncio.create_task(self._ask(pin, shown))
                task.add_done_callback(lambda task: self._under_way.pop(pin, None))
            done, _ = await asyncio.wait([task], timeout=self.plan.options.timeout)
            if not done or pin not in self._known:
                return -1, task.result() if done else LATE
        return self._known[pin]

    async def _ask(self, pin: str, row: Row) -> str:
        """Puts the answer into ``_known``, or returns why there is none."""
        end = time.monotonic() + self.plan.options.timeout
        async with self._places:
            if time.monotonic() > end:  # its client has an answer
                return LATE
            pending = PendingRow(pin, row, pin, 1)
            try:
                if not await self._requester.ask(pending):
                    return FAILED
            # Or its answer cannot be put on the disk; or the row holds half a surrogate pair, which cannot be sent.
            except (StopRequestsError, UnderstudyError, UnicodeEncodeError) as stop:
                return BUDGET if str(stop) == BUDGET else FAILED
            response = {"body": pending.response} if pending.response else {"status_code": 400}
            self._known[pin] = self._read({"custom_id": pin, "response": response})
            return ""

    def _read(self, entry: dict[str, Any]) -> tuple[int, str]:
        with suppress(UnusableError):
            [reply] = replies_in(entry)[:1]
            if not isinstance(reply, UnusableError) and (match := class_in(reply, self._matcher)[0]).how in USED:
                return match.label, ""
        return -1, UNUSABLE

    def _row(self, row: Mapping[str, Any]) -> Row:
        """As ``understudy ask`` shows it: its columns, and its text as ``text``."""
        return dict(row) if self._text is None else {**row, "text": row[self._text]}


def _like(folder: Path, options: TeacherOptions, classes: Sequence[str]) -> TeacherOptions:
    """With the prompt of a folder of answers, and its model where no other is named."""
    if not (folder / ASK.manifest).exists():
        raise UnderstudyError(f"{folder} is no folder of understudy ask; name the one that labelled the pool")
    stored = ASK.read(folder)
    if sorted(stored["classes"]) != sorted(classes):
        raise UnderstudyError(f"{folder} has other classes than the model; name the folder that labelled its pool")
    same = {name: stored[name] for name in ("prompt", "descriptions", "examples", "temperature", "structured")}
    same["examples"] = [tuple(pair) for pair in same["examples"]]
    return replace(options, model=options.model or stored["model"][0], **same)
