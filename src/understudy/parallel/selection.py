"""Selection of the rows to label next, from a file or a folder of shards, by a finished run.

    batch = select_rows(given, "badge", 100, labelled=[Path("gold.csv")])
    batch.rows, batch.ids, batch.reasons

Rows with a label already, in files beside the pool or in the pool itself, are never picked; their labels tell whether
the batch comes from regions where labels look random (``active/watch.py``).
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from understudy.acquisition.select import explain, select, strategy_named
from understudy.active.loop import needs_ema, score
from understudy.active.watch import noise_watch
from understudy.errors import UnderstudyError, warn
from understudy.io.gold_pool import is_one_file, own_labels
from understudy.io.label_columns import label_column
from understudy.io.read import is_skipped
from understudy.io.table import Table, text_columns
from understudy.labels.class_names import ClassNames
from understudy.parallel.executors import Executor, InProcess
from understudy.parallel.pool_shards import OnTable, PoolShards, results_in_order
from understudy.parallel.run_on_file import RunOnFile
from understudy.parallel.shard_scores import ScoreTable
from understudy.parallel.shard_selection import SelectedBatch, rows_of_ids, select_batch
from understudy.store.arrow import Array
from understudy.training.averages import EMA
from understudy.training.run import EMA_FILE


def select_rows(
    given: RunOnFile,
    strategy: str,
    n: int,
    *,
    labelled: list[Path],
    seed: int = 0,
    scratch: Path,
    executor: Executor | None = None,
    progress: bool = False,
) -> SelectedBatch:
    """n rows by a strategy. ``scratch``: a folder for the scores of shards, from which an interrupted call resumes."""
    ema = None
    if needs_ema(strategy):
        ema = given.run.ema
        if ema is None:
            raise UnderstudyError(
                f"{strategy} compares the student with a moving average of its weights, and {given.folder} has no "
                f"{EMA_FILE}; use --strategy badge, or train with --ema"
            )
    if given.shards is None:
        return _from_file(given, strategy, n, ema, labelled, seed)
    return _from_shards(
        given, given.shards, strategy, n, ema, labelled, seed, scratch, executor or InProcess(), progress
    )


def _from_file(
    given: RunOnFile, strategy: str, n: int, ema: EMA | None, labelled: list[Path], seed: int
) -> SelectedBatch:
    def find(named: Table) -> Array:
        named.check_spelling(given.table)
        return named.rows_in(given.table)

    student, ids, path = given.run.student, given.table.ids, given.table.path
    taken, labels = labelled_rows(labelled, given, path, find, lambda: OwnLabels(given.classes)(given.table))
    rows, labels = taken[labels >= 0], labels[labels >= 0]
    scores = score(student, given.rows(student), ema=ema)
    picks = select(strategy, n, **scores.arrays(), labelled=taken, seed=seed)  # type: ignore[arg-type]
    numbers, reasons = explain(strategy, picks, scores, taken, names=given.class_names)
    # Where the file names its own labelled rows, none of them is picked.
    unread = "label" in given.table.names and not any(is_one_file(each, path) for each in labelled)
    known = own_labels(given.table)[1] if unread else np.zeros(0, dtype=np.int64)
    return SelectedBatch(
        picks, None if ids is None else ids[picks.numpy()].tolist(), numbers, reasons, scores.probs[picks],
        noise_watch(scores.hidden, rows, labels, picks, seed=seed) if len(rows) else None,
        int(np.isin(picks.numpy(), known).sum()), len(known) == len(given.table),
    )  # fmt: skip


def _from_shards(
    given: RunOnFile, shards: PoolShards, strategy: str, n: int, ema: EMA | None, labelled: list[Path], seed: int,
    scratch: Path, executor: Executor, progress: bool,
) -> SelectedBatch:  # fmt: skip
    own = OnTable(OwnLabels(given.classes), given.columns)
    rows, labels = labelled_rows(
        labelled, given, shards.path,
        lambda named: rows_of_ids(named, shards, given.columns, executor),
        lambda: np.concatenate([part for _, part in results_in_order(executor, own, shards)]),
    )  # fmt: skip
    needed = {"probs", *strategy_named(strategy).needs} | ({"hidden"} if bool((labels >= 0).any()) else set())
    names = tuple(name for name in ("probs", "hidden", "probs_ema", "hidden_ema") if name in needed)
    return select_batch(
        ScoreTable(given.on_tables(), ema, names), strategy, n, shards, scratch, labelled=rows, labels=labels,
        names=given.class_names, columns=given.columns, seed=seed, executor=executor, progress=progress,
    )  # fmt: skip


@dataclass(frozen=True)
class OwnLabels:
    """A table's own labels as class numbers, −1 where there are none."""

    classes: ClassNames

    def __call__(self, table: Table) -> Array:
        labels = label_column(table, self.classes)
        if labels is None:
            raise UnderstudyError(
                f"{table.path} is the pool and --labelled, but has no column 'label'; name it: --column label=NAME"
            )
        return labels


def labelled_rows(
    files: list[Path], given: RunOnFile, pool: Path, find: Callable[[Table], Array], own: Callable[[], Array]
) -> tuple[Tensor, Tensor]:
    """Rows of the pool with a label, which are never picked, and their labels; −1: skipped.

    ``find``: the row of the pool for each row of a table, by id, −1: none. ``own``: the labels in the pool itself.
    """
    taken: dict[int, int] = {}
    for path in files:
        if is_one_file(path, pool):
            labels = own()
            taken |= {row: int(labels[row]) for row in np.flatnonzero(labels >= 0).tolist()}
            continue
        columns, index = _match_ids(path, given, pool, find)
        texts = [label.strip() for label in columns.get("label", [""] * len(index))]
        numbers = {
            text: given.classes.number(text, f"{path}: column 'label' row {texts.index(text)}")
            for text in dict.fromkeys(text for text, row in zip(texts, index, strict=True) if text and row >= 0)
            if not is_skipped(text, given.classes)
        }
        taken |= {row: numbers.get(text, -1) for text, row in zip(texts, index, strict=True) if row >= 0}
    return torch.tensor(list(taken), dtype=torch.long), torch.tensor(list(taken.values()), dtype=torch.long)


def _match_ids(
    path: Path, given: RunOnFile, pool: Path, find: Callable[[Table], Array]
) -> tuple[dict[str, list[str]], list[int]]:
    """A file's columns as text, and the row of the pool for each of its rows; −1: none."""
    if given.table.ids is None:
        raise UnderstudyError(f"{pool} has no column 'id' to find the rows of {path} by; add it")
    columns = text_columns(path, given.columns)
    columns |= {ours: columns[theirs] for ours, theirs in given.columns.items() if theirs in columns}
    if "id" not in columns:
        raise UnderstudyError(f"{path} has no column 'id'; name the labelled rows by the ids of {pool}")
    index: list[int] = find(Table(path, {"id": np.array(columns["id"], dtype=object)})).tolist()
    # Gold from elsewhere may be in the file as well.
    if index.count(-1):
        first = columns["id"][index.index(-1)]
        warn(f"{index.count(-1)} of {len(index)} ids of {path} are not in {pool} ({first!r} …)")
    return columns, index
