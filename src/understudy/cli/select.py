"""``understudy select``: which rows of a pool file a person should label next."""

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
import typer
from torch import Tensor

from understudy.acquisition.select import STRATEGIES, select
from understudy.active.explain import explain
from understudy.active.noise_watch import noise_watch
from understudy.active.question import write_columns
from understudy.active.scores import needs_ema, score
from understudy.active.state import EMA_FILE
from understudy.console import complain
from understudy.data.answers import SKIPPED, text_columns, whole_number
from understudy.data.read import find_features, read_features, read_ids
from understudy.data.tables import Table, read_table
from understudy.ema import EMA
from understudy.errors import UnderstudyError
from understudy.run import Run, read_state


def select_command(
    run: Annotated[Path, typer.Argument(help="The folder of a finished training.", show_default=False)],
    pool: Annotated[Path, typer.Argument(help="A .parquet or .npz file with the features.", show_default=False)],
    strategy: Annotated[str, typer.Option(help=f"One of {', '.join(STRATEGIES)}.")] = "badge",
    n: Annotated[int, typer.Option("-n", min=1, help="How many rows.")] = 100,
    out: Annotated[Path, typer.Option(help="New .csv or .parquet file.")] = Path("batch.csv"),
    labelled: Annotated[
        list[Path] | None,
        typer.Option(help="Files of rows that have labels already (id, label); repeat for more.", show_default=False),
    ] = None,
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
    table = read_table(pool)
    x = read_features(table, loaded.config.get("features") or find_features(table))
    ids = read_ids(table)
    taken, rows, labels = _labelled_rows(labelled or [], table, ids)
    ema = _average(run, loaded, strategy) if wants_ema else None
    try:
        scores = score(loaded.student, x, ema=ema)
    except (RuntimeError, ValueError) as error:
        reason = " ".join(str(error).split())[:120]
        raise UnderstudyError(
            f"{pool}: the student cannot take rows of shape {x.shape[1:]} ({reason}); give the features of its training"
        ) from error
    picks = select(strategy, n, **scores.arrays(), labelled=taken, seed=seed)  # type: ignore[arg-type]
    numbers, phrases = explain(strategy, picks, scores, taken)
    confidence, predicted = scores.probs[picks].max(1)
    named: dict[str, list[Any]] = {"row": picks.tolist()} if ids is None else {"id": ids[picks.numpy()].tolist()}
    write_columns(
        out,
        named
        | {
            "score": numbers,
            "why": phrases,
            "predicted": predicted.tolist(),
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
            "use --strategy badge, or a round of an active-learning loop"
        )
    ema = EMA(run.student)
    ema.load_state_dict(read_state(folder / EMA_FILE))
    return ema


def _labelled_rows(files: list[Path], pool: Table, ids: np.ndarray[Any, Any] | None) -> tuple[Tensor, Tensor, Tensor]:
    """Rows of the pool never to be picked; and those among them with a label, with these labels."""
    if files and ids is None:
        raise UnderstudyError(f"{pool.path} has no column 'id' to find the rows of {files[0]} by; add it")
    place = {str(value): row for row, value in enumerate([] if ids is None else ids.tolist())}
    taken: dict[int, int] = {}
    for path in files:
        given = _columns(path)
        if "id" not in given:
            raise UnderstudyError(f"{path} has no column 'id'; name the labelled rows by the ids of {pool.path}")
        answers = given.get("label", [""] * len(given["id"]))
        for number, (name, label) in enumerate(zip(given["id"], answers, strict=True)):
            # Gold from elsewhere may be in the file as well.
            if name in place:
                known = label.strip() and label.strip().lower() not in SKIPPED
                where = f"{path}: column 'label' row {number}"
                taken[place[name]] = whole_number(label, where) if known else -1
    rows = torch.tensor(list(taken), dtype=torch.long)
    labels = torch.tensor(list(taken.values()), dtype=torch.long)
    return rows, rows[labels >= 0], labels[labels >= 0]


def _columns(path: Path) -> dict[str, list[str]]:
    """``id`` and ``label`` of a file of any kind, as text."""
    if path.suffix.lower() == ".csv":
        return text_columns(path)
    table = read_table(path)
    return {name: [str(cell) for cell in table.columns[name].tolist()] for name in ("id", "label") if name in table}
