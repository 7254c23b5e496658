"""A run: everything a training produced, in memory or as a directory.

    config.json            the options, how the student is built, facts of the training; has a format version
    metrics.jsonl          one line per epoch
    columns.parquet        per pool row: id, and every column the method prepared
    row_ids.parquet        the ids of gold, test and select rows, where they have ids
    student.safetensors    the student after the last epoch (``selected.safetensors``: at the epoch gold chose)
    modules.safetensors    what the method trained beside the student, where it did (VID's head)
    ema.safetensors        the moving average of the student's weights, where there is one
    trained.safetensors    hashes of the rows that it was trained on (``data/fitted_rows.py``)
    held_out.safetensors   predictions of the rows that it was measured on (``training/held_out.py``)
    combination.safetensors, deferral.json     student and teacher together (``inference/cascade.py``)
    model/                 a student that reads texts (``us.text``), as a folder that transformers loads

``config.json`` has the checksums (``store/checked_folder.py``) of these and of what was there before training:
``features.json``, ``features.safetensors``, ``request.json``, ``label_history.jsonl`` (where gold came from). Tensors
are safetensors, the rest is JSON and Parquet; nothing is ever unpickled.
"""

import copy
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.torch
import torch
from safetensors import SafetensorError
from torch import Tensor, nn

from understudy import models
from understudy.data.checks import check_length
from understudy.data.fitted_rows import GOLD_KEYS, TrainedRows, deal_keys, read_keys
from understudy.data.inputs import as_rows
from understudy.errors import UnderstudyError, first_line, shown
from understudy.features.featuriser import VALUES_FILE, Featuriser
from understudy.inference.cascade import COMBINATION, DEFERRAL, Cascade, DeferralRule
from understudy.inference.passes import predict
from understudy.io.gold_pool import raw_features
from understudy.labels.forms import read_labels
from understudy.labels.reliability import Reliability
from understudy.models.registry import reader_of
from understudy.objective import Columns
from understudy.store.arrow import from_parquet, to_parquet
from understudy.store.checked_folder import FILES, Finding, FolderKind, listed_files, read_checked, verify_checked
from understudy.store.console import Shown
from understudy.store.files import LOCK, work_folder, write_bytes
from understudy.store.log import HISTORY
from understudy.training.averages import EMA
from understudy.training.evaluation import Evaluation
from understudy.training.held_out import HeldOutRows, teacher_tensor

CONFIG, REQUEST = "config.json", "request.json"
FEATURES = ("features.json", "features.safetensors")
#: Where a student that reads texts lies, and what ``config.json`` calls it.
MODEL, TEXT = "model", "text"
# Written into a run's folder before training starts.
BEFOREHAND = {LOCK, REQUEST, HISTORY, *FEATURES}
# What trackers write beside it, from the first epoch on.
BESIDE = {"tensorboard"}
METRICS, COLUMNS, STUDENT = "metrics.jsonl", "columns.parquet", "student.safetensors"
ROW_IDS = "row_ids.parquet"
_OTHERS = SELECTED, MODULES, EMA_FILE, TRAINED, HELD_OUT_ROWS = (
    "selected.safetensors", "modules.safetensors", "ema.safetensors", "trained.safetensors", "held_out.safetensors",
)  # fmt: skip
_OUTCOME = METRICS, COLUMNS, STUDENT, ROW_IDS, COMBINATION, *_OTHERS


def usable_folder(out: str | Path | None, *, resume: bool = False) -> Path | None:
    """``out`` must be new or empty: a run never mixes with what is there. ``resume`` asks for one that was begun."""
    if out is None:
        if resume:
            raise UnderstudyError("resume=True goes on with the run in out=, but out=None; pass out=")
        return None
    folder = work_folder(out)
    # A name that begins with a dot is a lock, or a file that a killed process did not finish.
    there = {path.name for path in folder.glob("[!.]*")} - BEFOREHAND if folder.is_dir() else set()
    there -= BESIDE if resume else set()
    if folder.is_file() or (there and not resume):
        begun = there & {"checkpoint", "pilot"} and CONFIG not in there
        cure = "go on with resume=True (--resume)" if begun else "remove it"
        raise UnderstudyError(f"out={str(folder)!r} already exists and is not empty; choose a new folder, or {cure}")
    if there and not there & {"checkpoint", "pilot", CONFIG, METRICS}:
        raise UnderstudyError(f"out={str(folder)!r} holds other files and no run to resume; choose another folder")
    return folder


