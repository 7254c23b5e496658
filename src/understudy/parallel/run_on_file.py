"""A finished run applied to a file or a folder of shards, for ``predict``, ``teach``, ``encode``, ``select`` and
``export``; and the functions of a table that are sent, once, to the workers on shards.

    given = RunOnFile(folder, file, {"label": "truth"})
    given.write(Predict(given.on_tables(), given.classes), "predictions.csv")

    Predict(student, names)(table)                         # label, confidence, probabilities
    Teach(student, names)(table)                           # the table's own columns, and teacher_probs
    Encode(featuriser)(table)                              # x
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import torch
from torch import Tensor, nn

from understudy.data.fitted_rows import GOLD_KEYS, TrainedRows, deal_keys
from understudy.data.rows import Rows, SubsetRows
from understudy.errors import UnderstudyError, first_line, shown, warn
from understudy.features.featuriser import Featuriser
from understudy.features.raw_columns import no_column
from understudy.inference.cascade import Cascade
from understudy.inference.passes import BATCH_SIZE, predict
from understudy.io.gold_pool import features_of, load_featuriser, row_ids
from understudy.io.label_columns import Labelling, label_column, read_teacher
from understudy.io.table import Table, read_table
from understudy.io.write import write_table
from understudy.labels.class_names import ClassNames
from understudy.labels.forms import Labels, Soft, TopK, named_columns
from understudy.parallel.executors import Executor
from understudy.parallel.map_shards import Columns, ShardFunction, ShardResult, row_names, run_pass, split_result
from understudy.parallel.pool_shards import PoolShard, PoolShards, Result, results_in_order
from understudy.store.arrow import Array
from understudy.training.held_out import teacher_tensor
from understudy.training.run import Run


@dataclass(frozen=True)
class StudentOnTables:
    student: nn.Module
    featuriser: Featuriser
    batch_size: int = BATCH_SIZE
    temperature: float = 1.0

    def rows(self, table: Table) -> Rows:
        return features_of(table, self.featuriser)

    def probabilities(self, rows: Rows) -> Tensor:
        return predict(self.student, rows, batch_size=self.batch_size, temperature=self.temperature)


class RunOnFile:
    """A finished run and a file (or the first of the shards), under the names of its training unless ``columns`` gives
    others."""

    def __init__(
        self, run: Path | Run, file: Any, columns: Mapping[str, str] | None = None, *, shards: PoolShards | None = None
    ) -> None:
        """``file``: or a table in memory, or a list of rows."""
        self.run, typed, self.shards = run if isinstance(run, Run) else Run.load(run), columns or {}, shards
        file = file if shards is None else Path(str(shards[0].path))
        assert self.run.path is not None
        self.folder = folder = self.run.path
        known = (self.run.config.get("columns") or {}).items()
        self.columns = {**{ours: theirs for ours, theirs in known if theirs not in typed.values()}, **typed}
        first = next(iter(self.run.featuriser.names), "text") if self.run.featuriser is not None else "text"
        self.table = read_table(file, columns=self.columns, name="the pool", single=first)
        if self.table.notes:
            print(shown(self.table.notes))
        #: The file, or the folder of the shards.
        self.pool = self.table.path if shards is None else shards.path
        #: Whether ``column`` names labels of the teacher.
        self.with_teacher = any(ours.startswith("teacher_") for ours in typed)
        for ours, theirs in typed.items():
            if self.table.theirs.get(ours, ours) != theirs or ours not in self.table.names:
                raise no_column(f"{file}", theirs, self.table.theirs.values(), f" (to serve as {ours!r})")
        self.table.warn_of_lookalikes(self.run.config.get("features") or ())
        self.class_names = self.run.config.get("class_names")
        names = [] if self.class_names is None else self.class_names
        if not (isinstance(names, list) and all(isinstance(name, str) for name in names)):
            raise UnderstudyError(f"{folder / 'config.json'}: class_names is no list of names; restore it")

    @cached_property
    def classes(self) -> ClassNames:
        """The names of the run's classes, to read and write labels with."""
        return ClassNames(tuple(self.class_names or ()), ordered=bool(self.run.config.get("class_places")))

    @cached_property
    def featuriser(self) -> Featuriser:
        return self.run.featuriser or load_featuriser(self.folder, self.run.config, self.table)

    def on_tables(self, *, selected: bool = False, batch_size: int = BATCH_SIZE) -> StudentOnTables:
        """The student (``selected``: of the epoch chosen on gold), for this file and others of the same columns."""
        run = self.run
        student, temperature = (run.selected(), 1.0) if selected else (run.student, run.temperature)
        self.rows(student)  # raises where it cannot take them
        return StudentOnTables(student, self.featuriser, batch_size, temperature)

    def write(
        self, function: ShardFunction, out: Path, *, named: bool = True, title: str = "", progress: bool = False,
        executor: Executor | None = None,
    ) -> list[dict[str, Any]]:  # fmt: skip
        """Write what the function makes of the file, or of every shard; its summaries. ``named``: with the rows'
        ids."""
        if self.shards is not None:
            assert executor is not None
            return run_pass(
                function, self.shards, out, executor=executor, columns=self.columns, title=title, progress=progress,
                named=named,
            )  # fmt: skip
        columns, summary = split_result(function(self.table))
        write_table(out, {**(row_names(self.table) if named else {}), **columns})
        return [{"rows": len(self.table), **summary}]

    def map_tables(
        self, function: Callable[[Table], Result], executor: Executor | None
    ) -> Iterator[tuple[int, Result]]:
        """The function of the file, or of every shard, and the number of its first row; in the order of the shards."""
        if self.shards is None:
            yield 0, function(self.table)
            return
        assert executor is not None
        for shard, result in results_in_order(executor, partial(_on_shard, function, self.columns), self.shards):
            yield shard.first, result

    def rows(self, student: nn.Module) -> Rows:
        """The rows as the student's input; an error where it cannot take them."""
        rows = features_of(self.table, self.featuriser)
        try:
            outputs = predict(student, SubsetRows(rows, torch.arange(1))).shape[1]
        except (RuntimeError, ValueError) as error:
            first: Any = rows.take(torch.arange(1))
            shape = f"rows of shape {tuple(first.shape[1:])}" if isinstance(first, Tensor) else "these rows"
            why = f"the student cannot take {shape} ({first_line(error)})"
            raise UnderstudyError(f"{self.table.path}: {why}; give the features of its training") from error
        if self.class_names is not None and len(self.class_names) != outputs:
            raise UnderstudyError(f"{self.folder} names {len(self.class_names)} of {outputs} classes; restore it")
        return rows


