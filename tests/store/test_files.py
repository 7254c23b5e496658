"""Locks: one owner at a time, and only the owner lets go. Files that are known to be whole."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from understudy.errors import UnderstudyError
from understudy.store.files import LOCK, digest, locked, read_named, write_named


def test_a_forked_process_that_leaves_the_block_takes_nothing_with_it(tmp_path: Path) -> None:
    folder, parent = tmp_path / "run", os.getpid()
    try:
        with locked(folder):
            child = os.fork()
            if child == 0:
                raise SystemExit
            assert os.waitpid(child, 0)[1] == 0
            assert (folder / LOCK).exists()
            with pytest.raises(UnderstudyError, match=f"another process \\({parent}\\)"), locked(folder):
                pass
    except BaseException as error:
        if os.getpid() != parent:
            os._exit(0 if isinstance(error, SystemExit) else 1)
        raise
    with locked(folder):
        pass


def test_what_fails_at_once_leaves_no_lock(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), locked(tmp_path / "run"):
        raise ZeroDivisionError
    assert not (tmp_path / "run").exists()


OWNER = """
import os, pathlib, sys, time
from understudy.store.files import locked
with locked(pathlib.Path(sys.argv[1])):
    if os.fork() == 0:
        print(os.getpid(), flush=True)  # by the child, so that what follows a fork is over
    time.sleep(600)
"""


def test_the_lock_of_a_killed_process_ends_though_its_child_lives(tmp_path: Path) -> None:
    owner = subprocess.Popen([sys.executable, "-c", OWNER, tmp_path], stdout=subprocess.PIPE, text=True)
    assert owner.stdout is not None
    child = int(owner.stdout.readline())
    try:
        with pytest.raises(UnderstudyError, match=f"another process \\({owner.pid}\\)"), locked(tmp_path):
            pass
        owner.kill()
        owner.wait()
        os.kill(child, 0)
        with locked(tmp_path):
            pass
    finally:
        owner.kill()
        os.kill(child, signal.SIGKILL)
        owner.stdout.close()


def test_a_file_named_by_its_digest_is_known_to_be_whole(tmp_path: Path) -> None:
    path = write_named(tmp_path / "labels.{digest}.parquet", b"labels")
    assert path.name == f"labels.{digest(b'labels')[:32]}.parquet" and read_named(path) == b"labels"
    path.write_bytes(b"label")
    with pytest.raises(ValueError, match="5 bytes that do not match"):
        read_named(path)
    (tmp_path / "plain.parquet").write_bytes(b"labels")
    with pytest.raises(ValueError, match="do not match"):
        read_named(tmp_path / "plain.parquet")
