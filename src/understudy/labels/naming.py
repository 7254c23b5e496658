"""Classes by name: words become class numbers, in an order that is kept and checked, never guessed from positions.

    us.Gold(x, ["pos", "neg"], teacher=frame[["pos", "neg"]])        # the alphabet's order: neg, pos
    us.Pool(x, ["pos", None], classes=("neg", "pos"))                # or the one that is given

What has names (words, a frame's columns) is matched by them. What has none (bare arrays) stands in the order of
``classes=``; without it, beside names, it is refused: nobody could say which column is which class.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from understudy.errors import UnderstudyError
from understudy.labels.base import Labels
from understudy.labels.forms import as_labels
from understudy.labels.hard import Hard
from understudy.labels.soft import Soft
from understudy.labels.words import as_words, checked_names, numbers_of
from understudy.store.arrow import Array
from understudy.store.frames import as_frame

PREFIX = Soft.columns[0].prefix or ""


@dataclass(frozen=True)
class Naming:
    """How a set's classes are called; no names: by number."""

    names: tuple[str, ...] | None = None
    given: bool = False
    """Whether the user said the order; else it is the alphabet's."""


def check_same_naming(one: Naming | None, other: Naming | None, what: str, another: str) -> None:
    """Two sets that meet: class 0 of one is class 0 of the other. None: a set that our own code made."""
    if one is None or other is None or one.names == other.names:
        return
    if one.names is not None and other.names is not None:
        raise UnderstudyError(
            f"{what}'s classes are {_listed(one.names)}, {another}'s {_listed(other.names)}; pass the same "
            "classes=(…), all names in order, to both"
        )
    named, (by_name, by_number) = (one, (what, another)) if one.names is not None else (other, (another, what))
    if not named.given:
        raise UnderstudyError(
            f"{by_name} names its classes, {by_number} numbers them, and nobody says in which order; pass "
            f"classes={named.names} to {by_name}, in the order of the numbers"
        )


def joint_naming(one: Naming | None, other: Naming | None) -> Naming | None:
    """Of two sets that may meet: the names that one of them has."""
    return one if one is not None and one.names is not None else other or one


def read_named(y: Any, teacher: Any, classes: Any, name: str) -> tuple[Any, Labels | None, Naming]:
    """A set's labels (``y``, None in a pool) and its teacher's over class numbers, and how the classes are called."""
    given = None if classes is None else checked_names(classes, f"{name}: classes=")
    truth = None if y is None else as_words(y)
    said = _said(teacher, f"{name}.teacher")
    parts = {f"{name}.y": truth} if y is not None else {}
    parts |= {} if teacher is None else {f"{name}.teacher": said}
    names = given or _found_names(parts)
    if names is None:
        labels = _in_order(said, None, f"{name}.teacher") if isinstance(said, Mapping) else teacher
        return y, None if teacher is None else as_labels(labels, f"{name}.teacher"), Naming()
    if given is None and any(part is None for part in parts.values()):
        bare = next(where for where, part in parts.items() if part is None)
        raise UnderstudyError(
            f"{bare} has no names, the other labels have; say which class comes first: classes={names}"
        )
    if truth is not None:
        y = numbers_of(truth, names, f"{name}.y")
    return y, _numbered(teacher, said, names, f"{name}.teacher"), Naming(names, given is not None)


def _said(teacher: Any, where: str) -> Any:
    """A teacher's word by name: columns by class, words, the names of a form; None where it has no names."""
    if isinstance(teacher, Labels):
        return teacher.names
    if (frame := as_frame(teacher)) is None:
        return as_words(teacher)
    odd = [name for name in frame.names if name.startswith("teacher_") and not name.startswith(PREFIX)]
    if odd:
        raise UnderstudyError(f"{where} has a column {odd[0]!r}; whole tables are read by us.read_examples(…)")
    return {name.removeprefix(PREFIX): frame.column(name) for name in frame.names}


def _found_names(parts: Mapping[str, Any]) -> tuple[str, ...] | None:
    """Every name that occurs, by the alphabet; columns "0", "1" beside numbers are numbers after all."""
    for where, part in parts.items():
        if isinstance(part, tuple):
            # A form was told the classes in their order, and is over their numbers.
            _check_known(parts, part, where)
            return part
    words: set[str] = set()
    for part in parts.values():
        if part is not None:
            words |= set(part) if isinstance(part, Mapping) else set(part.reshape(-1).tolist())
    words -= {""}
    only_columns = not any(isinstance(part, np.ndarray) for part in parts.values())
    if not words or (only_columns and all(word.isascii() and word.isdigit() for word in words)):
        return None
    return checked_names(tuple(sorted(words)), next(iter(parts)))


def _check_known(parts: Mapping[str, Any], names: tuple[str, ...], where: str) -> None:
    for other, part in parts.items():
        if isinstance(part, tuple) and part != names:
            raise UnderstudyError(f"{where} is over the classes {_listed(names)}, {other} over {_listed(part)}")


def _numbered(teacher: Any, said: Any, names: tuple[str, ...], where: str) -> Labels | None:
    if teacher is None:
        return None
    if isinstance(said, Mapping):
        return Soft(_in_order(said, names, where), where=where)
    if isinstance(said, np.ndarray):
        return Hard(numbers_of(said, names, where, missing=True), classes=len(names), where=where)
    if isinstance(said, tuple) and said != names:
        raise UnderstudyError(f"{where} is over the classes {_listed(said)}, not {_listed(names)}; use one order")
    labels = as_labels(teacher, where)
    if labels.classes not in (None, len(names)):
        raise UnderstudyError(f"{where} knows {labels.classes} classes, {len(names)} are named ({_listed(names)})")
    return labels if labels.classes is not None else labels.with_classes(len(names))


def _in_order(columns: Mapping[str, Any], names: tuple[str, ...] | None, where: str) -> Array:
    """Columns of probabilities by class, side by side in the order of the classes."""
    names = names or tuple(map(str, range(len(columns))))
    if set(columns) != set(names) or not columns:
        raise UnderstudyError(
            f"{where} has the columns {_listed(tuple(columns))}, the classes are {_listed(names)}; give one for each"
        )
    for name, column in columns.items():
        if not (pa.types.is_floating(column.type) or pa.types.is_integer(column.type)) or column.null_count:
            held = "an empty cell" if column.null_count else str(column.type)
            raise UnderstudyError(f"{where}: column {name!r} holds {held}; it is the probability of a class")
    return np.stack([np.asarray(columns[name].to_numpy(), dtype=np.float64) for name in names], axis=1)


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:8]) + (" …" if len(names) > 8 else "")
