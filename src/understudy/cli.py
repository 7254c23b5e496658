"""The command line: arguments in, calls of the library out.

A mistake of the user's is one line on stderr and exit code 2; Ctrl-C is one line and 130. A traceback is a bug.
"""

from pathlib import Path
from typing import Annotated, Any

import torch
import typer
from rich.console import Console

import understudy
from understudy import models
from understudy.checks import usable_device, usable_folder
from understudy.cli_select import select_command
from understudy.compare import Outcome, percent
from understudy.console import OneLineErrors, complain, noted_warnings
from understudy.data.read import find_features, read_examples, read_features, read_ids
from understudy.data.tables import check_new_table, read_table, write_table
from understudy.errors import UnderstudyError
from understudy.evaluate import predict
from understudy.methods import METHODS
from understudy.options import read_options
from understudy.run import Run
from understudy.train import train

app = typer.Typer(
    cls=OneLineErrors,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="markdown",
    help="Train a small model from a few trusted labels and many imperfect ones.\n\n"
    "Start with `understudy demo` (about a minute, writes a report). Then `understudy train --help` says what your "
    "files must look like, and `understudy predict` applies what was trained.",
)

ExistingFile = Annotated[Path, typer.Argument(help="A .parquet or .npz file.", show_default=False)]


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="Folder for report.html.")] = Path("understudy-demo"),
    seeds: Annotated[int, typer.Option(min=1, help="How many splits and starts to average over.")] = 10,
) -> None:
    """Show what it does, on built-in handwritten digits.

    A teacher learns from 100 labels of its own and labels 1,100 rows; a smaller student learns from these labels
    and from 60 trusted ones. Compares training on the trusted labels alone, vanilla distillation, Weighted
    Distillation and SLaM, over several seeds with 95% intervals, and says in words what came out.

    Example: `understudy demo --out understudy-demo`
    """
    from understudy.demo import Setting, run_demo

    torch.set_num_threads(1)  # the nets are tiny: more threads only wait for each other
    line: list[str] = []

    def on_done(method: str, seed: int, outcome: Outcome) -> None:
        line.append(f"{method} {percent(outcome.last)}")
        if len(line) == 5:
            typer.echo(f"seed {seed + 1}/{seeds}  " + "  ".join(line), err=True)
            line.clear()

    result = run_demo(out, Setting(seeds=seeds), on_done=on_done)
    for warning in result.warnings:
        complain(f"warning: {warning}")
    Console().print(result.comparison.table())
    for sentence in result.verdict:
        typer.echo(sentence)
    typer.echo(f"Report: {result.report}")


@app.command("train")
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


@app.command("predict")
def predict_command(
    run: Annotated[Path, typer.Argument(help="The folder of a finished training.", show_default=False)],
    file: ExistingFile,
    out: Annotated[Path, typer.Option(help="New .parquet or .npz file.")] = Path("predictions.parquet"),
    selected: Annotated[bool, typer.Option("--selected", help="The student of the epoch chosen on gold.")] = False,
    batch_size: Annotated[int, typer.Option(min=1, help="Rows at once.")] = 1024,
) -> None:
    """Apply a trained student to the rows of a file.

    FILE has the features under the same column names as in training. Written are `id` (or `row`), `label`, the most
    probable class, `confidence`, its probability, and `probabilities`, a list per row. An existing file is not
    overwritten. Where FILE has the true `label`, the accuracy is printed too.

    Example: `understudy predict runs/first new.parquet --out predictions.parquet`
    """
    check_new_table(out)
    loaded = Run.load(run)
    table = read_table(file)
    x = read_features(table, loaded.config.get("features") or find_features(table))
    student = loaded.selected() if selected else loaded.student
    probs = predict(student, _fitting(x, student, file), batch_size=batch_size)
    confidence, label = probs.max(-1)
    ids = read_ids(table)
    write_table(
        out,
        {
            **({"row": torch.arange(len(probs)).numpy()} if ids is None else {"id": ids}),
            "label": label.numpy(),
            "confidence": confidence.numpy(),
            "probabilities": probs.numpy(),
        },
    )
    truth = table.columns.get("label")
    if truth is not None and truth.dtype.kind in "iu" and (truth >= 0).any():
        known = truth >= 0
        right = float((label.numpy() == truth)[known].mean())
        typer.echo(f"accuracy {percent(right)}% against the file's label column ({int(known.sum())} rows)")
    typer.echo(f"{len(probs)} predictions: {out}")


app.command("select")(select_command)


def _fitting(x: Any, student: torch.nn.Module, file: Path) -> Any:
    """The rows, if the student can take them."""
    try:
        predict(student, x[:1])
    except (RuntimeError, ValueError) as error:
        reason = " ".join(str(error).split())[:120]
        raise UnderstudyError(
            f"{file}: the student cannot take rows of shape {x.shape[1:]} ({reason}); give the features of its training"
        ) from error
    return x


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"understudy {understudy.__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="The version.")] = False,
) -> None:
    pass


def main() -> None:
    app()


if __name__ == "__main__":
    main()
