"""Looking on while a student trains: for trackers, plots, early reports.

    class Log(us.Callback):
        def on_epoch(self, view):
            print(view.epoch, view.history[-1]["loss"])

    us.train(student, gold, pool, us.slam(), epochs=30, callbacks=[Log()])

A callback sees a view that it can only read, and its own use of random numbers is undone: the result has the same bits
with and without it. An exception it raises ends the training; what was checkpointed stays.

**Trackers** are callbacks of a few lines each (extra ``track``):

    us.train(student, gold, pool, us.slam(), epochs=30, callbacks=[us.TensorBoard("logs")])
    us.compare(student, gold, pool, ["slam", "weighted"], epochs=30, callbacks=[us.MLflow(experiment="labels")])
    us.train(…, callbacks=[us.LogTo(wandb.init())])      # or anything else with log(values, step=…)

A training is logged as ``<method>-seed<seed>``: its settings when it starts, a record per epoch, its facts at the end.
One that is resumed tells the epochs before, too, where the tracker begins a new run for it.
"""

import copy
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor, nn

from understudy.errors import UnderstudyError, install
from understudy.inference.passes import predict
from understudy.training.distributed import is_first

Record = dict[str, float]


class TrainingView:
    """A training as its callbacks see it: copies and proxies of what it is at that moment."""

    def __init__(
        self, student: nn.Module, history: list[Record], facts: Record, config: dict[str, Any], folder: Path | None
    ) -> None:
        self._student, self.folder = student, folder
        self.config: Mapping[str, Any] = MappingProxyType(copy.deepcopy(config))
        self.facts: Mapping[str, float] = MappingProxyType(dict(facts))
        #: One record per epoch that is done, as ``run.history``.
        self.history = tuple(MappingProxyType(dict(record)) for record in history)
        self.epoch, self.epochs = len(history), int(config["epochs"])

    def predict(self, x: Any) -> Tensor:
        """Class probabilities ``(n, C)`` of the student as it is now."""
        return predict(self._student, x)

    def student(self) -> nn.Module:
        """A copy of the student as it is now."""
        return copy.deepcopy(self._student)


class Callback:
    """Override what you need."""

    def on_start(self, view: TrainingView) -> None:
        """Before the first epoch, or the first after resuming: ``view.epoch`` are done."""

    def on_epoch(self, view: TrainingView) -> None:
        """After every epoch on gold and pool."""

    def on_end(self, view: TrainingView) -> None:
        """When the student is trained, fine-tuning included, and the run is saved."""

    def on_failure(self, view: TrainingView) -> None:
        """When a training that ``on_start`` was called for ends otherwise: by an error, Ctrl-C or a signal."""


class CallbackRunner:
    """Calls the callbacks of a training, in process 0, with a view of it; in a ``with`` block, also where it fails."""

    def __init__(self, callbacks: Sequence[Callback], config: dict[str, Any], folder: Path | None) -> None:
        self.callbacks, self.config, self.folder = callbacks if is_first() else (), config, folder
        self._seen: Any = ()

    def call(self, moment: str, *seen: Any) -> None:
        """Call them in their order. ``seen``: student, history and facts, which grow; at first, and where they are
        others."""
        if self.callbacks:
            self._seen = seen or self._seen
        for callback in self.callbacks if self._seen else ():
            student, history, facts = self._seen
            with torch.random.fork_rng():
                getattr(callback, moment)(TrainingView(student, history, facts, self.config, self.folder))

    def __enter__(self) -> "CallbackRunner":
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            with suppress(Exception):  # what failed first is what the user must read
                self.call("on_failure")


NO_CALLBACKS = CallbackRunner((), {}, None)


def check_callbacks(callbacks: Any) -> None:
    given = callbacks if isinstance(callbacks, Sequence) else [callbacks]
    if wrong := [each for each in given if given is not callbacks or not isinstance(each, Callback)]:
        raise UnderstudyError(f"callbacks= holds a {type(wrong[0]).__name__}; pass a list of us.Callback objects")


FOLDER = "tensorboard"


class Tracker(Callback):
    """What they have in common: open, log, close."""

    opened = False
    #: Whether a resumed training tells the epochs before again.
    retells = True

    def open(self, view: TrainingView) -> None: ...

    def log(self, values: Mapping[str, float], step: int) -> None:
        raise NotImplementedError

    def close(self, *, failed: bool = False) -> None: ...

    def on_start(self, view: TrainingView) -> None:
        self.open(view)
        self.opened = True
        for record in view.history if self.retells else ():
            self._log_epoch(record)

    def on_epoch(self, view: TrainingView) -> None:
        self._log_epoch(view.history[-1])

    def on_end(self, view: TrainingView) -> None:
        if not self.opened:  # resumed when only fine-tuning was left
            self.on_start(view)
        self.log({f"facts/{name}": value for name, value in view.facts.items()}, view.epoch)
        self.opened = False
        self.close()

    def on_failure(self, view: TrainingView) -> None:
        """Else the next training in this process would go on in the run of this one, or below it."""
        if self.opened:
            self.opened = False
            self.close(failed=True)

    def _log_epoch(self, record: Mapping[str, float]) -> None:
        self.log({name: value for name, value in record.items() if name != "epoch"}, int(record["epoch"]))


