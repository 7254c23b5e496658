"""A training from tables, as ``understudy train`` and ``us.fit`` make it: a request, kept with its run, and the
training itself.

request = TrainRequest(out=out, gold=["gold.csv"], files={"pool": "pool.csv"}, data=DataOptions(text="message"), …)
job = begin(request, report)                    # job.run, job.examples
job = resume(out, report)

A student is named as on a command line: a net of ``us.models``, or a pretrained one that reads texts.

student, options = resolve_student("auto", examples, options)        # "linear", {"optimizer": "lbfgs", …}
build = student_builder("mlp:128,128", examples, classes=2)          # can be sent to other processes, as the next can
build = student_builder("hf:minilm,freeze=3", examples, classes=2)   # us.text("minilm", classes=…, freeze=3)
"""

import re
import time
from collections.abc import Callable, Mapping
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field, fields, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from torch import nn

from understudy import models
from understudy.active.loop_state import LABELLED
from understudy.comparison.auto import auto
from understudy.comparison.candidates import VANILLA, build_method
from understudy.comparison.comparison_options import AutoOptions
from understudy.errors import UnderstudyError
from understudy.features.featuriser import TFIDF, VALUES_FILE
from understudy.inference.passes import usable_device
from understudy.io.data_options import DataOptions, is_batch
from understudy.io.read import Examples
from understudy.io.table import text_columns
from understudy.method_options import read_options
from understudy.models.registry import initial_student
from understudy.reconciling.relabel import View
from understudy.store.checked_folder import FolderKind
from understudy.store.console import collected_warnings
from understudy.store.files import known_as, local_path, locked
from understudy.store.log import HISTORY, LabelHistory, file_version, history_beside
from understudy.training.automatic_options import LINEAR, NET, fill_defaults, prefers_linear, resolve_options
from understudy.training.averages import EMA
from understudy.training.callbacks import tracker
from understudy.training.distributed import first_goes_ahead, is_first, on_rank_zero
from understudy.training.options import AUTO, CHOSEN_AUTOMATICALLY, StudentBuilder, TrainingOptions
from understudy.training.run import BEFOREHAND, FEATURES, REQUEST, Run, usable_folder
from understudy.training.train import train

PREFIX = "hf:"
#: The names of features, where there are two kinds.
ENCODER, PLAIN, PIXELS = "encoder", "TF-IDF", "pixels"
_OPTION = re.compile(r",(?=[a-z_]+=)")
_CURE = "restore it or train again in a new folder"
TRAIN_REQUEST = FolderKind("training request", REQUEST, cure=_CURE)


@dataclass(frozen=True)
class TrainRequest:
    """The options of a training as values that JSON can hold, so that it can be resumed.

    Written to the run's folder (``request.json``) before training starts, with absolute paths and the checksums of the
    features that are made there. Tables in memory are not: there they have only a name.
    """

    out: Path
    #: A file or table; a file with the labels of a chosen batch begins with +.
    gold: list[Any]
    #: pool, test and select, where they were named.
    files: dict[str, Any]
    data: DataOptions
    #: None: ``auto``; ``vanilla`` without gold or pool, and for students of which a pilot takes too long.
    method: str | None
    method_options: list[str]
    student: str
    #: Options of ``us.train``; ``ema`` is whether one is wanted.
    training: dict[str, Any]
    #: Names of trackers.
    track: list[str] = field(default_factory=list)

    def save(self) -> None:
        gold = [f"+{known_as(each[1:])}" if is_batch(each) else _address(each) for each in self.gold]
        files = {role: _address(each) for role, each in self.files.items()}
        paths = {"out": known_as(self.out), "gold": gold, "files": files, "data": vars(self.data)}
        made = {name: self.out / name for name in (*FEATURES, HISTORY) if (self.out / name).exists()}
        TRAIN_REQUEST.write(self.out, {**vars(self), **paths}, {name: file.read_bytes() for name, file in made.items()})

    @classmethod
    def load(cls, folder: Path) -> "TrainRequest":
        stored = TRAIN_REQUEST.read(folder)
        try:
            del stored["out"]
            return cls(out=folder, data=DataOptions(**stored.pop("data")), **stored)
        except (KeyError, TypeError) as error:
            raise UnderstudyError(f"{folder / REQUEST} is damaged ({error}); {_CURE}") from error

    def resolved(self, examples: Examples) -> "TrainRequest":
        """With a method."""
        has_pilot = examples.gold is not None and examples.pool is not None and not reads_texts(self.student)
        return replace(self, method=self.method or (AUTO if has_pilot else VANILLA))

    @property
    def is_in_memory(self) -> bool:
        """Whether a table was given that cannot be read again."""
        return any(each is None for each in (*self.gold, *self.files.values()))


