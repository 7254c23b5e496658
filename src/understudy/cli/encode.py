"""``understudy encode``: the features of a pool, computed once."""

from pathlib import Path
from typing import Annotated

import typer

from understudy.cli.shared import FileOrShards, RunFolder, ShardRay, ShardWorkers, flag, open_run, takes_options
from understudy.errors import shown
from understudy.io.data_options import ColumnOptions


@takes_options("teacher")
def encode_command(
    run: RunFolder,
    pool: FileOrShards,
    out: Annotated[Path, flag("New folder of shards; or a new .parquet, .jsonl or .npz file.")],
    columns: ColumnOptions,
    workers: ShardWorkers = None,
    ray: ShardRay = None,
) -> None:
    """Compute the features of a pool once, as the student of a finished training takes them, in a column `x`.

    Text and images then need no encoder in later trainings. Columns that are no features stay as they are (labels,
    those of a teacher). Where `--out` is a folder, POOL is a folder of .parquet shards, one of which is in memory at a
    time; the same command resumes.

    Example:

    `understudy encode runs/first pool --out encoded --ray local`
    """
    kinds = (".parquet", ".jsonl", ".npz")
    given, executor = open_run(run, pool, columns.mapping, out, "features are", kinds, workers, ray)
    from understudy.parallel.run_on_file import Encode

    summaries = given.write(Encode(given.featuriser), out, title="encode", progress=True, executor=executor)
    typer.echo(shown(f"{sum(each['rows'] for each in summaries)} rows encoded: {out}"))
