"""How a command ends: one line, and a code that says what it was."""

import errno

import pytest
import typer
from typer.testing import CliRunner

from understudy.cli import OneLineErrors


@pytest.mark.parametrize(
    ("raised", "code", "said"),
    [
        (KeyboardInterrupt(), 130, "stopped; a training that has begun continues with understudy train --resume"),
        (MemoryError("Unable to allocate 3 TiB"), 2, "error: out of memory (Unable to allocate 3 TiB)"),
        (RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried"), 2, "out of memory"),
        (OSError(errno.ENOMEM, "Cannot allocate memory"), 2, "out of memory"),
        (RuntimeError("a bug"), 1, ""),
        (OSError(errno.EIO, "a broken disk"), 1, ""),
    ],
)
def test_out_of_memory_is_no_bug(raised: BaseException, code: int, said: str) -> None:
    app = typer.Typer(cls=OneLineErrors)

    @app.command("work")
    def work() -> None:
        raise raised

    @app.command("other")
    def other() -> None:
        pass

    result = CliRunner().invoke(app, ["work"])
    assert result.exit_code == code and said in result.stderr and result.stderr.count("\n") <= 1
