"""Files that are right, as lists of cells by column; how each kind of file is written; and what a right result is.

``must_refuse`` says, from the cells alone and without the library, that a file cannot be meant.
"""

import csv
import json
import math
import random
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch

from understudy.data.examples import Gold, Pool
from understudy.data.inputs import as_rows
from understudy.data.rows import Rows
from understudy.features.featuriser import FeatureOptions
from understudy.io.read import Examples

Cells = dict[str, list[Any]]
ROWS, GOLD = 12, 6
NAMES = ("neg", "neutral é", "pos")
SUFFIXES = (".parquet", ".csv", ".jsonl", ".npz")


@dataclass
class Sample:
    cells: Cells
    features: FeatureOptions = field(default_factory=FeatureOptions)
    classes: list[str] | None = None
    """What the user says of the classes, where the files do not tell their order."""


def good_sample(draw: random.Random, suffix: str) -> Sample:
    flat = suffix == ".csv"
    ids = [f"r{row:03}" for row in range(ROWS)] if draw.random() < 0.5 else list(range(100, 100 + ROWS))
    truth = [row % 3 for row in range(ROWS)]
    named = draw.random() < 0.4
    cells: Cells = {"id": ids, "label": [NAMES[label] for label in truth] if named else truth}
    request = FeatureOptions()
    kind = draw.choice(["x", "numbers", "text"]) if not flat else draw.choice(["numbers", "text"])
    if kind == "x":
        cells["x"] = [[round(draw.gauss(0, 1), 3) for _ in range(3)] for _ in ids]
    elif kind == "numbers":
        cells |= {name: [round(draw.gauss(0, 1), 3) for _ in ids] for name in ("width", "height")}
        cells["colour"] = [draw.choice(["red", "blue"]) for _ in ids]
    else:
        cells["text"] = [" ".join(draw.choices(["good", "bad", "film", "naïve"], k=4)) for _ in ids]
        request = FeatureOptions(text="text")
    cells |= _teacher(draw, truth, named=named, flat=flat)
    listed = isinstance(cells.get("teacher_probs", [None])[0], list)
    return Sample(cells, request, list(NAMES) if named and listed else None)


def _teacher(draw: random.Random, truth: list[int], *, named: bool, flat: bool) -> Cells:
    said = [draw.randrange(3) for _ in truth]
    words: list[Any] = [NAMES[label] for label in said] if named else list(said)
    probs = [[0.7 if place == label else 0.15 for place in range(3)] for label in said]
    keys = NAMES if named else ("0", "1", "2")
    form = draw.choice(["label", "confidence", "probs", "by name", "topk", "votes"])
    if form == "label":
        return {"teacher_label": words}
    if form == "confidence":
        return {"teacher_label": words, "teacher_confidence": [round(draw.random(), 3) for _ in truth]}
    if form == "votes" or (form == "topk" and flat):
        votes = [[word, word, draw.choice(words)] for word in words]
        if flat:
            return {f"teacher_vote_{place}": [row[place] for row in votes] for place in range(3)}
        return {"teacher_votes": votes}
    if form == "topk":
        others: list[Any] = [NAMES[(label + 1) % 3] if named else (label + 1) % 3 for label in said]
        pairs = [list(pair) for pair in zip(words, others, strict=True)]
        return {"teacher_topk_index": pairs, "teacher_topk_prob": [[0.7, 0.2]] * len(pairs)}
    if flat:
        return {f"teacher_prob_{key}": [row[place] for row in probs] for place, key in enumerate(keys)}
    if form == "by name" and named:
        return {"teacher_probs": [dict(zip(keys, row, strict=True)) for row in probs]}
    return {"teacher_probs": probs}


def write_cells(path: Path, cells: Cells) -> None:
    if path.suffix == ".csv":
        with path.open("w", newline="", encoding="utf-8", errors="surrogatepass") as file:
            writer = csv.writer(file)
            writer.writerow(cells)
            writer.writerows(zip(*cells.values(), strict=True))
    elif path.suffix == ".jsonl":
        rows = [dict(zip(cells, row, strict=True)) for row in zip(*cells.values(), strict=True)]
        path.write_text("".join(json.dumps(row, default=str) + "\n" for row in rows))
    elif path.suffix == ".parquet":
        pq.write_table(pa.table({name: _arrow(column) for name, column in cells.items()}), path)
    else:
        arrays: dict[str, Any] = {name: _numpy(column) for name, column in cells.items()}
        np.savez(path, **arrays)


