"""Options that several commands share, each from the table that owns it.

    @takes_options()
    def command(out: Annotated[Path, typer.Option(…)], data: DataOptions, **training: Any) -> None: ...

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
from dataclasses import MISSING, Field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from understudy.errors import UnderstudyError
from understudy.io.data_options import FILES, DataOptions
from understudy.io.data_options import read_classes as read_classes
from understudy.io.data_options import read_list as read_list
from understudy.io.data_options import read_mapping as read_mapping
from understudy.store.files import is_remote
from understudy.store.option_fields import known
from understudy.training.options import AUTO, CHOSEN_AUTOMATICALLY, TrainingOptions

if TYPE_CHECKING:
    from understudy.parallel.executors import Executor
    from understudy.parallel.pool_shards import PoolShards

GOLD = typer.Option(help="Trusted labels; again with +FILE for the labels of a chosen batch.", show_default=False)
TEST = typer.Option(help="Test set.", show_default=False, rich_help_panel=FILES)
SELECT = typer.Option(help="Validation set, which selects the epoch.", show_default=False, rich_help_panel=FILES)
RunFolder = Annotated[Path, typer.Argument(help="The folder of a finished training.", show_default=False)]
Selected = Annotated[bool, typer.Option("--selected", help="The student of the selected epoch.")]
Student = Annotated[
    str,
    typer.Option(
        help="A net and its sizes: linear, mlp:128,128, lenet…; hf:FOLDER, a pretrained net that reads --text; or "
        "auto: chosen by the features."
    ),
]
Ray = Annotated[
    str | None,
    typer.Option(
        "--ray",
        help="Work on Ray instead: local (a cluster on this machine), auto (the one it is part of) or HOST:PORT.",
        show_default=False,
        metavar="ADDRESS",
    ),
]
SHARDS = "Folders of shards"
ShardWorkers = Annotated[
    int | None,
    typer.Option(
        min=1, help="Processes of one thread each (1); with --ray, shards at once (as many as there is room for).",
        show_default=False, rich_help_panel=SHARDS,
    ),
]  # fmt: skip
ShardRay = Annotated[
    str | None,
    typer.Option(
        "--ray", help="Pass over the shards on Ray: local, auto or HOST:PORT.", metavar="ADDRESS", show_default=False,
        rich_help_panel=SHARDS,
    ),
]  # fmt: skip
Quiet = Annotated[bool, typer.Option("--quiet", help="No progress.")]
Track = Annotated[
    list[str] | None,
    typer.Option(
        help="Send training to a tracker: tensorboard (files in --out), mlflow or wandb; repeat for more.",
        show_default=False,
    ),
]


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


def where_to_run(workers: int | None, ray: str | None) -> dict[str, Any]:
    """The arguments ``workers`` or ``executor`` of a function that runs many things."""
    if ray is None:
        return {"workers": workers}
    from understudy.parallel.ray_tasks import RayTasks

    return {"executor": RayTasks(ray, workers=workers)}


def read_epochs(text: str) -> int | None:
    """A number; None for ``auto``."""
    if str(text).strip().lower() == AUTO:
        return None
    if not str(text).strip().isdecimal() or int(text) < 1:
        raise typer.BadParameter(f"{text!r} is neither auto nor a whole number, at least 1")
    return int(text)


def typed_fields(table: type) -> "dict[str, Field[Any]]":
    """The fields of an option table that can be typed, by their name on the command line."""
    return {
        (known(each).flag or each.name).partition("/")[0]: each
        for each in fields(table)
        if known(each).typed is not None
    }


_COLUMN = known(typed_fields(DataOptions)["column"])
Column = Annotated[
    list[str] | None,
    typer.Option("--column", help=_COLUMN.help, show_default=False, rich_help_panel=FILES, metavar=_COLUMN.metavar),
]


def takes_options(*without: str, table: type | None = None) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Gives a command the options of its ``data`` and ``**training``, without those named and those it has itself.

    ``table``: further options, which join those of the training.
    """

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        signature = inspect.signature(command)
        trains = any(each.kind is inspect.Parameter.VAR_KEYWORD for each in signature.parameters.values())
        own = [
            each
            for name, each in signature.parameters.items()
            if name != "data" and each.kind is not inspect.Parameter.VAR_KEYWORD
        ]
        left_out = {*without, *signature.parameters}
        data, training = (
            {name: each for name, each in typed_fields(source).items() if shown and name not in left_out}
            for source, shown in ((DataOptions, True), (TrainingOptions, trains))
        )
        training |= {} if table is None else typed_fields(table)

        @functools.wraps(command)
        def wrapped(**typed: Any) -> None:
            given = {each.name: _read(each, typed.pop(name)) for name, each in data.items()}
            options = {each.name: _read(each, typed.pop(name)) for name, each in training.items() if name in typed}
            command(**typed, data=DataOptions(**given), **options)

        return _shows(wrapped, signature, own, [option_parameter(*each) for each in {**data, **training}.items()])

    return decorate


