"""One writer at a time where storage knows no locks: a small object that only one process can create.

    lock = RemoteLock(fs, "bucket/run", "s3://bucket/run")
    lock.acquire()                      # refused, with who writes there and since when, where the object exists
    lock.check()                        # before every put: still ours?
    lock.release()
    unlock("s3://bucket/run")      # of a writer that is dead; ``understudy unlock``

A process that is killed leaves its object behind. A dead writer looks like a slow one over a network, so
no process takes its place: a person does. A writer that was taken for dead finds that out before its next put.
"""

import getpass
import json
import os
import secrets
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from understudy.errors import UnderstudyError
from understudy.store.remote import address_of, connect, is_remote, local_file, reaching

LOCK = ".lock"


class RemoteLock:
    def __init__(self, fs: Any, root: str, address: str) -> None:
        self.fs, self.path, self.address = fs, f"{root}/{LOCK}", address
        self._content = b""
        """What the object holds while it is ours."""

    @property
    def held(self) -> bool:
        return bool(self._content)

    def acquire(self) -> None:
        owner = {"who": current_user(), "host": _machine(), "process": os.getpid(), "since": timestamp()}
        content = json.dumps({**owner, "token": secrets.token_hex(16)}).encode()
        # Read before and after: some servers ignore create-only and overwrite.
        there = self._read()
        if there is None:
            with reaching(self.address), suppress(FileExistsError):
                self.fs.pipe_file(self.path, content, mode="create")
            there = self._read()
        if there != content:
            raise UnderstudyError(
                f"{self.address} is being written by another process ({_owner(there)}); wait for it, or, if that is "
                f"dead: understudy unlock {self.address}"
            )
        self._content = content

    def check(self) -> None:
        if self.held and (there := self._read()) != self._content:
            self._content = b""
            raise UnderstudyError(
                f"{self.address} was taken from this process ({_owner(there)}), and is left to it; start again from "
                "what is there"
            )

    def release(self) -> None:
        """Nothing where it is another's by now."""
        mine, self._content = self._content, b""
        if mine and self._read() == mine:
            with reaching(self.address):
                self.fs.rm_file(self.path)

    def _read(self) -> bytes | None:
        try:
            with reaching(self.address):
                return bytes(self.fs.cat_file(self.path))
        except FileNotFoundError:
            return None


def unlock(path: str | Path) -> str:
    """Let others write to an address whose writer is dead; who that was."""
    if not is_remote(path) or local_file(path) is not None:
        raise UnderstudyError(f"{path} is a local folder, whose lock goes with its process; nothing to do")
    address = address_of(path)
    fs, root = connect(address)
    lock = RemoteLock(fs, root, address)
    there = lock._read()
    if there is None:
        raise UnderstudyError(f"{address} is not locked; nothing to do")
    with reaching(address):
        fs.rm_file(lock.path)
    return _owner(there)


def timestamp() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def current_user() -> str:
    """$UNDERSTUDY_USER, or else the login name."""
    try:
        return os.environ.get("UNDERSTUDY_USER") or getpass.getuser()
    except (OSError, KeyError):  # a user without a name
        return "unknown"


def _owner(content: bytes | None) -> str:
    try:
        owner = json.loads(content or b"")
        text = f"{owner['who']} on {owner['host']}, process {owner['process']}, since {owner['since']}"
        return text + (", which runs no more" if _is_gone(owner) else "")
    except (ValueError, KeyError, TypeError):
        return "unknown, perhaps the lock of a local folder that was copied there"


def _machine() -> str:
    import socket  # who works on local folders has no use for it

    return socket.gethostname()


def _is_gone(owner: dict[str, Any]) -> bool:
    """Whether it was a process of this machine, and there is none of this number any more."""
    if owner["host"] != _machine() or os.name != "posix":
        return False
    try:
        os.kill(int(owner["process"]), 0)
    except ProcessLookupError:
        return True
    except OSError:
        return False
    return False
