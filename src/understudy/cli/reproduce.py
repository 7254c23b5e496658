"""``understudy reproduce``: the papers' tables and figures, at a reduced scale or in full.

The experiments are part of the source checkout, not of the package: they are hundreds of kilobytes of settings and
quoted figures that no user of the library needs, and they write into the checkout's documents. The command therefore
looks for them beside the package's sources, then in the working folder.
"""

import importlib
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

import understudy
from understudy.cli.shared import Ray, argument, flag, where_to_run
from understudy.errors import UnderstudyError


def reproduce_command(
    names: Annotated[list[str] | None, argument("Experiments to run; none: list them.")] = None,
    scale: Annotated[str, flag("reduced (minutes, data at hand) or full (the paper's).")] = "reduced",
    seeds: Annotated[int | None, flag("Fix their number, and add none.", min=1)] = None,
    minutes: Annotated[float, flag("CPU minutes up to which open claims get more seeds.", min=0)] = 10.0,
    out: Annotated[Path | None, flag("Folder for the page and its numbers.")] = None,
    work: Annotated[Path, flag("Where finished jobs are kept.")] = Path("runs/reproduce"),
    workers: Annotated[int, flag("Processes of one thread each.", min=1)] = 2,
    ray: Ray = None,
) -> None:
    """List the papers' tables and figures, or run some of them.

    A run prints the paper's claims and whether our cells show them, our table, the paper's own figures in a table of
    their own, and what was reduced. Finished jobs are kept: a stopped run goes on where it was.

    Examples:

    `understudy reproduce`

    `understudy reproduce slam_table1 --out pages`

    `understudy reproduce weighted_fig05 --scale full`
    """
    from rich.console import Console
    from rich.markdown import Markdown

    reproduce = load_experiments()
    console = Console()
    if not names:
        for table in reproduce.listing():
            console.print(table, "")
        return
    chosen = [reproduce.find(name) for name in names]
    every: list[Any] = []
    failed = reproduce.run(
        chosen, scale=scale, seeds=seeds, minutes=minutes, work=work, say=typer.echo, on_finished=every.append,
        **{"workers": workers} | where_to_run(workers, ray),
    )  # fmt: skip
    # Of an experiment that got more seeds, the last.
    for finished in {each.experiment.name: each for each in every}.values():
        console.print(Markdown(reproduce.page(finished)))
        if out is not None:
            typer.echo(f"written: {reproduce.write(finished, out)}")
    if failed:
        raise UnderstudyError("; ".join(f"{name}: {reason}" for name, reason in failed.items()))


def load_experiments() -> Any:
    """The checkout's ``experiments.reproduce``."""
    for root in (Path(understudy.__file__).parents[2], Path.cwd()):
        if (root / "experiments" / "registry.py").exists():
            if str(root) not in sys.path:
                sys.path.insert(0, str(root))
            return importlib.import_module("experiments.reproduce")
    raise UnderstudyError("the experiments are part of the source checkout; clone the repository and run this in it")
