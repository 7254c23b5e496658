"""Programs in forks of this process, which has imported torch already: a process boundary without its seconds."""

import os
import signal
import sys
import traceback
import warnings
from pathlib import Path


class Program:
    """Code in a process of its own, with ``sys.argv[1:]``; what it prints can be read from ``stdout``."""

    def __init__(self, code: str, *arguments: object, folder: Path | None = None, errors: Path | None = None) -> None:
        reader, writer = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            status = 1
            try:
                os.dup2(writer, 1)
                if errors is not None:
                    os.dup2(os.open(errors, os.O_WRONLY | os.O_CREAT), 2)
                sys.stdout, sys.stderr = os.fdopen(1, "w", closefd=False), os.fdopen(2, "w", closefd=False)
                for handled in (signal.SIGINT, signal.SIGTERM):
                    signal.signal(handled, signal.SIG_DFL if handled == signal.SIGTERM else signal.default_int_handler)
                warnings.resetwarnings()  # pytest makes errors of them
                os.chdir(folder or ".")
                sys.argv = ["program", *map(str, arguments)]
                exec(compile(code, "program", "exec"), {"__name__": "__main__"})
                status = 0
            except SystemExit as end:
                status = end.code if isinstance(end.code, int) else int(end.code is not None)
            except BaseException:
                traceback.print_exc()
            finally:
                sys.stdout.flush(), sys.stderr.flush()
                os._exit(status)
        os.close(writer)
        self.stdout = os.fdopen(reader)
        self.status: int | None = None

    def poll(self) -> int | None:
        if self.status is None:
            found, status = os.waitpid(self.pid, os.WNOHANG)
            self.status = os.waitstatus_to_exitcode(status) if found else None
        return self.status

    def wait(self) -> int:
        """Its exit code; minus the signal that ended it."""
        if self.status is None:
            self.status = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        return self.status

    def send_signal(self, number: int) -> None:
        os.kill(self.pid, number)

    def rest(self) -> str:
        """What is left to read, once it has ended."""
        with self.stdout:
            text = self.stdout.read()
        self.wait()
        return text


UNDERSTUDY = "from understudy.cli import main; main()"
"""The command line, with the arguments of the program."""
