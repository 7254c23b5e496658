"""``understudy select``: the rows of a pool to label next."""

import shutil
from pathlib import Path
from typing import Annotated

import typer

from understudy.acquisition.strategies import NAMES
from understudy.cli import shared
from understudy.cli.shared import argument, flag, takes_options
from understudy.errors import shown, warn
from understudy.io.data_options import ColumnOptions
from understudy.store.console import complain
from understudy.store.files import check_new_file, local_path


@takes_options("teacher")
def select_command(
    run: shared.RunFolder,
    pool: Annotated[Path, argument("A file of any kind that train reads, with the features; or shards.")],
    columns: ColumnOptions,
    strategy: Annotated[str, flag(f"One of {', '.join(NAMES)}.")] = "badge",
    n: Annotated[int, flag("How many rows.", "-n", min=1)] = 100,
    out: Annotated[Path, flag("New .csv or .parquet file.")] = Path("batch.csv"),
    labelled: Annotated[list[Path] | None, flag("Files of labelled rows (id, label); repeat for more.")] = None,
    seed: Annotated[int, flag("Same seed, same rows.")] = 0,
    workers: shared.ShardWorkers = None,
    ray: shared.ShardRay = None,
) -> None:
    """Select the rows of a pool to label next (active learning).

    Written are `id` (or `row`), the columns that the student reads, `score` and `why` (the strategy's reason), the
    student's `predicted` class and its `confidence`, and an empty `label`, in the order selected; of `random` and
    `proportional` also the `probability` with which the row was drawn, by which its label can serve `understudy
    estimate`. Fill in `label` with the class, or `skip`, and train again with this file beside the gold file. The run's
    own gold, test and select rows (by id; without ids gold, by content), rows with a label in POOL itself and those in
    the `--labelled` files are never selected; where these files have a `label`, a warning says if the batch comes from
    regions where labels look random.

    A folder of .parquet shards is scored and searched one shard at a time. Until it is done, the scores are in a folder
    beside `--out` (batch.scores), from which the same command resumes.

    Examples:

    `understudy select runs/first pool.parquet --strategy badge -n 100 --labelled gold.parquet --out batch.csv`

    `understudy select runs/first pool --strategy coreset -n 100 --ray local --out batch.csv`

    `understudy train --gold gold.parquet --gold +batch.csv --pool pool.parquet --out runs/second`
    """
    check_new_file(out, "a batch is", (".csv", ".parquet"))
    scratch = local_path(out).with_suffix(".scores")
    with shared.loading():
        from understudy.io.write import write_columns
        from understudy.parallel.pool_shards import is_sharded, list_pool_shards
        from understudy.parallel.run_on_file import RunOnFile
        from understudy.parallel.selection import select_rows
        from understudy.store.log import LabelHistory, history_beside

    shards = list_pool_shards(pool) if is_sharded(pool) else None
    if shards is None:
        shared.refuse_engines(workers, ray, "give a folder of .parquet shards")
    given = RunOnFile(run, pool, columns.mapping, shards=shards)
    batch = select_rows(
        given, strategy, n, labelled=labelled or [], seed=seed, scratch=scratch, progress=True,
        executor=None if shards is None else shared.executor_of(workers, ray),
    )  # fmt: skip
    made = batch.columns(given.classes)
    write_columns(out, made)
    if batch.of_run:
        typer.echo(shown(f"{batch.of_run:,} rows left out: they are gold, test or select rows of {run}"))
    if batch.of_pool:
        typer.echo(shown(f"{batch.of_pool:,} rows left out: {given.table.where('label')} has a label of them"))
    if "skip" in (given.class_names or ()):
        warn("'skip' is a class of this run and means it in the batch too; write -1 where no label can be given")
    history, key = LabelHistory(history_beside(out)), next(iter(made))
    history.add("selected", f"{strategy} on {run}, seed {seed}", dict.fromkeys(made[key]), by=key)
    if batch.watch is not None and batch.watch.alarm:
        complain(f"warning: {batch.watch} (p = {batch.watch.p_value:.1g}); look at some rows, or change strategy")
    elif batch.watch is not None:
        typer.echo(str(batch.watch))
    if shards is not None:
        shutil.rmtree(scratch)
    typer.echo(shown(f"{n} rows to label: {out}"))
