"""``torchrun -m understudy train``: one run, one voice, one exit code."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from typer.testing import CliRunner

from understudy.cli import app, main
from understudy.errors import UnderstudyError
from understudy.training import distributed
from understudy.training.session import Session

from ..three_blobs import CLASSES, labels, points


@pytest.fixture(scope="module")
def command(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Ten batches in two epochs; with a test set nothing is cross-validated."""
    tmp_path = tmp_path_factory.mktemp("files")
    x, y = points(200)
    teacher = labels(y, "soft").dense(torch.arange(200), CLASSES)
    gold, pool, test = (tmp_path / f"{name}.npz" for name in ("gold", "pool", "test"))
    np.savez(gold, x=x[:60].numpy(), label=y[:60].numpy(), teacher_probs=teacher[:60].numpy())
    np.savez(pool, x=x[60:160].numpy(), teacher_probs=teacher[60:160].numpy())
    np.savez(test, x=x[160:].numpy(), label=y[160:].numpy())
    method = ["--method", "slam", "--student", "mlp:8", "--epochs", "2", "--batch-size", "32", "--lr", "0.01"]
    return ["train", "--gold", str(gold), "--pool", str(pool), "--test", str(test), *method, "--weight-decay", "0"]


@pytest.fixture(scope="module")
def alone(command: list[str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run of one process: this one, so that forks find every module imported."""
    out = tmp_path_factory.mktemp("alone") / "run"
    assert CliRunner().invoke(app, [*command, "--out", str(out)]).exit_code == 0
    return out


def started(
    arguments: list[str], log: Path, *, size: int = 2, first: Callable[[int], None] = lambda rank: None
) -> list[int]:
    """The command in forks with the environment that torchrun would give them: their exit codes."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    children = []
    for rank in range(size):
        child = os.fork()
        if child == 0:
            code = 1
            try:
                printed = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
                os.dup2(printed, 1), os.dup2(printed, 2)
                sys.stdout, sys.stderr = os.fdopen(1, "w", closefd=False), os.fdopen(2, "w", closefd=False)
                os.environ |= {"RANK": str(rank), "WORLD_SIZE": str(size), "LOCAL_RANK": str(rank)}
                os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
                torch.set_num_threads(1)
                sys.argv = ["understudy", *arguments]
                first(rank)
                main()
            except SystemExit as end:
                code = end.code if isinstance(end.code, int) else 0
            finally:
                sys.stdout.flush(), sys.stderr.flush()
                os._exit(code)
        children.append(child)
    return [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return load_file(folder / "student.safetensors")


@pytest.mark.usefixtures("alone")
def test_an_error_is_printed_once(command: list[str], tmp_path: Path) -> None:
    log = tmp_path / "log"

    def is_slow(rank: int) -> None:
        """Process 1 looks whether the error has been printed when process 0, which knows, would have ended."""
        said = distributed.last_words
        distributed.last_words = lambda error: (time.sleep(rank), said(error))[1]  # type: ignore[attr-defined]

    codes = started([*command, "--select", "nowhere.npz", "--out", str(tmp_path / "run")], log, first=is_slow)
    assert codes == [2, 2] and log.read_text().count("error:") == 1 and "nowhere.npz" in log.read_text()
    assert not (tmp_path / "run").exists()


def test_one_that_fails_ends_all_and_the_run_goes_on(command: list[str], alone: Path, tmp_path: Path) -> None:
    out, log = tmp_path / "run", tmp_path / "log"

    def breaks(rank: int) -> None:
        score, calls = Session.score, iter(range(100))

        def broken(self: Session, *given: object) -> object:
            if rank == 1 and next(calls) == 6:
                raise UnderstudyError("the disk of process 1 is broken; mend it")
            return score(self, *given)  # type: ignore[arg-type]

        Session.score = broken  # type: ignore[method-assign, assignment]

    assert started([*command, "--out", str(out)], log, first=breaks) == [2, 2]
    assert log.read_text().count("error:") == 1 and "process 1 is broken" in log.read_text()
    assert started(["train", "--resume", "--out", str(out)], tmp_path / "resumed") == [0, 0]
    assert (tmp_path / "resumed").read_text().count("Run: ") == 1 and (out / "report.html").exists()
    one, several = weights(alone), weights(out)
    assert max(float((one[name] - several[name]).abs().max()) for name in one) <= 1e-6


@pytest.mark.usefixtures("alone")
@pytest.mark.parametrize("bad", [0, 1])
def test_a_bug_prints_its_traceback_before_the_others_end(bad: int, command: list[str], tmp_path: Path) -> None:
    log = tmp_path / "log"

    def breaks(rank: int) -> None:
        score = Session.score

        def broken(self: Session, *given: object) -> object:
            if rank == bad:
                raise ValueError("a bug of one process")
            return score(self, *given)  # type: ignore[arg-type]

        Session.score = broken  # type: ignore[method-assign, assignment]

    codes = started([*command, "--out", str(tmp_path / "run")], log, first=breaks)
    assert sorted(codes) == [1, 2] and codes[bad] == 1
    assert log.read_text().count("ValueError: a bug of one process") == 1 and "error: another" not in log.read_text()


@pytest.mark.usefixtures("alone")
def test_a_killed_process_is_reported_by_another(command: list[str], tmp_path: Path) -> None:
    log = tmp_path / "log"

    def dies(rank: int) -> None:
        score, calls = Session.score, iter(range(100))

        def killed(self: Session, *given: object) -> object:
            if rank == 0 and next(calls) == 6:
                os.kill(os.getpid(), signal.SIGKILL)
            return score(self, *given)  # type: ignore[arg-type]

        Session.score = killed  # type: ignore[method-assign, assignment]

    assert started([*command, "--out", str(tmp_path / "run")], log, first=dies) == [-signal.SIGKILL, 2]
    assert log.read_text().count("error:") == 1 and "another process" in log.read_text()


@pytest.mark.torture
def test_torchrun_writes_one_run(command: list[str], tmp_path: Path) -> None:
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    done = subprocess.run(
        [*launch, "-m", "understudy", *command, "--out", str(tmp_path / "run")], capture_output=True, text=True,
        timeout=300, env={**os.environ, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("Run: ") == 1 and done.stderr.count("epoch 2/2") == 1
    assert (tmp_path / "run" / "report.html").exists()
