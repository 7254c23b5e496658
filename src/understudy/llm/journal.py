"""A log (``store/log.py``) for coroutines: each line is on the disk before anything is done with it.

async with Journal(path) as journal:
    await journal.add({"custom_id": "r1", …})         # on the disk when it returns; many at once share one sync
"""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from understudy.errors import UnderstudyError
from understudy.store.log import Log


class Journal:
    def __init__(self, path: Path) -> None:
        self._log = Log(path)
        self._waiting: list[tuple[Mapping[str, Any], asyncio.Future[None]]] = []
        self._writing: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._log.append([])
        return self

    async def __aexit__(self, *error: object) -> None:
        if self._writing is not None:
            await asyncio.wait([self._writing])

    async def add(self, entry: Mapping[str, Any]) -> None:
        """Returns when the line is on the disk, even where the coroutine that waits is cancelled."""
        written = self._enter(entry)
        await asyncio.shield(written)

    def note(self, entry: Mapping[str, Any]) -> None:
        """A line that may be lost with the power: no coroutine waits for it."""
        self._enter(entry).add_done_callback(lambda written: written.cancelled() or written.exception())

    def _enter(self, entry: Mapping[str, Any]) -> "asyncio.Future[None]":
        written = asyncio.get_running_loop().create_future()
        self._waiting.append((dict(entry), written))
        if self._writing is None or self._writing.done():
            self._writing = asyncio.create_task(self._write())
        return written

    async def _write(self) -> None:
        while self._waiting:
            lines, self._waiting = self._waiting, []
            try:
                await asyncio.to_thread(self._log.append, [entry for entry, _ in lines])
            except UnderstudyError as error:
                for _, written in lines:
                    if not written.done():
                        written.set_exception(error)
                continue
            for _, written in lines:
                if not written.done():
                    written.set_result(None)
