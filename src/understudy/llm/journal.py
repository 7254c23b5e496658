"""An append-only log of JSON lines for asynchronous writers, each line on the disk before it is used.

    async with Journal(path) as journal:
        await journal.add({"custom_id": "r1", …})         # on the disk when it returns; many at once share one sync

A line that was half written when its process was killed is dropped.
"""

import asyncio
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Self

from understudy.errors import UnderstudyError

_BLOCK = 1 << 20


class Journal:
    def __init__(self, path: Path) -> None:
        self.path = path
        self._handle = -1
        self._waiting: list[tuple[bytes, asyncio.Future[None]]] = []
        self._writing: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        try:
            self._handle = os.open(self.path, os.O_CREAT | os.O_RDWR | os.O_APPEND, 0o666)
            os.ftruncate(self._handle, _complete_bytes(self.path))
        except OSError as error:
            raise self._failed(error) from error
        return self

    async def __aexit__(self, *error: object) -> None:
        if self._writing is not None:
            await asyncio.wait([self._writing])
        os.close(self._handle)

    async def add(self, entry: Mapping[str, Any]) -> None:
        """Returns when the line is on the disk, also where the waiting task is cancelled."""
        written = self._enter(entry)
        await asyncio.shield(written)

    def note(self, entry: Mapping[str, Any]) -> None:
        """A line that is not waited for, and may be lost with the power."""
        self._enter(entry).add_done_callback(lambda written: written.cancelled() or written.exception())

    def _enter(self, entry: Mapping[str, Any]) -> "asyncio.Future[None]":
        written = asyncio.get_running_loop().create_future()
        self._waiting.append((json.dumps(entry, ensure_ascii=False).encode() + b"\n", written))
        if self._writing is None or self._writing.done():
            self._writing = asyncio.create_task(self._write())
        return written

    async def _write(self) -> None:
        while self._waiting:
            lines, self._waiting = self._waiting, []
            try:
                await asyncio.to_thread(self._sync, b"".join(line for line, _ in lines))
            except OSError as error:
                for _, written in lines:
                    written.set_exception(self._failed(error))
                continue
            for _, written in lines:
                if not written.done():
                    written.set_result(None)

    def _sync(self, content: bytes) -> None:
        view, before = memoryview(content), os.fstat(self._handle).st_size
        try:
            while len(view):
                view = view[os.write(self._handle, view) :]
            os.fsync(self._handle)
        except OSError:
            os.ftruncate(self._handle, before)  # the next line must not go on where half of this one ends
            raise

    def _failed(self, error: OSError) -> UnderstudyError:
        return UnderstudyError(f"cannot write {self.path}: {error.strerror}; check the folder and the free space")


def _complete_bytes(path: Path) -> int:
    """The length of the file without an unfinished last line."""
    with path.open("rb") as file:
        end = file.seek(0, os.SEEK_END)
        while end > 0:
            start = max(0, end - _BLOCK)
            file.seek(start)
            found = file.read(end - start).rfind(b"\n")
            if found >= 0:
                return start + found + 1
            end = start
        return 0


def entries(path: Path) -> Iterator[dict[str, Any]]:
    """The entries of a journal; a damaged line is an error, since its answer was paid for."""
    if not path.exists():
        return
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            if not line.endswith(b"\n"):
                return
            try:
                entry = json.loads(line)
            except ValueError:
                entry = None
            if not isinstance(entry, dict):
                raise UnderstudyError(f"{path}: line {number} is not as it was written; restore it")
            yield entry