def _address(given: Any) -> str | None:
    """The place of a file; None for a table in memory."""
    return known_as(given) if isinstance(given, str | Path) else None


class TrainedJob(NamedTuple):
    """A finished training with everything that its report shows."""

    request: TrainRequest
    run: Run
    examples: Examples
    #: Of the method.
    options: dict[str, Any]
    warnings: list[str]
    #: From the first file read to the last row evaluated; a resumed training's, since it was resumed.
    seconds: float
    #: Of these, until the features were made.
    feature_seconds: float

    @property
    def phases(self) -> dict[str, float]:
        """The seconds of each part; nothing where a training was resumed, whose parts were run before."""
        known = {"training": self.run.facts["fit_seconds"], "evaluation": self.run.facts.get("evaluation_seconds", 0.0)}
        rest = self.seconds - self.feature_seconds - sum(known.values())
        return {} if rest < 0 else {"features": self.feature_seconds, "choices and label sources": rest, **known}


Report = Callable[[TrainedJob], Any]


def has_request(folder: Path) -> bool:
    """Whether a training was begun there."""
    return on_rank_zero((folder / REQUEST).exists)


def begin(request: TrainRequest, report: Report, *, progress: bool = True) -> TrainedJob:
    """Train in a new folder; ``report`` is called at the end, by the first of several processes."""
    check_folder = partial(usable_folder, request.out)
    on_rank_zero(check_folder)
    with locked(request.out, lend=True) if is_first() else nullcontext():
        on_rank_zero(check_folder)  # again: another process may have had the lock before
        return run_training(request, report, progress=progress)


def resume(out: Path, report: Report, *, progress: bool = True) -> TrainedJob:
    """Continue the training that was begun there."""
    if not has_request(out):
        raise UnderstudyError(f"{out} has no {REQUEST}; only what understudy train began can be resumed")
    with locked(out, lend=True) if is_first() else nullcontext():
        request = on_rank_zero(lambda: TrainRequest.load(out))
        if request.is_in_memory:
            raise UnderstudyError(f"{out} was trained on tables in memory; call us.fit(…, out=…) again in a new folder")
        return run_training(request, report, progress=progress, resume=True)


def run_training(request: TrainRequest, report: Report, *, progress: bool = True, resume: bool = False) -> TrainedJob:
    """Read the tables, train and write the run; of processes that train together, the first writes and reports."""
    started = time.perf_counter()
    if request.method is not None:
        _method(request)  # refuses a misspelt name before files are read
    first = is_first()
    trackers = [tracker(name, request.out) for name in request.track] if first else []
    device, out = usable_device(request.training["device"]), request.out
    with collected_warnings() as warnings:
        # What an encoder has computed once is found in the cache.
        with nullcontext() if request.data.encoder == TFIDF else first_goes_ahead():
            data = request.data.for_student(request.student)
            examples = data.read(request.gold, both=request.method in (None, AUTO), **request.files)
        request = request.resolved(examples)
        options, run_method = _method(request)
        if (examples.text or request.data.image) is not None and not reads_texts(request.student):
            # A resumed training takes this encoder, whatever is installed by then.
            request = replace(request, data=replace(request.data, encoder=examples.encoder or TFIDF))
        if first:
            examples.leaks().warn()
        prepared = _prepare(request, examples, device)
        feature_seconds = time.perf_counter() - started
        main = next(iter(prepared))
        request = replace(request, student=prepared[main].student, training=prepared[main].training)

        def keep_features(name: str) -> None:
            if not (out / VALUES_FILE).exists():
                prepared[name].examples.featuriser.save(out)
                request.save()

        # What a run begins with; a resumed training checks that its data are still the same.
        if first and not resume:
            _record_gold(out / HISTORY, request, examples)
            request.save()
        if first and len(prepared) == 1:
            keep_features(main)
        try:
            run = run_method(
                **_arguments(prepared, keep_features), out=out, progress=progress, resume=resume, evaluate=True,
                notes=_notes(request, examples, options), callbacks=trackers,
            )  # fmt: skip
        except UnderstudyError:
            if first and not resume:
                _clear(out)
            raise
    taken = run.config["auto"]["features"] if len(prepared) > 1 else main
    if taken in (PLAIN, PIXELS):
        request = replace(request, data=replace(request.data, encoder=TFIDF))
    examples, seconds = prepared[taken].examples, time.perf_counter() - started
    job = TrainedJob(request, run, examples, options, warnings, seconds, feature_seconds)
    run.featuriser = examples.featuriser
    if first:
        report(job)
    return job