def _on_shard(function: Callable[[Table], Result], columns: Mapping[str, str], shard: PoolShard) -> Result:
    return function(shard.read(columns))


def _truth(table: Table, names: ClassNames, classes: int) -> tuple[Array | None, str]:
    """The true classes where the file has them, −1 where a row has none; or why its column cannot be read."""
    kind = table.columns["label"].dtype.kind if "label" in table.names else ""
    if kind == "b" and classes > 2:
        raise UnderstudyError(f"{table.where('label')} holds true or false, but there are {classes} classes; drop it")
    try:
        return label_column(table, names), ""
    except UnderstudyError as error:
        # Numbers beside names: to compare them with positions in the order would be a guess.
        if kind in ("b", "i", "u", "f") and names:
            raise
        # Predictions do not need it: a file may hold anything under this name.
        return None, str(error)


@dataclass(frozen=True)
class Predict:
    """``label``, ``confidence``, ``probabilities`` and, by a rule, ``deferred`` of every row; and, where the table has
    labels, how many are correct: of the rows that did not train, or of all where equal rows need not be the same."""

    student: StudentOnTables
    classes: ClassNames
    trained: TrainedRows | None = None
    #: Rows that its rule defers are marked.
    cascade: Cascade = field(default_factory=Cascade)
    #: Whether the table has the teacher's labels, to combine with the student's predictions.
    with_teacher: bool = False

    def __call__(self, table: Table) -> ShardResult:
        rows = self.student.rows(table)
        probs = self.student.probabilities(rows)
        marks = {} if self.cascade.rule is None else {"deferred": self.cascade.defer(probs.numpy())}
        how = Labelling(self.classes or None, probs.shape[1])
        if self.with_teacher and (labels := read_teacher(table, how)) is not None:
            teacher = teacher_tensor(labels, probs.shape[1])
            probs = torch.from_numpy(self.cascade.combine(probs.numpy(), teacher.numpy())).float()
        confidence, label = probs.max(-1)
        columns = {
            "label": self.classes.named(label.numpy()),
            "confidence": confidence.numpy(),
            "probabilities": self.classes.by_name(probs.numpy()),
            **marks,
        }
        truth, problem = _truth(table, self.classes, probs.shape[1])
        if truth is None:
            return ShardResult(columns, {"problem": problem} if problem else {})
        known, right = truth >= 0, label.numpy() == truth
        trained = known & (False if self.trained is None else self.trained.contain(rows))
        if self.trained is not None and self.trained.are_distinct:
            known = known & ~trained
        counts = {"known": known.sum(), "right": right[known].sum(), "trained": trained.sum()}
        return ShardResult(columns, {name: int(count) for name, count in counts.items()})


