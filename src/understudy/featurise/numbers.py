"""Columns of numbers, brought to mean 0 and deviation 1 over the training rows: (value − mean) / deviation.

A column that was constant in training becomes 0 everywhere: nothing could be learned from it. Statistics are taken in
float64 (times in seconds since 1970 differ in their last digits), the result is float32.
"""

from typing import Any, Self

import numpy as np

from understudy.errors import UnderstudyError
from understudy.featurise.part import Part
from understudy.featurise.raw import Raw
from understudy.store.arrow import Array


class Numbers(Part):
    kind = "numbers"

    def __init__(self, names: tuple[str, ...], mean: Array, deviation: Array, *, scale: bool, missing: str) -> None:
        if not len(names) == len(mean) == len(deviation):
            raise ValueError("one mean and one deviation per column")
        self.names, self.mean, self.deviation = names, mean, deviation
        self.scale, self.missing = scale, missing

    @classmethod
    def fit(cls, raw: Raw, names: tuple[str, ...], *, scale: bool, missing: str) -> Self:
        mean, deviation = np.zeros(len(names)), np.zeros(len(names))
        for place, name in enumerate(names):
            column = _checked(raw, name, missing)
            column = column[~np.isnan(column)]
            if not len(column):
                raise UnderstudyError(f"{raw.at(name)} holds no number at all; leave the column out")
            # A constant column's computed deviation is rounding error, not always 0.
            constant = column.min() == column.max()
            with np.errstate(over="ignore"):
                mean[place] = column[0] if constant else column.mean()
                deviation[place] = 0.0 if constant else column.std()
            if not np.isfinite(deviation[place]):
                raise UnderstudyError(f"{raw.at(name)} holds numbers too large to scale; take their logarithms")
        return cls(names, mean, deviation, scale=scale, missing=missing)

    @property
    def shape(self) -> tuple[int, ...]:
        return (len(self.names),)

    def __call__(self, raw: Raw) -> Array:
        block = np.empty((len(raw[self.names[0]]), len(self.names)), dtype=np.float32)
        for place, name in enumerate(self.names):
            column = _checked(raw, name, self.missing)
            if self.missing == "mean":
                column = np.where(np.isnan(column), self.mean[place], column)
            if self.scale:
                deviation = self.deviation[place]
                column = (column - self.mean[place]) / deviation if deviation > 0 else np.zeros(len(column))
            with np.errstate(over="ignore"):
                block[:, place] = column
            large = np.isinf(block[:, place])
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


def _checked(raw: Raw, name: str, missing: str) -> Array:
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
