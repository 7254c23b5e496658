"""Selection of the rows to label next, from a file or a folder of shards, by a finished run.

    batch = select_rows(given, "badge", 100, labelled=[Path("gold.csv")])
    batch.rows, batch.ids, batch.reasons

Rows with a label already, in files beside the pool or in the pool itself, are never picked, nor are the run's own gold,
test and select rows (by id; gold also by content), which a training would refuse in the batch. A pool with a label in
every row is a benchmark's, whose truth is not looked at. The labels tell whether the batch comes from regions where
labels look random (``active/watch.py``).
"""

from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from understudy.acquisition.select import Scores, explain, inclusion, pick_rows, strategy_named
from understudy.acquisition.strategy import ArrayRows, ScoredRows
from understudy.active.watch import REFERENCE_ROWS, NoiseWatch, watch_features
from understudy.data.fitted_rows import hash_rows
from understudy.errors import UnderstudyError, warn
from understudy.features.featuriser import Featuriser
from understudy.io.gold_pool import features_of, is_one_file, own_labels
from understudy.io.label_columns import label_column
from understudy.io.table import Table, text_columns
from understudy.labels.class_names import ClassNames
from understudy.maths.random_order import uniform
from understudy.parallel.executors import Executor, InProcess
from understudy.parallel.pool_shards import shards_with
from understudy.parallel.run_on_file import RunOnFile, StudentOnTables
from understudy.parallel.shard_scores import ScoreTable, score_shards
from understudy.store.arrow import Array
from understudy.training.run import EMA_FILE


class SelectedBatch(NamedTuple):
    """The selected rows, in order, with score, reason and prediction of each."""

    rows: Tensor
    #: The ids, where there are such, and the columns that the student reads.
    cells: dict[str, list[Any]]
    numbers: list[float]
    reasons: list[str]
    probs: Tensor
    #: With which each was drawn, float64; None where the strategy does not know it.
    probability: Tensor | None
    #: Where rows with a label tell which places look random.
    watch: NoiseWatch | None
    #: How many rows were left out because they are gold, test or select rows of the run.
    of_run: int
    #: How many more because they have a label in the pool itself.
    of_pool: int

    def columns(self, classes: ClassNames) -> dict[str, list[Any]]:
        """A table to label: the rows by their ids (or numbers), what the student reads, why they were picked, its
        prediction, and an empty label."""
        confidence, predicted = self.probs.max(1)
        return {
            **({} if "id" in self.cells else {"row": self.rows.tolist()}), **self.cells,
            "score": self.numbers, "why": self.reasons,
            "predicted": classes.named(predicted.numpy()).tolist(), "confidence": confidence.tolist(),
            "label": [None] * len(self.rows),
            **({} if self.probability is None else {"probability": self.probability.tolist()}),
        }  # fmt: skip


