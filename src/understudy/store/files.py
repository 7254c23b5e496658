"""Files that appear whole or not at all (written under a temporary name, synced, then renamed), and known to be whole.

Damage leaves a file of other weights or labels, unnoticed without a checksum. Files that are written
once carry theirs in their name; those of a folder have theirs in its manifest (``store/checked_folder.py``):

    path = write_named(folder / "columns-{digest}.safetensors", content)
    content = read_named(path)                              # ValueError where the name says something else

And folders: those that one process at a time writes to (``with locked(folder): …``), and the cache. What a killed
process did not finish is removed by the next that writes the same file, or locks its folder.
"""

import getpass
import hashlib
import json
import os
import re
import secrets
import shutil
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from contextvars import ContextVar
from datetime import UTC, datetime
from glob import escape
from pathlib import Path
from typing import Any

from understudy.errors import UnderstudyError
from understudy.store.copies import COPIES, RemoteCopy, copied
from understudy.store.remote import ADDRESS, address_of, local_file
from understudy.store.remote import LOCK as LOCK

_UNFINISHED = re.compile(r"\..+\.[0-9a-f]{16}(\.[^.]*)?")
# Folders whose owner lets what it calls lock them too, with the process: a fork owns nothing.
_LENT: ContextVar[frozenset[tuple[int, Path]]] = ContextVar("_LENT", default=frozenset())


def is_remote(path: str | Path) -> bool:
    """Whether this is an address, and not the name of a local file."""
    return ADDRESS.match(str(path)) is not None


def local_path(path: str | Path, *, ours: bool = False) -> Path:
    """The path itself, or a local copy of what stands at an address; what is written to it is put there."""
    return (local_file(path) or copied(path, ours=ours).folder) if is_remote(path) else Path(path)


def split_part(path: str | Path) -> tuple[Path, str]:
    """A file, and what follows a # behind its name: the sheet of a workbook, or the delimiter of a CSV file."""
    whole = Path(path)
    name, _, part = whole.name.rpartition("#")
    return (whole.with_name(name), part) if name and not whole.exists() else (whole, "")


def work_folder(path: str | Path) -> Path:
    """The same of a folder to be worked in: other people's files are refused, not copied."""
    return local_path(path, ours=True)


def copy_of(path: Path) -> RemoteCopy | None:
    """The copy that this path is in."""
    return next((COPIES[folder] for folder in (path, *path.parents) if folder in COPIES), None) if COPIES else None


def as_given(path: str | Path) -> str:
    """A path as it was typed, an address with all of its slashes."""
    return address_of(path) if is_remote(path) else str(path)


def known_as(path: str | Path) -> str:
    """How this is to be written down: its address, or the absolute path."""
    if is_remote(path):
        return address_of(path)
    copy = copy_of(Path(path))
    return str(Path(path).absolute()) if copy is None else copy.address_in(Path(path))


def timestamp(when: datetime | None = None) -> str:
    return (when or datetime.now(UTC)).isoformat(timespec="seconds")


def current_user() -> str:
    """$UNDERSTUDY_USER, or else the login name."""
    try:
        return os.environ.get("UNDERSTUDY_USER") or getpass.getuser()
    except (OSError, KeyError):  # a user without a name
        return "unknown"


def cache_path() -> Path:
    """``$UNDERSTUDY_CACHE``, else ``~/.cache/understudy``."""
    return Path(os.environ.get("UNDERSTUDY_CACHE") or Path.home() / ".cache" / "understudy")


def cache_folder(named: Path | None = None) -> Path:
    """The one named, else ``cache_path()``; made if it is not there."""
    folder = named or cache_path()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UnderstudyError(f"cannot make {folder}: {error.strerror}; set UNDERSTUDY_CACHE to another") from error
    return folder


@contextmanager
def locked(folder: Path, *, lend: bool = False) -> Iterator[None]:
    """The folder is ours until the block ends or the process dies, however it dies: the system then lets go.

    A forked process does not inherit the lock; what it does at the end of the block touches nothing of its parent's.
    ``lend``: what is called in the block may lock the folder as well, and so write to it.
    A folder that is kept elsewhere (``store/copies.py``) is locked there as well, and outlives a kill there.
    """
    try:
        folder = work_folder(folder)
        owned = (os.getpid(), folder.resolve())
    except ValueError as error:
        raise UnderstudyError(f"{str(folder)!r} cannot be a folder's name ({error}); choose another") from error
    if owned in _LENT.get():
        yield
        return
    from filelock import FileLock, Timeout  # 30 ms that only writers pay

    path = folder / LOCK
    try:
        new = not folder.exists()
        folder.mkdir(parents=True, exist_ok=True)
        # A soft lock would outlive a killed owner. The block may end in another thread: in a finaliser, say.
        lock = FileLock(path, blocking=False, thread_local=False, fallback_to_soft=False)
        lock.acquire()
    except Timeout as error:
        raise UnderstudyError(f"{folder} is being written by another process ({_owner(path)}); wait for it") from error
    except OSError as error:
        raise UnderstudyError(f"cannot lock {folder}: {error.strerror}; choose one on a local disk") from error
    with suppress(OSError):  # on Windows what is locked may not be written
        path.write_text(f"{os.getpid()}\n")
    remove_unfinished(folder.rglob(".*"))
    before = _LENT.get()
    try:
        copy = copy_of(folder)
        with nullcontext() if copy is None else copy.owned(current_user(), timestamp()):
            if lend:
                _LENT.set(before | {owned})
            yield
    except BaseException:
        if lock.is_locked:
            _leave_nothing(folder, new)
        raise
    finally:
        if lend:
            _LENT.set(before)
        lock.release()


