"""Checked folders: damaged, deleted, replaced and edited files are found; nothing outside the folder is opened."""

import json
import os
from pathlib import Path

import pytest

from understudy.errors import UnderstudyError
from understudy.store.checked_folder import Finding, FolderKind, read_checked, verify_checked, write_checked
from understudy.store.files import digest, locked, write_json, write_text

CONTENT = {"names": ["b", "a"], "losses": {10.0: 1.5, 9.0: 2.0}}
"""Numbers as keys are sorted otherwise once they are texts."""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (tmp_path / "run").mkdir()
    for name in ("one", "two"):
        write_text(tmp_path / "run" / name, f"file {name}")
    files = {name: f"file {name}".encode() for name in ("one", "two")}
    write_checked(tmp_path / "run" / "config.json", CONTENT, files)
    return tmp_path / "run" / "config.json"


def refused(path: Path, said: str) -> None:
    with pytest.raises(UnderstudyError, match=said):
        read_checked(path)


def test_an_unchanged_folder_is_read(path: Path) -> None:
    assert read_checked(path) == json.loads(json.dumps(CONTENT))
    path.write_text(json.dumps(json.loads(path.read_text())))  # other spaces say the same
    read_checked(path)


def test_what_does_not_fit_is_refused(path: Path) -> None:
    one, two = path.parent / "one", path.parent / "two"
    one.write_text("file two")
    refused(path, r"one is damaged \(another checksum\)")
    one.unlink()
    refused(path, "one cannot be read")
    one.write_text("file one")
    stored = json.loads(path.read_text())
    for changed in (
        {**stored, "names": ["a", "b"]},
        {**stored, "sha256": {"one": stored["sha256"]["one"]}},  # a file less
        {**stored, "sha256": stored["sha256"] | {"two": digest(b"forged")}},
        {**stored, "manifest_sha256": "0" * 64},
    ):
        path.write_text(json.dumps(changed))
        refused(path, "is not as it was written")
    two.unlink()
    path.write_text(json.dumps({name: value for name, value in stored.items() if name != "manifest_sha256"}))
    refused(path, "has no checksum")
    write_checked(path, {**CONTENT, "format": 2})
    refused(path, "is of format 2, this version reads 1")


@pytest.mark.parametrize("name", ["../secret", "/dev/zero", "inner/../../secret", "c:\\secret", "..", "/"])
def test_a_manifest_that_leads_out_of_the_folder(path: Path, name: str) -> None:
    (path.parents[1] / "secret").write_text("secret")
    write_checked(path, CONTENT, {name: b"secret"})
    refused(path, "leads out of the folder")


def test_a_manifest_that_lists_a_link_a_pipe_or_a_folder(path: Path) -> None:
    (path.parents[1] / "outside").mkdir()
    (path.parents[1] / "outside" / "secret").write_text("secret")
    (path.parent / "link").symlink_to("/dev/zero")
    (path.parent / "inner").symlink_to(path.parents[1] / "outside")
    os.mkfifo(path.parent / "pipe")
    for name, said in (("link", "is a link"), ("inner/secret", "is a link"), ("pipe", "no plain file")):
        write_checked(path, CONTENT, {name: b"secret"})
        refused(path, said)
    path.unlink()
    path.symlink_to("/dev/zero")
    refused(path, "no plain file")


def test_no_file_of_a_changed_manifest_is_opened(path: Path) -> None:
    write_json(path, {**json.loads(path.read_text()), "names": []})
    assert [found.path for found in verify_checked(path)] == [path]


def test_a_kind_of_folder_checks_more_where_its_manifest_is_unchanged(path: Path) -> None:
    extra = Finding(path.parent / "extra", "is not listed")
    kind = FolderKind("run", "config.json", lambda folder, manifest: [extra])
    with pytest.raises(UnderstudyError, match="is not the manifest of a run"):
        kind.read(path.parent)
    kind.write(path.parent, CONTENT, {name: f"file {name}".encode() for name in ("one", "two")})
    assert kind.read(path.parent) == json.loads(json.dumps(CONTENT))
    assert [found.problem for found in kind.verify(path.parent)] == [None, None, None, "is not listed"]
    path.write_text("{}")
    assert extra not in kind.verify(path.parent)


def test_the_owner_of_a_folder_may_lend_it(tmp_path: Path) -> None:
    with locked(tmp_path, lend=True):
        with locked(tmp_path):
            pass
        with locked(tmp_path / "." / ".." / tmp_path.name):
            pass
        child = os.fork()
        if child == 0:
            try:
                with locked(tmp_path):
                    os._exit(1)
            except UnderstudyError:
                os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
    with locked(tmp_path), pytest.raises(UnderstudyError, match="being written"), locked(tmp_path):
        pass


def test_modes_follow_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        write_text(tmp_path / "private", "")
        os.umask(0o002)
        write_text(tmp_path / "shared", "")
    finally:
        os.umask(before)
    modes = {path.name: path.stat().st_mode & 0o777 for path in tmp_path.iterdir()}
    assert modes == {"private": 0o640, "shared": 0o664}
