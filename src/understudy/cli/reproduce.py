"""``understudy reproduce``: the papers' tables and figures, at a reduced scale or in full.

The experiments are part of the source checkout, not of the package: they are hundreds of kilobytes of settings and
quoted figures that no user of the library needs, and they write into the checkout's documents. The command therefore
looks for them beside the package's sources, then in the working folder.
"""

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import understudy
from understudy.cli import shared
from understudy.cli.shared import argument, flag
from understudy.errors import UnderstudyError

if TYPE_CHECKING:
    from rich.table import Table


def reproduce_command(
    names: Annotated[list[str] | None, argument("Experiments to run; none: list them.")] = None,
    scale: Annotated[str, typer.Option(help="reduced (minutes, data at hand) or full (the paper's).")] = "reduced",
    seeds: Annotated[int | None, flag("Fix their number, and add none.", min=1)] = None,
    minutes: Annotated[float, typer.Option(min=0, help="CPU minutes up to which open claims get more seeds.")] = 10.0,
    out: Annotated[Path | None, flag("Folder for the page and its numbers.")] = None,
    work: Annotated[Path, typer.Option(help="Where finished jobs are kept.")] = Path("runs/reproduce"),
    workers: Annotated[int, typer.Option(min=1, help="Processes of one thread each.")] = 2,
    ray: shared.Ray = None,
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

    registry, runner, reproduce, pages = load_experiments()
    console = Console()
    if not names:
        for table in listing(registry.all_experiments().values(), registry.PAPERS):
            console.print(table, "")
        return
    chosen = [registry.find(name) for name in names]
    every: list[Any] = []
    failed = runner.run(
        chosen, scale=scale, seeds=seeds, minutes=minutes, work=work, say=typer.echo, on_finished=every.append,
        **{"workers": workers} | shared.where_to_run(workers, ray),
    )  # fmt: skip
    # Of an experiment that got more seeds, the last.
    for finished in {each.experiment.name: each for each in every}.values():
        console.print(Markdown(pages.page(finished)))
        if out is not None:
            typer.echo(f"written: {reproduce.write(finished, out)}")
    if failed:
        raise UnderstudyError("; ".join(f"{name}: {reason}" for name, reason in failed.items()))


def listing(experiments: Any, papers: dict[str, str]) -> "Iterator[Table]":
    """One table for each paper."""
    from rich.table import Column, Table

    for key, title in papers.items():
        names = [Column(heading, no_wrap=True) for heading in ("name", "shows")]
        headings: list[Any] = [*names, Column("minutes", justify="right"), "data, reduced", "in full", "what"]
        table = Table(*headings, title=title, title_justify="left", title_style="bold", box=None, pad_edge=False)
        for experiment in experiments:
            if experiment.paper == key:
                minutes = f"{experiment.minutes:g}" if experiment.minutes else "shared"
                data = [", ".join(experiment.data(scale)) for scale in ("reduced", "full")]
                table.add_row(experiment.name, experiment.shows, minutes, *data, experiment.what)
        yield table


def load_experiments() -> tuple[Any, Any, Any, Any]:
    """The checkout's experiments: registry, runner, reproduce and page."""
    for root in (Path(understudy.__file__).parents[2], Path.cwd()):
        if (root / "experiments" / "registry.py").exists():
            if str(root) not in sys.path:
                sys.path.insert(0, str(root))
            names = ("registry", "runner", "reproduce", "page")
            registry, runner, reproduce, page = (importlib.import_module(f"experiments.{name}") for name in names)
            return registry, runner, reproduce, page
    raise UnderstudyError("the experiments are part of the source checkout; clone the repository and run this in it")
