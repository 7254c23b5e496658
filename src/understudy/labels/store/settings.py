"""What is fixed for all labels of a store (its classes, the form of the labels), and what can be an id in it."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from understudy.errors import UnderstudyError
from understudy.labels.llm.classes import checked_names
from understudy.labels.store.forms import FORMS
from understudy.labels.store.shards import list_shards
from understudy.store.files import read_json, write_json

SETTINGS = "store.json"
FORMAT = 1


def read_settings(folder: Path, classes: Sequence[str] | None, form: str | None) -> tuple[tuple[str, ...], str]:
    """Classes and form, as they are on the disk or else as given."""
    given = None if classes is None else checked_names(classes)
    if form is not None and form not in FORMS:
        raise UnderstudyError(f"form={form!r} is unknown; use one of {', '.join(FORMS)}")
    path = folder / SETTINGS
    if not path.exists():
        if list_shards(folder)[0]:
            raise UnderstudyError(f"{folder} holds shards but no {SETTINGS}; restore it from a backup")
        if given is None or form is None:
            raise UnderstudyError(f"there is no label store in {folder} yet; pass classes= and form= to start one")
        return given, form
    stored = read_json(path)
    if not isinstance(stored, dict) or stored.get("format") != FORMAT or stored.get("form") not in FORMS:
        raise UnderstudyError(f"{path} is not the description of a label store (format {FORMAT}); restore it")
    names = checked_names(stored.get("classes") or [])
    if given not in (None, names) or form not in (None, stored["form"]):
        raise UnderstudyError(
            f"{folder} holds {stored['form']} labels over {', '.join(names[:10])}, asked for were "
            f"{form or stored['form']} labels over {', '.join((given or names)[:10])}; use another folder, or the same "
            "classes in the same order"
        )
    return names, stored["form"]


def write_settings(folder: Path, classes: tuple[str, ...], form: str) -> None:
    if not (folder / SETTINGS).exists():
        write_json(folder / SETTINGS, {"format": FORMAT, "classes": list(classes), "form": form})


def checked_ids(ids: Any) -> list[Any]:
    """Ids as whole numbers or text, all of one kind."""
    kinds = {type(one) for one in ids} if isinstance(ids, list | tuple) else set()
    array = np.asarray(ids)
    if not array.size and array.ndim == 1:
        return []
    if array.ndim != 1 or array.dtype.kind not in "iuU" or (str in kinds and len(kinds) > 1):
        raise UnderstudyError("ids are whole numbers or text, one per row and all of one kind")
    names: list[Any] = array.tolist()
    try:
        if array.dtype.kind == "U":
            "".join(names).encode()
        else:
            np.asarray(names, dtype=np.int64)
    except (ValueError, OverflowError) as error:
        raise UnderstudyError("an id is no valid text or no 64-bit number; rename it") from error
    return names
