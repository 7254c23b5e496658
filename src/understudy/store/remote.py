"""Addresses: ``s3://bucket/key``, ``gs://bucket/key``, ``memory://name``, ``file:///path``, reached by fsspec.

    fs, root = connect("s3://bucket/pool")              # an fsspec file system, "bucket/pool"
    with reaching("s3://bucket/pool"): fs.find(root)    # what goes wrong there, in one line

An address may come as a ``Path``, which has only one of its slashes left. Credentials come from the environment
(``AWS_ACCESS_KEY_ID`` …, ``AWS_PROFILE``, a role; another server than Amazon's by ``AWS_ENDPOINT_URL``) and are never
part of an address: addresses are written down.

One writer at a time, where storage knows no locks: a small object that only one process can create.

    lock = RemoteLock(fs, "bucket/run", "s3://bucket/run")
    lock.acquire("anna", "2026-01-01")  # refused, with who writes there and since when, where the object exists
    lock.check()                        # before every put: still ours?
    lock.release()
    unlock("s3://bucket/run")      # of a writer that is dead; ``understudy unlock``

A process that is killed leaves its object behind. A dead writer looks like a slow one over a network, so
no process takes its place: a person does. A writer that was taken for dead finds that out before its next put.
"""

import json
import os
import platform
import re
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path, PurePosixPath
from typing import Any

from understudy.errors import UnderstudyError, first_line, install

#: Matches addresses, those of an unknown kind included, and no names of local files.
ADDRESS = re.compile(r"(?:(s3|gs|memory|file):[/\\]+|[A-Za-z][A-Za-z0-9+.-]+://)(.*)", re.DOTALL)
_PACKAGES = {"s3": ("s3fs", install("s3")), "gs": ("gcsfs", "pip install gcsfs")}
_NO_CREDENTIALS = ("NoCredentials", "PartialCredentials", "CredentialRetrieval", "ProfileNotFound", "TokenRetrieval")
_LIBRARIES = ("aiobotocore", "aiohttp", "botocore", "fsspec", "gcsfs", "google", "s3fs")
# Read at one time of a column: what fetches it holds no more than this and the piece in hand.
READ_AT_ONCE = 8 << 20


def address_of(path: str | Path) -> str:
    """The address as it is written everywhere, if it is one that can be reached and that holds no secret."""
    scheme, where = _parts(path)
    return f"{scheme}://{where}"


def local_file(path: str | Path) -> Path | None:
    """What ``file://`` means."""
    scheme, where = _parts(path)
    return Path(f"/{where}") if scheme == "file" else None


def _parts(path: str | Path) -> tuple[str, str]:
    text = str(path).replace("\\", "/") if os.name == "nt" else str(path)
    found = ADDRESS.match(text)
    if found is None or found[1] is None:
        scheme = text.partition(":")[0]
        raise UnderstudyError(f"{scheme}:// is not an address that is read; use s3://, gs://, memory:// or file://")
    scheme, where = found[1], found[2].strip("/")
    if "@" in where.partition("/")[0]:  # never quoted: the message would show the key
        raise UnderstudyError(f"the {scheme}:// address holds credentials; use AWS_PROFILE or AWS_ACCESS_KEY_ID")
    if {"", ".", ".."} & set(where.split("/")):
        raise UnderstudyError(f"{scheme}://{where} names no place; write it like {scheme}://bucket/folder")
    return scheme, where


def connect(address: str) -> tuple[Any, str]:
    """The file system of an address, and where in it."""
    scheme, where = _parts(address)
    package, extra = _PACKAGES.get(scheme, ("fsspec", "pip install fsspec"))
    try:
        import fsspec

        # Others write there too: a listing that was kept would hide it.
        fs = fsspec.filesystem(scheme, use_listings_cache=False)
    except ImportError as error:
        raise UnderstudyError(f"{scheme}:// is reached by {package}, which is not installed: {extra}") from error
    return fs, f"/{where}" if scheme == "memory" else where


@contextmanager
def reaching(address: str) -> Iterator[None]:
    """What storage and network answer, in one line. Files that are (or are not) there are for the caller."""
    bucket = address.partition("://")[2].partition("/")[0]
    try:
        yield
    except (UnderstudyError, FileExistsError):
        raise
    except FileNotFoundError as error:
        if "bucket does not exist" not in str(error):
            raise
        raise UnderstudyError(f"there is no bucket {bucket!r} ({address}); create it, or check the name") from error
    except Exception as error:
        name, library = type(error).__name__, type(error).__module__.partition(".")[0]
        if isinstance(error, PermissionError):
            problem = f"access to {address} is denied; check the credentials in the environment and what they allow"
        elif name.startswith(_NO_CREDENTIALS):
            problem = f"no credentials for {address}; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE"
        elif "Connect" in name or "Timeout" in name:
            problem = f"cannot reach the storage of {address} ({name}); check the network, and AWS_ENDPOINT_URL if set"
        elif isinstance(error, OSError) or library in _LIBRARIES:
            problem = f"cannot use {address}: {first_line(error)}; try again"
        else:
            raise
        raise UnderstudyError(problem) from error