@dataclass(repr=False)
class Run(Shown):
    #: The trained student: after the last epoch, or after fine-tuning where there was any.
    student: nn.Module
    #: One dict per epoch.
    history: list[dict[str, float]]
    #: Per-example values in pool order; NaN (or −1) where the pool row had no teacher label.
    columns: Columns
    config: dict[str, Any] = field(default_factory=dict)
    #: Numbers the method or the loop found worth telling.
    facts: dict[str, float] = field(default_factory=dict)
    #: The epoch with the best accuracy on the ``select`` rows, counted from 1.
    selected_epoch: int | None = None
    selected_state: dict[str, Tensor] | None = None
    #: What the method trained beside the student.
    modules: dict[str, nn.Module] = field(default_factory=dict)
    #: The weights of those modules by name; a loaded run has these alone (``us.VidHead.from_state`` rebuilds one).
    module_states: dict[str, dict[str, Tensor]] = field(default_factory=dict)
    #: The pool's ids.
    ids: np.ndarray[Any, Any] | None = None
    #: The ids, as text, of the gold, test and select rows that have any.
    held_ids: list[str] = field(default_factory=list)
    #: Of the gold rows that its predictions, and so its labels, know (``data/fitted_rows.py``).
    gold_keys: frozenset[str] = frozenset()
    #: The moving average of the student's weights, where there is one.
    ema: EMA | None = None
    #: The trust in the teacher that the method estimated and used, by slot; not stored.
    fits: dict[str, Reliability] = field(default_factory=dict)
    #: Accuracy beside its baselines, where ``us.train(evaluate=True)`` measured it.
    evaluation: Evaluation | None = None
    #: The rows that trained the student, where ``us.train(out=…)`` recorded them.
    trained: TrainedRows | None = None
    path: Path | None = None
    #: What turns raw rows into the student's input, where a training from tables made it.
    featuriser: Featuriser | None = None
    #: Which rows to leave to the teacher (``understudy defer``), where a rule was chosen.
    rule: DeferralRule | None = None

    def __post_init__(self) -> None:
        if self.modules:
            self.module_states = {name: module.state_dict() for name, module in self.modules.items()}

    def __repr__(self) -> str:
        """One line: what it was, how long, how good, and where it is."""
        last = self.history[-1] if self.history else {}
        found = {name: last[f"{name}_accuracy"] for name in ("test", "select") if f"{name}_accuracy" in last}
        parts = [str(self.config.get("objective", "no method")), f"{len(self.history)} epochs"]
        parts += [f"{name} accuracy {value:.1%}" for name, value in found.items()]
        parts += [] if self.path is None else [shown(self.path)]
        return f"Run({', '.join(parts)})"

    @property
    def temperature(self) -> float:
        """What the student's logits are divided by in predictions; 1 where ``us.train(evaluate=True)`` fitted none."""
        found = None if self.evaluation is None else self.evaluation.calibration
        return 1.0 if found is None else found.temperature

    @property
    def cascade(self) -> Cascade:
        """Student and teacher together, and the rule; of ``us.train(evaluate=True)`` and ``understudy defer``."""
        unseen = None if self.evaluation is None else self.evaluation.held_out
        return Cascade(None if unseen is None else unseen.combination, self.rule)

    def predict(self, x: Any, *, teacher: Any = None, batch_size: int = 1024) -> Tensor:
        """Class probabilities ``(n, C)`` of the student, at the run's temperature.

        ``x``: features, as ``us.train`` took them (a frame has the same columns in the same order). A run from tables
        also takes raw rows: a file, a frame, a list of texts or of mappings by column. ``teacher``: its labels of these
        rows, which are new to both (names, numbers, −1 or empty where there is none; or probabilities): the result is
        then that of student and teacher together, where they are better on gold than the student alone.
        """
        if teacher is not None:
            return self.together(self.predict(x, batch_size=batch_size), teacher)
        none = not x if isinstance(x, list | tuple) else tuple(getattr(x, "shape", ()))[:1] == (0,)
        if none and self.featuriser is not None:
            return torch.empty(0, self.config["classes"])
        raw = None if self.featuriser is None else raw_features(x, self.featuriser, self.config.get("columns"))
        rows, features = as_rows(x, "x") if raw is None else raw, self.config.get("features")
        if raw is None and rows.names is not None and isinstance(features, list) and list(rows.names) != features:
            known = f"the student was trained on {', '.join(features[:8])}; pass these, in this order"
            raise UnderstudyError(f"x has the columns {', '.join(rows.names[:8])}, {known}")
        return predict(self.student, rows, batch_size=batch_size, temperature=self.temperature)

    def together(self, probs: Tensor, teacher: Any) -> Tensor:
        """The student's probabilities ``(n, C)`` with what the teacher says of the same rows."""
        classes = probs.shape[1]
        names = self.config.get("class_names") or list(map(str, range(classes)))
        _, labels, _ = read_labels(None, teacher, names, "predict")
        assert labels is not None
        check_length(len(labels), len(probs), "teacher", "the rows")
        return torch.from_numpy(self.cascade.combine(probs.numpy(), teacher_tensor(labels, classes).numpy())).float()

    def selected(self) -> nn.Module:
        """The student as it was at the epoch chosen on the ``select`` rows; no temperature is fitted for it."""
        if self.selected_state is None:
            raise UnderstudyError("no epoch was selected; pass select=us.Gold(…) to us.train")
        student = copy.deepcopy(self.student)
        student.load_state_dict(self.selected_state)
        return student

    def metrics(self, prefix: str = "test") -> dict[str, dict[str, float]]:
        """The ``prefix`` metrics of the last epoch; where there are such, of the selected one and after fine-tuning."""

        def under(start: str, record: dict[str, float]) -> dict[str, float]:
            return {name[len(start) :]: value for name, value in record.items() if name.startswith(start)}

        found = {"last": under(f"{prefix}_", self.history[-1])} if self.history else {}
        if self.selected_epoch is not None:
            found["selected"] = under(f"{prefix}_", self.history[self.selected_epoch - 1])
        if finetuned := under(f"finetuned_{prefix}_", self.facts):
            found["finetuned"] = finetuned
        return found

    def save(self, folder: str | Path) -> None:
        """Write the run directory. ``config.json`` comes last: where it is, all the rest is."""
        folder, reads = work_folder(folder), reader_of(self.student) is not None
        rows = len(next(iter(self.columns.values()))) if self.columns else 0
        first = {"row": np.arange(rows)} if self.ids is None else {"id": self.ids}
        files = {
            METRICS: history_to_bytes(self.history),
            COLUMNS: to_parquet(first | {name: column.cpu().numpy() for name, column in self.columns.items()}),
            # The metadata is for transformers, which reads the same file.
            STUDENT: state_to_bytes(self.student.state_dict(), {"format": "pt"} if reads else None),
        }
        if self.held_ids or self.gold_keys:
            held = self.held_ids or [""]
            files[ROW_IDS] = to_parquet({"id": held, GOLD_KEYS: deal_keys(self.gold_keys, len(held))})
        if self.selected_state is not None:
            files[SELECTED] = state_to_bytes(self.selected_state)
        if self.module_states:
            states = self.module_states.items()
            flat = {f"{module}.{name}": value for module, state in states for name, value in state.items()}
            files[MODULES] = state_to_bytes(flat)
        if self.ema is not None:
            files[EMA_FILE] = state_to_bytes(self.ema.state_dict())
        if self.trained is not None:
            files[TRAINED] = state_to_bytes(self.trained.hashes)
        unseen = None if self.evaluation is None else self.evaluation.held_out
        if unseen is not None:
            files[HELD_OUT_ROWS] = state_to_bytes(unseen.state_dict())
            files |= {} if unseen.combination is None else {COMBINATION: unseen.combination.to_bytes()}
        files |= _read_features(self.path or folder)
        request = _read_request(folder)
        for name in (*_OUTCOME, *FEATURES):
            if name in files:
                write_bytes(folder / name, files[name])
            else:  # of a run that was here before
                (folder / name).unlink(missing_ok=True)
        spec = models.spec_of(self.student)
        if reads:
            from understudy.hf.text import text_spec, write_model

            spec = text_spec(self.student)
            metrics = {prefix: self.metrics(prefix) for prefix in ("test", "select")}
            files |= write_model(self.student, folder, MODEL, self.config, self.facts, metrics)
        evaluation = None if self.evaluation is None else asdict(replace(self.evaluation, held_out=None))
        outcome = {"facts": self.facts, "selected_epoch": self.selected_epoch, "evaluation": evaluation}
        config = {**self.config, "student": spec, **outcome}
        if self.rule is not None:
            self.rule.save(folder)
        else:  # of a run that was here before
            (folder / DEFERRAL).unlink(missing_ok=True)
        RUN.write(folder, config, files | request)
        self.path = folder

    @classmethod
    def load(cls, folder: str | Path, student: nn.Module | None = None) -> "Run":
        """Read a run directory. ``student``: an untrained copy of a net that is not one of ``us.models``."""
        folder = work_folder(folder)
        if not (folder / CONFIG).exists():
            raise UnderstudyError(f"{folder} is not a finished run (no {CONFIG}); train with out={str(folder)!r}")
        config = RUN.read(folder, check_all=True)
        if student is None:
            if config["student"] is None:
                raise UnderstudyError(f"{folder} holds a student of your own class; pass it: student=MyNet()")
            if isinstance(config["student"], dict) and config["student"].get("name") == TEXT:
                from understudy.hf.text import load_student

                student = load_student(folder / MODEL, **config["student"]["args"])
            else:
                student = models.build(config["student"])
        load_state(student, folder / STUDENT)
        stored = from_parquet(folder / COLUMNS)
        ids = stored.pop("id", None)
        columns = {name: torch.from_numpy(column) for name, column in stored.items() if name != "row"}
        others: dict[str, Any] = {name: read_state(folder / name) for name in _OTHERS if (folder / name).exists()}
        ema = EMA(student) if EMA_FILE in others else None
        if ema is not None:
            ema.load_state_dict(others[EMA_FILE])
        held = from_parquet(folder / ROW_IDS) if (folder / ROW_IDS).exists() else {}
        held_ids = [id for id in held["id"].tolist() if id] if held else []
        evaluation, cascade = None, Cascade.load(folder)
        if config.get("evaluation") is not None:
            evaluation = Evaluation.from_dict(config["evaluation"])
            if HELD_OUT_ROWS in others:
                unseen = HeldOutRows(**others[HELD_OUT_ROWS], combination=cascade.combination)
                evaluation = replace(evaluation, held_out=unseen)
        return cls(
            student.eval(), read_metrics(folder / METRICS), columns, config, config["facts"],
            selected_epoch=config["selected_epoch"], selected_state=others.get(SELECTED),
            module_states=nested(others.get(MODULES, {})), ids=ids, held_ids=held_ids, ema=ema,
            gold_keys=read_keys(held[GOLD_KEYS]) if GOLD_KEYS in held else frozenset(),
            evaluation=evaluation, rule=cascade.rule,
            trained=TrainedRows(others[TRAINED]) if TRAINED in others else None, path=folder,
            featuriser=Featuriser.load(folder) if (folder / VALUES_FILE).exists() else None,
        )  # fmt: skip


