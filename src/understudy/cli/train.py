"""``understudy train``: a student from files, as a run directory with its report."""

from pathlib import Path
from typing import Annotated

import torch
import typer

from understudy import models
from understudy.checks import usable_device, usable_folder
from understudy.compare import percent
from understudy.console import noted_warnings
from understudy.data.read import read_examples
from understudy.errors import UnderstudyError
from understudy.methods import METHODS
from understudy.options import read_options
from understudy.train import train


def train_command(
    out: Annotated[Path, typer.Option(help="New folder for the run.", show_default=False)],
    epochs: Annotated[int, typer.Option(min=1, help="Passes over gold and pool.", show_default=False)],
    gold: Annotated[
        list[str] | None,
        typer.Option(help="Trusted labels; again with +FILE for the answers to a chosen batch.", show_default=False),
    ] = None,
    pool: Annotated[
        Path | None, typer.Option(help="Imperfect labels. Without: gold alone.", show_default=False)
    ] = None,
    method: Annotated[str, typer.Option(help=f"One of {', '.join(METHODS)}.")] = "slam",
    student: Annotated[str, typer.Option(help="A net and its sizes: linear, mlp:128,128, lenet…")] = "mlp:128,128",
    option: Annotated[
        list[str] | None,
        typer.Option(help="A setting of the method, e.g. lower_bound=0.6; repeat for more.", show_default=False),
    ] = None,
    test: Annotated[Path | None, typer.Option(help="Rows that are only looked at.", show_default=False)] = None,
    select: Annotated[Path | None, typer.Option(help="Gold rows that pick an epoch.", show_default=False)] = None,
    lr: Annotated[float, typer.Option(help="Learning rate.")] = 1e-3,
    batch_size: Annotated[int, typer.Option(min=1, help="Rows per step.")] = 128,
    optimizer: Annotated[str, typer.Option(help="adam, adamw or sgd.")] = "adam",
    schedule: Annotated[
        str, typer.Option(help="constant, cosine, step, papers-cifar or papers-imagenet.")
    ] = "constant",
    weight_decay: Annotated[float, typer.Option(help="Weight decay.")] = 0.0,
    momentum: Annotated[float, typer.Option(help="For sgd.")] = 0.9,
    pretrain: Annotated[int, typer.Option(min=0, help="Epochs on gold alone, first.")] = 0,
    gold_repeat: Annotated[int, typer.Option(min=1, help="Show each gold row so often per epoch.")] = 1,
    gold_weight: Annotated[float, typer.Option(help="Multiplies the loss of gold rows.")] = 1.0,
    clip: Annotated[float | None, typer.Option(help="Bound on the gradient's norm.", show_default=False)] = None,
    classes: Annotated[
        int | None, typer.Option(min=2, help="How many, where the files do not show all.", show_default=False)
    ] = None,
    seed: Annotated[int, typer.Option(help="Same seed, same result.")] = 0,
    device: Annotated[str | None, typer.Option(help="cpu, cuda, …", show_default=False)] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress.")] = False,
) -> None:
    """Train a student on gold and pool, and write the run and its report.html.

    Files are Parquet or .npz with these columns (arrays, in .npz):

    - `id`: optional, number or text

    - features: `x` (a list of numbers per row), or every further numeric column

    - `label`: the true class, 0, 1, 2 … (gold, test, select)

    - `teacher_probs` (a list per row), or `teacher_label` (−1 or empty: none) with or without `teacher_confidence`

    A gold file of `id` and `label` is enough: features and the teacher's word are then taken from the pool file by id,
    and those rows leave the pool. Give the teacher's word only for gold rows it had not trained on. `--gold +batch.csv`
    adds the answered batch of `understudy select` (CSV or Parquet): such rows train, but never estimate.

    Examples:

    `understudy train --gold gold.parquet --pool pool.parquet --epochs 30 --out runs/first`

    `understudy train --gold gold.npz --pool pool.npz --test test.npz --method slam --option lower_bound=0.6
    --student mlp:256,256 --lr 0.003 --schedule cosine --pretrain 10 --epochs 60 --out runs/second`
    """
    from understudy.report import write_run_report

    usable_folder(out)
    if method not in METHODS:
        raise UnderstudyError(f"there is no method {method!r}; use one of {', '.join(METHODS)}")
    chosen = [name[1:] for name in gold or [] if name.startswith("+")]
    trusted = [name for name in gold or [] if not name.startswith("+")]
    options = read_options(METHODS[method], option or [])
    objective = METHODS[method](**options)
    with noted_warnings() as noted:
        examples = read_examples(
            gold=trusted[-1] if trusted else None, chosen=chosen, pool=pool, test=test, select=select
        )
        count = classes or max(examples.classes, 2)

        def build() -> torch.nn.Module:
            return models.from_text(student, shape=examples.shape, classes=count)

        run = train(
            build, examples.gold, examples.pool, objective, epochs=epochs, batch_size=batch_size, lr=lr, seed=seed,
            test=examples.test, select=examples.select, out=out, optimizer=optimizer, weight_decay=weight_decay,
            momentum=momentum, schedule=schedule, gold_repeat=gold_repeat, gold_weight=gold_weight,
            pretrain_epochs=pretrain, clip=clip, device=usable_device(device), progress=not quiet,
        )  # fmt: skip
    # predict must find the same columns, in the same order.
    run.config |= {"features": examples.features, "options": options}
    run.save(out)
    given = {"Gold file": " ".join(gold) if gold else None, "Pool file": pool, "Test file": test, "Select file": select}
    write_run_report(
        out / "report.html",
        run,
        gold=examples.gold,
        pool=examples.pool,
        lower_bound=options.get("lower_bound", 0.5),
        warnings=noted,
        settings={
            **{name: path for name, path in given.items() if path is not None},
            "Student": student,
            "Method": " ".join([method, *(option or [])]),
            "Optimizer": f"{optimizer}, {lr:g}, {schedule}, batches of {batch_size}",
            "Seed": seed,
        },
    )
    for prefix in ("test", "select"):
        for when, found in run.metrics(prefix).items():
            if "accuracy" in found:
                epoch = "last epoch" if when == "last" else f"epoch {run.selected_epoch}, chosen on the select rows"
                typer.echo(f"{prefix} accuracy {percent(found['accuracy'])}% ({epoch})")
    typer.echo(f"Run: {out}  Report: {out / 'report.html'}")
