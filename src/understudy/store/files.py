"""Files that appear whole or not at all: written under a temporary name, synced, then renamed.

And folders: those that one process at a time writes to (``with locked(folder): …``), and the cache.
"""

import importlib.util
import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from understudy.errors import UnderstudyError

LOCK = ".lock"
_HELD: set[int] = set()
"""Open lock files of this process."""


def cache_path() -> Path:
    """``$UNDERSTUDY_CACHE``, else ``~/.cache/understudy``."""
    return Path(os.environ.get("UNDERSTUDY_CACHE") or Path.home() / ".cache" / "understudy")


def cache_folder(named: Path | None = None) -> Path:
    """The one named, else ``cache_path()``; made if it is not there."""
    folder = named or cache_path()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UnderstudyError(
            f"cannot make the cache folder {folder}: {error.strerror}; set UNDERSTUDY_CACHE to one you may write to"
        ) from error
    return folder


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """The folder is ours until the block ends or the process dies, however it dies: the system then lets go."""
    if importlib.util.find_spec("fcntl") is None:  # Windows; there, running one process is up to the user
        yield
        return
    try:
        new = not folder.exists()
        folder.mkdir(parents=True, exist_ok=True)
        handle = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT, 0o644)
    except OSError as error:
        raise UnderstudyError(f"cannot write in {folder}: {error.strerror}; check the folder") from error
    _HELD.add(handle)
    try:
        _take(handle, folder)
        try:
            yield
        except BaseException:
            if handle in _HELD:
                _leave_nothing(folder, new)
            raise
    finally:
        # A forked process that comes here has let go already, and must not touch what is its parent's.
        if handle in _HELD:
            _HELD.remove(handle)
            os.close(handle)


def _take(handle: int, folder: Path) -> None:
    import fcntl

    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if not os.fstat(handle).st_nlink:
            raise BlockingIOError("its owner took the lock away with it")
    except BlockingIOError as error:
        owner = os.pread(handle, 32, 0).decode(errors="replace").strip()
        raise UnderstudyError(
            f"{folder} is being written by another process ({owner or 'unknown'}); wait for it, or choose another "
            "folder"
        ) from error
    except OSError as error:
        raise UnderstudyError(f"cannot lock {folder}: {error.strerror}; choose a folder on a local disk") from error
    os.ftruncate(handle, 0)
    os.pwrite(handle, f"{os.getpid()}\n".encode(), 0)


def _let_go() -> None:
    """In a forked process: a lock lasts as long as anybody holds its file open, and must end with its owner."""
    while _HELD:
        os.close(_HELD.pop())


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_let_go)


def _leave_nothing(folder: Path, new: bool) -> None:
    """What failed before it wrote anything leaves no lock, and no folder of its own making."""
    with suppress(OSError):
        if [path.name for path in folder.iterdir()] == [LOCK]:
            (folder / LOCK).unlink()
            if new:
                folder.rmdir()


def write_bytes(path: Path, content: bytes) -> None:
    # A leftover of a killed process must not look like a file of its kind: folders are searched for "*.parquet".
    with appearing_whole(path, keep_suffix=False) as temporary:
        temporary.write_bytes(content)


def write_text(path: Path, content: str) -> None:
    write_bytes(path, content.encode())


def write_json(path: Path, content: Any) -> None:
    write_text(path, json.dumps(content, indent=2, ensure_ascii=False) + "\n")


def read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UnderstudyError(f"cannot read {path}: {error.strerror}") from error
    except ValueError as error:
        raise UnderstudyError(f"{path} is not valid JSON: {error}") from error


@contextmanager
def appearing_whole(
    path: Path, *, keep_suffix: bool = True, cure: str = "check the folder and the free space"
) -> Iterator[Path]:
    """A temporary path beside ``path``, renamed where the block succeeds. Some libraries insist on a file's suffix."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(
            dir=path.parent, prefix=f".{path.name}.", suffix=path.suffix if keep_suffix else ""
        )
        os.close(handle)
        temporary = Path(name)
        try:
            yield temporary
            _sync(temporary)
            os.chmod(temporary, 0o644)
            os.replace(temporary, path)
            # The rename itself must survive a power cut.
            _sync(path.parent)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as error:
        raise UnderstudyError(f"cannot write {path}: {error.strerror}; {cure}") from error


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
