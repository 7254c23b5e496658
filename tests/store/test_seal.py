"""Seals: what was damaged, deleted, exchanged or edited is found; what they name is never looked for elsewhere."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from understudy.errors import UnderstudyError
from understudy.store.files import digest, locked, write_json, write_text
from understudy.store.seal import inspect_seal, read_sealed, sealed, unsealed

CONTENT = {"format": 1, "names": ["b", "a"], "losses": {10.0: 1.5, 9.0: 2.0}}
"""Numbers as keys are sorted otherwise once they are texts."""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (tmp_path / "run").mkdir()
    for name in ("one", "two"):
        write_text(tmp_path / "run" / name, f"file {name}")
    files = {name: f"file {name}".encode() for name in ("one", "two")}
    write_json(tmp_path / "run" / "config.json", sealed(CONTENT, files))
    return tmp_path / "run" / "config.json"


def refused(path: Path, said: str) -> None:
    with pytest.raises(UnderstudyError, match=said):
        read_sealed(path, format=1)


def test_what_is_whole_is_read(path: Path) -> None:
    assert unsealed(read_sealed(path, format=1)) == json.loads(json.dumps(CONTENT))
    path.write_text(json.dumps(json.loads(path.read_text())))  # other spaces say the same
    read_sealed(path, format=1)


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
        {**stored, "seal": "0" * 64},
    ):
        path.write_text(json.dumps(changed))
        refused(path, "is not as it was written")
    two.unlink()
    for changed in (unsealed(stored), {name: value for name, value in stored.items() if name != "seal"}):
        path.write_text(json.dumps(changed))
        refused(path, "has no checksum")
    write_json(path, sealed({**unsealed(stored), "format": 2}))
    refused(path, "another version")


@pytest.mark.parametrize("name", ["../secret", "/dev/zero", "inner/../../secret", "c:\\secret", "..", "/"])
def test_a_seal_that_leads_out_of_the_folder(path: Path, name: str) -> None:
    (path.parents[1] / "secret").write_text("secret")
    write_json(path, _naming(name, b"secret"))
    refused(path, "leads out of the folder")


def test_a_seal_that_names_a_link_a_pipe_or_a_folder(path: Path) -> None:
    (path.parents[1] / "outside").mkdir()
    (path.parents[1] / "outside" / "secret").write_text("secret")
    (path.parent / "link").symlink_to("/dev/zero")
    (path.parent / "inner").symlink_to(path.parents[1] / "outside")
    os.mkfifo(path.parent / "pipe")
    for name, said in (("link", "is a link"), ("inner/secret", "is a link"), ("pipe", "no plain file")):
        write_json(path, _naming(name, b"secret"))
        refused(path, said)
    path.unlink()
    path.symlink_to("/dev/zero")
    refused(path, "no plain file")


def _naming(name: str, content: bytes) -> dict[str, Any]:
    return sealed(CONTENT, {name: content})


def test_nothing_is_looked_up_in_a_broken_seal(path: Path) -> None:
    findings = list(inspect_seal(path, {**json.loads(path.read_text()), "names": []}))
    assert [found.path for found in findings] == [path]


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
