"""Copies of folders that are kept elsewhere: what is put in which order, what a reader gets, who may write."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from fsspec.implementations.memory import MemoryFile

import understudy as us
from understudy.store.copies import RemoteCopy
from understudy.store.files import known_as, local_path, locked, work_folder, write_bytes, write_json


@pytest.fixture
def steps(memory: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """What is put and removed, in order."""
    done: list[str] = []
    put, remove = type(memory).put_file, type(memory).rm_file

    def putting(self: Any, source: str, target: str, **more: Any) -> None:
        put(self, source, target, **more)
        done.append(f"{more['mode']} {target}")

    def removing(self: Any, path: str) -> None:
        remove(self, path)
        done.append(f"remove {path}")

    monkeypatch.setattr(type(memory), "put_file", putting)
    monkeypatch.setattr(type(memory), "rm_file", removing)
    yield done


def test_the_storage_goes_through_the_states_of_a_local_folder(memory: Any, steps: list[str]) -> None:
    folder = work_folder("memory://w")
    with locked(folder):
        write_json(folder / "config.json", {"a": 1})
        (folder / "by_others.txt").write_text("not by write_bytes")
        write_json(folder / "cells" / "1.json", {})
        (folder / ".new").write_text("now by write_bytes")
        (folder / ".new").rename(folder / "by_others.txt")  # as long as before
        (folder / "config.json").unlink()
        write_json(folder / "settings.json", {})
        write_json(folder / "settings.json", {"again": True})
        (folder / "by_others.txt").rename(folder / "renamed.txt")
        (folder / ".hidden").write_text("")
    assert steps == [
        "create /w/config.json", "create /w/by_others.txt", "create /w/cells/1.json",
        "overwrite /w/by_others.txt", "remove /w/config.json", "create /w/settings.json", "overwrite /w/settings.json",
        "create /w/renamed.txt", "remove /w/by_others.txt", "remove /w/.lock",
    ]  # fmt: skip
    assert sorted(memory.find("/w")) == ["/w/cells/1.json", "/w/renamed.txt", "/w/settings.json"]


def test_what_failed_is_told_and_leaves_no_lock(memory: Any) -> None:
    folder = work_folder("memory://w")
    with pytest.raises(ValueError, match="what went wrong"), locked(folder):
        write_json(folder / "config.json", {})
        raise ValueError("what went wrong")
    assert memory.find("/w") == ["/w/config.json"]


def test_two_writers(memory: Any) -> None:
    folder = work_folder("memory://w")
    other = RemoteCopy("memory://w")
    with locked(folder):
        with pytest.raises(us.UnderstudyError, match=r"memory://w is being written by .* since .* understudy unlock"):
            other.lock.acquire("me", "now")
        with locked(folder / "cells"):  # what is called may lock a part
            write_json(folder / "cells" / "1.json", {})
    other.lock.acquire("me", "now")
    with pytest.raises(us.UnderstudyError, match="being written"), locked(folder):
        pass
    assert f"process {os.getpid()}, since" in us.unlock("memory://w")
    with locked(folder):
        pass
    with pytest.raises(us.UnderstudyError, match=r"was taken from this process"):
        other.publish()


def test_a_server_without_create_only_puts_still_has_one_writer(memory: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    real = type(memory).pipe_file
    monkeypatch.setattr(type(memory), "pipe_file", lambda self, path, value, mode="", **_: real(self, path, value))
    one, other = RemoteCopy("memory://w"), RemoteCopy("memory://w")
    one.lock.acquire("me", "now")
    with pytest.raises(us.UnderstudyError, match="being written"):
        other.lock.acquire("me", "now")
    one.lock.check()


def test_a_name_that_appeared_meanwhile_is_not_overwritten(memory: Any) -> None:
    path = local_path("memory://made/said.csv")
    assert not path.exists()
    memory.pipe_file("/made/said.csv", b"theirs")
    with pytest.raises(us.UnderstudyError, match=r"memory://made/said.csv was written by another process"):
        write_bytes(path, b"ours")
    assert memory.cat_file("/made/said.csv") == b"theirs"
    again = local_path("memory://made/other.csv")
    memory.pipe_file("/made/other.csv", b"the same")
    write_bytes(again, b"the same")  # as a put that was sent twice finds it


def test_a_reader_gets_one_state(memory: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A writer that puts a shard and then counts it, between a reader's listing and its fetch."""
    memory.pipe_file("/read/store.json", b"1")
    memory.pipe_file("/read/shard-1", b"one")
    get, turns = type(memory).get, iter([True, False, False])

    def getting(self: Any, *given: Any, **more: Any) -> None:
        if next(turns):
            memory.pipe_file("/read/shard-2", b"two")
            memory.pipe_file("/read/store.json", b"2")
        get(self, *given, **more)

    monkeypatch.setattr(type(memory), "get", getting)
    folder = work_folder("memory://read")
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == {
        "store.json": b"2", "shard-1": b"one", "shard-2": b"two",
    }  # fmt: skip
    memory.rm_file("/read/shard-1")
    assert sorted(path.name for path in work_folder("memory://read").iterdir()) == ["shard-2", "store.json"]


def test_a_run_that_replaces_another_is_whole_at_every_step(memory: Any, steps: list[str]) -> None:
    x = torch.randn(60, 3, generator=torch.Generator().manual_seed(0))
    gold = us.Gold(x, (x[:, 0] > 0).long())
    student = torch.nn.Linear(3, 2)
    with_select = us.train(student, gold, None, us.vanilla(), epochs=1, select=gold, progress=False)
    us.train(student, gold, None, us.vanilla(), epochs=1, progress=False).save("memory://a")
    with_select.save("memory://run")
    steps.clear()
    us.Run.load("memory://a", student=student).save("memory://run")
    assert steps[-1] == "overwrite /run/config.json"
    assert steps.index("remove /run/selected.safetensors") < steps.index("overwrite /run/config.json")


@pytest.mark.parametrize(
    "name",
    ["{}/secret", "/{}/secret", "../secret", "a/../../secret", "a/../b", "..", "a/..", ".hidden/../b", ".", "./a",
     "a//b", "//a", "/.hidden", "a\\b", "..\\a", "a\0b", "config.json/b"],
)  # fmt: skip
def test_an_object_whose_name_leads_out_of_the_folder_is_refused(name: str, memory: Any, tmp_path: Path) -> None:
    memory.pipe_file("/w/config.json", b"{}")
    path = "/w/" + name.format(tmp_path)
    memory.store[path] = MemoryFile(memory, path, b"from the bucket")  # as a bucket has it: any name
    with pytest.raises(us.UnderstudyError, match="cannot be a file's name in this folder; rename or remove it"):
        local_path("memory://w")
    assert not list(tmp_path.iterdir())


def test_marks_of_folders_are_no_files(memory: Any) -> None:
    memory.pipe_file("/marks/config.json", b"{}")
    for path in ("/marks/", "/marks/cells/"):
        memory.store[path] = MemoryFile(memory, path, b"")
    assert [path.name for path in local_path("memory://marks").iterdir()] == ["config.json"]


def test_names_to_write_down(memory: Any, tmp_path: Path) -> None:
    folder = work_folder("memory://w")
    assert known_as(folder / "a" / "b") == "memory://w/a/b" and known_as(folder) == "memory://w"
    assert known_as(Path("s3://b/k")) == "s3://b/k" and known_as(tmp_path) == str(tmp_path)
    assert str(us.UnderstudyError(f"{folder}/x and {Path('s3://b/k')}")) == "memory://w/x and s3://b/k"
