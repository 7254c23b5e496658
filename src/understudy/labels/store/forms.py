"""Label forms as named columns and back, for the label store: what the columns of a shard hold."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from understudy.data.checks import check_length
from understudy.errors import UnderstudyError
from understudy.labels.forms import Hard, Labels, Soft, as_labels
from understudy.labels.topk import TopK

Array = np.ndarray[Any, Any]
Columns = dict[str, Array]

FORMS = ("dense", "hard", "hard_confidence", "topk")


def to_columns(labels: Any, rows: int, form: str, classes: tuple[str, ...]) -> Columns:
    """Checked labels of any kind, if they are of this form."""
    if form.startswith("hard") and not isinstance(labels, Labels):
        labels = _numbered(labels, classes)
    given = as_labels(labels, "the labels")
    check_length(len(given), rows, "the labels", "ids")
    if given.classes is not None and given.classes != len(classes):
        raise UnderstudyError(f"the labels are over {given.classes} classes, the store's over {len(classes)}")
    kind = _form_of(given)
    if kind != form:
        raise UnderstudyError(f"the labels are of form {kind!r}, the store holds {form!r}; use another store for them")
    if isinstance(given, Soft):
        return {"teacher_probs": given.probs.float().cpu().numpy()}
    if isinstance(given, TopK):
        listed = given.indices >= 0
        tail = given.rest.double() * (len(classes) - listed.sum(1)) * listed[:, 0]
        return {
            "teacher_topk_index": np.ascontiguousarray(given.indices.int().numpy()),
            "teacher_topk_prob": np.ascontiguousarray((given.probs * listed).float().numpy()),
            "teacher_topk_tail": tail.float().numpy(),
        }
    assert isinstance(given, Hard)
    # The range is checked once more, against the store's classes.
    named = Hard(given.labels, given.given, classes=len(classes), where="the labels")
    columns: Columns = {"teacher_label": named.labels.int().numpy()}
    if named.given is not None:
        columns["teacher_confidence"] = torch.where(named.labels < 0, torch.nan, named.given).numpy()
    return columns


def _numbered(labels: Any, classes: tuple[str, ...]) -> Any:
    """Class names as class numbers; None means no label."""
    if not isinstance(labels, Sequence | np.ndarray) or not any(isinstance(one, str) for one in labels):
        return labels
    number = {name: place for place, name in enumerate(classes)}
    unknown = [one for one in labels if one is not None and one not in number]
    if unknown:
        raise UnderstudyError(f"the labels name {unknown[0]!r}, which is not among the store's classes")
    return np.array([-1 if one is None else number[one] for one in labels], dtype=np.int64)


def _form_of(labels: Labels) -> str:
    if isinstance(labels, Hard):
        return "hard" if labels.given is None else "hard_confidence"
    return {Soft: "dense", TopK: "topk"}.get(type(labels), type(labels).__name__)


def from_columns(columns: Columns, form: str, classes: int) -> Labels:
    """The labels of rows as ``blank`` and ``fill`` made them; dense ones with gaps come as top-k of all classes."""
    if form == "dense":
        probs = torch.from_numpy(columns["teacher_probs"])
        gaps = probs[:, 0].isnan()
        if not bool(gaps.any()):
            return Soft(probs)
        indices = torch.where(gaps[:, None], -1, torch.arange(classes))
        return TopK(indices, probs.nan_to_num(nan=0.0), classes)
    if form == "topk":
        index, prob, tail = (columns[f"teacher_topk_{name}"] for name in ("index", "prob", "tail"))
        return TopK(index, prob, classes, tail)
    return Hard(columns["teacher_label"], columns.get("teacher_confidence"), classes=classes)


def blank(rows: int, form: str, classes: int, depth: int) -> Columns:
    """Rows without a label."""
    if form == "dense":
        return {"teacher_probs": np.full((rows, classes), np.nan, dtype=np.float32)}
    if form == "topk":
        return {
            "teacher_topk_index": np.full((rows, depth), -1, dtype=np.int32),
            "teacher_topk_prob": np.zeros((rows, depth), dtype=np.float32),
            "teacher_topk_tail": np.zeros(rows, dtype=np.float32),
        }
    columns: Columns = {"teacher_label": np.full(rows, -1, dtype=np.int32)}
    if form == "hard_confidence":
        columns["teacher_confidence"] = np.full(rows, np.nan)
    return columns


def fill(into: Columns, rows: Array, source: Columns, taken: Array) -> None:
    """Copy rows ``taken`` of one set of columns to ``rows`` of another, which is as deep or deeper."""
    for name, column in source.items():
        if column.ndim == 2:
            into[name][rows, : column.shape[1]] = column[taken]
        else:
            into[name][rows] = column[taken]


def depth_of(columns: Columns) -> int:
    return columns["teacher_topk_index"].shape[1] if "teacher_topk_index" in columns else 1


def pad(one: Columns, other: Columns) -> tuple[Columns, Columns]:
    """Top-k lists of both as deep as the deeper ones; other forms as they are."""
    depth = max(depth_of(one), depth_of(other))

    def deepened(columns: Columns) -> Columns:
        if depth_of(columns) == depth:
            return columns
        extra = ((0, 0), (0, depth - depth_of(columns)))
        index, prob = columns["teacher_topk_index"], columns["teacher_topk_prob"]
        return columns | {
            "teacher_topk_index": np.pad(index, extra, constant_values=-1),
            "teacher_topk_prob": np.pad(prob, extra),
        }

    return deepened(one), deepened(other)


def unlabelled(columns: Columns) -> Array:
    """Which rows say "asked, and no answer"."""
    if "teacher_topk_index" in columns:
        return np.asarray(columns["teacher_topk_index"][:, 0] < 0)
    if "teacher_label" in columns:
        return np.asarray(columns["teacher_label"] < 0)
    return np.asarray(np.isnan(columns["teacher_probs"][:, 0]))


def same_rows(one: Columns, other: Columns) -> Array:
    """Row by row, whether two sets of columns of one depth say the same."""
    same = np.ones(len(next(iter(one.values()))), dtype=bool)
    for name, column in one.items():
        equal = (column == other[name]) | ((column != column) & (other[name] != other[name]))
        same &= equal if equal.ndim == 1 else equal.all(1)
    return same
