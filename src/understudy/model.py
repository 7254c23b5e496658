"""``us.fit``: rows as a user has them in, a model that predicts class names out; the choices are automatic.

    model = us.fit("gold.csv", "pool.csv", text="message", label="checked", teacher="llm")
    model = us.fit(frame, text="message", label="checked", teacher="llm")     # gold: the rows with a label
    model.predict(["How do I reset my pin?"])                  # array(['account'], dtype=object)
    print(model)                                               # what ``understudy train`` prints; model.evaluation
    model.suspects(), model.next_to_label("pool.csv", 50)      # frames
    model.save("runs/first"); us.load("runs/first")            # as the command line writes and reads it

It is ``understudy train`` in Python: the same request (``training/job.py``), the same options, the same bits.
"""

import shutil
import tempfile
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from numbers import Real
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from understudy.auditing.audit import audit
from understudy.auditing.deferral import Deferral, defer
from understudy.errors import UnderstudyError
from understudy.features.tabular import Arrays
from understudy.io.data_options import DataOptions
from understudy.io.read import Examples
from understudy.io.readers.arrays import columns_of_rows, holds_numbers, is_texts
from understudy.labels.forms import Labels
from understudy.parallel.run_on_file import RunOnFile
from understudy.parallel.selection import select_rows
from understudy.store.arrow import Array, as_frame, to_frame
from understudy.store.console import Shown, from_report
from understudy.store.files import locked, work_folder, write_bytes
from understudy.store.option_fields import Function, checked_plainly, field_parameters, with_parameters
from understudy.training.evaluation import Evaluation
from understudy.training.job import TrainedJob, TrainRequest, begin
from understudy.training.options import AUTO, job_options, option_parameters
from understudy.training.run import CONFIG, REQUEST, Run, usable_folder

__all__ = ["Model", "fit", "load"]


class ClassProbabilities(np.ndarray[Any, Any]):
    """Class probabilities ``(n, C)``, an array; ``probs["billing"]`` is the column of a class."""

    classes: tuple[Any, ...] = ()

    @classmethod
    def of(cls, values: Array, classes: Sequence[Any]) -> "ClassProbabilities":
        named = np.asarray(values).view(cls)
        named.classes = tuple(classes)
        return named

    def __array_finalize__(self, source: Any) -> None:
        self.classes = getattr(source, "classes", ())

    def __getitem__(self, key: Any) -> Any:
        if not isinstance(key, str):
            return super().__getitem__(key)
        if key not in self.classes:
            raise UnderstudyError(f"there is no class {key!r}; the classes are {', '.join(map(str, self.classes))}")
        return np.asarray(self)[..., self.classes.index(key)]


