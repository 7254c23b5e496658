"""Trainings sent to the trackers of the trade, each by a callback of a few lines (extra ``track``).

    us.train(student, gold, pool, us.slam(), epochs=30, callbacks=[us.TensorBoard("logs")])
    us.compare(student, gold, pool, ["slam", "weighted"], epochs=30, callbacks=[us.MLflow(experiment="labels")])
    us.train(…, callbacks=[us.LogTo(wandb.init())])      # or anything else with log(values, step=…)

A training is told as ``<method>-seed<seed>``: its settings when it starts, a record per epoch, its facts at the end.
One that is resumed tells the epochs before, too, where the tracker begins a new run for it.
"""

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from understudy.errors import UnderstudyError
from understudy.training.callbacks import Callback, TrainingView

FOLDER = "tensorboard"


class Tracker(Callback):
    """What they have in common: open, log, close."""

    opened = False

    def open(self, view: TrainingView) -> None: ...

    def log(self, values: Mapping[str, float], step: int) -> None:
        raise NotImplementedError

    def close(self, *, failed: bool = False) -> None: ...

    def on_start(self, view: TrainingView) -> None:
        self.open(view)
        self.opened = True
        for record in self.earlier(view):
            self._log_epoch(record)

    def earlier(self, view: TrainingView) -> tuple[Mapping[str, float], ...]:
        """The epochs to tell again when a training is resumed."""
        return view.history

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

    def __init__(self, folder: str | Path | None = None) -> None:
        self.folder = folder
        self._writer: Any = None
        _need("tensorboard", "us.TensorBoard")

    def open(self, view: TrainingView) -> None:
        from torch.utils.tensorboard import SummaryWriter

        folder = self.folder or (view.folder or Path()) / FOLDER
        # What a killed training wrote after its last checkpoint is taken back: its epochs come again.
        self._writer = SummaryWriter(Path(folder) / name_of(view), purge_step=view.epoch + 1 if view.epoch else None)
        if not view.epoch:
            lines = [f"| {name} | {value} |" for name, value in settings_of(view).items()]
            self._writer.add_text("settings", "\n".join(["| setting | value |", "| --- | --- |", *lines]), 0)

    def earlier(self, view: TrainingView) -> tuple[Mapping[str, float], ...]:
        return ()  # they are in the files of before

    def log(self, values: Mapping[str, float], step: int) -> None:
        for name, value in values.items():
            self._writer.add_scalar(name, value, step)
        self._writer.flush()

    def close(self, *, failed: bool = False) -> None:
        self._writer.close()
        self._writer = None


class MLflow(Tracker):
    """A run of its own in ``experiment``, in whatever store MLflow is set to use."""

    def __init__(self, experiment: str | None = None) -> None:
        self.experiment = experiment
        _need("mlflow", "us.MLflow")

    def open(self, view: TrainingView) -> None:
        import mlflow

        if self.experiment is not None:
            mlflow.set_experiment(self.experiment)
        mlflow.start_run(run_name=name_of(view), nested=mlflow.active_run() is not None)
        mlflow.log_params(settings_of(view))

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
        self._run: Any = None
        _need("wandb", "us.WandB")

    def open(self, view: TrainingView) -> None:
        import wandb

        # Without reinit a run that the user has open would be written to, and ended.
        settings = {"config": settings_of(view), "reinit": "create_new"}
        self._run = wandb.init(project=self.project, name=name_of(view), **settings)

    def log(self, values: Mapping[str, float], step: int) -> None:
        self._run.log(dict(values), step=step)

    def close(self, *, failed: bool = False) -> None:
        self._run.finish(exit_code=int(failed))
        self._run = None


class LogTo(Tracker):
    """Any object with ``log(values, step=…)``: a run of Weights & Biases, of trackio, of Comet …"""

    def __init__(self, logger: Any) -> None:
        if not callable(getattr(logger, "log", None)):
            raise UnderstudyError(
                f"us.LogTo: a {type(logger).__name__} has no log(values, step=…); pass a run that has"
            )
        self.logger = logger

    def log(self, values: Mapping[str, float], step: int) -> None:
        self.logger.log(dict(values), step=step)


TRACKERS = {"tensorboard": TensorBoard, "mlflow": MLflow, "wandb": WandB}


def tracker(name: str, folder: Path) -> Tracker:
    """By the name that is typed after ``--track``; ``folder``: where files go that belong to what is tracked."""
    if name not in TRACKERS:
        raise UnderstudyError(f"--track {name!r} is unknown; use one of {', '.join(TRACKERS)}")
    return TensorBoard(folder / FOLDER) if name == "tensorboard" else TRACKERS[name]()


def name_of(view: TrainingView) -> str:
    """As a folder may be called, too."""
    name = str(view.config.get("compared_as", view.config["objective"]))
    plain = "".join(sign if sign.isalnum() or sign in "_-.=" else "_" for sign in name)
    return f"{plain}-seed{view.config['seed']}"


def settings_of(view: TrainingView) -> dict[str, Any]:
    """What fits in a table of one line each."""
    return {name: value for name, value in view.config.items() if isinstance(value, int | float | str)}


def _need(package: str, who: str) -> None:
    """Said when the tracker is made, not when hours of preparation are over."""
    try:
        import_module(package)
    except ImportError as error:
        extra = "pip install wandb" if package == "wandb" else "pip install 'understudy[track]'"
        raise UnderstudyError(f"{who} needs {package}: {extra}") from error