def _unlisted(folder: Path, config: Mapping[str, Any]) -> Iterator[Finding]:
    """Files that would be read, but were not there when the run was written."""
    for name in (*_OUTCOME, *FEATURES, REQUEST, HISTORY):
        if name not in config.get(FILES, {}) and os.path.lexists(folder / name):
            yield Finding(folder / name, "was added after the run was written; remove it")
    if (folder / DEFERRAL).exists():
        yield from verify_checked(folder / DEFERRAL)


RUN = FolderKind("run", CONFIG, _unlisted, "restore it or train again")


def _read_features(source: Path) -> dict[str, bytes]:
    """The files that say how a run's features are made, from the folder that the run was loaded from or is saved to."""
    listed = listed_files(source / CONFIG) if (source / CONFIG).exists() else set()
    names = [name for name in FEATURES if name in listed or (source / name).exists()]
    try:
        return {name: (source / name).read_bytes() for name in names}
    except OSError as error:
        raise UnderstudyError(f"cannot read the features in {source}: {error.strerror}; restore them") from error


def _read_request(folder: Path) -> dict[str, bytes]:
    """The command line's request file, if it and the features are still those that the training began with."""
    if not (folder / REQUEST).exists():
        return {}
    read_checked(folder / REQUEST, cure=RUN.cure)
    return {name: (folder / name).read_bytes() for name in (REQUEST, HISTORY) if (folder / name).exists()}


