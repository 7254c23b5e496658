"""``understudy train``: a student from files, as a run directory with its report."""

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import torch
import typer

from understudy import models
from understudy.cli import options as shared
from understudy.cli.request import TrainRequest
from understudy.comparison.auto import auto, why_chosen
from understudy.comparison.interval import percent
from understudy.errors import UnderstudyError
from understudy.featurise.featuriser import VALUES_FILE
from understudy.method_options import read_options
from understudy.methods import METHODS
from understudy.store.console import collected_warnings
from understudy.store.files import locked
from understudy.tables.read import Examples
from understudy.training.checks import BEFOREHAND, usable_device, usable_folder
from understudy.training.ema import EMA
from understudy.training.loop import train
from understudy.training.run import Run

AUTO = "auto"
_TRAINING = shared.TRAINING


def train_command(
    context: typer.Context,
    out: Annotated[Path, typer.Option(help="New folder for the run.", show_default=False)],
    epochs: Annotated[
        int | None, typer.Option(min=1, help="Passes over gold and pool.", show_default=False)
    ] = None,
    gold: Annotated[
        list[str] | None,
        typer.Option(help="Trusted labels; again with +FILE for the answers to a chosen batch.", show_default=False),
    ] = None,
    pool: Annotated[
        Path | None, typer.Option(help="Imperfect labels. Without: gold alone.", show_default=False)
    ] = None,
    method: Annotated[str, typer.Option(help=f"One of {', '.join(METHODS)}; or {AUTO}: a pilot decides.")] = "slam",
    option: Annotated[
        list[str] | None,
        typer.Option(help="A setting of the method, e.g. lower_bound=0.6; repeat for more.", show_default=False),
    ] = None,
    student: shared.Student = "mlp:128,128",
    seed: Annotated[int, typer.Option(help="Same seed, same result.")] = 0,
    device: shared.Device = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress.")] = False,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with the run in --out; everything else is remembered.")
    ] = False,
    test: Annotated[
        Path | None,
        typer.Option(help="Rows that are only looked at.", show_default=False, rich_help_panel=shared.FILES),
    ] = None,
    select: Annotated[
        Path | None,
        typer.Option(help="Gold rows that pick an epoch.", show_default=False, rich_help_panel=shared.FILES),
    ] = None,
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
    ema: Annotated[
        bool,
        typer.Option("--ema", help="Keep a moving average of the weights, for s_badge.", rich_help_panel=_TRAINING),
    ] = False,
    checkpoint_every: Annotated[
        int | None,
        typer.Option(
            min=1, help="Also write a checkpoint every so many steps, not only after epochs.", show_default=False,
            rich_help_panel=_TRAINING,
        ),
    ] = None,
) -> None:  # fmt: skip
    """Train a student on gold and pool, and write the run and its report.html.

    Files are Parquet (or a folder of shards), CSV, JSON lines, .npz, .npy or a folder of images, with these columns:

    - `id`: optional, number or text

    - features: `x` (a list of numbers per row), or every further column of numbers or categories, or a column named by
    `--text` or `--image`

    - `label`: the true class, a name or a number 0, 1, 2 … (gold, test, select)

    - the teacher's word: `teacher_probs` (a list per row, or an object by class name), or `teacher_label` (−1 or empty:
    none) with or without `teacher_confidence`, or `teacher_topk_index` and `teacher_topk_prob`, or `teacher_votes`

    A gold file of `id` and `label` is enough: features and the teacher's word are then taken from the pool file by id,
    and those rows leave the pool. Give the teacher's word only for gold rows it had not trained on. `--gold +batch.csv`
    adds the answered batch of `understudy select`: such rows train, but never estimate.

    Examples:

    `understudy train --gold gold.parquet --pool pool.parquet --epochs 30 --out runs/first`

    `understudy train --gold gold.csv --pool reviews.jsonl --text review --column teacher_label=llm_answer
    --student linear --epochs 20 --out runs/reviews`

    `understudy train --gold gold.npz --pool pool.npz --test test.npz --method slam --option lower_bound=0.6
    --student mlp:256,256 --lr 0.003 --schedule cosine --pretrain 10 --epochs 60 --out runs/second`

    `understudy train --gold gold.npz --pool pool.npz --method auto --option pilot_rows=2000 --epochs 30
    --out runs/third`

    `understudy train --resume --out runs/second`
    """
    if resume:
        _check_alone(context)
        carry_out(TrainRequest.load(out), progress=not quiet, resume=True)
        return
    if epochs is None:
        raise UnderstudyError("how long to train is missing; add --epochs, e.g. --epochs 30")
    request = TrainRequest(
        out=str(out), epochs=epochs, gold=gold or [], pool=_text(pool), test=_text(test), select=_text(select),
        columns=shared.read_mapping(column), classes=shared.read_classes(classes), votes=votes, text=text, image=image,
        image_size=image_size, encoder=encoder, use=shared.read_list(use), missing=missing, scale=scale, method=method,
        options=option or [], student=student, lr=lr, batch_size=batch_size, optimizer=optimizer, schedule=schedule,
        weight_decay=weight_decay, momentum=momentum, pretrain=pretrain, finetune=finetune, patience=patience,
        gold_repeat=gold_repeat, gold_weight=gold_weight, clip=clip, ema=ema,
        checkpoint_every=checkpoint_every, seed=seed, device=device,
    )  # fmt: skip
    usable_folder(out)
    carry_out(request, progress=not quiet)


