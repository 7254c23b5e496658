"""``understudy predict``: a trained student on the rows of a file, or of a folder of shards."""

from pathlib import Path
from typing import Annotated

import typer

from understudy.cli import shared
from understudy.cli.shared import takes_options
from understudy.errors import shown
from understudy.io.data_options import ColumnOptions
from understudy.store.console import complain


@takes_options("teacher")
def predict_command(
    run: shared.RunFolder,
    file: shared.FileOrShards,
    columns: ColumnOptions,
    out: Annotated[
        Path, shared.flag("New .parquet, .csv, .jsonl or .npz file; a name without an ending: folder of shards.")
    ] = Path("predictions.parquet"),
    selected: shared.Selected = False,
    batch_size: shared.BatchSize = 1024,
    workers: shared.ShardWorkers = None,
    ray: shared.ShardRay = None,
) -> None:
    """Apply a trained student to the rows of a file, or of a folder of Parquet shards.

    FILE has the raw columns of the training (texts, numbers, `x`, images) under the same names. Written are `id` (or
    `row`), `label`, the most probable class, `confidence`, its probability, and `probabilities`: a list in the order of
    the class numbers, or by name where the classes have names. In CSV, `probabilities` is one column per class. An
    existing file is not overwritten. Where FILE has the true `label`, the accuracy on the rows that did not train the
    student is printed too.

    With `--column teacher_label=NAME` (or `teacher_probs`), rows with a teacher's label are predicted by student and
    teacher together, where these are better on gold than the student alone. The rows must be new to both. After
    `understudy defer`, `deferred` marks the rows to leave to the teacher, or to a person.

    Where `--out` is a folder, FILE is a folder of .parquet shards, one of which is in memory at a time. Each becomes a
    shard of the same number; the same command resumes.

    Examples:

    `understudy predict runs/first new.csv --out predictions.csv`

    `understudy predict runs/first new.csv --column teacher_label=llm`

    `understudy predict runs/first pool --out predictions --ray local`
    """
    kinds = (".parquet", ".csv", ".jsonl", ".npz")
    given, executor = shared.open_run(run, file, columns.mapping, out, "tables are", kinds, workers, ray)
    from understudy.comparison.interval import percent
    from understudy.inference.cascade import Cascade
    from understudy.parallel.run_on_file import Predict

    cascade = Cascade() if selected else given.run.cascade
    if given.with_teacher and not (cascade.combination or cascade.rule):
        complain("warning: the teacher's labels are not used: gold does not show that they improve on the student")
    student = given.on_tables(selected=selected, batch_size=batch_size)
    function = Predict(student, given.classes, given.run.trained, cascade, given.with_teacher)
    summaries = given.write(function, out, title="predict", progress=True, executor=executor)
    problems = [each["problem"] for each in summaries if "problem" in each]
    known, right, trained = (sum(each.get(name, 0) for each in summaries) for name in ("known", "right", "trained"))
    if problems:
        complain(f"warning: no accuracy: {problems[0]}")
    elif known:
        seen = ""
        if trained and given.run.trained is not None:
            marked = "of them equal rows that trained the student: too high if they are the same rows"
            left_out = "more trained the student and are left out"
            seen = f"; {trained} {left_out if given.run.trained.are_distinct else marked}"
        typer.echo(f"accuracy {percent(right / known)}% against the file's label column ({known} rows{seen})")
    elif trained:
        complain(f"warning: no accuracy: all {trained} rows with a label trained the student; name a file of others")
    typer.echo(shown(f"{sum(each['rows'] for each in summaries):,} predictions: {out}"))
