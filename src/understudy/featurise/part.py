"""One part of the features: some columns, one way to turn them into numbers.

A kind of part is one class in one file, entered in ``PARTS`` of ``featuriser.py``. It is fitted once on training rows,
then only applied; what it learned is plain values and arrays, so that it can be kept without pickle.
"""

from abc import ABC, abstractmethod
from typing import Any, ClassVar, Self

from scipy import sparse

from understudy.data.rows import Rows
from understudy.featurise.raw import Raw
from understudy.store.arrow import Array

Block = Array | sparse.csr_matrix[Any] | Rows
"""A part's numbers for some rows. Sparse blocks and arrays of two axes can stand side by side."""


class Part(ABC):
    kind: ClassVar[str]
    names: tuple[str, ...]
    """The columns it reads."""

    @property
    @abstractmethod
    def shape(self) -> tuple[int, ...]:
        """Of one row."""

    @abstractmethod
    def __call__(self, raw: Raw) -> Block: ...

    @abstractmethod
    def values(self) -> dict[str, Any]:
        """What was learned, less the arrays, as JSON has it."""

    def arrays(self) -> dict[str, Array]:
        return {}

    @classmethod
    @abstractmethod
    def restore(cls, values: dict[str, Any], arrays: dict[str, Array]) -> Self:
        """The part again. A KeyError, TypeError or ValueError says that the values are damaged."""
