"""``understudy reconcile``: labels of a pool, combined from several label sources."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from understudy.cli.shared import GOLD, POOL, Ray, Student, flag, takes_options, where_to_run
from understudy.comparison.comparison_options import ReconcileOptions
from understudy.errors import shown
from understudy.io.data_options import DataOptions, pool_file
from understudy.store.console import collected_warnings
from understudy.store.files import check_new_file
from understudy.training.options import AUTO

if TYPE_CHECKING:
    from understudy.io.read import Examples
    from understudy.reconciling.relabel import View


@takes_options("ema", "small", "checkpoint_every", "patience", "finetune", "finetune_lr")
def reconcile_command(
    gold: Annotated[list[str], GOLD],
    data: DataOptions,
    options: ReconcileOptions,
    pool: Annotated[Path | None, POOL] = None,
    out: Annotated[Path, flag("New .parquet, .jsonl or .npz file.")] = Path("labels.parquet"),
    parts: Annotated[Path | None, flag("Folder that keeps finished trainings; the same command resumes.")] = None,
    student: Student = AUTO,
    ray: Ray = None,
    **training: Any,
) -> None:
    """Make better labels for a pool: combine the teacher's with predictions of base models.

    Files are those of `understudy train`. Each *label source* (the teacher, each base model) is cross-validated on
    gold, which gives its weight; a table shows them. Every pool row then gets one label combined from all sources,
    also rows without a teacher's label. At least 20 gold rows are needed, better 100.

    OUT is the pool file with new labels, ready for `understudy train --pool`: its own columns, `teacher_probs` (class
    probabilities) in place of the old labels, `reconciled_label` and `reconciled_probability`, and for each source
    `source_NAME_label` and `source_NAME_probability`, its probability of the reconciled label. Gold rows have a label
    fitted without their own. An existing file is not overwritten.

    Examples:

    `understudy reconcile --gold gold.csv --pool reviews.csv --text review --out labels.parquet`

    `understudy reconcile --gold gold.npz --pool pool.npz --student mlp:128,128 --epochs 30 --folds 5 --out labels.npz`
    """
    check_new_file(out, "labels are", (".parquet", ".jsonl", ".npz"))
    from understudy.io.gold_pool import is_one_file, split_gold_pool
    from understudy.io.table import read_table
    from understudy.io.write import write_table
    from understudy.reconciling.relabel import reconcile, with_reconciled_labels
    from understudy.report.run_text import print_sources
    from understudy.training.job import plain_name

    with collected_warnings():
        examples = data.for_student(student).read(gold, both=True, needs_pool=True, pool=pool)
        examples.leaks().warn()
        main, *others = (
            _view(each, student, data.count_classes(each), training) for each in (examples, examples.plain) if each
        )
        reconciled = reconcile(
            main.student, main.gold, main.pool, out=parts, methods=options.methods,
            folds=options.folds, rows=options.rows, others=dict(zip([plain_name(examples)], others, strict=False)),
            **where_to_run(options.workers, ray), **main.options,
        )  # fmt: skip
    print_sources(reconciled.facts())
    table = read_table(rows := pool_file(gold, pool), columns=data.mapping)
    if any(is_one_file(name, rows) for name in gold):
        _, table = split_gold_pool(table, examples.class_names)
    write_table(out, with_reconciled_labels(table, examples.both[0], reconciled, examples.class_names))
    typer.echo(shown(f"{len(reconciled):,} pool rows with reconciled labels: {out}"))


def _view(examples: "Examples", student: str, classes: int, training: dict[str, Any]) -> "View":
    """The files by one kind of features, with a student for them."""
    from understudy.inference.passes import usable_device
    from understudy.reconciling.relabel import View
    from understudy.training.job import resolve_student, student_builder

    name, recipe = resolve_student(student, examples, training)
    build = student_builder(name, examples, classes)
    return View(build, *examples.both, recipe | {"device": usable_device(recipe["device"])})
