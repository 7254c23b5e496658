"""Folders that are kept elsewhere: worked on in a local copy, published file by file as they appear.

    folder = work_folder("s3://bucket/run")      # store/files.py: a local folder with what is there
    with locked(folder): write_json(folder / "config.json", config)     # put there when it is whole

A copy belongs to one process and is gone with it. Whatever appears whole in it (``store/files.py``) is put at once,
after everything that changed before it and after the removal of what was removed before it. So the storage goes
through the same states as a local folder would, one whole object at a time, and whatever can be resumed after a kill
there can be resumed here, on any machine. New names are put create-only. A listing that stays the same while files
are fetched is what a reader gets.
"""

import os
import shutil
import threading
import weakref
from collections.abc import Iterator, KeysView, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath

from understudy import errors
from understudy.errors import UnderstudyError
from understudy.store.remote import RemoteLock, address_of, connect, reaching, tag_of

# By one of these names at its top, a folder is known as one that was written here.
OURS = {
    *("config.json", "request.json", "metrics.jsonl", "checkpoint", "pilot", "features.json", "label_history.jsonl"),
    *("store.json", "state.json", "settings.json", "cells", "comparison.json", "parts", "_pass.json", "watch.json"),
}
# A writer puts a file now and then; a reader that finds another listing so often has met something else.
_ATTEMPTS = 20
Stamp = tuple[int, int, int]
#: By their folders.
COPIES: dict[Path, "RemoteCopy"] = {}
_ONE_AT_A_TIME = threading.RLock()


def copied(path: str | Path, *, ours: bool = False) -> "RemoteCopy":
    """What stands at an address. ``ours``: a folder to be worked in; other people's files are refused, not copied."""
    address = address_of(path)
    with _ONE_AT_A_TIME:
        mine = (copy for copy in COPIES.values() if copy.address == address and copy.process == os.getpid())
        copy = next(mine, None) or RemoteCopy(address)
        copy.ours = copy.ours or ours
        copy.pull()
        COPIES[copy.folder] = copy
        if _shown not in errors.SHOWN:
            errors.SHOWN.append(_shown)
        return copy


def _shown(text: str) -> str:
    """Texts name what is elsewhere by its address."""
    for folder, copy in COPIES.items():
        text = text.replace(str(folder), copy.address)
    return text