class StudentOnFeatures(NamedTuple):
    """A student for one kind of features, with its resolved options."""

    student: str
    training: dict[str, Any]
    examples: Examples
    view: View


def _prepare(request: TrainRequest, examples: Examples, device: Any) -> dict[str, StudentOnFeatures]:
    """By the name of the features, the user's first: texts may be there as vectors and by TF-IDF, images as pixels."""
    sets = {ENCODER: examples}
    if request.method == AUTO and examples.plain is not None:
        sets[plain_name(examples)] = examples.plain
    small = request.data.small and examples.encoder is not None
    if small and request.method != AUTO:
        cure = "leave it out, or take --encoder none"
        raise UnderstudyError(f"--small is for --method {AUTO}, whose label sources see other features; {cure}")
    if small and examples.plain is None:
        raise UnderstudyError("--small takes TF-IDF, which finds no words in these texts; leave it out")
    names = reversed(sets) if small else sets
    return {name: _prepare_one(request, sets[name], device, small and name == ENCODER) for name in names}


def plain_name(examples: Examples) -> str:
    """Of the features without an encoder."""
    return PIXELS if examples.text is None else PLAIN


def _prepare_one(request: TrainRequest, examples: Examples, device: Any, sources_only: bool) -> StudentOnFeatures:
    student, training = resolve_student(request.student, examples, request.training)
    build = student_builder(student, examples, request.data.count_classes(examples))
    average = initial_student(build, 0) if training["ema"] else None
    ema = None if average is None else EMA(average if device is None else average.to(device))
    options = training | {"device": device, "ema": ema}
    gold, pool, test, select = (getattr(examples, role) for role in ("gold", "pool", "test", "select"))
    return StudentOnFeatures(student, training, examples, View(build, gold, pool, options, test, select, sources_only))


def _arguments(prepared: Mapping[str, StudentOnFeatures], keep_features: Callable[[str], None]) -> dict[str, Any]:
    """Of ``us.train``, or of ``us.auto`` where there are other features."""
    main, *others = prepared
    view = prepared[main].view
    sets = {role: getattr(view, role) for role in ("student", "gold", "pool", "test", "select")}
    more = {"features": main, "others": {name: prepared[name].view for name in others}, "on_features": keep_features}
    return {**sets, **view.options, **(more if others else {})}


def _method(request: TrainRequest) -> tuple[dict[str, Any], Callable[..., Run]]:
    """The method's options, and the function that trains with them."""
    assert request.method is not None
    if request.method == AUTO:
        options = read_options(AutoOptions, request.method_options, AUTO)
        return options, partial(auto, **options)
    objective, options = build_method(request.method, request.method_options)
    return options, partial(train, objective=objective)


def _notes(request: TrainRequest, examples: Examples, options: dict[str, Any]) -> dict[str, Any]:
    """For ``predict`` and ``select``, beside the features: names of columns and classes."""
    names, columns = examples.featuriser.names, request.data.mapping
    notes = {"features": "x" if names == ("x",) else list(names), "options": options, "columns": columns}
    if examples.class_names is None:
        return notes
    # Where the user gave the names in order, numbers in files are positions in it.
    places = isinstance(request.data.classes, list)
    return notes | {"class_names": list(examples.class_names), "class_places": places}


