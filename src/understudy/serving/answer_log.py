"""What was answered, in append-only logs (``store/log.py``) that every command reads as a table of rows.

    requests-0001.jsonl   id, time, served_label, served_confidence, served_by, served_deferred, teacher_label …; with
                          ``content`` also the row's own columns
    teacher/              the teacher's answers and their costs (a folder of ``understudy ask``)

An answer is on the disk before it is sent. A file ends after ``LINES`` lines, so that the next start reads little.
"""

import os
import secrets
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

from understudy.errors import UnderstudyError
from understudy.llm.ledger import Journal
from understudy.store.files import timestamp
from understudy.store.log import Log

LINES = 100_000
# Of a disk: less may fit where a line does not.
_BLOCK = 65_536


class AnswerLog:
    def __init__(self, folder: Path, *, content: bool) -> None:
        self.folder, self.content, self.failed = folder, content, False
        numbers = [int(path.stem[9:]) for path in folder.glob("requests-*.jsonl") if path.stem[9:].isdecimal()]
        self._number = max(numbers, default=1)
        log = Log(self._path)
        self._lines = sum(1 for _ in log.entries())
        log.append([])  # a folder that cannot be written shows now
        self._journal = Journal(self._path)

    @property
    def _path(self) -> Path:
        return self.folder / f"requests-{self._number:04}.jsonl"

    async def add(self, rows: Sequence[Mapping[str, Any]], answers: Sequence[Mapping[str, Any]]) -> None:
        """Returns when the answers are on the disk, or cannot be put there: then ``failed`` is set."""
        if self._lines >= LINES:
            self._number, self._lines = self._number + 1, 0
            self._journal = Journal(self._path)
        self._lines += len(rows)
        pairs = zip(rows if self.content else [{}] * len(rows), answers, strict=True)
        entries = [{"time": timestamp(), **row, "id": secrets.token_hex(8), **answer} for row, answer in pairs]
        try:
            await self._journal.add(*entries)
            self.failed = False
        except UnderstudyError:
            self.failed = True

    def check(self) -> None:
        """Clears ``failed`` where there is space again: who sends requests may wait for that, and none comes."""
        with suppress(OSError), self._path.open("ab"), TemporaryFile(dir=self.folder) as file:
            file.write(bytes(_BLOCK))
            file.flush()
            os.fsync(file.fileno())
            self.failed = False