def select_rows(
    given: RunOnFile,
    strategy: str,
    n: int,
    *,
    labelled: list[Path],
    seed: int = 0,
    scratch: Path | None = None,
    executor: Executor | None = None,
    progress: bool = False,
) -> SelectedBatch:
    """n rows by a strategy. ``scratch``: a folder for the scores of shards, from which an interrupted call resumes."""
    needs = strategy_named(strategy).needs
    wants_ema = any(name.endswith("_ema") for name in needs)
    ema = given.run.ema if wants_ema else None
    if ema is None and wants_ema:
        raise UnderstudyError(f"{strategy}: {given.folder} has no {EMA_FILE}; use --strategy badge, or give --ema")
    executor = executor or (None if given.shards is None else InProcess())
    known_rows = labelled_rows(labelled, given, executor)
    of_run = _rows_of_run(given, executor) - known_rows.keys()
    of_pool = _rows_with_label(given, executor) - known_rows.keys() - of_run
    known_rows |= dict.fromkeys(sorted(of_run | of_pool), -1)
    taken, labels = (torch.tensor(list(each), dtype=torch.long) for each in (known_rows, known_rows.values()))
    with_label, labels = taken[labels >= 0], labels[labels >= 0]
    needed = {"probs", *needs} | ({"hidden"} if len(labels) else set())
    names = tuple(name for name in ("probs", "hidden", "probs_ema", "hidden_ema") if name in needed)
    on_tables = StudentOnTables(given.run.student, given.featuriser)
    rows = _scored(ScoreTable(on_tables, ema, names), given, scratch, executor, progress)
    available = torch.ones(rows.parts[-1].stop, dtype=torch.bool).index_fill(0, taken, False)
    picks = pick_rows(strategy, n, rows, available, seed=seed)
    chances = inclusion(strategy, n, rows, available)
    drawn = None if chances is None else chances[picks]
    # Core-set measures from the rows that were labelled before.
    before = taken if strategy == "coreset" else taken[:0]
    arrays = rows.take(torch.cat([picks, before]))
    probs = arrays["probs"]
    scores = Scores(probs, arrays.get("hidden", probs), arrays.get("probs_ema"), arrays.get("hidden_ema"))
    places = torch.arange(len(probs))
    numbers, reasons = explain(strategy, places[:n], scores, places[n:], names=given.class_names)
    watch = _watch(rows, with_label, labels, picks, seed) if len(labels) else None
    cells = _cells(given, picks)
    return SelectedBatch(picks, cells, numbers, reasons, probs[:n], drawn, watch, len(of_run), len(of_pool))


def _scored(
    function: ScoreTable, given: RunOnFile, scratch: Path | None, executor: Executor | None, progress: bool
) -> ScoredRows:
    """The scores of all rows."""
    if given.shards is None:
        arrays, _ = function(given.table, given.rows(given.run.student))
        return ArrayRows({name: torch.from_numpy(array) for name, array in arrays.items()}, len(given.table))
    assert executor is not None and scratch is not None
    given.rows(given.run.student)  # raises where it cannot take them
    return score_shards(function, given.shards, scratch, executor=executor, columns=given.columns, progress=progress)


def _watch(rows: ScoredRows, labelled: Tensor, labels: Tensor, picks: Tensor, seed: int) -> NoiseWatch:
    others = torch.ones(rows.parts[-1].stop, dtype=torch.bool).index_fill(0, labelled, False)
    drawn = uniform(rows.parts, REFERENCE_ROWS, available=others, key=seed)
    known, batch, reference = (rows.take(index)["hidden"] for index in (labelled, picks, drawn))
    return watch_features(known, labels, batch, reference)


def _cells(given: RunOnFile, picks: Tensor) -> dict[str, list[Any]]:
    """The ids of some rows and what the student reads of them, but for arrays and files' bytes."""
    columns = {name: given.table.columns[name] for name in given.featuriser.names}
    plain = [name for name, cells in columns.items() if cells.ndim == 1 and not isinstance(cells[0], bytes)]
    names = [*(["id"] if given.table.ids is not None else []), *plain]
    found: dict[str, list[Any]] = {name: [None] * len(picks) for name in names}
    every = torch.arange(len(picks))
    for shard, places in [(None, every)] if given.shards is None else shards_with(given.shards, picks):
        table, first = (given.table, 0) if shard is None else (shard.read(given.columns), shard.first)
        table.expect(given.featuriser.types)
        for name in names:
            cells = table.columns[name][(picks[places] - first).numpy()]
            values = (cells.astype(str) if cells.dtype.kind == "M" else cells).tolist()
            for place, value in zip(places.tolist(), values, strict=True):
                found[name][place] = None if value != value else value
    return found


