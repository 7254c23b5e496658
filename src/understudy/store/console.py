"""How the command line speaks when something is wrong: one line on stderr, never a traceback for a user's mistake.

Exit codes: 2 for a mistake (in the arguments, the files or the data) or too little memory, 130 for Ctrl-C, 143 for
SIGTERM.
"""

import errno
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import typer
import typer.core

from understudy.errors import UnderstudyError, UnderstudyWarning, first_line
from understudy.store.stopping import CODE, Stopped, ends_on_sigterm

# What typer raises for a misspelt option or a missing argument; it does not export the name.
_UsageError: Any = typer.BadParameter.__mro__[1]

NO_MEMORY = ("can't allocate memory", "not enough memory", "out of memory", "bad_alloc", "cannot allocate memory")


class OneLineErrors(typer.core.TyperGroup):
    def invoke(self, ctx: Any) -> Any:
        try:
            with ends_on_sigterm(), shown_warnings():
                return super().invoke(ctx)
        except (UnderstudyError, KeyboardInterrupt, Stopped, MemoryError, RuntimeError, OSError) as error:
            words = last_words(error)
            if words is None:
                raise
            complain(words[0])
            if isinstance(error, Stopped):
                raise
            raise typer.Exit(words[1]) from error

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        windows_expand_args: bool = True,
        **extra: Any,
    ) -> Any:
        try:
            code = super().main(args, prog_name, complete_var, False, windows_expand_args, **extra)
        except _UsageError as error:
            command = error.ctx.command_path if error.ctx is not None else "understudy"
            message = error.format_message()
            # "understudy" alone is a request for help, which is its own message.
            if type(error).__name__ != "NoArgsIsHelpError":
                message = f"error: {' '.join(message.split())} ({command} --help explains)"
            if message.strip():
                typer.echo(message, err=True)
            code = 2
        if standalone_mode:
            sys.exit(code if isinstance(code, int) else 0)
        return code


def last_words(error: BaseException) -> tuple[str, int] | None:
    """The line and the exit code with which this ends a command; None for a bug, which shows its traceback."""
    if isinstance(error, UnderstudyError):
        return f"error: {error}", 2
    if isinstance(error, KeyboardInterrupt):
        return "stopped", 130
    if isinstance(error, Stopped):
        return "stopped by SIGTERM; what is finished is on the disk", CODE
    if is_out_of_memory(error):
        return f"error: out of memory ({first_line(error)}); take fewer rows or workers, or a smaller batch", 2
    return None


def is_out_of_memory(error: BaseException) -> bool:
    """PyTorch says it in words, on a GPU too; a process that cannot be forked by a number."""
    text = str(error).lower()
    return (
        isinstance(error, MemoryError)
        or (isinstance(error, OSError) and error.errno == errno.ENOMEM)
        or (isinstance(error, RuntimeError) and any(words in text for words in NO_MEMORY))
    )


def shown_warnings() -> AbstractContextManager[list[str]]:
    """Warnings of this package as one line on stderr, each once; others as usual."""
    return collected_warnings(lambda text: complain(f"warning: {text}"))


@contextmanager
def collected_warnings(show: Callable[[str], None] | None = None) -> Iterator[list[str]]:
    """The texts of this package's warnings, each once; shown by ``show``, or else as before. Others as usual."""
    texts: list[str] = []
    usual = warnings.showwarning

    def collect(message: Any, category: type[Warning], *rest: Any, **more: Any) -> None:
        ours = issubclass(category, UnderstudyWarning)
        new = str(message) not in texts
        if ours and new:
            texts.append(str(message))
        if not ours or show is None:
            usual(message, category, *rest, **more)
        elif new:
            show(str(message))

    with warnings.catch_warnings():
        warnings.simplefilter("always", UnderstudyWarning)
        warnings.showwarning = collect
        yield texts


def complain(line: str) -> None:
    typer.echo(" ".join(line.splitlines()), err=True)
