"""``understudy teach``: a trained model labels a pool."""

from pathlib import Path
from typing import Annotated

import typer

from understudy.cli import over_shards, shared
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
    workers: over_shards.Workers = None,
    ray: over_shards.Ray = None,
    quiet: shared.Quiet = False,
) -> None:
    """Let a trained model label a pool, ready for `understudy train --pool`.

    POOL has the raw columns of the teacher's training. Written are its own columns as they are, and `teacher_probs`:
    the chance of every class, by name where the classes have names (`--top 5`: `teacher_topk_index` and
    `teacher_topk_prob`). What an earlier teacher said is left out.

    Where `--out` is a folder, POOL is a folder of .parquet shards, one of which is in memory at a time. Each becomes a
    shard of the same number, whoever works on it; the same command goes on where it was stopped.

    Examples:

    `understudy teach runs/large pool --out labelled --ray local`

    `understudy train --gold gold.parquet --pool labelled --student mlp:64 --out runs/small`
    """
    if (shards := over_shards.shards_for(pool, out)) is None:
        over_shards.refuse_engines(workers, ray, "give --out a name without an ending")
        check_new_file(out, "labels are", SUFFIXES)
    with shared.loading():
        import numpy as np

        from understudy.cli.run_on_file import RunOnFile
        from understudy.io.write import write_table
        from understudy.parallel.map_shards import run_pass
        from understudy.parallel.table_functions import Teach

    given = RunOnFile(teacher, pool if shards is None else Path(str(shards[0].path)), column)
    student = given.run.selected() if selected else given.run.student
    given.rows(student)  # whether it can take them
    function = Teach(given.on_tables(student, batch_size), given.classes, top, labels_only)
    if shards is None:
        made, rows = dict(function(given.table)), len(given.table)
        if labels_only:
            ids = given.table.ids
            made = {**({"row": np.arange(rows)} if ids is None else {"id": ids}), **made}
        write_table(out, made)
    else:
        rows = shards.rows
        executor = over_shards.executor_of(workers, ray)
        run_pass(
            function, shards, out, executor=executor, columns=given.columns, title="teach", progress=not quiet,
            named=labels_only,
        )  # fmt: skip
    typer.echo(shown(f"{rows} rows labelled: {out}"))
