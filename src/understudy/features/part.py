"""One part of the features: some raw columns, one way to turn them into numbers.

A kind of part is one class, entered in ``PARTS`` of ``featuriser.py``. It is fitted once on training rows, then only
applied; what it learned is plain values and arrays, so that it can be stored without pickle.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

import numpy as np

from understudy.data.checks import describe
from understudy.data.rows import Rows
from understudy.errors import UnderstudyError
from understudy.store.arrow import Array

if TYPE_CHECKING:
    from scipy import sparse


@dataclass(frozen=True)
class RawColumns:
    """Columns as they come from a file, and where they came from, for the messages."""

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
        column = f"{self.where}: column {name!r}"
        return column if row is None else f"{column} row {row}"

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
        if column.dtype.kind == "O" and not {str, np.str_}.issuperset(map(type, texts)):
            odd = next(row for row, text in enumerate(texts) if not isinstance(text, str))
            held = "nothing" if texts[odd] is None else f"a {type(texts[odd]).__name__}"
            raise UnderstudyError(f"{self.at(name, odd)} holds {held}, not a text; fill it in or remove the row")
        return texts

    def categories(self, name: str) -> list[str]:
        """Texts of which some may be missing: an empty cell is a value like another, as it is in CSV."""
        column = self[name]
        if column.ndim == 1 and column.dtype.kind == "O":
            return RawColumns({name: np.where(column == None, "", column)}, self.where).texts(name)  # noqa: E711
        return self.texts(name)


def column_kind(column: Array) -> str:
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


Block: TypeAlias = "Array | sparse.csr_matrix[Any] | Rows"
"""A part's numbers for some rows. Sparse blocks and arrays of two axes can stand side by side."""


class Part(ABC):
    """A dataclass whose fields are what was learned: plain values, and arrays that are stored apart from them."""

    kind: ClassVar[str]
    names: tuple[str, ...]
    """The columns it reads."""
    shape: tuple[int, ...]
    """Of one row."""

    @abstractmethod
    def __call__(self, raw: RawColumns) -> Block: ...

    def learned(self) -> tuple[dict[str, Any], dict[str, Array]]:
        """``(values, arrays)``, from which ``cls(**values, **arrays)`` is the part again."""
        given = {field.name: getattr(self, field.name) for field in fields(self)}  # type: ignore[arg-type]
        arrays = {name: value for name, value in given.items() if isinstance(value, np.ndarray)}
        return {name: value for name, value in given.items() if name not in arrays}, arrays