def _owner(path: Path) -> str:
    try:
        return path.read_text(errors="replace").strip() or "unknown"
    except OSError:
        return "unknown"


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


def check_new_file(path: Path, what: str, kinds: Sequence[str]) -> None:
    """Whether a file of one of these kinds could be written here; checked before long work as well."""
    path = local_path(path)
    if path.suffix.lower() not in kinds:
        *some, last = kinds
        raise UnderstudyError(f"{path}: {what} written as {', '.join(some)} or {last}; end the name in one of them")
    if path.exists():
        raise UnderstudyError(f"{path} already exists and is not overwritten; choose another name or remove it")


def write_text(path: Path, content: str) -> None:
    write_bytes(path, content.encode())


def write_json(path: Path, content: Any) -> None:
    write_text(path, json.dumps(content, indent=2, ensure_ascii=False) + "\n")


def read_json(path: Path) -> Any:
    if path.exists() and not path.is_file():
        raise UnderstudyError(f"{path} is no plain file; restore it")
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UnderstudyError(f"cannot read {path}: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise UnderstudyError(f"{path} is not valid JSON ({error}); restore it, or write it again") from error


def refuse_constant(name: str) -> None:
    """For ``json.loads``, which would take NaN and Infinity."""
    raise ValueError(f"{name} is not JSON")


@contextmanager
def appearing_whole(
    path: Path, *, keep_suffix: bool = True, cure: str = "check the folder and the free space"
) -> Iterator[Path]:
    """A temporary path beside ``path``, renamed where the block succeeds. Some libraries insist on a file's suffix."""
    path = local_path(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        remove_unfinished(path.parent.glob(f".{escape(path.name)}.*"))
        with _temporary(path, path.suffix if keep_suffix else "") as temporary:
            yield temporary
            _sync(temporary)
            os.replace(temporary, path)
            if os.name == "posix":  # the rename itself must survive a power cut; Windows opens no folders
                _sync(path.parent)
    except OSError as error:
        raise UnderstudyError(f"cannot write {path}: {error.strerror}; {cure}") from error
    published(path)


def published(path: Path) -> None:
    """This file has just appeared whole, or grown by a line: it is put where its folder is kept."""
    copy = copy_of(path)
    if copy is not None and copy.process == os.getpid():  # of what a worker made, the owner of the work decides
        copy.publish(path)


@contextmanager
def folder_appearing_whole(path: Path) -> Iterator[Path]:
    """A temporary folder beside ``path``, which must not be there yet, renamed where the block succeeds."""
    if path.exists():
        raise UnderstudyError(f"{path} already exists and is not overwritten; choose another name or remove it")
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        temporary.mkdir(parents=True)
        try:
            yield temporary
            for file in [*temporary.rglob("*"), temporary]:
                if file.is_file() or os.name == "posix":
                    _sync(file)
            os.rename(temporary, path)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
    except OSError as error:
        raise UnderstudyError(f"cannot write {path}: {error.strerror}; check the folder and the free space") from error


@contextmanager
def _temporary(path: Path, ending: str) -> Iterator[Path]:
    """A new file beside ``path``, removed at the end; its mode is as the umask says, and it is marked as in use."""
    while True:
        temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}{ending}")
        handle = os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666)
        if _marks(handle) and os.fstat(handle).st_nlink:  # else another process took it for a leftover
            break
        os.close(handle)
    try:
        if os.name != "posix":  # open files cannot be removed or renamed there
            os.close(handle)
        yield temporary
    finally:
        temporary.unlink(missing_ok=True)
        if os.name == "posix":
            os.close(handle)


def _marks(handle: int, *, unknown: bool = True) -> bool:
    """Lock a file until the handle is closed or the process dies; False where another process has it locked.

    ``unknown``: the result on a file system without such locks.
    """
    try:
        import fcntl
    except ImportError:
        return True
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return unknown
    return True


def remove_unfinished(paths: Iterable[Path]) -> None:
    """Temporary files among these that no living process writes to."""
    for path in paths:
        if not _UNFINISHED.fullmatch(path.name):
            continue
        with suppress(OSError):
            handle = os.open(path, os.O_WRONLY | getattr(os, "O_NOFOLLOW", 0))
            try:
                if _marks(handle, unknown=False):
                    path.unlink(missing_ok=True)
            finally:
                os.close(handle)


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def write_named(path: Path, content: bytes, *, digits: int = 32) -> Path:
    """Write a file whose name holds the first ``digits`` of its digest in the place of ``{digest}``; its path."""
    path = path.with_name(path.name.format(digest=digest(content)[:digits]))
    write_bytes(path, content)
    return path


def read_named(path: Path) -> bytes:
    """The content of such a file; a ValueError where it is not what the name says, an OSError where it is not there."""
    content = path.read_bytes()
    name = re.search(r"[0-9a-f]{32,64}$", path.stem)
    if name is None or not digest(content).startswith(name[0]):
        raise ValueError(f"{len(content)} bytes that do not match the checksum in the name")
    return content
