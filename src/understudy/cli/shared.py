"""Options that several commands share, each from the table that owns it.

    @takes_options()
    def command(out: Annotated[Path, flag("New folder.")], data: DataOptions, **training: Any) -> None: ...

A field of such a table is an option of the command line: ``data`` brings those of ``io/data_options.py``,
``**training`` those of ``training/options.py``. Help is shown, and a mistake in the arguments reported, before anything
that takes time is loaded: the modules of the work itself are imported by the commands when they run.
"""

import functools
import gc
import inspect
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import MISSING, Field, fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from understudy.errors import UnderstudyError
from understudy.io.data_options import FILES
from understudy.store.console import ProgressBar
from understudy.store.files import check_new_file
from understudy.store.option_fields import is_whole, known, typed_as
from understudy.training.options import AUTO, CHOSEN_AUTOMATICALLY, TrainingOptions

if TYPE_CHECKING:
    from understudy.parallel.executors import Executor
    from understudy.parallel.run_on_file import RunOnFile


def flag(help: str, *names: str, panel: str | None = None, **more: Any) -> Any:
    return typer.Option(*names, help=help, rich_help_panel=panel, **more)


def argument(help: str) -> Any:
    return typer.Argument(help=help, show_default=False)


def read_epochs(text: str) -> int | None:
    """A number; None for ``auto``."""
    if str(text).strip().lower() == AUTO:
        return None
    if not str(text).strip().isdecimal() or int(text) < 1:
        raise typer.BadParameter(f"{text!r} is neither auto nor a whole number, at least 1")
    return int(text)


def typed_fields(table: type) -> "dict[str, Field[Any]]":
    """The fields of an option table that can be typed, by their name on the command line."""
    typed = [each for each in fields(table) if typed_as(each) is not None]
    return {(known(each).flag or each.name).partition("/")[0]: each for each in typed}


def option_parameter(name: str, each: "Field[Any]") -> inspect.Parameter:
    """A field of an option table as a parameter of a command."""
    option, is_epochs = known(each), name == "epochs"
    typed, text, default = typed_as(each), option.help, each.default
    if name in CHOSEN_AUTOMATICALLY:
        typed, text, default = typed | None, f"{text} Default: chosen automatically.", None
    elif default is MISSING:
        default = inspect.Parameter.empty
    elif typed is bool and default is None:
        default = False
    shown = typer.Option(
        f"--{(option.flag or name).replace('_', '-')}", help=text, show_default=default is not None,
        min=int(option.least) if is_whole(each) and option.least is not None and not is_epochs else None,
        rich_help_panel=option.panel, parser=read_epochs if is_epochs else None,
        metavar="N|auto" if is_epochs else option.metavar,
    )  # fmt: skip
    kind: Any = Annotated[typed, shown]
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind)


GOLD = flag("Trusted labels; again with +FILE for the labels of a chosen batch.")
POOL = flag("Imperfect labels. Default: the gold file's rows without a label.")
CLASSES = flag("The classes, e.g. neg,pos.")
TEST = flag("Test set.", panel=FILES)
SELECT = flag("Validation set, which selects the epoch.", panel=FILES)
RunFolder = Annotated[Path, argument("The folder of a finished training.")]
FileOrShards = Annotated[Path, argument("A file of any kind that train reads, or a folder of shards.")]
Selected = Annotated[bool, flag("The student of the selected epoch.", "--selected")]
BatchSize = Annotated[int, flag("Rows at once.", min=1)]
QUIET = Annotated[bool, flag("No progress.", "--quiet")]
NET = "A net and its sizes: linear, mlp:128,128, lenet…; hf:FOLDER, a pretrained net that reads --text; or auto"
Student = Annotated[str, flag(f"{NET}: chosen by the features.")]
Track = Annotated[
    list[str] | None,
    flag("Send training to a tracker: tensorboard (files in --out), mlflow or wandb; repeat for more."),
]
_PLACES = "local (a cluster on this machine), auto (the one it is part of) or HOST:PORT."
Ray = Annotated[str | None, flag(f"Work on Ray instead: {_PLACES}", "--ray", metavar="ADDRESS")]
SHARDS = "Folders of shards"
ShardRay = Annotated[
    str | None, flag("Pass over the shards on Ray: local, auto or HOST:PORT.", "--ray", panel=SHARDS, metavar="ADDRESS")
]
_PROCESSES = "Processes of one thread each (1); with --ray, shards at once (as many as there is room for)."
ShardWorkers = Annotated[int | None, flag(_PROCESSES, panel=SHARDS, min=1)]