def tag_of(info: Mapping[str, Any]) -> str:
    """What changes whenever the content does: the storage's own tag, or else all that it tells."""
    tag = info.get("ETag") or info.get("etag")
    if tag:
        return str(tag).strip('"')
    # A listing has a time as a number where the file alone has it as a date.
    times = (info.get("created"), info.get("mtime"))
    return " ".join(map(str, (info["size"], *(t.timestamp() if isinstance(t, datetime) else t for t in times))))


@dataclass(frozen=True)
class RemoteFile:
    """A file that is read where it lies, by ranges of bytes; as good as a path wherever one is only named."""

    address: str
    size: int
    tag: str

    @property
    def name(self) -> str:
        return PurePosixPath(self.address).name

    @property
    def suffix(self) -> str:
        return PurePosixPath(self.address).suffix

    def is_dir(self) -> bool:
        return False

    def __str__(self) -> str:
        return self.address

    def open(self) -> Any:
        fs, where = connect(self.address)
        with reaching(self.address):
            # Parquet says what it wants; a cache of more would only be fetched in vain.
            return fs.open(where, "rb", cache_type="none")

    def again(self) -> "RemoteFile":
        """As it is now."""
        fs, where = connect(self.address)
        with reaching(self.address):
            return RemoteFile.of(self.address, fs.info(where))

    @classmethod
    def of(cls, address: str, info: Mapping[str, Any]) -> "RemoteFile":
        return cls(address, int(info["size"]), tag_of(info))


def remote_files(path: str | Path) -> list[RemoteFile] | None:
    """The file at an address, or the files right in the folder there, by name; None where nothing is there."""
    address = address_of(path)
    fs, root = connect(address)
    try:
        with reaching(address):
            infos = fs.ls(root, detail=True)
    except FileNotFoundError:
        return None
    files = [
        RemoteFile.of(f"{address}{info['name'].removeprefix(root)}", info)
        for info in infos
        if info["type"] == "file" and not info["name"].endswith("/")
    ]
    return sorted((file for file in files if not file.name.startswith((".", "_"))), key=lambda file: file.address)


LOCK = ".lock"


class RemoteLock:
    def __init__(self, fs: Any, root: str, address: str) -> None:
        self.fs, self.path, self.address = fs, f"{root}/{LOCK}", address
        #: What the object holds while it is ours; else nothing.
        self.held = b""

    def acquire(self, who: str, since: str) -> None:
        owner = {"who": who, "host": platform.node(), "process": os.getpid(), "since": since}
        content = json.dumps({**owner, "token": secrets.token_hex(16)}).encode()
        # Read before and after: some servers ignore create-only and overwrite.
        there = self.read()
        if there is None:
            with reaching(self.address), suppress(FileExistsError):
                self.fs.pipe_file(self.path, content, mode="create")
            there = self.read()
        if there != content:
            cure = f"wait for it, or, if that is dead: understudy unlock {self.address}"
            raise UnderstudyError(f"{self.address} is being written by another process ({_owner(there)}); {cure}")
        self.held = content

    def check(self) -> None:
        if self.held and (there := self.read()) != self.held:
            self.held = b""
            raise UnderstudyError(f"{self.address} was taken from this process ({_owner(there)}); start again")

    def release(self) -> None:
        """Nothing where it is another's by now."""
        mine, self.held = self.held, b""
        if mine and self.read() == mine:
            with reaching(self.address):
                self.fs.rm_file(self.path)

    def read(self) -> bytes | None:
        try:
            with reaching(self.address):
                return bytes(self.fs.cat_file(self.path))
        except FileNotFoundError:
            return None


def unlock(path: str | Path) -> str:
    """Let others write to an address whose writer is dead; who that was."""
    if ADDRESS.match(str(path)) is None or local_file(path) is not None:
        raise UnderstudyError(f"{path} is a local folder, whose lock goes with its process; nothing to do")
    address = address_of(path)
    fs, root = connect(address)
    lock = RemoteLock(fs, root, address)
    there = lock.read()
    if there is None:
        raise UnderstudyError(f"{address} is not locked; nothing to do")
    with reaching(address):
        fs.rm_file(lock.path)
    return _owner(there)


def _owner(content: bytes | None) -> str:
    try:
        owner = json.loads(content or b"")
        text = f"{owner['who']} on {owner['host']}, process {owner['process']}, since {owner['since']}"
        return text + (", which runs no more" if _is_gone(owner["host"], int(owner["process"])) else "")
    except (ValueError, KeyError, TypeError):
        return "unknown, perhaps the lock of a local folder that was copied there"


def _is_gone(host: str, process: int) -> bool:
    """Whether it was a process of this machine, and there is none of this number any more."""
    try:
        if host == platform.node() and os.name == "posix":
            os.kill(process, 0)
    except OSError as error:
        return isinstance(error, ProcessLookupError)
    return False
