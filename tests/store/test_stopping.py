"""SIGTERM: at once where nothing is under way, at the next good place where something is, and never a half file."""

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from understudy.store import files
from understudy.store.console import Stopped, deferred, ends_on_sigterm, stop_if_requested, stop_requested
from understudy.store.files import appearing_whole, locked, write_text


def terminate() -> None:
    signal.raise_signal(signal.SIGTERM)


def test_outside_a_deferral_it_ends_where_it_stands() -> None:
    with pytest.raises(Stopped) as stopped, ends_on_sigterm():
        terminate()
    assert stopped.value.code == 143
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL and not stop_requested()


def test_a_deferred_stop_waits_for_a_good_place() -> None:
    done = []
    with pytest.raises(Stopped), ends_on_sigterm(), deferred():
        terminate()
        done.append("saved")
        assert stop_requested()
        with deferred():
            pass  # the inner end is not the end
        done.append("more")
        stop_if_requested()
        done.append("never")
    assert done == ["saved", "more"]


def test_the_end_of_a_deferral_is_a_good_place() -> None:
    with pytest.raises(Stopped), ends_on_sigterm():
        with deferred():
            terminate()
        raise AssertionError


def test_a_second_one_does_not_wait() -> None:
    done = []
    with pytest.raises(Stopped), ends_on_sigterm(), deferred():
        terminate()
        done.append(1)
        terminate()
        done.append(2)
    assert done == [1]


def test_an_error_is_not_hidden_by_a_stop() -> None:
    with pytest.raises(ZeroDivisionError), ends_on_sigterm(), deferred():
        terminate()
        raise ZeroDivisionError


def test_handlers_of_others_and_other_threads_are_left_alone() -> None:
    seen = []
    before = signal.signal(signal.SIGTERM, lambda *rest: seen.append(1))
    try:
        with ends_on_sigterm(), deferred():
            terminate()
    finally:
        signal.signal(signal.SIGTERM, before)
    assert seen == [1]

    def work() -> None:
        with ends_on_sigterm(), deferred():
            seen.append(2)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [1, 2]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_fork_ends_as_it_would_have() -> None:
    with ends_on_sigterm(), deferred():
        child = os.fork()
        if child == 0:
            terminate()
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGTERM
        assert not stop_requested()


def test_a_stopped_command_leaves_no_temporary_file(tmp_path: Path) -> None:
    with pytest.raises(Stopped), ends_on_sigterm(), appearing_whole(tmp_path / "table.csv") as temporary:
        temporary.write_text("half")
        terminate()
    assert list(tmp_path.iterdir()) == []


KILLED = """
import os, signal, sys
from pathlib import Path
from understudy.store.files import appearing_whole
with appearing_whole(Path(sys.argv[1]), keep_suffix=sys.argv[2] == "1") as temporary:
    temporary.write_text("half")
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("keep_suffix", [0, 1])
def test_what_a_killed_process_left_is_removed_by_the_next(tmp_path: Path, keep_suffix: int) -> None:
    (tmp_path / "inner").mkdir()
    for name in ("table.csv", "inner/other [1].csv"):
        subprocess.run([sys.executable, "-c", KILLED, str(tmp_path / name), str(keep_suffix)])
    strange = tmp_path / ".table.csv.mine"
    strange.touch()
    assert len(list(tmp_path.rglob(".*"))) == 3
    write_text(tmp_path / "table.csv", "whole")
    assert len(list(tmp_path.rglob(".*"))) == 2
    with locked(tmp_path):
        pass
    assert sorted(path.name for path in tmp_path.rglob(".*")) == [".lock", strange.name]


def test_what_somebody_still_writes_is_not_removed(tmp_path: Path) -> None:
    with appearing_whole(tmp_path / "table.csv") as temporary:
        temporary.write_text("mine")
        write_text(tmp_path / "table.csv", "yours")
        with locked(tmp_path):
            pass
        assert temporary.read_text() == "mine"
    assert (tmp_path / "table.csv").read_text() == "mine"


def test_a_file_taken_for_a_leftover_is_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real, gone = files._marks, []

    def marks(handle: int) -> bool:
        if not gone:
            gone.extend(tmp_path.iterdir())
            gone[0].unlink()
        return real(handle)

    monkeypatch.setattr(files, "_marks", marks)
    write_text(tmp_path / "table.csv", "whole")
    assert len(gone) == 1 and [path.name for path in tmp_path.iterdir()] == ["table.csv"]
