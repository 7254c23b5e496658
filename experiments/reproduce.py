"""Every table and figure of the papers at its reduced scale, in processes of one thread each.

    python -m experiments.reproduce                          # make reproduce: two hours and a half on two cores
    python -m experiments.reproduce --minutes 60             # fewer seeds: more claims stay open
    python -m experiments.reproduce slam_table1 air_fig04    # some of them
    python -m experiments.reproduce --scale full slam_table1 # the paper's setting: its data, and a GPU, are needed

All of them get three seeds; then those with open claims get more, until all jobs together, earlier ones included, took
--minutes of CPU time. Finished jobs are kept in runs/reproduce and never run again, nor are published ones, unless
--anew is given. Each experiment leaves its numbers and its picture in docs/results/reproduce; at the end
``experiments.results`` writes the papers' pages from them. With --out FOLDER each experiment gets a detailed page of
its own there.
"""

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

from rich.table import Column, Table

from experiments import registry, results
from experiments.page import page, record
from experiments.plot import draw, is_drawn
from experiments.registry import PAPERS, find
from experiments.runner import SCALES, WORK, Finished, run
from understudy.errors import UnderstudyError
from understudy.store.files import write_json, write_text

OUT = Path(__file__).parents[1] / "docs" / "results" / "reproduce"
# Two cores for two hours and a half.
MINUTES = 300.0


def write_numbers(finished: Finished, out: Path) -> Path:
    """The numbers and, for a figure, the picture."""
    path = out / f"{finished.experiment.name}.json"
    if is_drawn(finished):
        draw(path.with_suffix(".png"), finished)
    write_json(path, record(finished))
    return path


def write(finished: Finished, out: Path) -> Path:
    """A page with every detail and, beside it, the numbers and the picture."""
    path = write_numbers(finished, out).with_suffix(".md")
    write_text(path, page(finished))
    return path


def listing() -> Iterator[Table]:
    """One table for each paper."""
    for key, title in PAPERS.items():
        names = [Column(heading, no_wrap=True) for heading in ("name", "shows")]
        table = Table(
            *names, Column("minutes", justify="right"), "data, reduced", "in full", "what",
            title=title, title_justify="left", title_style="bold", box=None, pad_edge=False,
        )  # fmt: skip
        for experiment in registry.all_experiments().values():
            if experiment.paper == key:
                minutes = f"{experiment.minutes:g}" if experiment.minutes else "shared"
                data = [", ".join(experiment.data(scale)) for scale in ("reduced", "full")]
                table.add_row(experiment.name, experiment.shows, minutes, *data, experiment.what)
        yield table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="experiments; all of them where none is named")
    parser.add_argument("--scale", choices=SCALES, default="reduced")
    parser.add_argument("--seeds", type=int, help="fix their number, and add none")
    parser.add_argument("--minutes", type=float, default=MINUTES, help="CPU minutes up to which seeds are added")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--work", type=Path, default=WORK, help="where finished jobs are kept")
    parser.add_argument("--out", type=Path, default=OUT)
    parser.add_argument("--anew", action="store_true", help="measure again what is published")
    options = parser.parse_args()

    def done(finished: Finished) -> None:
        written = (write_numbers if options.out == OUT else write)(finished, options.out)
        print(f"finished {finished.experiment.name}: {written}", flush=True)

    try:
        chosen = [find(name) for name in options.names] or list(registry.all_experiments().values())
        failed = run(
            chosen, scale=options.scale, seeds=options.seeds, minutes=options.minutes, workers=options.workers,
            work=options.work, published=None if options.anew else OUT, say=lambda line: print(line, flush=True),
            on_finished=done,
        )  # fmt: skip
    except UnderstudyError as error:
        sys.exit(f"error: {error}")
    if options.out == OUT:
        results.main()
    for name, reason in failed.items():
        print(f"failed {name}: {reason}", file=sys.stderr)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
