"""How the command line speaks when something is wrong: one line on stderr, never a traceback for a user's mistake.

Exit codes: 2 for a mistake (in the arguments, the files or the data), 130 for Ctrl-C.
"""

import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import typer
import typer.core

from understudy.errors import UnderstudyError, UnderstudyWarning

# What typer raises for a misspelt option or a missing argument; it does not export the name.
_UsageError: Any = typer.BadParameter.__mro__[1]


class OneLineErrors(typer.core.TyperGroup):
    def invoke(self, ctx: Any) -> Any:
        try:
            with shown_warnings():
                return super().invoke(ctx)
        except UnderstudyError as error:
            complain(f"error: {error}")
            raise typer.Exit(2) from error
        except KeyboardInterrupt as stop:
            complain("stopped")
            raise typer.Exit(130) from stop

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


@contextmanager
def shown_warnings() -> Iterator[None]:
    """Warnings of this package as one line on stderr, each once; others as usual."""
    usual = warnings.showwarning
    said: set[str] = set()

    def show(message: Any, category: type[Warning], *rest: Any, **more: Any) -> None:
        if not issubclass(category, UnderstudyWarning):
            usual(message, category, *rest, **more)
        elif str(message) not in said:
            said.add(str(message))
            complain(f"warning: {message}")

    with warnings.catch_warnings():
        warnings.simplefilter("always", UnderstudyWarning)
        warnings.showwarning = show
        yield


@contextmanager
def collected_warnings() -> Iterator[list[str]]:
    """Collect the texts of this package's warnings for the report, each once, and show them as before."""
    texts: list[str] = []
    usual = warnings.showwarning

    def show(message: Any, category: type[Warning], *rest: Any, **more: Any) -> None:
        if issubclass(category, UnderstudyWarning) and str(message) not in texts:
            texts.append(str(message))
        usual(message, category, *rest, **more)

    with warnings.catch_warnings():
        warnings.simplefilter("always", UnderstudyWarning)
        warnings.showwarning = show
        yield texts


def complain(line: str) -> None:
    typer.echo(" ".join(line.splitlines()), err=True)
