"""Words as class numbers.

names = checked_names(("neg", "pos"), "classes")
numbers_of(as_words(["pos", None]), names, "teacher", missing=True)           # [1, −1]
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from understudy.data.checks import check_class_count
from understudy.errors import UnderstudyError
from understudy.store.arrow import Array
from understudy.store.frames import as_column


def checked_names(classes: Any, where: str) -> tuple[str, ...]:
    """Names of classes in their order: two or more, each once."""
    names = listed_names(classes, where)
    if not all(names) or len(set(names)) < len(names) or len(names) < 2:
        raise UnderstudyError(f"{where} is {list(names)}; name two classes or more, each once, as text")
    return names


def listed_names(classes: Any, where: str) -> tuple[str, ...]:
    """A list of texts."""
    words = None if isinstance(classes, str) else as_words(classes)
    if words is None or words.ndim != 1:
        raise UnderstudyError(f"{where} is {classes!r}; it lists the names of the classes in their order")
    return tuple(words.tolist())


def as_words(values: Any) -> Array | None:
    """Words as an object array of any shape, "" where there is none; None where the values are no words."""
    column = as_column(values)
    if column is not None:
        kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
        if not (pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)):
            return None
        values = column.to_pylist()
    if isinstance(values, np.ndarray) and values.dtype.kind not in "UTO":
        return None
    if not isinstance(values, list | tuple | np.ndarray):
        return None
    first: Any = values
    while isinstance(first, list | tuple) and first:
        first = first[0]
    if isinstance(first, int | float | np.generic) and first == first and not isinstance(first, str):
        return None
    words = np.asarray(values, dtype=object)
    flat = [_word(value) for value in words.reshape(-1).tolist()]
    if not any(flat) or None in flat:
        return None
    array = np.empty(len(flat), dtype=object)
    array[:] = flat
    return array.reshape(words.shape)


def _word(value: Any) -> str | None:
    """ "" for no word, None for what cannot be one."""
    if isinstance(value, str):
        return str(value)
    return "" if value is None or value != value else None


def numbers_of(words: Array, names: tuple[str, ...], where: str, *, missing: bool = False) -> Array:
    """Class numbers; ``missing``: −1 where there is no word, which else is an error."""
    distinct, inverse = np.unique(words.reshape(-1).astype(str), return_inverse=True)
    known = {name: number for number, name in enumerate(names)} | ({"": -1} if missing else {})
    numbers = np.array([known.get(word, -2) for word in distinct.tolist()])[inverse]
    if (numbers == -2).any():
        place = int((numbers == -2).argmax())
        row, word = place // max(1, words[:1].size), words.reshape(-1)[place]
        if not word:
            raise UnderstudyError(f"{where} row {row} is empty; write its class")
        listed = ", ".join(names[:8]) + (" …" if len(names) > 8 else "")
        raise UnderstudyError(f"{where} row {row} is {word!r}, which is not one of the classes ({listed}); correct it")
    return numbers.reshape(words.shape)


def numbered(values: Any, classes: Any, where: str) -> tuple[Any, int | None, tuple[str, ...] | None]:
    """What a form of labels was given, over class numbers; how many classes there are, and their names where
    ``classes`` lists them."""
    words = as_words(values)
    if classes is None or isinstance(classes, int | np.integer) or not isinstance(classes, Sequence | np.ndarray):
        if words is not None:
            raise UnderstudyError(f"{where} holds words; list the classes in their order: classes=('neg', 'pos')")
        return values, None if classes is None else check_class_count(classes, where), None
    names = checked_names(classes, f"{where}: classes=")
    return (values if words is None else numbers_of(words, names, where, missing=True)), len(names), names
