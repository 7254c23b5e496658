"""The state of a loop on disk: one JSON file, replaced after every step.

    out/state.json          settings, every requested row with its label, the batch under way, one record per round
    out/label_history.jsonl the label history: who gave which label, when, by which oracle and command
    out/labelled.csv        row, id, label, round, chosen: all answers so far, for people and for training
    out/round-003/          the student of the last finished round: a run directory, and ema.safetensors beside it

A round is *select*, *label*, *train*. The state names the step that comes next; each step can be repeated from it with
the same result, so a loop killed at any moment continues as if nothing had happened. The state is checked
(``store/checked_folder.py``), with the student it goes on from; a folder that lost its state is refused, because to
begin anew would be to pay again for the same labels.

The gain of a round is its accuracy after and before on the same rows: those of the test set, or, without one, the gold
rows that were drawn at random, cross-validated. A record keeps which of them were predicted correctly, so that two
rounds are compared row by row.

    RoundGain.of(records[-2], records[-1], price=0.5)   # .accuracy, .gain with their intervals, .per_point
"""

import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor

from understudy.comparison.interval import Interval
from understudy.data.examples import Gold
from understudy.errors import UnderstudyError
from understudy.io.write import write_columns
from understudy.maths.proportions import Share, cross_validated
from understudy.store.checked_folder import Finding, FolderKind, Manifest
from understudy.store.files import digest
from understudy.store.log import HISTORY, LabelHistory
from understudy.store.settings import check_same
from understudy.training.run import CONFIG, RUN, Run

_HASHED = {"student": "layers or sizes", "gold_rows": "rows or labels"}
# A loop may be continued with other values of these.
EXTENDABLE = ("budget", "stop_after", "stop_change")

STATE, LABELLED = "state.json", "labelled.csv"


@dataclass
class LoopState:
    settings: dict[str, Any]
    #: The round under way; 0 is the random start.
    round: int = 0
    step: Literal["select", "label", "train"] = "select"
    #: Rows of the round under way that wait for answers.
    batch: list[int] = field(default_factory=list)
    #: Answers of the batch so far, by row: written before they are used, and not requested again.
    answers: dict[str, int] = field(default_factory=dict)
    #: Of the batch: scores, reasons, the noise watch.
    notes: dict[str, Any] = field(default_factory=dict)
    #: Every requested row, in order.
    rows: list[int] = field(default_factory=list)
    #: The answers; −1 where skipped.
    labels: list[int] = field(default_factory=list)
    #: The round of each.
    rounds: list[int] = field(default_factory=list)
    #: One per finished round.
    records: list[dict[str, Any]] = field(default_factory=list)
    #: The checksum of ``labelled.csv`` after the last finished round.
    labelled: str = ""
    #: The checksum of the last line of the label history.
    history: str = ""

    @classmethod
    def open(cls, folder: Path, settings: dict[str, Any]) -> "LoopState":
        """The state in the folder if there is one (it must be of the same loop), else a new one."""
        path = folder / STATE
        if not path.exists():
            if left := [*folder.glob(LABELLED), *folder.glob("round-*")]:
                raise UnderstudyError(f"{folder} holds {left[0].name}, but no {STATE}; restore it, or use a new folder")
            return cls(settings)
        stored = LOOP.read(folder)
        check_same(stored["settings"], settings, folder, free=EXTENDABLE, hints=_HASHED)
        return cls(**stored | {"settings": settings})

    def save(self, folder: Path) -> None:
        last = round_folder(folder, self.round - 1) / CONFIG
        files = {last.relative_to(folder).as_posix(): last.read_bytes()} if self.round else {}
        LOOP.write(folder, asdict(self), files)

    def answered(self) -> tuple[Tensor, Tensor, Tensor]:
        """Rows with a label, their labels, and whether they were chosen (not drawn at random as the start)."""
        rows, labels, rounds = (torch.tensor(x, dtype=torch.long) for x in (self.rows, self.labels, self.rounds))
        known = labels >= 0
        return rows[known], labels[known], rounds[known] > 0

    def write_labelled(self, path: Path, ids: np.ndarray[Any, Any] | None, names: Sequence[str] | None = None) -> None:
        rows, labels, chosen = self.answered()
        classes = labels.tolist() if names is None else [names[label] for label in labels.tolist()]
        columns: dict[str, list[Any]] = {} if ids is None else {"id": ids[rows.numpy()].tolist()}
        rounds = [number for number, label in zip(self.rounds, self.labels, strict=True) if label >= 0]
        columns |= {"row": rows.tolist(), "label": classes, "round": rounds, "chosen": chosen.int().tolist()}
        write_columns(path, columns)