@dataclass(repr=False)
class Model(Shown):
    """A trained student with everything that turns raw rows into its predictions."""

    run: Run
    #: How it was trained; None for a model that was loaded.
    job: TrainedJob | None = None

    @property
    def evaluation(self) -> Evaluation | None:
        """The accuracy with its interval, and its baselines; None where too few rows were held out."""
        return self.run.evaluation

    @cached_property
    def classes_(self) -> Array:
        """The names of the classes, in the order of ``predict_proba``; numbers where they have no names."""
        names = self.run.config.get("class_names")
        return np.arange(self.run.config["classes"]) if names is None else np.array(names, dtype=object)

    @cached_property
    def examples(self) -> Examples:
        """The rows that trained it; those of a loaded model are read again from its files."""
        if self.job is not None:
            return self.job.examples
        folder = self._path
        if not (folder / REQUEST).exists():
            raise UnderstudyError(f"{folder} does not say which files it was trained on; only us.fit and train do")
        request = TrainRequest.load(folder)
        if request.is_in_memory:
            raise UnderstudyError(f"{folder} was trained on tables in memory, which it does not keep; fit them again")
        return request.data.for_student(request.student).read(request.gold, **request.files)

    def predict(self, rows: Any, *, teacher: Any = None) -> Array:
        """The class of each row, by name. ``rows``: a list of texts, paths of images or mappings by column; a frame; a
        file; or an array, where the features were one. ``teacher``: as in ``predict_proba``."""
        return np.asarray(self.classes_[self._probabilities(rows, teacher).argmax(1).numpy()])

    def predict_proba(self, rows: Any, *, teacher: Any = None) -> ClassProbabilities:
        """Probabilities ``(n, C)`` in the order of ``classes_``, or by class: ``model.predict_proba(rows)["billing"]``.

        ``teacher``: its labels of these new rows, where they are known (None or "" where not): then what student and
        teacher say together, if that is better on gold.
        ``pandas.DataFrame(probs, columns=model.classes_)`` is a frame of them.
        """
        return ClassProbabilities.of(self._probabilities(rows, teacher).numpy(), self.classes_.tolist())

    def _probabilities(self, rows: Any, teacher: Any) -> Tensor:
        parts = [] if self.run.featuriser is None else self.run.featuriser.parts
        first = next(iter(rows), None) if isinstance(rows, list | tuple) else rows
        numbers = holds_numbers(first) or isinstance(first, Real | list | tuple)
        if numbers and parts and not isinstance(parts[0], Arrays):
            names = ", ".join(name for part in parts for name in part.names)
            raise UnderstudyError(f"the rows are numbers; the model reads {names}: pass mappings by column, or a frame")
        return self.run.predict(rows, teacher=teacher)

    def suspects(self, n: int = 20) -> Any:
        """The pool rows whose labels are most likely wrong, with a suggested class: a frame. ``probability``: that the
        label is wrong; ``confidence``: the teacher's in its label (of votes, how far ahead the label is)."""
        gold, pool, texts = self.examples.gold, self.examples.pool, self.examples.texts
        if gold is None or pool is None:
            raise UnderstudyError("suspect labels are found in a pool by gold; this model was trained on one of them")
        found = audit(gold, pool, class_names=self.examples.class_names, rows_wrong=n).suspects
        rows = [] if found is None else found.top
        key = "row" if pool.ids is None or self.examples.numbered else "id"
        columns: dict[str, list[Any]] = {key: [one.row if pool.ids is None else one.id for one in rows]}
        if (line := self.examples.line) is not None:
            columns["line"] = [line(one.row) for one in rows]
        if texts is not None:
            columns[self.examples.text or "text"] = [texts["pool"].content[one.row] for one in rows]
        for name, each in {"label": "label", "suggested": "suggestion"}.items():
            numbers = [getattr(one, each) for one in rows]
            columns[name] = [None if number is None else self.classes_[number] for number in numbers]
        columns |= {"probability": [one.probability for one in rows]}
        if any(one.confidence is not None for one in rows):
            columns["confidence"] = [one.confidence for one in rows]
        return to_frame(columns)

    def next_to_label(self, pool: Any, n: int = 100, *, strategy: str = "badge", seed: int = 0) -> Any:
        """The n rows of a pool whose labels would teach the model most, in order: a frame with an empty ``label``.

        Rows that are gold, and rows with a label in the pool itself, are left out.
        """
        given = RunOnFile(self.run, pool)
        return to_frame(select_rows(given, strategy, n, labelled=[], seed=seed).columns(given.classes))

    def defer(self, **options: Any) -> Deferral:
        """Choose which rows it leaves to the teacher: ``us.defer`` of its run, with the same options."""
        return defer(self.run, **options)

    def export(self, out: str | Path) -> None:
        """Write a folder that predicts without this package, or the student as a file: ``us.export`` of its run."""
        from understudy.inference.export import export  # loads onnxruntime

        export(self.run, out)

    def report(self, path: str | Path | None = None) -> Path:
        """Write the page of the training, and return where: ``report.html`` in the run's folder, or ``path``."""
        target = self._path / "report.html" if path is None else Path(path)
        if self.job is not None:
            from_report("run_page").write_job_report(target, self.job)
        elif path is not None or not target.exists():
            from_report("run_page").write_run_report(target, self.run)
        return target

    def save(self, folder: str | Path) -> None:
        """Write the run to a new folder; ``us.load`` and the commands read it there."""
        source, target = self._path, usable_folder(folder)
        assert target is not None
        if not (source / "report.html").exists():
            self.report()
        files = [path for path in source.rglob("*") if path.is_file() and not path.name.startswith(".")]
        with locked(target):
            # config.json comes last: where it is, all the rest is.
            for path in sorted(files, key=lambda path: path == source / CONFIG):
                write_bytes(target / path.relative_to(source), path.read_bytes())

    @property
    def _path(self) -> Path:
        assert self.run.path is not None
        return self.run.path

    def __repr__(self) -> str:
        found, names = self.evaluation, ", ".join(map(str, self.classes_[:4].tolist()))
        classes = f"{names}{', …' if len(self.classes_) > 4 else ''}"
        share = "" if found is None else f", accuracy {found.accuracy.estimate:.1%} ({found.accuracy.rows:.0f} rows)"
        return f"Model({classes}: {self.run.config.get('objective')}{share})"

    def __str__(self) -> str:
        """What ``understudy train`` prints."""
        return "\n".join(from_report("run_text").run_lines(self.run))


def _shows_options(function: Function) -> Function:
    """Shows the options of ``understudy train`` in the signature."""
    defaults = job_options()
    training = [each.replace(default=defaults[each.name]) for each in option_parameters(list(defaults))]
    return with_parameters(function, [*field_parameters(DataOptions), *training])


