"""``understudy teach``: a trained model labels a pool."""

from pathlib import Path
from typing import Annotated

import typer

from understudy.cli import shared
from understudy.cli.shared import argument, flag, takes_options
from understudy.errors import shown
from understudy.io.data_options import ColumnOptions


@takes_options()
def teach_command(
    teacher: Annotated[Path, argument("The folder of a finished training, whose student teaches.")],
    pool: shared.FileOrShards,
    out: Annotated[Path, flag("New folder of shards; or a new .parquet, .jsonl or .npz file.")],
    columns: ColumnOptions,
    top: Annotated[int | None, flag("Only the so many most likely classes. Without: all.", min=1)] = None,
    labels_only: Annotated[bool, flag("Leave the pool's own columns out.", "--labels-only")] = False,
    selected: shared.Selected = False,
    batch_size: shared.BatchSize = 1024,
    workers: shared.ShardWorkers = None,
    ray: shared.ShardRay = None,
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
    kinds = (".parquet", ".jsonl", ".npz")
    given, executor = shared.open_run(teacher, pool, columns.mapping, out, "labels are", kinds, workers, ray)
    from understudy.parallel.run_on_file import Teach

    on_tables = given.on_tables(selected=selected, batch_size=batch_size)
    function = Teach(on_tables, given.classes, top, labels_only, given.run.gold_keys)
    summaries = given.write(function, out, named=labels_only, title="teach", progress=True, executor=executor)
    typer.echo(shown(f"{sum(each['rows'] for each in summaries)} rows labelled: {out}"))