def _arrow(column: list[Any]) -> Any:
    """As Arrow has it; mixed kinds of cells, and objects without keys, which Parquet cannot hold, as text."""
    try:
        if {} not in column:
            return pa.array(column)
    except (pa.ArrowException, OverflowError, UnicodeEncodeError):
        pass
    return pa.array([ascii(cell) for cell in column])


def _numpy(column: list[Any]) -> Any:
    if column and all(isinstance(cell, dict) for cell in column):
        return np.array([tuple(cell.values()) for cell in column], dtype=[(str(key), "f8") for key in column[0]])
    try:
        return np.array(column)
    except ValueError:
        return np.array(column, dtype=object)


def must_refuse(cells: Cells, *, as_gold: bool, flat: bool = False) -> str | None:
    """Why a file with these cells cannot be meant, where that is beyond doubt. ``flat``: CSV, where a list is text."""
    if not cells or not all(cells.values()):
        return "no rows"
    ids = cells.get("id", [])
    if any(cell is None or cell == "" for cell in ids) or len(set(map(repr, ids))) < len(ids):
        return "empty or repeated ids"
    for name in () if flat else ("x", "teacher_probs"):
        rows = cells.get(name, [])
        if len({len(row) if isinstance(row, list | dict) else -1 for row in rows}) > 1:
            return f"{name} of uneven length"
        values = [value for row in rows for value in (row.values() if isinstance(row, dict) else row or [])]
        # Lists of lists are rows of more axes.
        plain = [value for value in values if not isinstance(value, list)]
        if not all(isinstance(value, int | float) and math.isfinite(value) for value in plain):
            return f"{name} holds something else than numbers"
    if any(not math.isclose(sum(map(float, row)), 1, abs_tol=0.01) for row in _lists(cells.get("teacher_probs"))):
        return "probabilities that do not sum to 1"
    for name in ("width", "height"):
        if any(isinstance(cell, float) and math.isinf(cell) for cell in cells.get(name, [])):
            return f"infinity in {name}"
    labels = [*cells.get("teacher_label", []), *(cells.get("label", []) if as_gold else [])]
    if flat and not all(isinstance(cell, int | float) for cell in labels):
        labels = []
    numbers = [cell for cell in labels if isinstance(cell, int | float) and not isinstance(cell, bool)]
    if any(not math.isfinite(cell) or cell < -1 or cell != int(cell) for cell in numbers):
        return "labels that are no classes"
    if as_gold and ("label" not in cells or any(cell in (None, "", -1) for cell in cells["label"])):
        return "gold without labels"
    return None


def _lists(rows: list[Any] | None) -> list[list[Any]]:
    return [row for row in rows or [] if isinstance(row, list)]


def check_examples(examples: Examples) -> None:
    """Everything that training will rely on."""
    labelled = examples.gold is not None or (examples.pool is not None and examples.pool.teacher is not None)
    classes = examples.classes if labelled else 2
    if examples.class_names is not None:
        assert classes == len(set(examples.class_names)) and all(examples.class_names)
    for part in (examples.gold, examples.pool, examples.test, examples.select):
        if part is not None:
            _check_part(part, max(classes, 2), examples.shape)


def _check_part(part: Gold | Pool, classes: int, shape: tuple[int, ...]) -> None:
    assert len(part) == len(part.rows) > 0
    batch = part.rows.take(torch.arange(len(part)))
    assert batch.shape == (len(part), *shape), f"{tuple(batch.shape)}, announced as {shape}"
    assert not batch.is_floating_point() or bool(batch.isfinite().all()), "features are not finite"
    if part.ids is not None:
        assert len(part.ids) == len(part) == len(set(part.ids.tolist())), "ids are not one per row"
    if isinstance(part, Gold):
        assert len(part.y) == len(part) and int(part.y.min()) >= 0 and int(part.y.max()) < classes
    if part.teacher is not None:
        said = part.teacher.labelled().nonzero().squeeze(1)
        dense = part.teacher.dense(said, classes).double()
        assert bool(dense.isfinite().all()) and bool((dense >= 0).all())
        assert bool(((dense.sum(1) - 1).abs() < 5e-3).all()), "the teacher's labels do not sum to 1"


def check_rows(x: Any) -> None:
    rows: Rows = as_rows(x, "x")
    batch = rows.take(torch.arange(len(rows)))
    assert bool(batch.isfinite().all())
