"""What ``understudy train`` does: a request, kept with its run, and the training it asks for.

request = TrainRequest(out=out, gold=["gold.csv"], files={"pool": "pool.csv"}, data=data, …)
begin(request)
go_on(out)
"""

from collections.abc import Callable
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field, fields, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
import typer

from understudy.cli import suited
from understudy.cli.shared import RECIPE_FIELDS, DataOptions
from understudy.cli.students import reads_texts, student_builder
from understudy.cli.trail import tell_of_gold
from understudy.comparison.auto import auto
from understudy.errors import UnderstudyError, shown
from understudy.features.featuriser import VALUES_FILE
from understudy.inference.passes import usable_device
from understudy.io.read import Examples
from understudy.method_options import read_options
from understudy.methods import METHODS
from understudy.store.console import collected_warnings
from understudy.store.copies import known_as
from understudy.store.files import locked, write_json
from understudy.store.seal import read_sealed, sealed, unsealed
from understudy.store.trail import TRAIL
from understudy.training.distributed import first_goes_ahead, is_first, on_rank_zero
from understudy.training.ema import EMA
from understudy.training.options import AUTO
from understudy.training.run import BEFOREHAND, FEATURES, REQUEST, Run, usable_folder
from understudy.training.trackers import tracker
from understudy.training.train import train

FORMAT = 1
_ROLES = ("pool", "test", "select")
_AGAIN = "restore it or train again in a new folder"


@dataclass(frozen=True)
class TrainRequest:
    """What a user asked for, as values that JSON can hold, so that a run can be begun again.

    Written to the run's folder (``request.json``) before training starts, with absolute paths, as the seal of the
    features that are made there.
    """

    out: Path
    gold: list[str]
    """A file of answers to a chosen batch begins with +."""
    files: dict[str, str]
    """pool, test and select, where they were named."""
    data: DataOptions
    method: str
    options: list[str]
    student: str
    recipe: dict[str, Any]
    """Options of ``us.train``; ``ema`` is whether one is wanted."""
    track: list[str] = field(default_factory=list)
    """Names of trackers."""

    def save(self) -> None:
        gold = [f"+{known_as(name[1:])}" if name.startswith("+") else known_as(name) for name in self.gold]
        files = {role: known_as(self.files[role]) if role in self.files else None for role in _ROLES}
        recipe = {name: self.recipe[each.name] for name, each in RECIPE_FIELDS.items()}
        asked = {"method": self.method, "options": self.options, "student": self.student, "track": self.track}
        stored = {"format": FORMAT, "out": known_as(self.out), "gold": gold, **files, **vars(self.data)}
        there = {name: self.out / name for name in (*FEATURES, TRAIL) if (self.out / name).exists()}
        made = {name: path.read_bytes() for name, path in there.items()}
        write_json(self.out / REQUEST, sealed(stored | asked | recipe, made))

    @staticmethod
    def is_there(folder: Path) -> bool:
        return on_rank_zero((folder / REQUEST).exists)

    @classmethod
    def check_there(cls, folder: Path) -> None:
        if not cls.is_there(folder):
            raise UnderstudyError(f"{folder} has no {REQUEST}; only what understudy train began can be resumed")

    @classmethod
    def load(cls, folder: Path) -> "TrainRequest":
        path = folder / REQUEST
        stored = unsealed(read_sealed(path, format=FORMAT, cure=_AGAIN))
        try:
            del stored["out"], stored["format"]
            files = {role: stored.pop(role) for role in _ROLES}
            data = DataOptions(**{each.name: stored.pop(each.name) for each in fields(DataOptions)})
            asked = {name: stored.pop(name) for name in ("gold", "method", "options", "student", "track")}
            recipe = {each.name: stored.pop(name) for name, each in RECIPE_FIELDS.items()}
        except KeyError as error:
            raise UnderstudyError(f"{path} is damaged, {error} is missing; {_AGAIN}") from error
        if stored:
            raise UnderstudyError(f"{path} is damaged, {min(stored)!r} is unknown; {_AGAIN}")
        named = {role: name for role, name in files.items() if name is not None}
        return cls(out=folder, files=named, data=data, recipe=recipe, **asked)

    def suited(self, examples: Examples) -> "TrainRequest":
        """With nothing left open, but for what gold says of the epochs: it says the same when asked again."""
        student, recipe = suited.suited(self.student, examples, self.recipe)
        return replace(self, student=student, recipe=recipe)

    def facts(self) -> dict[str, Any]:
        """What the report tells of it."""
        text, encoder = self.data.text, "read by the student" if reads_texts(self.student) else self.data.encoder
        files = {"gold": " ".join(self.gold) or None, **self.files}
        return {
            **{f"{role.capitalize()} file": name for role, name in files.items() if name is not None},
            **({} if text is None else {"Text": f"{text}, {encoder}"}),
            **({} if self.data.image is None else {"Image": self.data.image}),
            "Student": self.student,
            "Method": " ".join([self.method, *self.options]),
            "Optimizer": suited.optimizer_fact(self.recipe),
            "Seed": self.recipe["seed"],
        }


def begin(request: TrainRequest, *, progress: bool = True) -> None:
    """A training in a new folder."""
    on_rank_zero(lambda: usable_folder(request.out))
    with locked(request.out, lend=True) if is_first() else nullcontext():
        on_rank_zero(lambda: usable_folder(request.out))  # again: somebody may have been here before we had the lock
        run_training(request, progress=progress)