def _record_gold(file: Path, request: TrainRequest, examples: Examples) -> None:
    """The label history of a run's gold: every file, its labels by id, and the history of chosen batches.

    Labels that no batch names are of the gold file.
    """
    file.unlink(missing_ok=True)  # of a training that never began
    history, left, gold = LabelHistory(file), dict[str, Any](), examples.gold
    names, columns = request.gold, request.data.mapping
    if gold is not None and gold.ids is not None:
        labels = [label if examples.class_names is None else examples.class_names[label] for label in gold.y.tolist()]
        left = dict(zip(map(str, gold.ids.tolist()), labels, strict=True))
    # Batches first, which name their rows; in the history gold stands where it was named.
    given = {name: text_columns(local_path(name[1:]), columns) for name in names if is_batch(name)}
    batches = {name: dict(zip(given[name].get("id", []), given[name].get("label", []), strict=False)) for name in given}
    for answers in batches.values():
        left = {name: label for name, label in left.items() if name not in answers}
    for name in names:
        if not isinstance(name, str | Path):
            history.add("gold", "a table in memory", left)
            continue
        path = local_path(str(name).removeprefix("+"))
        own = path.parent / HISTORY if path.name == LABELLED else history_beside(path)
        if own.exists():
            history.append(LabelHistory(own).entries())
        what, answers = ("answered", batches[name]) if name in batches else ("gold", left)
        history.add(what, known_as(path), answers, **file_version(path))


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


def reads_texts(student: str) -> bool:
    return student.startswith(PREFIX)


def text_student(student: str, classes: int, names: tuple[str, ...] | None = None) -> StudentBuilder:
    """``hf:FOLDER`` or ``hf:FOLDER,option=value``."""
    from understudy.hf.text import text

    folder, *options = _OPTION.split(student.removeprefix(PREFIX))
    if not folder:
        raise UnderstudyError(f"--student {student} names no net; write hf:FOLDER, or hf:NAME of the hub")
    given = read_options(text, options, PREFIX.rstrip(":"), leave_out=("name", "classes"))
    return text(folder, classes=classes if names is None else names, **given)


def student_builder(student: str, examples: Examples, classes: int) -> Callable[[], nn.Module]:
    """A function that builds the student of that name for these features."""
    if reads_texts(student):
        names = examples.class_names
        return text_student(student, classes, names if names is not None and len(names) == classes else None)
    return partial(models.from_text, student, shape=examples.shape, classes=classes)


def resolve_student(student: str, examples: Examples, options: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """The student's name, and the options with defaults for what was not given; ``epochs`` may still be ``auto``."""
    every: dict[str, Any] = {each.name: each.default for each in fields(TrainingOptions)}
    defaults = {name: every[name] for name in CHOSEN_AUTOMATICALLY}
    if reads_texts(student):
        own = text_student(student, max(examples.classes, 2)).options(options["device"])
        return student, _fill_in(_fill_in(options, own), defaults)
    if student == AUTO:
        frozen = examples.encoder is not None
        first = examples.gold if examples.pool is None else examples.pool
        assert first is not None
        student = LINEAR if prefers_linear(first.rows, frozen=frozen) else NET
    return student, _fill_in(fill_defaults(student, options), defaults)


def _fill_in(options: Mapping[str, Any], defaults: Mapping[str, Any]) -> dict[str, Any]:
    """The options, and the defaults of those that were left out (None)."""
    return {**options, **{name: value for name, value in defaults.items() if options.get(name) is None}}


def resolve_epochs(
    build: Callable[[], nn.Module], examples: Examples, options: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The options with a number of epochs, and what a config keeps of its choice on gold."""
    given = {**options, "device": usable_device(options["device"])} | ({"ema": None} if "ema" in options else {})
    resolved, choice = resolve_options(build, examples.gold, examples.pool, given, select=examples.select)
    return {**options, "epochs": resolved.epochs}, choice
