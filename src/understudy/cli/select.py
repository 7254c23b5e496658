"""``understudy select``: which rows of a pool file a person should label next."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from understudy.acquisition.strategies import NAMES
from understudy.cli import shared
from understudy.errors import UnderstudyError, warn
from understudy.store.console import complain
from understudy.store.files import check_new_file

if TYPE_CHECKING:
    from torch import Tensor

    from understudy.cli.run_on_file import RunOnFile


def select_command(
    run: shared.RunFolder,
    pool: Annotated[
        Path, typer.Argument(help="A file of any kind that train reads, with the features.", show_default=False)
    ],
    strategy: Annotated[str, typer.Option(help=f"One of {', '.join(NAMES)}.")] = "badge",
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
    files have a `label`, a warning says if the batch comes from places where labels look random. Of one file that is
    gold and pool (`--labelled` names POOL itself), the rows with a label are left out.

    Examples:

    `understudy select runs/first pool.parquet --strategy badge -n 100 --labelled gold.parquet --out batch.csv`

    `understudy train --gold gold.parquet --gold +batch.csv --pool pool.parquet --out runs/second`
    """
    check_new_file(out, "a batch is", (".csv", ".parquet"))
    with shared.loading():
        from understudy.acquisition.select import explain, select
        from understudy.active.loop import needs_ema, score
        from understudy.active.oracle import write_columns
        from understudy.active.watch import noise_watch
        from understudy.cli.run_on_file import RunOnFile
        from understudy.store.trail import Trail, beside
        from understudy.training.run import EMA_FILE

    wants_ema = needs_ema(strategy)
    given = RunOnFile(run, pool, column)
    student, ema, ids = given.run.student, given.run.ema, given.table.ids
    if wants_ema and ema is None:
        raise UnderstudyError(
            f"{strategy} compares the student with a moving average of its weights, and {run} has no {EMA_FILE}; "
            "use --strategy badge, or train with --ema"
        )
    taken, rows, labels = _labelled_rows(labelled or [], given)
    scores = score(student, given.rows(student), ema=ema if wants_ema else None)
    picks = select(strategy, n, **scores.arrays(), labelled=taken, seed=seed)  # type: ignore[arg-type]
    numbers, phrases = explain(strategy, picks, scores, taken, names=given.class_names)
    confidence, predicted = scores.probs[picks].max(1)
    which: dict[str, list[Any]] = {"row": picks.tolist()} if ids is None else {"id": ids[picks.numpy()].tolist()}
    write_columns(
        out,
        which
        | {
            "score": numbers,
            "why": phrases,
            "predicted": given.named(predicted.numpy()).tolist(),
            "confidence": confidence.tolist(),
            "label": [None] * n,
        },
    )
    _warn_of_labels(given, pool, labelled or [], picks)
    name, asked = next(iter(which.items()))
    Trail(beside(out)).add("asked", f"{strategy} on {run}, seed {seed}", dict.fromkeys(asked), by=name)
    if len(rows):
        watch = noise_watch(scores.hidden, rows, labels, picks, seed=seed)
        text = (
            f"{watch.share:.0%} of the batch comes from places where labels look random, "
            f"{watch.random_share:.0%} of a random batch would"
        )
        if watch.alarm:
            complain(f"warning: {text} (p = {watch.p_value:.1g}); look at some rows first, or use another strategy")
        else:
            typer.echo(text)
    typer.echo(f"{n} rows to label: {out}")


def _labelled_rows(files: list[Path], given: "RunOnFile") -> "tuple[Tensor, Tensor, Tensor]":
    """Rows of the pool never to be picked; and those among them with a label, with these labels."""
    import torch

    from understudy.tables.answers import class_number, is_skipped
    from understudy.tables.one_file import is_one_file

    taken: dict[int, int] = {}
    for path in files:
        if is_one_file(path, given.table.path):
            taken |= _own_rows(given)
            continue
        columns, index = _found(path, given)
        answers = columns.get("label", [""] * len(index))
        for number, (row, label) in enumerate(zip(index, answers, strict=True)):
            if row >= 0:
                text = label.strip()
                known = text and not is_skipped(text, given.names)
                where = f"{path}: column 'label' row {number}"
                taken[row] = class_number(text, given.names, where, places=given.places) if known else -1
    rows = torch.tensor(list(taken), dtype=torch.long)
    labels = torch.tensor(list(taken.values()), dtype=torch.long)
    return rows, rows[labels >= 0], labels[labels >= 0]


def _own_rows(given: "RunOnFile") -> dict[int, int]:
    """Rows of the pool with a label in the pool file itself, and these labels."""
    labels = given.labels()
    if labels is None:
        raise UnderstudyError(
            f"{given.table.path} is the pool and --labelled, but has no column 'label'; name it: --column label=NAME"
        )
    return {row: label for row, label in enumerate(labels.tolist()) if label >= 0}


def _warn_of_labels(given: "RunOnFile", pool: Path, files: list[Path], picks: "Tensor") -> None:
    """Where the batch asks for what is known, or its answers could be misread."""
    import numpy as np

    from understudy.tables.one_file import is_one_file, own_labels

    if "label" in given.table.names and not any(is_one_file(path, pool) for path in files):
        known = own_labels(given.table)[1]
        again = int(np.isin(picks.numpy(), known).sum())
        # A pool with every label is a benchmark's, whose truth is not looked at.
        if again and len(known) < len(given.table):
            where = given.table.theirs.get("label", "label")
            warn(f"{again} of {len(picks)} picks have a label in {pool} ({where!r}); --labelled {pool} leaves them out")
    if "skip" in (given.class_names or ()):
        warn("'skip' is a class of this run and means it in the batch too; write -1 where no label can be given")


def _found(path: Path, given: "RunOnFile") -> tuple[dict[str, list[str]], list[int]]:
    """A file's columns as text, and which row of the pool each of its rows is; −1: none."""
    import numpy as np

    from understudy.tables.answers import text_columns
    from understudy.tables.table import Table

    pool = given.table
    if pool.ids is None:
        raise UnderstudyError(f"{pool.path} has no column 'id' to find the rows of {path} by; add it")
    columns = text_columns(path, given.columns)
    columns |= {ours: columns[theirs] for ours, theirs in given.columns.items() if theirs in columns}
    if "id" not in columns:
        raise UnderstudyError(f"{path} has no column 'id'; name the labelled rows by the ids of {pool.path}")
    named = Table(path, {"id": np.array(columns["id"], dtype=object)})
    named.check_spelling(pool)
    index = named.rows_in(pool).tolist()
    # Gold from elsewhere may be in the file as well.
    if index.count(-1):
        first = columns["id"][index.index(-1)]
        warn(f"{index.count(-1)} of {len(index)} ids of {path} are not in {pool.path} ({first!r} …): none of its rows")
    return columns, index
