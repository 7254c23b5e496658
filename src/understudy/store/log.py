"""An append-only log: JSON lines, each with the checksum of the line before.

    log = Log(folder / "lines.jsonl")
    last = log.append([{"id": "r1"}, {"id": "r2"}])      # on the disk when it returns
    for entry in log.entries(last): ...                  # raises at a line that was changed, inserted or removed

A line that was being written when its process was killed counts as never written, and the next takes its place. Lines
cut off at the end are detected by readers that know the checksum of the last one (``last``). One process at a time
appends: the one that holds the folder's lock.

The label history is such a log: who gave which label, when, from which source and by which command.

    history = LabelHistory(folder / HISTORY)
    last = history.add("answered", "gpt-5-mini", {"r1": "pos", "r2": None})

``who`` is $UNDERSTUDY_USER, or else the login name.
"""

import json
import os
import shlex
import sys
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any

from understudy.errors import UnderstudyError
from understudy.store.checked_folder import Finding
from understudy.store.copies import COPIES
from understudy.store.files import current_user, local_path, published, split_part, timestamp


class Log:
    def __init__(self, path: Path) -> None:
        self.path = local_path(path)
        #: The file's size and the checksum of its last line, once it was read.
        self._end: tuple[int, str] | None = None

    def append(self, entries: Iterable[Mapping[str, Any]]) -> str:
        """Add a line for each entry, all or none; the checksum of the last. What is there must be unchanged."""
        size, last = self._end or self._read_end()
        new: list[bytes] = []
        for entry in entries:
            # Half a surrogate pair, which UTF-8 cannot hold, becomes its escape, which JSON can.
            line = json.dumps({**entry, "after": last}, ensure_ascii=False).encode(errors="backslashreplace")
            new.append(line + b"\n")
            last = sha256(line).hexdigest()
        content = b"".join(new)
        self._write(size, content)
        self._end = size + len(content), last
        return last

    def last(self) -> str:
        """The checksum of the last line; "" where there is none."""
        self._end = self._end or self._read_end()
        return self._end[1]

    def entries(self, last: str = "") -> Iterator[dict[str, Any]]:
        """Every entry in order; raises where one is not as it was written, or none has the checksum ``last``."""
        return (entry for _, entry in self._lines(last))

    def check(self, last: str = "") -> None:
        """Raise where ``entries`` would."""
        for _ in self.entries(last):
            pass

    def verify(self, last: str = "") -> Iterator[Finding]:
        if last or self.path.exists():
            try:
                self.check(last)
                yield Finding(self.path, None)
            except UnderstudyError as error:
                yield Finding(self.path, f"is not as it was written ({error})")

    def _lines(self, last: str = "") -> Iterator[tuple[bytes, dict[str, Any]]]:
        """Lines that were written to their end, and the entries they hold."""
        before, seen = "", not last
        for number, line in enumerate(self._stored_lines(), 1):
            try:
                entry = json.loads(line)
                intact = entry["after"] == before
            except (ValueError, KeyError, TypeError):
                intact = False
            if not intact:
                raise UnderstudyError(f"{self.path}: line {number} is not the one that was written there; restore it")
            before = sha256(line).hexdigest()
            seen = seen or before == last
            yield line, entry
        if not seen:
            raise UnderstudyError(f"{self.path} lacks its last lines; restore it")

    def _stored_lines(self) -> Iterator[bytes]:
        if not self.path.exists():
            return
        try:
            with self.path.open("rb") as file:
                for line in file:
                    if line.endswith(b"\n"):
                        yield line[:-1]
        except OSError as error:
            raise UnderstudyError(f"cannot read {self.path}: {error.strerror}; restore it") from error

    def _read_end(self) -> tuple[int, str]:
        size, last = 0, b""
        for last, _ in self._lines():
            size += len(last) + 1
        return size, sha256(last).hexdigest() if size else ""

    def _write(self, start: int, content: bytes) -> None:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            handle = os.open(self.path, os.O_CREAT | os.O_WRONLY, 0o666)
            try:
                os.ftruncate(handle, start)
                os.lseek(handle, start, os.SEEK_SET)
                view = memoryview(content)
                while len(view):
                    view = view[os.write(handle, view) :]
                os.fsync(handle)
            except OSError:
                os.ftruncate(handle, start)  # no line of a batch that failed may be read
                raise
            finally:
                os.close(handle)
        except OSError as error:
            raise UnderstudyError(f"cannot write {self.path}: {error.strerror}; check folder and free space") from error
        if COPIES:
            published(self.path)


HISTORY = "label_history.jsonl"
# A line stays short enough to look at, however many labels come at once.
_ANSWERS = 10_000


def history_beside(path: Path) -> Path:
    """The label history of a file that people take elsewhere."""
    return path.with_name(f"{path.name}.history")  # no .jsonl, which folders are searched for


class LabelHistory(Log):
    def entries(self, last: str = "") -> Iterator[dict[str, Any]]:
        for entry in super().entries(last):
            if not isinstance(entry.get("answers"), dict):
                raise UnderstudyError(f"{self.path} holds a line that is no labels; restore it")
            yield entry

    def add(self, what: str, source: str, answers: Mapping[Any, Any], **more: Any) -> str:
        """Append lines for these labels (id -> label, None: no label), at least one; the checksum of the last."""
        common = {"what": what, "when": timestamp(), "who": current_user(), "source": source, "command": command()}
        pairs = [(str(name), label) for name, label in answers.items()]
        parts = [dict(pairs[start : start + _ANSWERS]) for start in range(0, len(pairs), _ANSWERS)]
        return self.append([{**common, **more, "answers": part} for part in parts or [{}]])


def command() -> str:
    """As it was typed; of a script its name."""
    program, *rest = sys.argv or [""]
    name = Path(program).name
    if name in ("understudy", "understudy.exe", "__main__.py"):
        return shlex.join(["understudy", *rest])
    return name if name and name != "-c" else "python"


def file_version(path: Path) -> dict[str, Any]:
    """A file's checksum and when it was last changed."""
    path, _ = split_part(local_path(path))
    if not path.is_file():
        return {}
    changed = datetime.fromtimestamp(path.stat().st_mtime, UTC)
    return {"sha256": sha256(path.read_bytes()).hexdigest(), "changed": timestamp(changed)}
