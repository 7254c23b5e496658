"""``understudy predict``: a trained student on the rows of a file, or of a folder of shards."""

from pathlib import Path
from typing import Annotated

import typer

from understudy.cli import over_shards, shared
from understudy.errors import shown
from understudy.store.console import complain
from understudy.store.files import check_new_file

SUFFIXES = (".parquet", ".csv", ".jsonl", ".npz")


def predict_command(
    run: shared.RunFolder,
    file: Annotated[
        Path, typer.Argument(help="A file of any kind that train reads, or a folder of shards.", show_default=False)
    ],
    out: Annotated[
        Path, typer.Option(help="New .parquet, .csv, .jsonl or .npz file; a name without an ending: folder of shards.")
    ] = Path("predictions.parquet"),
    selected: shared.Selected = False,
    column: shared.Column = None,
    batch_size: Annotated[int, typer.Option(min=1, help="Rows at once.")] = 1024,
    workers: over_shards.Workers = None,
    ray: over_shards.Ray = None,
    quiet: shared.Quiet = False,
) -> None:
    """Apply a trained student to the rows of a file, or of a folder of Parquet shards.

    FILE has the raw columns of the training (texts, numbers, `x`, images) under the same names. Written are `id` (or
    `row`), `label`, the most probable class, `confidence`, its probability, and `probabilities`: a list in the order of
    the class numbers, or by name where the classes have names. In CSV, `probabilities` is one column per class. An
    existing file is not overwritten. Where FILE has the true `label`, the accuracy is printed too.

    Where `--out` is a folder, FILE is a folder of .parquet shards, one of which is in memory at a time. Each becomes a
    shard of the same number, whoever works on it; the same command goes on where it was stopped.

    Examples:

    `understudy predict runs/first new.csv --out predictions.csv`

    `understudy predict runs/first pool --out predictions --ray local`
    """
    if (shards := over_shards.shards_for(file, out)) is None:
        over_shards.refuse_engines(workers, ray, "give --out a name without an ending")
        check_new_file(out, "tables are", SUFFIXES)
    with shared.loading():
        import numpy as np

        from understudy.cli.run_on_file import RunOnFile
        from understudy.comparison.interval import percent
        from understudy.io.write import write_table
        from understudy.parallel.map_shards import run_pass
        from understudy.parallel.table_functions import Predict

    given = RunOnFile(run, file if shards is None else Path(str(shards[0].path)), column)
    student = given.run.selected() if selected else given.run.student
    given.rows(student)  # whether it can take them
    function = Predict(given.on_tables(student, batch_size), given.classes)
    if shards is None:
        made, ids = function(given.table), given.table.ids
        names = {"row": np.arange(len(given.table))} if ids is None else {"id": ids}
        write_table(out, {**names, **made.columns})
        summaries = [{"rows": len(given.table), **made.summary}]
    else:
        executor = over_shards.executor_of(workers, ray)
        summaries = run_pass(
            function, shards, out, executor=executor, columns=given.columns, title="predict", progress=not quiet
        )
    problems = [each["problem"] for each in summaries if "problem" in each]
    known, right = (sum(each.get(name, 0) for each in summaries) for name in ("known", "right"))
    if problems:
        complain(f"warning: no accuracy: {problems[0]}")
    elif known:
        typer.echo(f"accuracy {percent(right / known)}% against the file's label column ({known} rows)")
    typer.echo(shown(f"{sum(each['rows'] for each in summaries)} predictions: {out}"))
