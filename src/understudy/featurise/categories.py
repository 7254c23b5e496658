"""Columns with few distinct values, one-hot: a place for every value seen in training, all 0 for any other.

colour: blue, red  ->  red = (0, 1), blue = (1, 0), green = (0, 0) and a warning that counts them

An empty cell is a value of its own: that something is not known often says something.
"""

import warnings
from typing import Any, Self

import numpy as np

from understudy.errors import UnderstudyError, UnderstudyWarning
from understudy.featurise.part import Part
from understudy.featurise.raw import Raw, describe, kind_of
from understudy.store.arrow import Array


class Categories(Part):
    kind = "categories"

    def __init__(self, known: dict[str, list[str]]) -> None:
        self.known, self.names = known, tuple(known)

    @classmethod
    def fit(cls, raw: Raw, names: tuple[str, ...], *, limit: int) -> Self:
        known = {}
        for name in names:
            distinct = sorted(set(_texts(raw, name)))
            if len(distinct) > limit:
                raise UnderstudyError(
                    f"{raw.at(name)} holds {len(distinct)} distinct values, more than the {limit} of a category; "
                    "use it as the text (--text), or leave it out"
                )
            known[name] = distinct
        return cls(known)

    @property
    def shape(self) -> tuple[int, ...]:
        return (sum(map(len, self.known.values())),)

    def __call__(self, raw: Raw) -> Array:
        rows = len(raw[self.names[0]])
        block = np.zeros((rows, *self.shape), dtype=np.float32)
        start = 0
        for name, known in self.known.items():
            place = {value: start + number for number, value in enumerate(known)}
            texts = _texts(raw, name)
            found = np.fromiter((place.get(text, -1) for text in texts), dtype=np.int64, count=rows)
            seen = np.flatnonzero(found >= 0)
            block[seen, found[seen]] = 1
            if len(seen) < rows:
                first = int((found < 0).argmax())
                warnings.warn(
                    f"{raw.at(name)}: {rows - len(seen)} of {rows} rows hold a value that training did not know "
                    f"(row {first}: {texts[first]!r}); they count as none of the known ones",
                    UnderstudyWarning,
                    stacklevel=2,
                )
            start += len(known)
        return block

    def values(self) -> dict[str, Any]:
        return {"known": [[name, known] for name, known in self.known.items()]}

    @classmethod
    def restore(cls, values: dict[str, Any], arrays: dict[str, Array]) -> Self:
        return cls({str(name): [str(value) for value in known] for name, known in values["known"]})


def _texts(raw: Raw, name: str) -> list[str]:
    """The values as texts; ``True`` and ``False`` are two of them."""
    column = raw[name]
    if kind_of(column) == "flags":
        return [str(value) for value in column.tolist()]
    if column.dtype.kind in "iuf":
        raise UnderstudyError(f"{raw.at(name)} holds {describe(column)}; a category is written as text")
    return raw.categories(name)
