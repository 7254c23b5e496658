"""``understudy select``: which rows of a pool file a person should label next."""

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from understudy.acquisition.strategies import NAMES
from understudy.cli import over_shards, shared
from understudy.errors import UnderstudyError, shown, warn
from understudy.store.console import complain
from understudy.store.files import check_new_file

if TYPE_CHECKING:
    from understudy.active.watch import NoiseWatch
    from understudy.cli.run_on_file import RunOnFile
    from understudy.io.table import Table
    from understudy.parallel.shard_selection import SelectedBatch
    from understudy.store.arrow import Array
    from understudy.training.ema import EMA


def select_command(
    run: shared.RunFolder,
    pool: Annotated[
        Path,
        typer.Argument(help="A file of any kind that train reads, with the features; or shards.", show_default=False),
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
    workers: over_shards.Workers = None,
    ray: over_shards.Ray = None,
    quiet: shared.Quiet = False,
) -> None:
    """Choose the rows of a pool that are most worth a label, and say why.

    Written are `id` (or `row`), `score` and `why` (what the strategy saw in the row), `predicted` and `confidence`
    (what the student says), and an empty `label`, in the order picked. Fill in `label` with the class, or `skip`, and
    train again with the answers beside the gold file. Rows in the `--labelled` files are never picked; where these
    files have a `label`, a warning says if the batch comes from places where labels look random. Of one file that is
    gold and pool (`--labelled` names POOL itself), the rows with a label are left out.

    A folder of .parquet shards is scored and searched one shard at a time. While that lasts, the scores are in a folder
    beside `--out` (batch.scores), from which the same command goes on.

    Examples:

    `understudy select runs/first pool.parquet --strategy badge -n 100 --labelled gold.parquet --out batch.csv`

    `understudy select runs/first pool --strategy coreset -n 100 --ray local --out batch.csv`

    `understudy train --gold gold.parquet --gold +batch.csv --pool pool.parquet --out runs/second`
    """
    check_new_file(out, "a batch is", (".csv", ".parquet"))
    with shared.loading():
        from understudy.active.loop import needs_ema
        from understudy.cli.run_on_file import RunOnFile
        from understudy.io.answer_file import write_columns
        from understudy.parallel.pool_shards import is_sharded, list_pool_shards
        from understudy.store.copies import local_path
        from understudy.store.label_history import LabelHistory, history_beside
        from understudy.training.run import EMA_FILE

    shards = list_pool_shards(pool) if is_sharded(pool) else None
    if shards is None:
        over_shards.refuse_engines(workers, ray, "give a folder of .parquet shards")
    wants_ema, scratch = needs_ema(strategy), local_path(out).with_suffix(".scores")
    given = RunOnFile(run, pool if shards is None else Path(str(shards[0].path)), column)
    if wants_ema and given.run.ema is None:
        raise UnderstudyError(
            f"{strategy} compares the student with a moving average of its weights, and {run} has no {EMA_FILE}; "
            "use --strategy badge, or train with --ema"
        )
    ema = given.run.ema if wants_ema else None
    if shards is None:
        batch = _of_file(given, strategy, n, ema, labelled or [], seed)
    else:
        from understudy.cli.select_shards import batch_from_shards

        batch = batch_from_shards(
            given, shards, strategy, n, ema, labelled or [], seed, scratch=scratch,
            executor=over_shards.executor_of(workers, ray), progress=not quiet,
        )  # fmt: skip
    confidence, predicted = batch.probs.max(1)
    which: dict[str, list[Any]] = {"row": batch.rows.tolist()} if batch.ids is None else {"id": batch.ids}
    write_columns(
        out,
        which
        | {
            "score": batch.numbers,
            "why": batch.reasons,
            "predicted": given.named(predicted.numpy()).tolist(),
            "confidence": confidence.tolist(),
            "label": [None] * n,
        },
    )
    _warn_of_labels(given, pool, labelled or [], batch)
    name, asked = next(iter(which.items()))
    LabelHistory(history_beside(out)).add("asked", f"{strategy} on {run}, seed {seed}", dict.fromkeys(asked), by=name)
    if batch.watch is not None:
        _say_watch(batch.watch)
    if shards is not None:
        shutil.rmtree(scratch)
    typer.echo(shown(f"{n} rows to label: {out}"))


def _say_watch(watch: "NoiseWatch") -> None:
    text = (
        f"{watch.share:.0%} of the batch comes from places where labels look random, "
        f"{watch.random_share:.0%} of a random batch would"
    )
    if watch.alarm:
        complain(f"warning: {text} (p = {watch.p_value:.1g}); look at some rows first, or use another strategy")
    else:
        typer.echo(text)


def _of_file(
    given: "RunOnFile", strategy: str, n: int, ema: "EMA | None", labelled: list[Path], seed: int
) -> "SelectedBatch":
    """The batch of a file that is read in one piece."""
    import numpy as np

    from understudy.acquisition.select import explain, select
    from understudy.active.loop import score
    from understudy.active.watch import noise_watch
    from understudy.cli.labelled import labelled_rows, no_own_labels
    from understudy.io.gold_pool import is_one_file, own_labels
    from understudy.parallel.shard_selection import SelectedBatch

    def find(named: "Table") -> "Array":
        named.check_spelling(given.table)
        return named.rows_in(given.table)

    def own() -> "Array":
        found = given.labels()
        if found is None:
            raise no_own_labels(given.table.path)
        return found

    student, ids = given.run.student, given.table.ids
    taken, said = labelled_rows(labelled, given, given.table.path, find, own)
    rows, labels = taken[said >= 0], said[said >= 0]
    scores = score(student, given.rows(student), ema=ema)
    picks = select(strategy, n, **scores.arrays(), labelled=taken, seed=seed)  # type: ignore[arg-type]
    numbers, reasons = explain(strategy, picks, scores, taken, names=given.class_names)
    # A file that names its own labelled rows has had its labels read, and none of them is picked.
    unread = "label" in given.table.names and not any(is_one_file(path, given.table.path) for path in labelled)
    known = own_labels(given.table)[1] if unread else np.zeros(0, dtype=np.int64)
    return SelectedBatch(
        picks, None if ids is None else ids[picks.numpy()].tolist(), numbers, reasons, scores.probs[picks],
        noise_watch(scores.hidden, rows, labels, picks, seed=seed) if len(rows) else None,
        int(np.isin(picks.numpy(), known).sum()), len(known) == len(given.table),
    )  # fmt: skip


def _warn_of_labels(given: "RunOnFile", pool: Path, files: list[Path], batch: "SelectedBatch") -> None:
    """Where the batch asks for what is known, or its answers could be misread."""
    from understudy.io.gold_pool import is_one_file

    # A pool with every label is a benchmark's, whose truth is not looked at.
    if batch.known and not batch.all_known and not any(is_one_file(path, pool) for path in files):
        where = given.table.theirs.get("label", "label")
        warn(
            f"{batch.known} of {len(batch.rows)} picks have a label in {pool} ({where!r}); --labelled {pool} leaves "
            "them out"
        )
    if "skip" in (given.class_names or ()):
        warn("'skip' is a class of this run and means it in the batch too; write -1 where no label can be given")
