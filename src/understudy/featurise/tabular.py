"""The plain columns of a table as features: arrays as they are, numbers scaled, categories one-hot."""

import warnings
from typing import Any, Self

import numpy as np

from understudy.data.checks import describe
from understudy.errors import UnderstudyError, UnderstudyWarning
from understudy.featurise.part import Part, RawColumns, column_kind
from understudy.store.arrow import Array


class Arrays(Part):
    """Arrays that are features already (``x``): passed through as they are, memory maps and float16 included."""

    kind = "array"

    def __init__(self, name: str, shape: tuple[int, ...]) -> None:
        self.names, self._shape = (name,), shape

    @classmethod
    def fit(cls, raw: RawColumns, name: str) -> Self:
        return cls(name, raw.numbers(name).shape[1:])

    @property
    def shape(self) -> tuple[int, ...]:
        return self._shape

    def __call__(self, raw: RawColumns) -> Array:
        (name,) = self.names
        column = raw.numbers(name)
        if column.shape[1:] != self._shape:
            raise UnderstudyError(
                f"{raw.at(name)} has rows of shape {column.shape[1:]}, but {self._shape} in training; they must agree"
            )
        return column

    def values(self) -> dict[str, Any]:
        return {"name": self.names[0], "shape": list(self._shape)}

    @classmethod
    def restore(cls, values: dict[str, Any], arrays: dict[str, Array]) -> Self:
        return cls(str(values["name"]), tuple(int(side) for side in values["shape"]))


class Numbers(Part):
    """Columns of numbers, brought to mean 0 and deviation 1 over the training rows: (value − mean) / deviation.

    A column that was constant in training becomes 0 everywhere: nothing could be learned from it. Statistics are taken
    in float64 (times in seconds since 1970 differ in their last digits), the result is float32.
    """

    kind = "numbers"

    def __init__(self, names: tuple[str, ...], mean: Array, deviation: Array, *, scale: bool, missing: str) -> None:
        if not len(names) == len(mean) == len(deviation):
            raise ValueError("one mean and one deviation per column")
        self.names, self.mean, self.deviation = names, mean, deviation
        self.scale, self.missing = scale, missing

    @classmethod
    def fit(cls, raw: RawColumns, names: tuple[str, ...], *, scale: bool, missing: str) -> Self:
        mean, deviation = np.zeros(len(names)), np.zeros(len(names))
        for number, name in enumerate(names):
            column = _checked(raw, name, missing)
            column = column[~np.isnan(column)]
            if not len(column):
                raise UnderstudyError(f"{raw.at(name)} holds no number at all; leave the column out")
            # A constant column's computed deviation is rounding error, not always 0.
            constant = column.min() == column.max()
            with np.errstate(over="ignore"):
                mean[number] = column[0] if constant else column.mean()
                deviation[number] = 0.0 if constant else column.std()
            if not np.isfinite(deviation[number]):
                raise UnderstudyError(f"{raw.at(name)} holds numbers too large to scale; take their logarithms")
        return cls(names, mean, deviation, scale=scale, missing=missing)

    @property
    def shape(self) -> tuple[int, ...]:
        return (len(self.names),)

    def __call__(self, raw: RawColumns) -> Array:
        block = np.empty((len(raw[self.names[0]]), len(self.names)), dtype=np.float32)
        for number, name in enumerate(self.names):
            column = _checked(raw, name, self.missing)
            if self.missing == "mean":
                column = np.where(np.isnan(column), self.mean[number], column)
            if self.scale:
                deviation = self.deviation[number]
                column = (column - self.mean[number]) / deviation if deviation > 0 else np.zeros(len(column))
            with np.errstate(over="ignore"):
                block[:, number] = column
            large = np.isinf(block[:, number])
            if large.any():
                raise UnderstudyError(f"{raw.at(name, int(large.argmax()))} is too large for float32; scale the column")
        return block

    def values(self) -> dict[str, Any]:
        return {"names": list(self.names), "scale": self.scale, "missing": self.missing}

    def arrays(self) -> dict[str, Array]:
        return {"mean": self.mean, "deviation": self.deviation}

    @classmethod
    def restore(cls, values: dict[str, Any], arrays: dict[str, Array]) -> Self:
        names = tuple(str(name) for name in values["names"])
        return cls(names, arrays["mean"], arrays["deviation"], scale=values["scale"], missing=values["missing"])


def _checked(raw: RawColumns, name: str, missing: str) -> Array:
    """The column in float64; NaN only where it is allowed, infinity nowhere."""
    column = raw.numbers(name)
    if column.ndim != 1:
        raise UnderstudyError(f"{raw.at(name)} holds arrays; it held one number per row in training")
    column = column.astype(np.float64)
    bad = np.isinf(column) if missing == "mean" else ~np.isfinite(column)
    if bad.any():
        row = int(bad.argmax())
        held = "infinity" if np.isinf(column[row]) else "no number (NaN)"
        cure = 'fill it in, remove the row, or ask for missing="mean"' if held != "infinity" else "remove the row"
        raise UnderstudyError(f"{raw.at(name, row)} holds {held}; {cure}")
    return column


class Categories(Part):
    """Columns with few distinct values, one-hot: a column for every value seen in training, all 0 for any other.

    colour: blue, red  ->  red = (0, 1), blue = (1, 0), green = (0, 0) and a warning that counts them

    An empty cell is a value of its own: that something is not known often says something.
    """

    kind = "categories"

    def __init__(self, known: dict[str, list[str]]) -> None:
        self.known, self.names = known, tuple(known)

    @classmethod
    def fit(cls, raw: RawColumns, names: tuple[str, ...], *, limit: int) -> Self:
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

    def __call__(self, raw: RawColumns) -> Array:
        rows = len(raw[self.names[0]])
        block = np.zeros((rows, *self.shape), dtype=np.float32)
        start = 0
        for name, known in self.known.items():
            columns = {value: start + number for number, value in enumerate(known)}
            texts = _texts(raw, name)
            column = np.fromiter((columns.get(text, -1) for text in texts), dtype=np.int64, count=rows)
            is_known = np.flatnonzero(column >= 0)
            block[is_known, column[is_known]] = 1
            if len(is_known) < rows:
                first = int((column < 0).argmax())
                warnings.warn(
                    f"{raw.at(name)}: {rows - len(is_known)} of {rows} rows hold a value that training did not know "
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


def _texts(raw: RawColumns, name: str) -> list[str]:
    """The values as texts; ``True`` and ``False`` are two of them."""
    column = raw[name]
    if column_kind(column) == "flags":
        return [str(value) for value in column.tolist()]
    if column.dtype.kind in "iuf":
        raise UnderstudyError(f"{raw.at(name)} holds {describe(column)}; a category is written as text")
    return raw.categories(name)