class TensorBoard(Tracker):
    """Event files in ``folder/<method>-seed<seed>``; without a folder beside the run, or in ``tensorboard`` here."""

    retells = False  # they are in the files of before

    def __init__(self, folder: str | Path | None = None) -> None:
        self.folder = folder
        _need("tensorboard", "us.TensorBoard")

    def open(self, view: TrainingView) -> None:
        from torch.utils.tensorboard import SummaryWriter

        folder = self.folder or (view.folder or Path()) / FOLDER
        # What a killed training wrote after its last checkpoint is taken back: its epochs come again.
        again_from = view.epoch + 1 if view.epoch else None
        self._writer: Any = SummaryWriter(Path(folder) / _run_name(view), purge_step=again_from)
        if not view.epoch:
            lines = [f"| {name} | {value} |" for name, value in _plain_settings(view).items()]
            self._writer.add_text("settings", "\n".join(["| setting | value |", "| --- | --- |", *lines]), 0)

    def log(self, values: Mapping[str, float], step: int) -> None:
        for name, value in values.items():
            self._writer.add_scalar(name, value, step)
        self._writer.flush()

    def close(self, *, failed: bool = False) -> None:
        self._writer.close()
        del self._writer  # open, it could not be sent to another process


class MLflow(Tracker):
    """A run of its own in ``experiment``, in whatever store MLflow is set to use."""

    def __init__(self, experiment: str | None = None) -> None:
        self.experiment = experiment
        _need("mlflow", "us.MLflow")

    def open(self, view: TrainingView) -> None:
        import mlflow

        if self.experiment is not None:
            mlflow.set_experiment(self.experiment)
        mlflow.start_run(run_name=_run_name(view), nested=mlflow.active_run() is not None)
        mlflow.log_params(_plain_settings(view))

    def log(self, values: Mapping[str, float], step: int) -> None:
        import mlflow

        # Its names hold letters, digits and _ - . / and blanks.
        plain = ["".join(sign if sign.isalnum() or sign in "_-./ " else "_" for sign in name) for name in values]
        mlflow.log_metrics(dict(zip(plain, map(float, values.values()), strict=True)), step=step)

    def close(self, *, failed: bool = False) -> None:
        import mlflow

        mlflow.end_run("FAILED" if failed else "FINISHED")


class WandB(Tracker):
    """A run of its own in ``project``."""

    def __init__(self, project: str = "understudy") -> None:
        self.project = project
        _need("wandb", "us.WandB")

    def open(self, view: TrainingView) -> None:
        import wandb

        # Without reinit a run that the user has open would be written to, and ended.
        settings = {"config": _plain_settings(view), "reinit": "create_new"}
        self._run: Any = wandb.init(project=self.project, name=_run_name(view), **settings)

    def log(self, values: Mapping[str, float], step: int) -> None:
        self._run.log(dict(values), step=step)

    def close(self, *, failed: bool = False) -> None:
        self._run.finish(exit_code=int(failed))
        del self._run


class LogTo(Tracker):
    """Any object with ``log(values, step=…)``: a run of Weights & Biases, of trackio, of Comet …"""

    def __init__(self, logger: Any) -> None:
        if not callable(getattr(logger, "log", None)):
            raise UnderstudyError(f"us.LogTo: a {type(logger).__name__} has no log(values, step=…); pass one that has")
        self.logger = logger

    def log(self, values: Mapping[str, float], step: int) -> None:
        self.logger.log(dict(values), step=step)


TRACKERS = {"tensorboard": TensorBoard, "mlflow": MLflow, "wandb": WandB}


def tracker(name: str, folder: Path) -> Tracker:
    """By the name that is typed after ``--track``; ``folder``: where files go that belong to what is tracked."""
    if name not in TRACKERS:
        raise UnderstudyError(f"--track {name!r} is unknown; use one of {', '.join(TRACKERS)}")
    return TensorBoard(folder / FOLDER) if name == "tensorboard" else TRACKERS[name]()


def _run_name(view: TrainingView) -> str:
    """As a folder may be called, too."""
    name = str(view.config.get("compared_as", view.config["objective"]))
    plain = "".join(sign if sign.isalnum() or sign in "_-.=" else "_" for sign in name)
    return f"{plain}-seed{view.config['seed']}"


def _plain_settings(view: TrainingView) -> dict[str, Any]:
    """What fits in a table of one line each."""
    return {name: value for name, value in view.config.items() if isinstance(value, int | float | str)}


def _need(package: str, who: str) -> None:
    """Raised when the tracker is made, not after hours of preparation."""
    try:
        import_module(package)
    except ImportError as error:
        extra = "pip install wandb" if package == "wandb" else install("track")
        raise UnderstudyError(f"{who} needs {package}: {extra}") from error
