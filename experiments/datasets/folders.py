"""Where data lies, and how it gets there: a local folder, or a pinned download into it.

fetch(Pinned(url, sha256), path)     # verified before it gets its name; a broken download leaves nothing behind
"""

import hashlib
import os
import tarfile
import tempfile
import urllib.error
import urllib.request
from pathlib import Path
from typing import NamedTuple

from understudy.errors import UnderstudyError

_BLOCK = 1 << 20


class Pinned(NamedTuple):
    url: str
    sha256: str


def data_root() -> Path:
    """$UNDERSTUDY_DATA, else ../shared/data beside the checkout."""
    return Path(os.environ.get("UNDERSTUDY_DATA", Path(__file__).parents[3] / "shared" / "data"))


def download_folder() -> Path | None:
    """$UNDERSTUDY_DOWNLOAD: a folder that downloads may be written to. Without it nothing is downloaded."""
    named = os.environ.get("UNDERSTUDY_DOWNLOAD")
    return Path(named) if named else None


def find(names: list[str], how: str) -> Path:
    """The first of these files or folders that exists; ``how`` says what to do where none does."""
    folders = [folder for folder in (data_root(), download_folder()) if folder is not None]
    for folder in folders:
        for name in names:
            if (folder / name).exists():
                return folder / name
    raise UnderstudyError(f"{names[0]} is not in {data_root()}; {how}, or set UNDERSTUDY_DATA to the folder it is in")


def find_or_fetch(names: list[str], sources: dict[str, Pinned], folder: str = "") -> Path:
    """As ``find``, after downloading ``sources`` (file name -> where from) where that is allowed and needed.

    Tar archives are unpacked beside themselves, so a name may be a folder inside one.
    """
    how = "set UNDERSTUDY_DOWNLOAD to a folder to download it (" + ", ".join(s.url for s in sources.values()) + ")"
    try:
        return find(names, how)
    except UnderstudyError:
        target = download_folder()
        if target is None:
            raise
    for name, source in sources.items():
        path = fetch(source, target / folder / name)
        if name.endswith((".tar.gz", ".tgz")):
            unpack(path)
    return find(names, how)


def fetch(source: Pinned, path: Path) -> Path:
    """Download to ``path`` unless it is there; the sha256 must match before the file gets its name."""
    if path.exists():
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    digest = hashlib.sha256()
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file, urllib.request.urlopen(source.url, timeout=60) as answer:
            while block := answer.read(_BLOCK):
                digest.update(block)
                file.write(block)
            file.flush()
            os.fsync(file.fileno())
        if digest.hexdigest() != source.sha256:
            raise UnderstudyError(
                f"{source.url} has sha256 {digest.hexdigest()[:12]}…, not {source.sha256[:12]}…; it is not the file "
                "that was pinned, so it was not kept: get it by hand"
            )
        os.replace(temporary, path)
    except (OSError, urllib.error.URLError) as error:
        raise UnderstudyError(f"cannot download {source.url}: {error}; get it by hand into {path.parent}") from error
    finally:
        Path(temporary).unlink(missing_ok=True)
    return path


def unpack(archive: Path) -> None:
    """Into its own folder; members that would land elsewhere are refused by the filter."""
    try:
        with tarfile.open(archive) as tar:
            tar.extractall(archive.parent, filter="data")
    except tarfile.TarError as error:
        raise UnderstudyError(f"cannot unpack {archive}: {error}; remove it and try again") from error
