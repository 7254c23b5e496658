"""A new form of labels is a class and a line in a table: files, stores, trainings, audits and reports take it."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import understudy as us
from understudy.io.read import read_examples
from understudy.io.write import write_table
from understudy.labels.base import Column, Columns, ReadOptions
from understudy.labels.forms import COLUMNS, FORMS, named_columns
from understudy.labels.soft import Distribution
from understudy.report.figures import measure_teacher

NAMES = ["ape", "bee", "cat"]


class Candidates(Distribution):
    """``allowed (N, C)``: the classes a row may be of, each as likely as the others; a row without any has no label."""

    columns = (Column("teacher_candidates", "int8", 0, holds="number per class"),)
    form, title = "candidates", "candidate sets"

    def __init__(self, allowed: Any) -> None:
        self.allowed = torch.as_tensor(allowed).bool()
        self.classes = self.listed = self.allowed.shape[1]

    def __len__(self) -> int:
        return len(self.allowed)

    def probs_of(self, rows: slice | Tensor) -> Tensor:
        allowed = self.allowed[rows].double()
        return allowed / allowed.sum(1, keepdim=True).clamp(min=1)

    def take(self, rows: Tensor) -> "Candidates":
        return Candidates(self.allowed[rows])

    @classmethod
    def join(cls, parts: Sequence["Candidates"]) -> "Candidates":
        return cls(torch.cat([part.allowed for part in parts]))

    def to_columns(self) -> Columns:
        return {"teacher_candidates": self.allowed.to(torch.int8).numpy()}

    @classmethod
    def from_columns(cls, columns: Columns, options: ReadOptions) -> "Candidates":
        return cls(columns["teacher_candidates"] > 0)


@pytest.fixture(autouse=True)
def _listed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(FORMS, Candidates.form, Candidates)
    monkeypatch.setitem(COLUMNS, "teacher_candidates", Candidates.columns[0])


def _some(rows: int = 90) -> tuple[Tensor, Tensor, Candidates]:
    """The truth, and now and then another class; every 15th row has no label."""
    rng = np.random.default_rng(0)
    y = np.arange(rows) % 3
    allowed = (rng.random((rows, 3)) < 0.2) | np.eye(3, dtype=bool)[y]
    x = np.eye(3)[y] + 0.3 * rng.standard_normal((rows, 3))
    allowed[::15] = False
    return torch.tensor(x).float(), torch.tensor(y), Candidates(allowed)


@pytest.mark.parametrize("name", ["vanilla", "slam", "weighted", "confident", "forward", "fidelity"])
def test_it_trains(name: str) -> None:
    x, y, labels = _some()
    gold = us.Gold(x[:45], y[:45], labels.take(torch.arange(45))) + us.Gold(x[:1], y[:1], labels.take(torch.arange(1)))
    pool = us.Pool(x[45:], labels.take(torch.arange(45, 90)))
    run = us.train(us.models.linear(inputs=3, classes=3), gold, pool, us.METHODS[name](), epochs=1, progress=False)
    assert run.facts["pool_rows_without_label"] == 3 and np.isfinite(run.history[-1]["loss"])


def test_it_is_audited_and_shown() -> None:
    x, y, labels = _some()
    gold, pool = us.Gold(x, y, labels), us.Pool(x, labels)
    audit = us.audit(gold, pool, rows_wrong=0)
    assert audit.form == "candidate sets" and audit.pool_rows == 84 and audit.calibration is not None
    trust = measure_teacher(gold, pool)
    assert trust is not None and trust.estimate.alpha_steps is not None and trust.estimate.covariate == "margin"


def test_it_is_kept_in_a_store(tmp_path: Path) -> None:
    _, _, labels = _some()
    ids = np.arange(90)
    with us.LabelStore(tmp_path, NAMES, "candidates") as store:
        store.append(ids[:60], labels.take(torch.arange(60)))
    again = us.LabelStore(tmp_path)
    assert again.missing(ids).tolist() == list(range(60, 90))
    assert again.missing(ids[:60], unlabelled=True).tolist() == [0, 15, 30, 45]
    read = again.labels(ids)
    assert isinstance(read, Candidates)
    assert read.allowed[:60].equal(labels.allowed[:60]) and not bool(read.labelled()[60:].any())


def test_it_is_read_from_files(tmp_path: Path) -> None:
    x, y, labels = _some()
    columns = {"id": np.arange(90), "x": x.numpy()} | named_columns(labels, NAMES)
    write_table(tmp_path / "pool.parquet", columns)
    names = np.array(NAMES, dtype=object)[y[:30].numpy()]
    write_table(tmp_path / "gold.parquet", {"id": np.arange(30), "label": names})
    examples = read_examples(gold=tmp_path / "gold.parquet", pool=tmp_path / "pool.parquet")
    assert examples.pool is not None and isinstance(examples.pool.teacher, Candidates)
    assert examples.pool.teacher.allowed.equal(labels.allowed[30:])
    assert examples.gold is not None and len(examples.gold.calibration_rows()) == 28