@contextmanager
def loading() -> Iterator[None]:
    """Imports without garbage collection: nothing of them is garbage, and searching takes half a second.

    They are not searched later either. A process that has PyTorch already has garbage of its own and is left as it is.
    """
    if "torch" in sys.modules or not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


def takes_options(*without: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Gives a command the options of its tables and of its ``**training``, without those named; and ``--quiet``.

    A parameter whose type is an option table (``data: DataOptions``) gets the table made of what was typed. Where two
    have an option of the same name, the command's own comes first, then that of the first table.
    """

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        signature = inspect.signature(command)
        own = [each for each in signature.parameters.values() if not is_dataclass(each.annotation)]
        tables = {each.name: each.annotation for each in signature.parameters.values() if each not in own}
        trains = [own.pop()] if own[-1].kind is inspect.Parameter.VAR_KEYWORD else []
        taken, flags = {*without, *signature.parameters}, {}
        for role, table in {**tables, **{each.name: TrainingOptions for each in trains}}.items():
            flags[role] = {name: each for name, each in typed_fields(table).items() if name not in taken}
            taken |= flags[role].keys()

        readers = {name: known(each).read for mine in flags.values() for name, each in mine.items()}

        @functools.wraps(command)
        def wrapped(**typed: Any) -> None:
            given = {
                role: {each.name: _read(readers[name], typed.pop(name)) for name, each in mine.items()}
                for role, mine in flags.items()
            }
            ProgressBar.muted = typed.pop("quiet")
            training = given.pop(trains[0].name) if trains else {}
            command(**typed, **{role: tables[role](**values) for role, values in given.items()}, **training)

        shown = [option_parameter(name, each) for mine in flags.values() for name, each in mine.items()]
        quiet = inspect.Parameter("quiet", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=QUIET)
        every = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in (*own, quiet, *shown)]
        every.sort(key=lambda each: each.default is not inspect.Parameter.empty)
        wrapped.__signature__ = signature.replace(parameters=every)  # type: ignore[attr-defined]
        return wrapped

    return decorate


def _read(read: Callable[[Any], Any] | None, value: Any) -> Any:
    return value if read is None else read(value)


def where_to_run(workers: int | None, ray: str | None) -> dict[str, Any]:
    """The arguments ``workers`` or ``executor`` of a function that runs many things."""
    if ray is None:
        return {"workers": workers}
    from understudy.parallel import ray_tasks

    return {"executor": ray_tasks.ray(ray, workers=workers)}


def executor_of(workers: int | None, ray: str | None) -> "Executor":
    """Who passes over the shards: this process, processes, or Ray."""
    from understudy.parallel.executors import WorkerProcesses

    executor: Executor = where_to_run(workers, ray).get("executor") or WorkerProcesses(workers or 1)
    return executor


def refuse_engines(workers: int | None, ray: str | None, cure: str) -> None:
    """A file in one piece is worked on here."""
    if workers is not None or ray is not None:
        named = "--ray" if ray is not None else "--workers"
        raise UnderstudyError(f"{named} is for folders of shards; {cure}")


def open_run(
    run: Path, pool: Path, columns: dict[str, str], out: Path, what: str, suffixes: tuple[str, ...],
    workers: int | None, ray: str | None,
) -> "tuple[RunOnFile, Executor | None]":  # fmt: skip
    """A run and the file to apply it to; where ``out`` is to be a folder, the shards, and who passes over them."""
    if out.suffix:
        refuse_engines(workers, ray, "give --out a name without an ending")
        check_new_file(out, what, suffixes)
    with loading():
        from understudy.parallel.pool_shards import list_pool_shards
        from understudy.parallel.run_on_file import RunOnFile

    shards = None if out.suffix else list_pool_shards(pool)
    return RunOnFile(run, pool, columns, shards=shards), None if shards is None else executor_of(workers, ray)