def _check_alone(context: typer.Context) -> None:
    """What a resumed training does was said when it began."""
    for name in context.params:
        source = context.get_parameter_source(name)
        if name not in ("out", "resume", "quiet") and source is not None and source.name == "COMMANDLINE":
            option = "--" + name.replace("_", "-")
            raise UnderstudyError(f"--resume goes on with what the run began with; leave out {option}")


def carry_out(request: TrainRequest, *, progress: bool = True, resume: bool = False) -> None:
    """Read the files, train, write the run and its report."""
    from understudy.report.page import write_run_report

    options, run_method = _method(request)
    device, out = usable_device(request.device), Path(request.out)
    with collected_warnings() as noted:
        examples = request.read()
        examples.leaks().warn()
        count = shared.class_count(request.classes, examples.classes)
        build = partial(models.from_text, request.student, shape=examples.shape, classes=count)
        ema = _average(build, device) if request.ema else None
        # What a run began with stays; whether the files are still the same is found out by the training.
        if not resume:
            request.save()
        if not resume or not (out / VALUES_FILE).exists():
            examples.featuriser.save(out)
        try:
            run = run_method(
                build, examples.gold, examples.pool, epochs=request.epochs, batch_size=request.batch_size,
                lr=request.lr, seed=request.seed, test=examples.test, select=examples.select,
                patience=request.patience, out=out, optimizer=request.optimizer, weight_decay=request.weight_decay,
                momentum=request.momentum, schedule=request.schedule, gold_repeat=request.gold_repeat,
                gold_weight=request.gold_weight, pretrain_epochs=request.pretrain, finetune_epochs=request.finetune,
                clip=request.clip, ema=ema, checkpoint_every=request.checkpoint_every, device=device, progress=progress,
                resume=resume, notes=_notes(request, examples, options),
            )  # fmt: skip
        except UnderstudyError:
            if not resume:
                _clear(out)
            raise
    chosen = why_chosen(run)
    write_run_report(
        out / "report.html",
        run,
        gold=examples.gold,
        pool=examples.pool,
        lower_bound=options.get("lower_bound", 0.5),
        warnings=noted,
        settings=request.settings() | ({} if chosen is None else {"Chosen": chosen}),
    )
    if chosen is not None:
        typer.echo(f"Chosen: {chosen}")
    _tell(run, out)


def _method(request: TrainRequest) -> tuple[dict[str, Any], Callable[..., Run]]:
    """The options that were typed, and what trains with them."""
    if request.method == AUTO:
        options = read_options(pilot_options, request.options, AUTO)
        return options, partial(auto, **options)
    if request.method not in METHODS:
        raise UnderstudyError(f"there is no method {request.method!r}; use one of {', '.join(METHODS)}, or {AUTO}")
    options = read_options(METHODS[request.method], request.options)
    objective = METHODS[request.method](**options)
    return options, lambda student, gold, pool, **told: train(student, gold, pool, objective, **told)


def pilot_options(*, pilot_rows: int = 5000, pilot_epochs: int | None = None, folds: int = 4) -> dict[str, Any]:
    """What may be typed after --option for --method auto."""
    return {"pilot_rows": pilot_rows, "pilot_epochs": pilot_epochs, "folds": folds}


def _notes(request: TrainRequest, examples: Examples, options: dict[str, Any]) -> dict[str, Any]:
    """What ``predict`` and ``select`` need beside the features: the same columns, and the classes' names."""
    names = examples.featuriser.names
    notes = {"features": "x" if names == ("x",) else list(names), "options": options, "columns": request.columns}
    return notes if examples.class_names is None else notes | {"class_names": list(examples.class_names)}


def _tell(run: Run, out: Path) -> None:
    said = {"last": "last epoch", "finetuned": "after fine-tuning"}
    said["selected"] = f"epoch {run.selected_epoch}, chosen on the select rows"
    for prefix in ("test", "select"):
        for when, found in run.metrics(prefix).items():
            if "accuracy" in found:
                typer.echo(f"{prefix} accuracy {percent(found['accuracy'])}% ({said[when]})")
    typer.echo(f"Run: {out}  Report: {out / 'report.html'}")


def _average(build: Any, device: torch.device | None) -> EMA:
    with torch.random.fork_rng():
        student: torch.nn.Module = build()
    return EMA(student if device is None else student.to(device))


def _clear(out: Path) -> None:
    """A training that never began leaves nothing behind; that of another process is left alone."""
    if not out.is_dir():
        return
    with suppress(UnderstudyError), locked(out):
        there = {path.name for path in out.iterdir()}
        if there <= BEFOREHAND:
            for name in there:
                (out / name).unlink()
            out.rmdir()


def _text(path: Path | None) -> str | None:
    return None if path is None else str(path)
