"""Pinned downloads, over file:// URLs: verified before they get their name, and nothing left behind when they fail."""

import hashlib
import io
import tarfile
from pathlib import Path

import pytest
from experiments.datasets.folders import Pinned, fetch, find_or_fetch

from understudy.errors import UnderstudyError


def served(tmp_path: Path, content: bytes) -> Pinned:
    path = tmp_path / "served.bin"
    path.write_bytes(content)
    return Pinned(path.as_uri(), hashlib.sha256(content).hexdigest())


def test_a_verified_download_gets_its_name(tmp_path: Path) -> None:
    source = served(tmp_path, b"pixels" * 1000)
    path = fetch(source, tmp_path / "data" / "set.bin")
    assert path.read_bytes() == b"pixels" * 1000
    assert [found.name for found in path.parent.iterdir()] == ["set.bin"]


def test_another_file_is_refused_and_not_kept(tmp_path: Path) -> None:
    source = served(tmp_path, b"pixels")._replace(sha256="0" * 64)
    with pytest.raises(UnderstudyError, match="not the file that was pinned"):
        fetch(source, tmp_path / "data" / "set.bin")
    assert list((tmp_path / "data").iterdir()) == []


def test_a_missing_source_is_one_line(tmp_path: Path) -> None:
    source = Pinned((tmp_path / "nowhere").as_uri(), "0" * 64)
    with pytest.raises(UnderstudyError, match="cannot download") as error:
        fetch(source, tmp_path / "data" / "set.bin")
    assert "\n" not in str(error.value) and list((tmp_path / "data").iterdir()) == []


def test_nothing_is_downloaded_unless_a_folder_is_named(
    data_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        member = tarfile.TarInfo("inside/train.bin")
        member.size = 3
        tar.addfile(member, io.BytesIO(b"abc"))
    sources = {"set.tar.gz": served(tmp_path, buffer.getvalue())}
    with pytest.raises(UnderstudyError, match="UNDERSTUDY_DOWNLOAD"):
        find_or_fetch(["inside"], sources)
    monkeypatch.setenv("UNDERSTUDY_DOWNLOAD", str(tmp_path / "downloads"))
    assert (find_or_fetch(["inside"], sources) / "train.bin").read_bytes() == b"abc"


def test_an_archive_cannot_write_outside_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        member = tarfile.TarInfo("../outside.bin")
        member.size = 3
        tar.addfile(member, io.BytesIO(b"abc"))
    monkeypatch.setenv("UNDERSTUDY_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("UNDERSTUDY_DOWNLOAD", str(tmp_path / "downloads"))
    with pytest.raises(UnderstudyError, match="cannot unpack"):
        find_or_fetch(["outside.bin"], {"set.tar.gz": served(tmp_path, buffer.getvalue())})
    assert not (tmp_path / "outside.bin").exists()