def go_on(out: Path, *, progress: bool = True) -> None:
    """The training that was begun there."""
    TrainRequest.check_there(out)
    with locked(out, lend=True) if is_first() else nullcontext():
        run_training(on_rank_zero(lambda: TrainRequest.load(out)), progress=progress, resume=True)


def run_training(request: TrainRequest, *, progress: bool = True, resume: bool = False) -> None:
    """Read the files, train, write the run and its report; of processes that train together, the first writes."""
    options, run_method = _method(request)
    trackers = [tracker(name, request.out) for name in request.track] if is_first() else []
    device, out = usable_device(request.recipe["device"]), request.out
    with collected_warnings() as warnings:
        # What an encoder has made once is found in the cache.
        with nullcontext() if request.data.encoder in ("tfidf", "none") else first_goes_ahead():
            examples = request.data.for_student(request.student).read(request.gold, **request.files)
        if is_first():
            examples.leaks().warn()
        classes = request.data.outputs(examples)
        request = request.suited(examples)
        build = student_builder(request.student, examples, classes)
        ema = _average(build, device) if request.recipe["ema"] else None
        if is_first():
            _write_beforehand(request, examples, resume)
        try:
            run = run_method(
                build, examples.gold, examples.pool, test=examples.test, select=examples.select, out=out,
                progress=progress, resume=resume, notes=_notes(request, examples, options), evaluate=True,
                callbacks=trackers, **request.recipe | {"device": device, "ema": ema},
            )  # fmt: skip
        except UnderstudyError:
            if not resume and is_first():
                _clear(out)
            raise
    if is_first():
        _report(request, run, examples, options, warnings)


def _write_beforehand(request: TrainRequest, examples: Examples, resume: bool) -> None:
    """What a run began with stays; the training checks whether the files are still the same."""
    out = request.out
    if not resume or not (out / VALUES_FILE).exists():
        examples.featuriser.save(out)
    if not resume:
        tell_of_gold(out / TRAIL, request.gold, _gold_labels(examples))
        request.save()


def _report(request: TrainRequest, run: Run, examples: Examples, options: dict[str, Any], warnings: list[str]) -> None:
    """Write the report, and print its first lines."""
    from understudy.report.choice import choice_reason
    from understudy.report.label_sources_table import print_sources
    from understudy.report.page import write_run_report
    from understudy.report.run_text import result_lines, summary

    out = request.out
    chosen = choice_reason(run) if request.method == AUTO else None
    write_run_report(
        out / "report.html",
        run,
        gold=examples.gold,
        pool=examples.pool,
        lower_bound=options.get("lower_bound", 0.5),
        warnings=warnings,
        settings=request.facts() | suited.length_fact(run.config) | _penalty(run) | _choice(chosen),
    )
    if chosen is not None:
        typer.echo(f"Chosen: {chosen}")
    print_sources(run.facts)
    for line in result_lines(run):
        typer.echo(line)
    for _, sentences in summary(run)[:2]:
        typer.echo(" ".join(sentences))
    typer.echo(shown(f"Run: {out}  Report: {out / 'report.html'}"))


def _choice(chosen: str | None) -> dict[str, str]:
    return {} if chosen is None else {"Chosen": chosen}


def _penalty(run: Run) -> dict[str, str]:
    chosen = run.config.get("chosen_penalty")
    how = "" if chosen is None else "least loss on gold rows left out" if chosen["losses"] else "no gold to choose on"
    return {} if chosen is None else {"Penalty": f"C = {chosen['c']:g}, {how}"}


def _method(request: TrainRequest) -> tuple[dict[str, Any], Callable[..., Run]]:
    """The options that were typed, and what trains with them."""
    if request.method == AUTO:
        options = read_options(pilot_options, request.options, AUTO)
        return options, partial(auto, **options)
    if request.method not in METHODS:
        raise UnderstudyError(f"there is no method {request.method!r}; use one of {', '.join(METHODS)}, or {AUTO}")
    options = read_options(METHODS[request.method], request.options)
    objective = METHODS[request.method](**options)
    return options, lambda student, gold, pool, **more: train(student, gold, pool, objective, **more)


def pilot_options(
    *, pilot_rows: int = 20_000, pilot_epochs: int | None = None, folds: int = 4, reconcile: bool = True
) -> dict[str, Any]:
    """What may be typed after --option for --method auto."""
    return {"pilot_rows": pilot_rows, "pilot_epochs": pilot_epochs, "folds": folds, "reconcile": reconcile}


def _notes(request: TrainRequest, examples: Examples, options: dict[str, Any]) -> dict[str, Any]:
    """What ``predict`` and ``select`` need beside the features: the same columns, and the classes' names."""
    names = examples.featuriser.names
    notes = {"features": "x" if names == ("x",) else list(names), "options": options, "columns": request.data.columns}
    if examples.class_names is None:
        return notes
    # Where the user gave the names in order, numbers in files are places in it.
    places = isinstance(request.data.classes, list)
    return notes | {"class_names": list(examples.class_names), "class_places": places}


def _gold_labels(examples: Examples) -> dict[str, Any]:
    gold, names = examples.gold, examples.class_names
    if gold is None or gold.ids is None:
        return {}
    labels = gold.y.tolist() if names is None else [names[label] for label in gold.y.tolist()]
    return dict(zip(map(str, gold.ids.tolist()), labels, strict=True))


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