def _also(folder: Path, state: Manifest) -> Iterator[Finding]:
    """``labelled.csv``, the label history, and the run of the last round."""
    labelled = folder / LABELLED
    if state["labelled"] and state["step"] != "train":  # it is about to be written anew
        same = labelled.is_file() and digest(labelled.read_bytes()) == state["labelled"]
        yield Finding(labelled, None if same else "is not as it was written (the next round writes it anew)")
    yield from LabelHistory(folder / HISTORY).verify(state["history"])
    if state["round"]:
        yield from RUN.verify(round_folder(folder, state["round"] - 1))[1:]


LOOP = FolderKind("loop", STATE, _also)


class Result(NamedTuple):
    """The outcome of a loop so far."""

    #: budget, stable (predictions no longer change), exhausted (no row is left) or waiting (for answers).
    stopped: str
    #: The same as a sentence.
    message: str
    #: One per round: labels so far, metrics on the test rows, the noise watch, the share of changed predictions.
    records: list[dict[str, Any]]
    #: Every requested row, in order.
    rows: Tensor
    #: The answers; −1 where skipped.
    labels: Tensor
    #: The round of each; 0 is the random start.
    rounds: Tensor
    #: All labelled rows; those a strategy picked are marked as chosen.
    gold: Gold | None
    #: The last round's training.
    run: Run | None


def round_folder(folder: Path, number: int) -> Path:
    return folder / f"round-{number:03}"


def drop_rounds_before(folder: Path, number: int) -> None:
    """Only the last finished round's student is kept."""
    for old in folder.glob("round-*"):
        if old.is_dir() and old.name < f"round-{number:03}":
            shutil.rmtree(old)


#: Keys of a record: whether each row is predicted correctly ("1101…", a digit a row), the fingerprint of the test rows,
#: how often the students of two folds predict other classes, and the share deferred at equal accuracy.
CORRECT, TEST_ROWS, DISAGREEMENT, DEFERRED = "correct", "test_rows", "disagreement", "deferred"


class RoundGain(NamedTuple):
    """One round."""

    round: int
    #: Requested so far.
    labels: int
    #: Paid so far.
    cost: float
    #: None: no rows to measure it on.
    accuracy: Share | None
    #: Of accuracy since the round before; None in the first, and where it was measured on other rows.
    gain: Interval | None
    #: On this round alone.
    spent: float
    #: The ``share`` of rows to leave to the teacher for the ``accuracy`` of the first round (``active/campaign.py``).
    deferred: Mapping[str, float] | None = None

    @property
    def per_point(self) -> float | None:
        """Cost per point of accuracy in this round; None without a gain."""
        return None if self.gain is None or self.gain.mean <= 0 else self.spent / (100 * self.gain.mean)

    @classmethod
    def of(cls, before: Mapping[str, Any] | None, record: Mapping[str, Any], price: float) -> "RoundGain":
        former = before or {}
        correct, last = record.get(CORRECT), former.get(CORRECT)
        requested = record["requested"] - former.get("requested", 0)
        # Cross-validated students that predict other classes count for fewer rows.
        disagreement = record.get(DISAGREEMENT, 0.0)
        share = None if not correct else cross_validated(correct.count("1"), len(correct), disagreement)
        gain = None
        if correct and last and len(correct) == len(last) and former.get(TEST_ROWS) == record.get(TEST_ROWS):
            changes = [int(now) - int(then) for now, then in zip(correct, last, strict=True)]
            gain = Interval.of_rows(np.array(changes), lowest=-1.0)
        return cls(
            record["round"], record["requested"], price * record["requested"], share, gain, price * requested,
            record.get(DEFERRED),
        )  # fmt: skip


def round_gains(records: Sequence[Mapping[str, Any]], price: float) -> list[RoundGain]:
    return [RoundGain.of(before, record, price) for before, record in zip([None, *records], records, strict=False)]
