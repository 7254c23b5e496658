"""The label history: who gave which label, when, from which source and by which command.

    history = LabelHistory(folder / HISTORY)
    last = history.add("answered", "gpt-5-mini", {"r1": "pos", "r2": None})     # on the disk when it returns
    for entry in history.entries(last): print(entry["when"], entry["who"], entry["answers"])

It is an append-only log (``store/log.py``). ``who`` is $UNDERSTUDY_USER, or else the login name.
"""

import shlex
import sys
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from understudy.errors import UnderstudyError
from understudy.store.copies import local_path
from understudy.store.files import digest
from understudy.store.log import Log
from understudy.store.remote_lock import current_user, timestamp

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
        common = {
            "what": what,
            "when": timestamp(),
            "who": current_user(),
            "source": source,
            "command": command(),
            **more,
        }
        pairs = [(str(name), label) for name, label in answers.items()]
        parts = [dict(pairs[start : start + _ANSWERS]) for start in range(0, len(pairs), _ANSWERS)]
        return self.append([{**common, "answers": part} for part in parts or [{}]])


def command() -> str:
    """As it was typed; of a script its name."""
    program, *rest = sys.argv or [""]
    name = Path(program).name
    if name in ("understudy", "understudy.exe", "__main__.py"):
        return shlex.join(["understudy", *rest])
    return name if name and name != "-c" else "python"


def file_version(path: Path) -> dict[str, Any]:
    """A file's checksum and when it was last changed."""
    path = local_path(path)
    if not path.is_file():
        return {}
    changed = datetime.fromtimestamp(path.stat().st_mtime, UTC).isoformat(timespec="seconds")
    return {"sha256": digest(path.read_bytes()), "changed": changed}
