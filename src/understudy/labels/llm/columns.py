"""Labels as the columns of a file that ``understudy train`` reads, classes by their names.

Hard labels: ``teacher_label`` (empty: none) and ``teacher_confidence``. Top-k: ``teacher_topk_index`` (names, empty:
fewer classes listed), ``teacher_topk_prob`` and ``teacher_topk_tail``. Dense: ``teacher_probs``, by class name.
"""

from typing import Any

import numpy as np

from understudy.labels.forms import Hard, Labels, Soft
from understudy.labels.topk import TopK

Array = np.ndarray[Any, Any]


def label_columns(labels: Labels, classes: tuple[str, ...]) -> dict[str, Array]:
    # Class number −1 takes the last entry.
    names = np.array([*classes, ""], dtype=object)
    if isinstance(labels, TopK):
        indices = labels.indices.long()
        listed = indices >= 0
        unlisted = (len(classes) - listed.sum(1)) * listed.any(1)
        return {
            "teacher_topk_index": names[indices.numpy()],
            "teacher_topk_prob": np.ascontiguousarray((labels.probs * listed).numpy()),
            "teacher_topk_tail": (labels.rest * unlisted).numpy(),
        }
    if isinstance(labels, Soft):
        probs = labels.probs.numpy()
        by_name = np.empty(len(probs), dtype=[(name, probs.dtype) for name in classes])
        for number, name in enumerate(classes):
            by_name[name] = probs[:, number]
        return {"teacher_probs": by_name}
    assert isinstance(labels, Hard)
    columns: dict[str, Array] = {"teacher_label": names[labels.labels.numpy()]}
    if labels.given is not None:
        columns["teacher_confidence"] = labels.given.numpy()
    return columns