def labelled_rows(files: list[Path], given: RunOnFile, executor: Executor | None) -> dict[int, int]:
    """Rows of the pool with a label in some files, which are never picked, and their labels; −1: skipped."""
    taken: dict[int, int] = {}
    for path in files:
        if is_one_file(path, given.pool):
            parts = given.map_tables(partial(_own_labels, given.classes), executor)
            labels = np.concatenate([part for _, part in parts])
            taken |= {row: int(labels[row]) for row in np.flatnonzero(labels >= 0).tolist()}
            continue
        columns, index = _match_ids(path, given, executor)
        texts = [label.strip() for label in columns.get("label", [""] * len(index))]
        held = dict.fromkeys(text for text, row in zip(texts, index, strict=True) if text and row >= 0)
        wanted = [text for text in held if not given.classes.skips(text)]
        where = f"{path}: column 'label' row"
        numbers = {text: given.classes.number(text, f"{where} {texts.index(text)}") for text in wanted}
        taken |= {row: numbers.get(text, -1) for text, row in zip(texts, index, strict=True) if row >= 0}
    return taken


def _rows_of_run(given: RunOnFile, executor: Executor | None) -> set[int]:
    """Rows of the pool that are gold, test or select rows of the run; gold rows where there are no ids."""
    if given.table.ids is None:
        if (trained := given.run.trained) is None:
            return set()
        hashes = [part for _, part in given.map_tables(partial(_hashes, given.featuriser), executor)]
        return set(trained.of_gold(np.concatenate(hashes)))
    if not given.run.held_ids:
        return set()
    held = Table(given.folder, {"id": np.array(given.run.held_ids, dtype=object)})
    found = given.map_tables(held.rows_in, executor)
    return {first + row for first, rows in found for row in rows[rows >= 0].tolist()}


def _hashes(featuriser: Featuriser, table: Table) -> Array:
    return hash_rows(features_of(table, featuriser))


def _rows_with_label(given: RunOnFile, executor: Executor | None) -> set[int]:
    """Rows with a label in the pool itself; none where every row has one."""
    if "label" not in given.table.names:
        return set()
    found, count = set[int](), 0
    for first, (rows, labelled) in given.map_tables(partial(_labelled, given.classes), executor):
        found |= set((first + labelled).tolist())
        count += rows
    return found if len(found) < count else set()


def _labelled(classes: ClassNames, table: Table) -> tuple[int, Array]:
    return len(table), own_labels(table, classes.names)[1]


def _own_labels(classes: ClassNames, table: Table) -> Array:
    """A pool's own labels as class numbers, −1 where there are none."""
    labels = label_column(table, classes)
    if labels is None:
        raise UnderstudyError(f"{table.path} (--labelled) has no column 'label'; name it: --column label=NAME")
    return labels


def _match_ids(path: Path, given: RunOnFile, executor: Executor | None) -> tuple[dict[str, list[str]], list[int]]:
    """A file's columns as text, and the row of the pool for each of its rows; −1: none."""
    pool = given.pool
    given.table.known_ids(f" to find the rows of {path} by; add it")
    columns = text_columns(path, given.columns)
    columns |= {ours: columns[theirs] for ours, theirs in given.columns.items() if theirs in columns}
    if "id" not in columns:
        raise UnderstudyError(f"{path} has no column 'id'; name the labelled rows by the ids of {pool}")
    named = Table(path, {"id": np.array(columns["id"], dtype=object)})
    index = np.full(len(named), -1, dtype=np.int64)
    for first, rows in given.map_tables(named.rows_in, executor):
        again = np.flatnonzero((index >= 0) & (rows >= 0))
        if len(again):
            raise UnderstudyError(f"{pool}: two shards hold id {columns['id'][again[0]]!r}; ids must be unique")
        index[rows >= 0] = first + rows[rows >= 0]
    missing = np.flatnonzero(index < 0)
    if len(missing):
        for _ in given.map_tables(partial(named.check_spelling, found=index), executor):
            pass
        # Gold from elsewhere may be in the file as well.
        warn(f"{len(missing)} of {len(index)} ids of {path} are not in {pool} ({columns['id'][missing[0]]!r} …)")
    return columns, index.tolist()
