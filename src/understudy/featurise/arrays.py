"""Arrays that are features already (``x``): passed through as they are, memory maps and float16 included."""

from typing import Any, Self

from understudy.errors import UnderstudyError
from understudy.featurise.part import Part
from understudy.featurise.raw import Raw
from understudy.store.arrow import Array


class Arrays(Part):
    kind = "array"

    def __init__(self, name: str, shape: tuple[int, ...]) -> None:
        self.names, self._shape = (name,), shape

    @classmethod
    def fit(cls, raw: Raw, name: str) -> Self:
        return cls(name, raw.numbers(name).shape[1:])

    @property
    def shape(self) -> tuple[int, ...]:
        return self._shape

    def __call__(self, raw: Raw) -> Array:
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