def history_to_bytes(history: list[dict[str, float]]) -> bytes:
    return "".join(json.dumps(record) + "\n" for record in history).encode()


def read_metrics(path: Path) -> list[dict[str, float]]:
    try:
        lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        if not all(isinstance(line, dict) for line in lines):
            raise ValueError("a line is not a record")
    except (OSError, ValueError) as error:
        raise UnderstudyError(f"{path} is damaged ({first_line(error)}); restore it or train again") from error
    return lines


def read_state(path: Path) -> dict[str, Tensor]:
    try:
        return state_from_bytes(path.read_bytes(), path)
    except OSError as error:
        raise UnderstudyError(f"cannot read {path}: {error.strerror}") from error


def state_from_bytes(content: bytes, path: Path) -> dict[str, Tensor]:
    try:
        return dict(safetensors.torch.load(content))
    except SafetensorError as error:
        raise UnderstudyError(f"{path} is damaged ({error}); restore it or train again") from error


def load_state(module: nn.Module, path: Path) -> None:
    try:
        module.load_state_dict(read_state(path))
    except RuntimeError as error:
        raise UnderstudyError(f"{path} does not fit {type(module).__name__}: {first_line(error)}") from error


def state_to_bytes(state: Mapping[str, Tensor], metadata: dict[str, str] | None = None) -> bytes:
    # Tied parameters share memory, and channels_last ones are strided; safetensors refuses both: each name gets its
    # own plain copy.
    plain = {name: value.detach().cpu().clone(memory_format=torch.contiguous_format) for name, value in state.items()}
    return bytes(safetensors.torch.save(plain, metadata))


def nested(state: dict[str, Tensor]) -> dict[str, dict[str, Tensor]]:
    """The states of modules by their names: a slot's name, which heads every key, holds no dot."""
    states: dict[str, dict[str, Tensor]] = {}
    for key, value in state.items():
        module, _, name = key.partition(".")
        states.setdefault(module, {})[name] = value
    return states
