"""``understudy select``: which rows of a pool file a person should label next."""

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
import typer
from torch import Tensor

from understudy.acquisition.select import explain, select
from understudy.acquisition.strategies import STRATEGIES
from understudy.active.oracle import write_columns
from understudy.active.scores import needs_ema, score
from understudy.active.watch import noise_watch
from understudy.cli import options as shared
from understudy.cli.predict import class_names, fitting_rows, mapping_for, named, read_rows
from understudy.errors import UnderstudyError
from understudy.store.console import complain
from understudy.tables.answers import SKIPPED, class_number, text_columns
from understudy.tables.classes import ClassNames
from understudy.tables.table import Table
from understudy.training.ema import EMA
from understudy.training.run import EMA_FILE, Run, read_state


def select_command(
    run: Annotated[Path, typer.Argument(help="The folder of a finished training.", show_default=False)],
    pool: Annotated[
        Path, typer.Argument(help="A file of any kind that train reads, with the features.", show_default=False)
    ],
    strategy: Annotated[str, typer.Option(help=f"One of {', '.join(STRATEGIES)}.")] = "badge",
    n: Annotated[int, typer.Option("-n", min=1, help="How many rows.")] = 100,
    out: Annotated[Path, typer.Option(help="New .csv or .parquet file.")] = Path("batch.csv"),
    labelled: Annotated[
        list[Path] | None,
        typer.Option(help="Files of rows that have labels already (id, label); repeat for more.", show_default=False),
    ] = None,
    column: shared.Column = None,
    seed: Annotated[int, typer.Option(help="Same seed, same rows.")] = 0,
) -> None:
    """Choose the rows of a pool that are most worth a label, and say why.

    Written are `id` (or `row`), `score` and `why` (what the strategy saw in the row), `predicted` and `confidence`
    (what the student says), and an empty `label`, in the order picked. Fill in `label` with the class, or `skip`, and
    train again with the answers beside the gold file. Rows in the `--labelled` files are never picked; where these
    files have a `label`, a warning says if the batch comes from places where labels look random.

    Examples:

    `understudy select runs/first pool.parquet --strategy badge -n 100 --labelled gold.parquet --out batch.csv`

    `understudy train --gold gold.parquet --gold +batch.csv --pool pool.parquet --epochs 30 --out runs/second`
    """
    _check_out(out)
    wants_ema = needs_ema(strategy)
    loaded = Run.load(run)
    columns, names = mapping_for(loaded, column), class_names(loaded)
    table = read_rows(pool, columns, column)
    ids = table.ids
    taken, rows, labels = _labelled_rows(labelled or [], table, ids, names, columns)
    ema = _average(run, loaded, strategy) if wants_ema else None
    scores = score(loaded.student, fitting_rows(run, loaded, table, loaded.student), ema=ema)
    picks = select(strategy, n, **scores.arrays(), labelled=taken, seed=seed)  # type: ignore[arg-type]
    numbers, phrases = explain(strategy, picks, scores, taken, names=None if names is None else names.names)
    confidence, predicted = scores.probs[picks].max(1)
    which: dict[str, list[Any]] = {"row": picks.tolist()} if ids is None else {"id": ids[picks.numpy()].tolist()}
    write_columns(
        out,
        which
        | {
            "score": numbers,
            "why": phrases,
            "predicted": named(predicted.numpy(), names).tolist(),
            "confidence": confidence.tolist(),
            "label": [None] * n,
        },
    )
    if len(rows):
        watch = noise_watch(scores.hidden, rows, labels, picks, seed=seed)
        said = (
            f"{watch.share:.0%} of the batch comes from places where labels look random, "
            f"{watch.random_share:.0%} of a random batch would"
        )
        if watch.alarm:
            complain(f"warning: {said} (p = {watch.p_value:.1g}); look at some rows first, or use another strategy")
        else:
            typer.echo(said)
    typer.echo(f"{n} rows to label: {out}")


def _check_out(path: Path) -> None:
    if path.suffix.lower() not in (".csv", ".parquet"):
        raise UnderstudyError(f"{path}: a batch is written as .csv or .parquet; end the name in one of them")
    if path.exists():
        raise UnderstudyError(f"{path} already exists and is not overwritten; choose another name or remove it")


def _average(folder: Path, run: Run, strategy: str) -> EMA:
    """The moving average that a loop keeps beside its students."""
    if not (folder / EMA_FILE).exists():
        raise UnderstudyError(
            f"{strategy} compares the student with a moving average of its weights, and {folder} has no {EMA_FILE}; "
            "use --strategy badge, or train with --ema"
        )
    ema = EMA(run.student)
    ema.load_state_dict(read_state(folder / EMA_FILE))
    return ema


def _labelled_rows(
    files: list[Path],
    pool: Table,
    ids: np.ndarray[Any, Any] | None,
    names: ClassNames | None,
    columns: dict[str, str],
) -> tuple[Tensor, Tensor, Tensor]:
    """Rows of the pool never to be picked; and those among them with a label, with these labels."""
    if files and ids is None:
        raise UnderstudyError(f"{pool.path} has no column 'id' to find the rows of {files[0]} by; add it")
    place = {str(value): row for row, value in enumerate([] if ids is None else ids.tolist())}
    taken: dict[int, int] = {}
    for path in files:
        given = text_columns(path)
        given |= {ours: given[theirs] for ours, theirs in columns.items() if theirs in given}
        if "id" not in given:
            raise UnderstudyError(f"{path} has no column 'id'; name the labelled rows by the ids of {pool.path}")
        answers = given.get("label", [""] * len(given["id"]))
        for number, (name, label) in enumerate(zip(given["id"], answers, strict=True)):
            # Gold from elsewhere may be in the file as well.
            if name in place:
                text = label.strip()
                where = f"{path}: column 'label' row {number}"
                known = text and text.lower() not in SKIPPED
                taken[place[name]] = class_number(text, names, where) if known else -1
    rows = torch.tensor(list(taken), dtype=torch.long)
    labels = torch.tensor(list(taken.values()), dtype=torch.long)
    return rows, rows[labels >= 0], labels[labels >= 0]
