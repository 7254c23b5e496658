"""The command line, one module per command: arguments in, calls of the library out.

A mistake of the user's is one line on stderr and exit code 2; Ctrl-C is one line and 130. A traceback is a bug.
"""

import sys
from importlib import import_module
from typing import Annotated, Any

import typer
import typer.core

import understudy
from understudy.errors import UnderstudyError
from understudy.io.data_options import FEATURES, FILES
from understudy.store.console import ProgressBar, Stopped, collected_warnings, complain, ends_on_sigterm, last_words

# What typer raises for a misspelt option or a missing argument; it does not export the name.
_UsageError: Any = typer.BadParameter.__mro__[1]


class OneLineErrors(typer.core.TyperGroup):
    def get_params(self, ctx: Any) -> Any:
        # Typer's own flags are None by default, and to make flags of that it loads pydantic: a fifth of a help's time.
        for each in (every := super().get_params(ctx)):
            each.default = False if each.default is None and getattr(each, "is_flag", False) else each.default
        return every

    def invoke(self, ctx: Any) -> Any:
        try:
            with ends_on_sigterm(), collected_warnings(lambda text: complain(f"warning: {text}")):
                return super().invoke(ctx)
        except (UnderstudyError, KeyboardInterrupt, Stopped, MemoryError, RuntimeError, OSError) as error:
            words = last_words(error)
            if words is None:
                raise
            complain(words[0])
            if isinstance(error, Stopped):
                raise
            raise typer.Exit(words[1]) from error
        finally:
            ProgressBar.muted = False

    def main(self, *args: Any, standalone_mode: bool = True, **extra: Any) -> Any:
        try:
            code = super().main(*args, **extra | {"standalone_mode": False})
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


class OnceEach(typer.core.TyperCommand):
    """Refuses files and columns that are named again where only the last ones would count."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        order: Any = [] if ctx.resilient_parsing else self.make_parser(ctx).parse_args(args=[*args])[2]
        data = [each for each in order if each.name in ("gold", "pool") or each.rich_help_panel in (FILES, FEATURES)]
        for each in data:
            if data.count(each) > 1 and not (each.multiple or each.is_flag):
                raise typer.BadParameter("given twice; give it once, a list as a,b", ctx=ctx, param=each)
        return super().parse_args(ctx, args)


app = typer.Typer(
    cls=OneLineErrors,
    no_args_is_help=True,
    rich_markup_mode="markdown",
    help="Train a small model from a few trusted labels and many imperfect ones.\n\n"
    "Start with `understudy demo` (about a minute, writes a report). Then `understudy train --help` says what your "
    "files must look like, and `understudy predict` applies what was trained.",
)

# In the order a user meets them.
COMMANDS = (
    "demo", "example", "ask", "import", "teach", "encode", "audit", "estimate", "watch", "reconcile", "train",
    "compare", "predict", "defer", "export", "serve", "select", "tasks", "budget", "label", "campaign", "history",
    "verify", "unlock", "reproduce",
)  # fmt: skip
_HOMES = {"import": "import_labels", "unlock": "verify"}
for name in COMMANDS:
    module = import_module(f"understudy.cli.{_HOMES.get(name, name)}")
    app.command(name, cls=OnceEach)(getattr(module, f"{name}_command"))


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"understudy {understudy.__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="The version.")] = False,
) -> None:
    pass


def main() -> None:
    app()
