"""``understudy compare``: the best method for these files, with its uncertainty."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from understudy.cli import shared
from understudy.cli.shared import flag, takes_options
from understudy.comparison.comparison_options import CompareOptions, split_names
from understudy.errors import UnderstudyError, shown
from understudy.io.data_options import DataOptions, pool_file
from understudy.store.console import collected_warnings, complain
from understudy.store.files import as_given, work_folder
from understudy.training.options import AUTO, LBFGS

if TYPE_CHECKING:
    from understudy.comparison.outcome import Comparison
    from understudy.io.read import Examples


@takes_options("seed", "small", "ema", "checkpoint_every")
def compare_command(
    gold: Annotated[list[str], shared.GOLD],
    out: Annotated[Path, flag("Folder for the results; an unfinished one is resumed.")],
    data: DataOptions,
    options: CompareOptions,
    pool: Annotated[Path | None, shared.POOL] = None,
    methods: Annotated[
        str, flag("Names, separated by commas, auto too; options after colons: slam:lower_bound=0.6.")
    ] = "slam,weighted,reconciled",
    test: Annotated[Path | None, shared.TEST] = None,
    select: Annotated[Path | None, shared.SELECT] = None,
    select_share: Annotated[float, flag("Without --select: the share of gold that chooses the epoch.")] = 0.2,
    student: shared.Student = AUTO,
    ray: shared.Ray = None,
    track: shared.Track = None,
    **training: Any,
) -> None:
    """Compare methods on your own gold and pool, over several seeds, and recommend one.

    Files are those of `understudy train`. Always compared too: the teacher itself, training on gold only, vanilla, and
    keeping only confident labels. Without `--test`, gold is split into 5 folds and each seed tests on the next. The
    recommendation is the option with the best expected accuracy, with its probability of being the best; it may be to
    train on gold only, or to use the teacher's own labels. A training that fails does not end the others.

    Written to the folder: `report.html`, `comparison.json`, one file per method and seed. The same
    command resumes an interrupted comparison, and adds seeds or methods to a finished one.

    Examples:

    `understudy compare --gold gold.parquet --pool pool.parquet --test test.parquet --methods slam,weighted,forward
    --seeds 5 --out runs/compare`

    `understudy compare --gold gold.csv --pool reviews.csv --text review --out runs/texts`
    """
    with shared.loading():
        from understudy.comparison.candidates import parse_methods
        from understudy.comparison.compare import compare
        from understudy.inference.passes import usable_device
        from understudy.report.run_text import epochs_fact, optimizer_text
        from understudy.training.callbacks import tracker
        from understudy.training.job import resolve_epochs, resolve_student, student_builder

    out = work_folder(out)
    names = split_names(methods)
    parse_methods(names)  # a misspelt name is refused before files are read
    if training["patience"] is not None and select is None and not select_share:
        raise UnderstudyError("--patience needs a validation set; name --select, or a --select-share above 0")
    where = shared.where_to_run(options.workers, ray)
    trackers = [tracker(name, out) for name in track or []]
    with collected_warnings() as warnings:
        examples = data.for_student(student).read(gold, needs_pool=True, pool=pool, test=test, select=select)
        examples.leaks().warn()
        given, classes = examples.both, data.count_classes(examples)
        student, recipe = resolve_student(student, examples, training)
        build = student_builder(student, examples, classes)
        recipe, length = resolve_epochs(build, examples, recipe)
        try:
            comparison = compare(
                build, given[0], given[1], names, seeds=options.seeds, test=examples.test,
                select=examples.select or select_share, out=out,
                callbacks=trackers, **where, **recipe | {"device": usable_device(recipe["device"])},
            )  # fmt: skip
        except KeyboardInterrupt as stop:
            done = len(list((out / "cells").glob("[!.]*.json")))
            complain(f"stopped: {done} trainings are finished and kept; the same command resumes")
            raise typer.Exit(130) from stop
    how = "trained to convergence" if recipe["optimizer"] == LBFGS else f"{recipe['epochs']} epochs"
    facts = [
        ("Gold, pool, test", f"{' '.join(gold)}, {as_given(pool_file(gold, pool))}, {test or 'folds of gold'}"),
        ("Optimizer", optimizer_text(recipe)),
        *epochs_fact(length).items(),
        *([("Epochs on gold only, first", str(first))] if (first := recipe["pretrain_epochs"]) else []),
    ]
    _publish(out, comparison, examples, f"{how}, student {student}", facts, warnings, classes)


def _publish(
    out: Path, comparison: "Comparison", examples: "Examples", how: str, facts: list[tuple[str, str]],
    warnings: list[str], classes: int,
) -> None:  # fmt: skip
    """The page, the picture, and the same in the terminal."""
    from understudy.report.comparison_page import write_comparison_report
    from understudy.report.figures import measure_teacher
    from understudy.report.templates import wide_console

    (gold, pool), verdict = examples.both, comparison.sentences
    write_comparison_report(
        out / "report.html", comparison, title="Recommended method", verdict=verdict, facts=facts, warnings=warnings,
        lead=f"{len(gold):,} gold rows, {len(pool):,} pool rows, {how}.",
        trust=measure_teacher(gold, pool, classes=classes, class_names=examples.class_names),
    )  # fmt: skip
    wide_console().print(comparison.table())
    for sentence in verdict:
        typer.echo(sentence)
    typer.echo(shown(f"Report: {out / 'report.html'}"))
