"""Raw columns as they come from a file, and where they came from, for the messages."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from understudy.errors import UnderstudyError
from understudy.store.arrow import Array


@dataclass(frozen=True)
class Raw:
    columns: Mapping[str, Array]
    where: str
    """The file, as messages name it."""
    folder: Path = Path()
    """What relative paths of images are relative to."""

    def __getitem__(self, name: str) -> Array:
        if name not in self.columns:
            raise UnderstudyError(f"{self.where} has no column {name!r}, which is a feature; add it")
        column: Any = self.columns[name]
        # Arrow's arrays tell their numbers, but not their texts, to np.asarray without a copy to fixed width.
        return column if isinstance(column, np.ndarray) else np.asarray(column.to_numpy(zero_copy_only=False))

    def at(self, name: str, row: int | None = None) -> str:
        place = f"{self.where}: column {name!r}"
        return place if row is None else f"{place} row {row}"

    def numbers(self, name: str) -> Array:
        column = self[name]
        if column.dtype.kind not in "biuf":
            raise UnderstudyError(f"{self.at(name)} holds {describe(column)}; it must hold numbers")
        return column

    def texts(self, name: str) -> list[str]:
        column = self[name]
        if column.ndim != 1 or column.dtype.kind not in "UTO":
            raise UnderstudyError(f"{self.at(name)} holds {describe(column)}; it must hold one text per row")
        texts: list[str] = column.tolist()
        if column.dtype.kind == "O":
            odd = next((row for row, text in enumerate(texts) if not isinstance(text, str)), None)
            if odd is not None:
                held = "nothing" if texts[odd] is None else f"a {type(texts[odd]).__name__}"
                raise UnderstudyError(f"{self.at(name, odd)} holds {held}, not a text; fill it in or remove the row")
        return texts

    def categories(self, name: str) -> list[str]:
        """Texts of which some may be missing: an empty cell is a value like another, as it is in CSV."""
        column = self[name]
        if column.ndim == 1 and column.dtype.kind == "O":
            return Raw({name: np.where(column == None, "", column)}, self.where).texts(name)  # noqa: E711
        return self.texts(name)


def is_reserved(name: str) -> bool:
    """Whether a column's name has a meaning of its own, so that it is never a feature."""
    return name in ("id", "label") or name.startswith("teacher_")


def kind_of(column: Array) -> str:
    """``array``, ``flags``, ``numbers``, ``texts`` or ``other``."""
    kind = column.dtype.kind
    if column.ndim > 1:
        return "array" if kind in "biuf" else "other"
    if kind == "O":
        some = [value for value in column[:100].tolist() if value is not None]
        # Columns that begin with a hundred empty cells are rare.
        some = some or [value for value in column.tolist() if value is not None][:100]
        return "texts" if some and all(isinstance(value, str) for value in some) else "other"
    return {"b": "flags", "i": "numbers", "u": "numbers", "f": "numbers", "U": "texts", "T": "texts"}.get(kind, "other")


def describe(column: Array) -> str:
    if column.ndim > 1:
        return f"arrays of {column.dtype}"
    if kind_of(column) == "texts":
        return "texts"
    kinds = {"b": "true or false", "i": "whole numbers", "u": "whole numbers", "f": "fractions", "M": "dates"}
    return kinds.get(column.dtype.kind, "objects" if column.dtype == object else f"{column.dtype} values")