def predict_by_id(folder: Path, files: Sequence[Path], wanted: Collection[Any]) -> tuple[dict[Any, str], set[Any]]:
    """The class that a run predicts for each id of the files, by name, and the ids of rows that trained it. A file
    after the first is read only for ids that are still wanted."""
    values: dict[Any, str] = {}
    trained: set[Any] = set()
    for file in files:
        if values and all(one in values for one in wanted):
            break
        given = RunOnFile(folder, file)
        if (named := row_ids(given.table, alone=len(files) == 1)) is None:
            raise UnderstudyError(f"{file} has no column 'id' to join predictions by; add it")
        ids, rows = named.tolist(), given.rows(given.run.student)
        names = given.classes.named(predict(given.run.student, rows).argmax(1).numpy())
        values |= zip(ids, map(str, names), strict=True)
        if given.run.trained is not None and (known := given.run.trained.contain(rows)).any():
            if given.run.trained.are_distinct:
                trained |= {one for one, same in zip(ids, known, strict=True) if same}
            else:
                equal = f"{int(known.sum()):,} rows of {file} equal rows that trained {folder}"
                warn(f"{equal}, as many different rows do: figures are too high if they are the same rows")
    return values, trained


@dataclass(frozen=True)
class Teach:
    """A pool's own columns as they are stored, and the teacher's labels.

    ``top``: only the so many most likely classes, as ``teacher_topk_index`` and ``teacher_topk_prob``.
    ``labels_only``: without the other columns.
    """

    student: StudentOnTables
    classes: ClassNames
    top: int | None = None
    labels_only: bool = False
    #: Of the gold rows that the labels know (``data/fitted_rows.py``).
    gold_keys: frozenset[str] = frozenset()

    def __call__(self, table: Table) -> Columns:
        # New labels replace those of an earlier teacher.
        own = [] if self.labels_only else [name for name in table.names if name not in table.teacher]
        kept = _stored(table, own)
        _ = table.ids  # checked, for later readers
        probs = self.student.probabilities(self.student.rows(table))
        labels: Labels = Soft(probs, where="the teacher's labels")
        if self.top is not None:
            best = probs.topk(min(self.top, probs.shape[1]), dim=1)
            labels = TopK(best.indices, best.values, classes=probs.shape[1])
        kept |= {GOLD_KEYS: deal_keys(self.gold_keys, len(table))} if self.gold_keys else {}
        return kept | (named_columns(labels, self.classes.names) if self.classes else labels.to_columns())


@dataclass(frozen=True)
class Encode:
    """The features of every row, as the student takes them, in one column ``x``: text or images once, not every epoch.

    Columns that are no features stay (labels, a teacher's labels)."""

    featuriser: Featuriser

    def __call__(self, table: Table) -> Columns:
        rows = features_of(table, self.featuriser)
        x = rows.take(torch.arange(len(rows)))
        if not isinstance(x, Tensor):
            raise UnderstudyError(f"{table.path}: rows of this kind are no list of numbers each; nothing to encode")
        kept: Sequence[str] = [name for name in table.names if name not in self.featuriser.names and name != "x"]
        return _stored(table, kept) | {"x": x.numpy()}


def _stored(table: Table, names: Sequence[str]) -> dict[str, Any]:
    """Columns as the file has them, under their names there; text as text, however it was packed."""
    columns: dict[str, Any] = {table.theirs.get(name, name): table.stored(name) for name in names}
    for name, column in columns.items():
        if isinstance(column, pa.ChunkedArray) and pa.types.is_dictionary(column.type):
            columns[name] = column.cast(column.type.value_type)
    return columns
