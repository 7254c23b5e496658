"""The audit trail: who answered what, when, from which source and by which command. Lines are only ever added.

    trail = Trail(folder / TRAIL)
    last = trail.add("answered", "gpt-5-mini", {"r1": "pos", "r2": None})     # on the disk when it returns
    for entry in trail.read(last): print(entry["when"], entry["who"], entry["answers"])

Each line holds the checksum of the line before, so that none can be changed, taken out or put in unnoticed; the last
one's stands in the seal of the folder (``last``), so that none can be cut off. One that was being written when its
process was killed is no line, and the next takes its place. ``who`` is $UNDERSTUDY_USER, or else the login name.
"""

import json
import os
import shlex
import sys
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from understudy.errors import UnderstudyError
from understudy.store.copies import local_path
from understudy.store.files import digest, published
from understudy.store.seal import Finding
from understudy.store.who import now as now
from understudy.store.who import who as who

TRAIL = "trail.jsonl"
# A line stays short enough to look at, however many answers come at once.
_ANSWERS = 10_000


def beside(path: Path) -> Path:
    """The trail of a file that people take elsewhere."""
    return path.with_name(f"{path.name}.trail")  # no .jsonl, which folders are searched for


class Trail:
    """One process at a time adds to it: the one that has the folder's lock."""

    def __init__(self, path: Path) -> None:
        self.path = local_path(path)
        self._end: tuple[int, str] | None = None
        """How long the file is, and the checksum of its last line, once somebody has looked."""

    def add(self, what: str, source: str, answers: Mapping[Any, Any], **more: Any) -> str:
        """Lines for these answers (id -> label, None: no answer), one at least; the checksum of the last.

        What is there already must be whole.
        """
        common = {"what": what, "when": now(), "who": who(), "source": source, "command": command(), **more}
        pairs = [(str(name), label) for name, label in answers.items()]
        parts = [dict(pairs[start : start + _ANSWERS]) for start in range(0, len(pairs), _ANSWERS)]
        return self.copy([{**common, "answers": part} for part in parts or [{}]])

    def copy(self, entries: Iterable[Mapping[str, Any]]) -> str:
        """Entries as they are, of another trail, at the end of this one."""
        size, last = self._end or self._look()
        new = b""
        for entry in entries:
            line = json.dumps({**entry, "after": last}, ensure_ascii=False).encode()
            new, last = new + line + b"\n", digest(line)
        self._append(size, new)
        self._end = size + len(new), last
        return last

    def end(self) -> str:
        """The checksum of the last line; "" where there is none."""
        self._end = self._end or self._look()
        return self._end[1]

    def read(self, last: str = "") -> list[dict[str, Any]]:
        """Every entry, if all are as they were written, and that with the checksum ``last`` is among them."""
        return list(self._checked(last))

    def inspect(self, last: str = "") -> Iterator[Finding]:
        if last or self.path.exists():
            try:
                self.read(last)
            except UnderstudyError as error:
                yield Finding(self.path, f"is not as it was written ({error})")
            else:
                yield Finding(self.path, None)

    def _checked(self, last: str) -> Iterator[dict[str, Any]]:
        before, seen = "", not last
        for number, line in enumerate(self._lines(), 1):
            try:
                entry = json.loads(line)
                fits = entry["after"] == before and isinstance(entry["answers"], dict)
            except (ValueError, KeyError, TypeError):
                fits = False
            if not fits:
                raise UnderstudyError(f"{self.path}: line {number} is not the one that was written there; restore it")
            before = digest(line)
            seen = seen or before == last
            yield entry
        if not seen:
            raise UnderstudyError(f"{self.path} lacks its last lines; restore it")

    def _look(self) -> tuple[int, str]:
        self.read()
        lines = self._lines()
        return sum(len(line) + 1 for line in lines), digest(lines[-1]) if lines else ""

    def _lines(self) -> list[bytes]:
        """Those that were written to their end."""
        try:
            return self.path.read_bytes().split(b"\n")[:-1] if self.path.exists() else []
        except OSError as error:
            raise UnderstudyError(f"cannot read {self.path}: {error.strerror}; restore it") from error

    def _append(self, start: int, content: bytes) -> None:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            handle = os.open(self.path, os.O_CREAT | os.O_WRONLY, 0o666)
            try:
                os.ftruncate(handle, start)
                os.lseek(handle, start, os.SEEK_SET)
                with os.fdopen(handle, "wb", closefd=False) as file:
                    file.write(content)
                os.fsync(handle)
            finally:
                os.close(handle)
        except OSError as error:
            raise UnderstudyError(f"cannot write {self.path}: {error.strerror}; check the folder and space") from error
        published(self.path)


def command() -> str:
    """As it was typed; of a script its name."""
    program, *rest = sys.argv or [""]
    name = Path(program).name
    if name in ("understudy", "understudy.exe", "__main__.py"):
        return shlex.join(["understudy", *rest])
    return name if name and name != "-c" else "python"


def of_file(path: Path) -> dict[str, Any]:
    """What pins a file down: its content, and when it was last changed."""
    path = local_path(path)
    if not path.is_file():
        return {}
    changed = datetime.fromtimestamp(path.stat().st_mtime, UTC).isoformat(timespec="seconds")
    return {"sha256": digest(path.read_bytes()), "changed": changed}