def _read(each: "Field[Any]", value: Any) -> Any:
    read = known(each).read
    return value if read is None else read(value)


def option_parameter(name: str, each: "Field[Any]") -> inspect.Parameter:
    """A field of an option table as a parameter of a command."""
    option, is_epochs = known(each), name == "epochs"
    default = inspect.Parameter.empty if each.default is MISSING else each.default
    default = False if option.typed is bool and default is None else default
    typed, text = option.typed, option.help
    if name in CHOSEN_AUTOMATICALLY:
        typed, text, default = option.typed | None, f"{option.help} Default: chosen automatically.", None
    shown = typer.Option(
        f"--{(option.flag or name).replace('_', '-')}",
        help=text,
        min=int(option.least) if option.integer and option.least is not None and not is_epochs else None,
        show_default=default is not None,
        rich_help_panel=option.panel,
        parser=read_epochs if is_epochs else None,
        metavar="N|auto" if is_epochs else option.metavar,
    )
    kind: Any = Annotated[typed, shown]
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind)


def flag(help: str, *names: str, panel: str | None = None, **more: Any) -> Any:
    """An option whose default its help names, if any."""
    return typer.Option(*names, help=help, rich_help_panel=panel, show_default=False, **more)


def takes_table(table: type) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Gives a command the flags of a table of options (``store/option_fields.py``) in the place of ``options``."""

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        signature = inspect.signature(command)
        own = [each for name, each in signature.parameters.items() if name != "options"]
        flags = {name: each for name, each in typed_fields(table).items() if name not in signature.parameters}

        @functools.wraps(command)
        def wrapped(**typed: Any) -> None:
            given = {each.name: _read(each, typed.pop(name)) for name, each in flags.items()}
            command(options=table(**given), **typed)

        return _shows(wrapped, signature, own, [option_parameter(name, each) for name, each in flags.items()])

    return decorate


def _shows(
    wrapped: Callable[..., None], signature: inspect.Signature, own: list[inspect.Parameter],
    shown: list[inspect.Parameter],
) -> Callable[..., None]:  # fmt: skip
    """The function with these parameters in its signature, required ones first."""
    catch_all = [each for each in own if each.kind is inspect.Parameter.VAR_KEYWORD]
    every = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in (*own, *shown) if each not in catch_all]
    every.sort(key=lambda each: each.default is not inspect.Parameter.empty)
    wrapped.__signature__ = signature.replace(parameters=[*every, *catch_all])  # type: ignore[attr-defined]
    return wrapped


def executor_of(workers: int | None, ray: str | None) -> "Executor":
    """Who passes over the shards: this process, processes, or Ray."""
    from understudy.parallel.executors import executor_for

    where: dict[str, Any] = where_to_run(workers if workers is not None or ray else 1, ray)
    return executor_for(where.get("workers"), where.get("executor"))


def shards_for(pool: Path, out: Path) -> "PoolShards | None":
    """The shards of a pool, where the output is to be a folder of shards too."""
    if out.suffix:
        return None
    from understudy.parallel.pool_shards import list_pool_shards

    if not is_remote(pool) and not pool.exists():
        raise UnderstudyError(f"{pool} is not there; check the path")
    return list_pool_shards(pool)


def refuse_engines(workers: int | None, ray: str | None, cure: str) -> None:
    """A file in one piece is worked on here."""
    if workers is not None or ray is not None:
        named = "--ray" if ray is not None else "--workers"
        raise UnderstudyError(f"{named} is for folders of shards; {cure}")