@checked_plainly
@_shows_options
def fit(
    gold: Any = None, pool: Any = None, *, test: Any = None, select: Any = None, out: str | Path | None = None,
    method: str | None = None, method_options: Mapping[str, Any] | None = None, student: str = AUTO,
    track: Sequence[str] = (), progress: bool = True, **options: Any,
) -> Model:  # fmt: skip
    """Train a model on trusted labels (gold) and imperfect ones (pool); what is left out is chosen automatically.

    ``gold``, ``pool``, ``test`` (a test set) and ``select`` (a validation set): files, frames, mappings of columns,
    lists of rows (mappings, or texts), pairs ``(x, labels)`` of rows or an array and their labels (gold's, or the
    teacher's; gold also ``(x, labels, teacher)``), or ``us.Gold`` and ``us.Pool``. One table may be gold and pool
    (``pool`` left out, and ``teacher`` named): rows with a label are gold.
    ``text``, ``image``, ``label``, ``teacher`` and ``id`` name columns; several names of ``teacher`` are votes.
    ``method``: a name of ``us.METHODS`` with its ``method_options``, or ``auto``. ``student``: ``linear``,
    ``mlp:128,128``, ``hf:FOLDER`` …, or ``auto``. ``out``: a new folder for the run; without it, ``model.save`` writes
    one. The other options are those of ``understudy train`` (``io/data_options.py``, ``training/options.py``).
    """
    training = job_options()
    data = DataOptions(**{each.name: options.pop(each.name) for each in fields(DataOptions) if each.name in options})
    training |= {name: None if name == "epochs" and value == AUTO else value for name, value in options.items()}
    single = data.text or data.image or "text"
    given = {"gold": gold, "pool": pool, "test": test, "select": select}
    if data.image is None and any(is_texts(each[0] if isinstance(each, tuple) else each) for each in given.values()):
        data = replace(data, text=single)
    tables = {role: _table(each, role, single) for role, each in given.items() if each is not None}
    if pool is gold and gold is not None:
        tables["pool"] = tables["gold"]
    trusted = [tables.pop("gold")] if "gold" in tables else []
    temporary = Path(tempfile.mkdtemp(prefix="understudy-")) if out is None else None
    folder = work_folder(out or Path(f"{temporary}", "run"))
    request = TrainRequest(
        out=folder, gold=trusted, files=tables, data=data, method=method,
        method_options=[f"{name}={value}" for name, value in (method_options or {}).items()], student=student,
        training=training, track=list(track),
    )  # fmt: skip
    try:
        job = begin(request, lambda job: None if temporary else Model(job.run, job).report(), progress=progress)
    except BaseException:
        _remove(temporary)
        raise
    model = Model(job.run, job)
    weakref.finalize(model, _remove, temporary)
    return model


def _remove(folder: Path | None) -> None:
    """Of a training that had no folder of its own."""
    if folder is not None:
        shutil.rmtree(folder, ignore_errors=True)


def load(folder: str | Path) -> Model:
    """A model that ``model.save`` or ``understudy train`` wrote."""
    return Model(Run.load(folder))


def _table(given: Any, role: str, single: str) -> Any:
    """Whatever names a set of rows, as something that is read as a table (or is a set already)."""
    if not isinstance(given, tuple):
        return given
    most = 2 if role == "pool" else 3
    if not 2 <= len(given) <= most:
        wanted = f"(x, labels){' or (x, y, teacher)' * (most > 2)}"
        raise UnderstudyError(f"{role} is a tuple of {len(given)}; pass {wanted}")
    x, labels, *teacher = given
    frame = as_frame(x)
    columns = {name: frame.column(name) for name in frame.names} if frame is not None else x
    columns = columns if isinstance(columns, Mapping) else columns_of_rows(x, single, role)
    if columns is None:
        held = type(x).__name__
        raise UnderstudyError(f"{role}: x is a {held}; pass an array, a frame, or a list of texts or mappings")
    named = _teacher_columns(labels) if role == "pool" else {"label": labels}
    return {**columns, **named, **(_teacher_columns(teacher[0]) if teacher else {})}


def _teacher_columns(labels: Any) -> dict[str, Any]:
    """The teacher's labels as columns."""
    if labels is None:
        return {}
    if isinstance(labels, Labels):
        return dict(labels.to_columns())
    if (frame := as_frame(labels)) is not None:
        return {f"teacher_prob_{name}": frame.column(name) for name in frame.names}
    is_list = np.ndim(labels[0]) > 0 if isinstance(labels, list | tuple) else len(getattr(labels, "shape", ())) > 1
    return {"teacher_probs" if is_list else "teacher_label": labels}
