"""Locks: one owner at a time, and only the owner lets go."""

import os
from pathlib import Path

import pytest

from understudy.errors import UnderstudyError
from understudy.store.files import LOCK, locked


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