class RemoteCopy:
    """``folder``: a file where the address is one. Names are relative to it: "" is the file itself."""

    def __init__(self, address: str) -> None:
        self.address, self.process, self.ours = address, os.getpid(), False
        self.fs, self.root = connect(address)
        self.lock = RemoteLock(self.fs, self.root, address)
        import tempfile  # who works on local folders has no use for it

        scratch = Path(tempfile.mkdtemp(prefix="understudy-")).resolve()
        self.folder = scratch / self.root.rpartition("/")[2]
        #: What is there, as far as it is known here.
        self._tags: dict[str, str] = {}
        #: Of the same files here, when each was fetched or put.
        self._stamps: dict[str, Stamp] = {}
        weakref.finalize(self, _remove, scratch, self.process)

    def address_in(self, path: Path) -> str:
        return f"{self.address}/{self._name(path)}".removesuffix("/")

    @contextmanager
    def owned(self, who: str, since: str) -> Iterator[None]:
        """Only we write there in this block."""
        if self.lock.held:
            yield
            return
        self.lock.acquire(who, since)
        try:
            self.pull(again=True)
            yield
            self.publish()
        except BaseException:
            with suppress(UnderstudyError):  # the first error is the one that is raised
                self.publish()
            with suppress(UnderstudyError):
                self.lock.release()
            raise
        self.lock.release()

    def pull(self, *, again: bool = False) -> None:
        """Fetch what is new there, remove what is gone. While we write, what is here is what is there."""
        if self.lock.held and not again:
            return
        with _ONE_AT_A_TIME:
            for _ in range(_ATTEMPTS):
                listing = self._listing()
                new = [name for name, (tag, _) in listing.items() if self._tags.get(name) != tag]
                if self._fetched(new, listing) and (not new or self._listing() == listing):
                    for name in self._tags.keys() - listing.keys():
                        self._remove(name)
                    return
        raise UnderstudyError(f"{self.address} changes all the time while it is read; try again when it is written")

    def publish(self, last: Path | None = None) -> None:
        """Put what is new here, then remove what was removed here; then ``last``, which has just appeared."""
        with _ONE_AT_A_TIME:
            self.lock.check()
            here = self._here()
            final = None if last is None else self._name(last)
            changed = [name for name, stamp in here.items() if self._stamps.get(name) != stamp and name != final]
            for name in sorted(changed, key=lambda name: here[name]):
                self._put(name)
            for name in self._tags.keys() - here.keys():
                with reaching(self.address), suppress(FileNotFoundError):
                    self.fs.rm_file(self._there(name))
                del self._tags[name], self._stamps[name]
            if final is not None and final in here:
                self._put(final)

    def _put(self, name: str) -> None:
        path, there = self.folder / name, self._there(name)
        stamp = _stamp(path)
        with reaching(self.address):
            try:
                self.fs.put_file(str(path), there, mode="overwrite" if name in self._tags else "create")
            except FileExistsError as error:
                # Ours, where the first answer to a put was lost and it was sent again.
                if self.fs.cat_file(there) != path.read_bytes():
                    other = "was written by another process meanwhile; choose another name"
                    raise UnderstudyError(f"{self.address_in(path)} {other}") from error
            self._tags[name] = tag_of(self.fs.info(there))
        self._stamps[name] = stamp

    def _listing(self) -> Mapping[str, tuple[str, int]]:
        """Names, tags and sizes of what is there."""
        try:
            with reaching(self.address):
                found = self.fs.find(self.root, detail=True)
        except FileNotFoundError:
            found = {}
        # A name that ends in a slash is some tools' mark for a folder; a part that begins with a dot is a lock.
        names = {
            path.removeprefix(self.root).removeprefix("/"): (tag_of(info), int(info["size"]))
            for path, info in found.items()
            if not path.endswith("/")
        }
        if strange := next((name for name in names if not self._is_inside(name, names.keys())), None):
            odd = f"{strange!r}, which cannot be a file's name in this folder"
            raise UnderstudyError(f"{self.address} holds {odd}; rename or remove it")
        seen = {name: info for name, info in names.items() if not any(part[:1] == "." for part in name.split("/"))}
        if self.ours and seen and "" not in seen and not OURS & {name.partition("/")[0] for name in seen}:
            raise UnderstudyError(f"{self.address} holds other files ({min(seen)} …), none of ours; choose another")
        return seen

    def _is_inside(self, name: str, others: KeysView[str]) -> bool:
        """Whether a file of this name lies in the folder, and not below another file. Buckets accept any name."""
        if name and ({"", ".", ".."} & set(name.split("/")) or set(name) & set("\\\0")):
            return False
        below = map(str, PurePosixPath(name).parents)
        return (self.folder / name).is_relative_to(self.folder) and others.isdisjoint(below)

    def _fetched(self, names: list[str], listing: Mapping[str, tuple[str, int]]) -> bool:
        """Whether all of them could be had as they were listed."""
        if not names:
            return True
        paths = [self.folder / name for name in names]
        for path in paths:
            path.parent.mkdir(parents=True, exist_ok=True)
        size, free = sum(listing[name][1] for name in names), shutil.disk_usage(self.folder.parent).free
        if size > free:
            left = f"{self.folder.parent} has {free / 1e9:.1f} GB left; set TMPDIR to a larger disk"
            raise UnderstudyError(f"a copy of {self.address} takes {size / 1e9:.1f} GB, and {left}")
        with reaching(self.address):
            try:
                self.fs.get([self._there(name) for name in names], [str(path) for path in paths])
            except FileNotFoundError:
                return False
        for name, path in zip(names, paths, strict=True):
            tag, size = listing[name]
            if not path.is_file() or path.stat().st_size != size:
                return False
            self._tags[name], self._stamps[name] = tag, _stamp(path)
        return True

    def _remove(self, name: str) -> None:
        """Gone there, gone here, with the folders that held nothing else: storage knows none that are empty."""
        path = self.folder / name
        path.unlink(missing_ok=True)
        with suppress(OSError):
            while path != self.folder:
                path = path.parent
                path.rmdir()
        del self._tags[name], self._stamps[name]

    def _here(self) -> dict[str, Stamp]:
        if self.folder.is_file():
            return {"": _stamp(self.folder)}
        found: dict[str, Stamp] = {}
        for place, folders, names in os.walk(self.folder):
            folders[:] = [name for name in folders if not name.startswith(".")]
            found |= {self._name(path): _stamp(path) for path in (Path(place, n) for n in names if n[0] != ".")}
        return found

    def _name(self, path: Path) -> str:
        return "" if path == self.folder else path.relative_to(self.folder).as_posix()

    def _there(self, name: str) -> str:
        return f"{self.root}/{name}".removesuffix("/")


def _stamp(path: Path) -> Stamp:
    # Clocks of file systems are coarse; a file that took another's place is another one.
    found = path.stat()
    return found.st_mtime_ns, found.st_size, found.st_ino


def _remove(scratch: Path, process: int) -> None:
    if os.getpid() == process:  # a fork's end is not its parent's
        shutil.rmtree(scratch, ignore_errors=True)
