"""``understudy teach``: a trained model labels a pool."""

from pathlib import Path
from typing import Annotated

import typer

from understudy.cli import shared
from understudy.errors import shown
from understudy.store.files import check_new_file

SUFFIXES = (".parquet", ".jsonl", ".npz")


def teach_command(
    teacher: Annotated[
        Path, typer.Argument(help="The folder of a finished training, whose student teaches.", show_default=False)
    ],
    pool: Annotated[
        Path, typer.Argument(help="A file of any kind that train reads, or a folder of shards.", show_default=False)
    ],
    out: Annotated[
        Path, typer.Option(help="New folder of shards; or a new .parquet, .jsonl or .npz file.", show_default=False)
    ],
    top: Annotated[
        int | None, typer.Option(min=1, help="Only the so many most likely classes. Without: all.", show_default=False)
    ] = None,
    labels_only: Annotated[bool, typer.Option("--labels-only", help="Leave the pool's own columns out.")] = False,
    selected: shared.Selected = False,
    column: shared.Column = None,
    batch_size: Annotated[int, typer.Option(min=1, help="Rows at once.")] = 1024,
    workers: shared.ShardWorkers = None,
    ray: shared.ShardRay = None,
    quiet: shared.Quiet = False,
) -> None:
    """Label a pool with a trained model, ready for `understudy train --pool`.

    POOL has the raw columns of the teacher's training. Written are its own columns as they are, and `teacher_probs`:
    the probability of every class, by name where the classes have names (`--top 5`: `teacher_topk_index` and
    `teacher_topk_prob`). Labels of an earlier teacher are left out.

    Where `--out` is a folder, POOL is a folder of .parquet shards, one of which is in memory at a time. Each becomes a
    shard of the same number; the same command resumes.

    Examples:

    `understudy teach runs/large pool --out labelled --ray local`

    `understudy train --gold gold.parquet --pool labelled --student mlp:64 --out runs/small`
    """
    if (shards := shared.shards_for(pool, out)) is None:
        shared.refuse_engines(workers, ray, "give --out a name without an ending")
        check_new_file(out, "labels are", SUFFIXES)
    with shared.loading():
        from understudy.parallel.run_on_file import RunOnFile
        from understudy.parallel.table_functions import Teach

    given = RunOnFile(teacher, pool, column, shards=shards)
    function = Teach(given.on_tables(selected=selected, batch_size=batch_size), given.classes, top, labels_only)
    executor = None if shards is None else shared.executor_of(workers, ray)
    summaries = given.write(function, out, named=labels_only, title="teach", progress=not quiet, executor=executor)
    typer.echo(shown(f"{sum(each['rows'] for each in summaries)} rows labelled: {out}"))
