"""The plain columns of a table as features: arrays and texts as they are, numbers scaled, categories one-hot, TF-IDF.

A kind of part is one class, entered in ``PARTS`` of ``featuriser.py``: some raw columns, one way to turn them into
numbers. It is fitted once on training rows, then only applied; what it learned is plain values and arrays, so that it
can be stored without pickle.

TF-IDF of texts is scikit-learn's, of single words and runs of neighbouring words:

    value of a term in a text = (1 + ln count) · (ln((1 + texts) / (1 + texts with the term)) + 1), rows of length 1

A run stores the terms and their second factor, not the texts. Of equally frequent terms scikit-learn's ``max_features``
keeps whichever its sorting puts first; here (``terms.py``) the alphabet decides.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeAlias

import numpy as np

from understudy.data.checks import describe
from understudy.data.inputs import TextRows
from understudy.data.rows import Rows
from understudy.errors import UnderstudyError, warn
from understudy.features.raw_columns import RawColumns
from understudy.store.arrow import Array

if TYPE_CHECKING:
    from scipy import sparse

# From this many texts on, a term that occurs in only one of them is dropped as noise.
ROWS_FOR_PRUNING = 100


#: A part's numbers for some rows. Sparse blocks and arrays of two axes can stand side by side.
Block: TypeAlias = "Array | sparse.csr_matrix[Any] | Rows"


class Part(ABC):
    """A dataclass whose fields are what was learned: plain values, and arrays that are stored apart from them."""

    kind: ClassVar[str]
    #: The columns it reads.
    names: tuple[str, ...]
    #: Of one row.
    shape: tuple[int, ...]

    @abstractmethod
    def __call__(self, raw: RawColumns) -> Block: ...

    def learned(self) -> tuple[dict[str, Any], dict[str, Array]]:
        """``(values, arrays)``, from which ``cls(**values, **arrays)`` is the part again."""
        given = {field.name: getattr(self, field.name) for field in fields(self)}  # type: ignore[arg-type]
        arrays = {name: value for name, value in given.items() if isinstance(value, np.ndarray)}
        return {name: value for name, value in given.items() if name not in arrays}, arrays


@dataclass(eq=False)
class Arrays(Part):
    """Arrays that are features already (``x``): passed through as they are, memory maps and float16 included."""

    kind = "array"
    name: str
    shape: tuple[int, ...]

    def __post_init__(self) -> None:
        self.names, self.shape = (self.name,), tuple(self.shape)

    @classmethod
    def fit(cls, raw: RawColumns, name: str) -> Self:
        return cls(name, raw.numbers(name).shape[1:])

    def __call__(self, raw: RawColumns) -> Array:
        column = raw.numbers(self.name)
        if column.shape[1:] != self.shape:
            here = f"{raw.at(self.name)} has rows of shape {column.shape[1:]}"
            raise UnderstudyError(f"{here}, but {self.shape} in training; they must agree")
        return column


@dataclass(eq=False)
class Numbers(Part):
    """Columns of numbers, brought to mean 0 and deviation 1 over the training rows: (value − mean) / deviation.

    A missing number is the training median, and columns with gaps in training have another one behind all numbers, of
    1 where the number is missing: age 20, –, 40 → (−1, 0), (0, 1), (1, 0). A column that was constant in training
    becomes 0 everywhere: nothing could be learned from it. Statistics are taken in float64 (times in seconds since 1970
    differ in their last digits), the result is float32.
    """

    kind = "numbers"
    names: tuple[str, ...]
    mean: Array
    deviation: Array
    scale: bool
    #: ``error``: none may be missing.
    missing: str
    median: Array | None = None
    #: The columns with gaps in training.
    gaps: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        self.names, self.gaps = tuple(self.names), tuple(self.gaps)
        self.shape = (len(self.names) + len(self.gaps),)

    @classmethod
    def fit(cls, raw: RawColumns, names: tuple[str, ...], *, scale: bool, missing: str) -> Self:
        mean, deviation, median = np.zeros((3, len(names)))
        gaps = []
        for number, name in enumerate(names):
            every = _checked(raw, name, missing)
            column = every[~np.isnan(every)]
            if len(column) < len(every):
                gaps.append(name)
            # A constant column's computed deviation is rounding error, not always 0.
            constant = column.min() == column.max()
            with np.errstate(over="ignore"):
                mean[number] = column[0] if constant else column.mean()
                deviation[number] = 0.0 if constant else column.std()
                median[number] = np.median(column)
            if not np.isfinite(deviation[number]):
                raise UnderstudyError(f"{raw.at(name)} holds numbers too large to scale; take their logarithms")
        return cls(names, mean, deviation, scale, missing, median, tuple(gaps))

    def __call__(self, raw: RawColumns) -> Array:
        block = np.zeros((len(raw[self.names[0]]), *self.shape), dtype=np.float32)
        for number, name in enumerate(self.names):
            column = _checked(raw, name, self.missing)
            if (empty := np.isnan(column)).any():
                assert self.median is not None
                column = np.where(empty, self.median[number], column)
                if name in self.gaps:
                    block[:, len(self.names) + self.gaps.index(name)] = empty
                else:
                    filled = f"{int(empty.sum())} of {len(column)} cells are empty, none was in training"
                    warn(f"{raw.at(name)}: {filled}; the training median {self.median[number]:,g} is used")
            if self.scale:
                deviation = self.deviation[number]
                column = (column - self.mean[number]) / deviation if deviation > 0 else np.zeros(len(column))
            with np.errstate(over="ignore"):
                block[:, number] = column
            large = np.isinf(block[:, number])
            if large.any():
                raise UnderstudyError(f"{raw.at(name, int(large.argmax()))} is too large for float32; scale the column")
        return block


def _checked(raw: RawColumns, name: str, missing: str) -> Array:
    """The column in float64; NaN only where it is allowed, infinity nowhere."""
    column = raw.numbers(name)
    if column.ndim != 1 or column.dtype.kind == "b":
        raise UnderstudyError(f"{raw.at(name)} holds {describe(column)}; it held one number per row in training")
    column = column.astype(np.float64)
    bad = ~np.isfinite(column) if missing == "error" else np.isinf(column)
    if bad.any():
        row = int(bad.argmax())
        held = "infinity" if np.isinf(column[row]) else "no number (NaN)"
        cure = "fill it in, remove the row, or train with --missing median" if held != "infinity" else "remove the row"
        raise UnderstudyError(f"{raw.at(name, row)} holds {held}; {cure}")
    return column


@dataclass(eq=False)
class Categories(Part):
    """Columns with few distinct values, one-hot: a column for every value seen in training, all 0 for any other.

    colour: blue, red  ->  red = (0, 1), blue = (1, 0), green = (0, 0) and a warning that counts them

    An empty cell is a value of its own: that something is not known often says something.
    """

    kind = "categories"
    #: Per column the values seen in training.
    known: list[tuple[str, list[str]]]

    def __post_init__(self) -> None:
        self.names = tuple(name for name, _ in self.known)
        self.shape = (sum(len(values) for _, values in self.known),)

    @classmethod
    def fit(cls, raw: RawColumns, names: tuple[str, ...], *, limit: int) -> Self:
        known = []
        for name in names:
            distinct = sorted(set(raw.categories(name)))
            if len(distinct) > limit:
                many = f"{len(distinct)} distinct values, more than the {limit} of a category"
                raise UnderstudyError(f"{raw.at(name)} holds {many}; use it as the text (--text), or leave it out")
            known.append((name, distinct))
        return cls(known)

    def __call__(self, raw: RawColumns) -> Array:
        rows = len(raw[self.names[0]])
        block = np.zeros((rows, *self.shape), dtype=np.float32)
        start = 0
        for name, known in self.known:
            columns = {value: start + number for number, value in enumerate(known)}
            texts = raw.categories(name)
            column = np.fromiter((columns.get(text, -1) for text in texts), dtype=np.int64, count=rows)
            is_known = np.flatnonzero(column >= 0)
            block[is_known, column[is_known]] = 1
            if len(is_known) < rows:
                first = int((column < 0).argmax())
                unknown = f"{rows - len(is_known)} of {rows} rows hold a value that training did not know"
                warn(f"{raw.at(name)}: {unknown} (row {first}: {texts[first]!r}); they count as none of the known ones")
            start += len(known)
        return block


@dataclass(eq=False)
class Texts(Part):
    """Texts as they are, for a student that tokenizes them itself (``us.text``)."""

    kind = "texts"
    name: str

    def __post_init__(self) -> None:
        self.names, self.shape = (self.name,), ()

    @classmethod
    def fit(cls, raw: RawColumns, name: str) -> Self:
        raw.texts(name)  # checks them
        return cls(name)

    def __call__(self, raw: RawColumns) -> TextRows:
        return TextRows(raw.texts(self.name))


@dataclass(eq=False)
class Tfidf(Part):
    kind = "tfidf"
    name: str
    terms: list[str]
    idf: Array

    def __post_init__(self) -> None:
        self.names, self.shape = (self.name,), (len(self.terms),)
        #: The texts it was fitted to, by row, and their counts of the terms.
        self._counted: tuple[dict[str, int], Any] = {}, None

    @classmethod
    def fit(cls, raw: RawColumns, name: str, *, max_terms: int, ngrams: int) -> Self:
        from understudy.features.terms import count_terms

        texts = raw.texts(name)
        min_texts = 2 if len(texts) >= ROWS_FOR_PRUNING else 1
        terms, counts = count_terms(texts, ngrams=ngrams, most=max_terms, min_texts=min_texts)
        if not terms:
            few = f"no word of two letters or more in {min_texts} of its {len(texts)} texts"
            raise UnderstudyError(f"{raw.at(name)} holds {few}; check the column, or use an encoder (--encoder)")
        # In float32, as scikit-learn computes it, to the last bit.
        texts_with = np.bincount(counts.indices, minlength=len(terms)).astype(np.float32)
        part = cls(name, terms, np.log(np.float32(1 + len(texts)) / (texts_with + 1)) + 1)
        part._counted = {text: row for row, text in enumerate(texts)}, counts
        return part

    def __call__(self, raw: RawColumns) -> "sparse.csr_matrix[Any]":
        from understudy.features.terms import count_known, weigh_terms

        texts, (row_of, counts) = raw.texts(self.name), self._counted
        self._counted = {}, None  # what was counted to be fitted serves once: it is large
        known = counts is not None and all(text in row_of for text in texts)
        found = counts[[row_of[text] for text in texts]] if known else count_known(texts, self.terms)
        return weigh_terms(found, self.idf)  # type: ignore[no-any-return]
