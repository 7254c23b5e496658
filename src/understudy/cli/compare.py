"""``understudy compare``: which method to take for these files, with intervals and in words."""

from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from understudy import models
from understudy.cli import options as shared
from understudy.comparison.candidates import from_text
from understudy.comparison.compare import compare
from understudy.comparison.outcome import Comparison
from understudy.errors import UnderstudyError
from understudy.store.console import collected_warnings, complain
from understudy.tables.read import Examples, read_examples
from understudy.training.checks import usable_device


def compare_command(
    gold: Annotated[
        list[str],
        typer.Option(help="Trusted labels; again with +FILE for the answers to a chosen batch.", show_default=False),
    ],
    pool: Annotated[Path, typer.Option(help="Imperfect labels.", show_default=False)],
    epochs: Annotated[int, typer.Option(min=1, help="Passes over gold and pool.", show_default=False)],
    out: Annotated[Path, typer.Option(help="Folder for the results; an unfinished one goes on.", show_default=False)],
    methods: Annotated[
        str, typer.Option(help="Names, separated by commas; options after colons: slam:lower_bound=0.6.")
    ] = "slam,weighted",
    seeds: Annotated[int, typer.Option(min=1, help="How many splits and starts to average over.")] = 5,
    test: Annotated[Path | None, typer.Option(help="Rows that are only looked at.", show_default=False)] = None,
    select: Annotated[Path | None, typer.Option(help="Gold rows that pick an epoch.", show_default=False)] = None,
    select_share: Annotated[float, typer.Option(help="Without --select: this share of gold picks the epoch.")] = 0.2,
    student: shared.Student = "mlp:128,128",
    device: shared.Device = None,
    lr: shared.Lr = 1e-3,
    batch_size: shared.BatchSize = 128,
    optimizer: shared.Optimizer = "adam",
    schedule: shared.Schedule = "constant",
    weight_decay: shared.WeightDecay = 0.0,
    momentum: shared.Momentum = 0.9,
    pretrain: shared.Pretrain = 0,
    finetune: shared.Finetune = 0,
    patience: shared.Patience = None,
    gold_repeat: shared.GoldRepeat = 1,
    gold_weight: shared.GoldWeight = 1.0,
    clip: shared.Clip = None,
    column: shared.Column = None,
    classes: shared.Classes = None,
    votes: shared.Votes = "majority",
    text: shared.Text = None,
    encoder: shared.Encoder = "tfidf",
    image: shared.Image = None,
    image_size: shared.ImageSize = None,
    use: shared.Beside = None,
    missing: shared.Missing = "error",
    scale: shared.Scale = True,
    workers: Annotated[
        int | None, typer.Option(min=1, help="Processes of one thread each; one per core.", show_default=False)
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress.")] = False,
) -> None:
    """Compare methods on your own gold and pool, over several seeds, and say which to take.

    Files are those of `understudy train`. Always compared too: the teacher itself, training on gold alone, vanilla, and
    keeping only confident labels. Without `--test`, gold is cut into 5 folds and each seed tests on the next. The
    answer may be that no method differs from vanilla, or to train on gold alone.

    Written to the folder: `report.html`, `comparison.json`, `differences.png`, one file per method and seed. Stopped
    at any moment, the same command goes on where it was; more seeds or methods may be asked for.

    Examples:

    `understudy compare --gold gold.parquet --pool pool.parquet --test test.parquet --methods slam,weighted,forward
    --seeds 5 --epochs 30 --out runs/compare`

    `understudy compare --gold gold.csv --pool reviews.csv --text review --student linear --epochs 20 --out runs/texts`
    """
    names = [name.strip() for name in methods.split(",") if name.strip()]
    from_text(names)  # a misspelt name is told before files are read
    if patience is not None and select is None and not select_share:
        raise UnderstudyError("--patience stops on select rows; name --select, or a --select-share above 0")
    (trusted, chosen), asked = shared.gold_files(gold), shared.read_classes(classes)
    with collected_warnings() as noted:
        examples = read_examples(
            gold=trusted, chosen=chosen, pool=pool, test=test, select=select, columns=shared.read_mapping(column),
            classes=asked, votes=votes,
            features=shared.features(text, encoder, image, image_size, shared.read_list(use), missing, scale),
        )  # fmt: skip
        examples.leaks().warn()
        if examples.gold is None or examples.pool is None:
            raise UnderstudyError("a comparison needs gold and a pool; name both files")
        count = shared.class_count(asked, examples.classes)
        build = partial(models.from_text, student, shape=examples.shape, classes=count)  # can be sent to processes
        try:
            comparison = compare(
                build, examples.gold, examples.pool, names, epochs=epochs, seeds=seeds, test=examples.test,
                select=examples.select or select_share, pretrain_epochs=pretrain, out=out, workers=workers,
                progress=not quiet, lr=lr, batch_size=batch_size, optimizer=optimizer, schedule=schedule,
                weight_decay=weight_decay, momentum=momentum, finetune_epochs=finetune, patience=patience,
                gold_repeat=gold_repeat, gold_weight=gold_weight, clip=clip, device=usable_device(device),
            )  # fmt: skip
        except KeyboardInterrupt as stop:
            done = len(list((out / "cells").glob("[!.]*.json")))
            complain(f"stopped: {done} trainings are finished and kept; the same command goes on from there")
            raise typer.Exit(130) from stop
    facts = [
        ("Gold, pool, test", f"{' '.join(gold)}, {pool}, {test or 'folds of gold'}"),
        ("Optimizer", f"{optimizer}, {lr:g}, {schedule}, batches of {batch_size}"),
        ("Epochs on gold alone, first", str(pretrain)),
    ]
    _publish(out, comparison, examples, f"{epochs} epochs, student {student}", facts, noted, count)


def _publish(
    out: Path, comparison: Comparison, examples: Examples, how: str, facts: list[tuple[str, str]], noted: list[str],
    classes: int,
) -> None:  # fmt: skip
    """The page, the picture, and the same in the terminal."""
    from understudy.report.comparison import write_comparison_report, write_difference_plot
    from understudy.report.trust import measure_teacher

    said, gold, pool = comparison.recommendation, examples.gold, examples.pool
    assert said is not None and gold is not None and pool is not None
    verdict = [*said.sentences, *comparison.notes]
    write_comparison_report(
        out / "report.html",
        comparison,
        title="Which method to take",
        lead=f"{len(gold):,} gold rows, {len(pool):,} pool rows, {how}.",
        verdict=verdict,
        trust=measure_teacher(gold, pool, classes=classes, class_names=examples.class_names),
        facts=facts,
        warnings=noted,
    )
    write_difference_plot(out / "differences.png", comparison)
    Console().print(comparison.table())
    for sentence in verdict:
        typer.echo(sentence)
    typer.echo(f"Report: {out / 'report.html'}")
