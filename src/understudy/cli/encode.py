"""``understudy encode``: the features of a pool, computed once."""

from pathlib import Path
from typing import Annotated

import typer

from understudy.cli import shared
from understudy.errors import shown
from understudy.store.files import check_new_file

SUFFIXES = (".parquet", ".jsonl", ".npz")


def encode_command(
    run: shared.RunFolder,
    pool: Annotated[
        Path, typer.Argument(help="A file of any kind that train reads, or a folder of shards.", show_default=False)
    ],
    out: Annotated[
        Path, typer.Option(help="New folder of shards; or a new .parquet, .jsonl or .npz file.", show_default=False)
    ],
    column: shared.Column = None,
    workers: shared.ShardWorkers = None,
    ray: shared.ShardRay = None,
    quiet: shared.Quiet = False,
) -> None:
    """Compute the features of a pool once, as the student of a finished training takes them, in a column `x`.

    Text and images then need no encoder in later trainings. Columns that are no features stay as they are (labels,
    those of a teacher). Where `--out` is a folder, POOL is a folder of .parquet shards, one of which is in memory at a
    time; the same command resumes.

    Example:

    `understudy encode runs/first pool --out encoded --ray local`
    """
    if (shards := shared.shards_for(pool, out)) is None:
        shared.refuse_engines(workers, ray, "give --out a name without an ending")
        check_new_file(out, "features are", SUFFIXES)
    with shared.loading():
        from understudy.parallel.run_on_file import RunOnFile
        from understudy.parallel.table_functions import Encode

    given = RunOnFile(run, pool, column, shards=shards)
    executor = None if shards is None else shared.executor_of(workers, ray)
    summaries = given.write(Encode(given.featuriser), out, title="encode", progress=not quiet, executor=executor)
    typer.echo(shown(f"{sum(each['rows'] for each in summaries)} rows encoded: {out}"))
