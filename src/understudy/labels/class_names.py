"""Names of classes: the one type that turns labels into class numbers and back, wherever they come from.

    names = ClassNames.listed(("neg", "pos"), "classes=")        # in the order the user gives
    names.numbers(column, "gold.csv: column 'label'")            # ["pos", "neg"] -> [1, 0]
    names.number("pos", "answers.csv row 3")                     # 1
    names.named(np.array([1, 0]))                                # ["pos", "neg"]

Labels match exactly: "7" and "007" are two classes, "1e3" is not class 1000, and a number in a typed file is the class
spelled like it. The order is alphabetical, or the one the user gives. ``ClassNames()`` holds no names: the classes are
known by number. ``labels/forms.py`` reads the labels of gold and pool with it, ``io/label_columns.py`` those of files.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from understudy.errors import UnderstudyError
from understudy.store.arrow import TEXTS, Array, as_column, object_column, text_array

# More distinct labels than this are more likely another kind of column.
MOST_CLASSES = 10_000
#: An empty cell among class numbers: no class has this number, while one may be called "-1".
EMPTY = int(np.iinfo(np.int64).min)
#: Answers of a person that give no class.
SKIPPED = {"skip", "-1", "−1", "nan"}
_WHOLE = re.compile(r"0|[1-9][0-9]*")
# Spreadsheets, and data frames with gaps, write 3 as 3.0.
_WITH_POINT = re.compile(r"(0|[1-9][0-9]*)\.0*")
_NO_CLASS = re.compile(r"(?i)-[0-9]+(\.[0-9]*)?|-?inf(inity)?|nan")
_TYPED_NUMBER = re.compile(r"(0|[1-9][0-9]{0,17})(\.0*)?")


@dataclass(frozen=True)
class ClassNames:
    """Names in the order of the class numbers; none where the classes are known by number alone."""

    names: tuple[str, ...] = ()
    #: Whether the user gave the order, which bare numbers then follow; else it is alphabetical.
    ordered: bool = False

    def __post_init__(self) -> None:
        if self.names:
            checked_names(self.names, "classes")

    @classmethod
    def listed(cls, classes: Any, where: str) -> "ClassNames":
        """The names a user lists in their order."""
        return cls(checked_names(classes, where), ordered=True)

    @classmethod
    def found(cls, labels: set[str]) -> "ClassNames":
        """The names that occur among labels, in alphabetical order."""
        if len(labels) > MOST_CLASSES:
            first, second = sorted(labels)[:2]
            many = f"{len(labels)} different labels ({first!r}, {second!r} …) are too many classes"
            raise UnderstudyError(f"{many}; is another column the label?")
        if len(labels) == 1:
            raise UnderstudyError(f"all labels are of one class ({min(labels)}); two or more are needed; check them")
        return cls(tuple(sorted(labels)))

    def __len__(self) -> int:
        return len(self.names)

    def __str__(self) -> str:
        return name_list(self.names)

    def skips(self, answer: str) -> bool:
        """Whether an answer gives no class, and is the name of none."""
        return answer.lower() in SKIPPED and answer not in self.names

    def numbers(self, column: Array, where: str, *, missing: bool = False) -> Array:
        """Class numbers of a column of names or numbers; ``missing``: empty and −1 mean no label, which is −1.

        Numbers are the names spelled like them or, where the user gave the order, positions in it.
        """
        if column.dtype.kind not in "OU":
            return self._of_numbers(column, where, missing)
        # Loaded here: training on arrays does not need it.
        import pyarrow.compute as pc

        values = text_array(column.reshape(-1), where)
        index = pc.index_in(values, value_set=pa.array(self.names, pa.large_string()))
        numbers: Array = pc.fill_null(index.cast(pa.int64()), -2).to_numpy(zero_copy_only=False).copy()
        if missing:
            empty = pc.is_in(values, value_set=pa.array(["", "-1"], pa.large_string())).to_numpy(False)
            numbers[empty & (numbers == -2)] = -1
        if (numbers == -2).any():
            self._refuse_unknown(numbers, column, where)
        return numbers.reshape(column.shape)

    def _of_numbers(self, column: Array, where: str, missing: bool) -> Array:
        if column.dtype.kind == "b":
            raise UnderstudyError(f"{where} holds true or false, but the classes are {self}; write their names")
        if column.dtype.kind not in "iuf":
            raise UnderstudyError(f"{where} holds {column.dtype} values; labels are class names or numbers")
        distinct, at = np.unique(column, return_inverse=True)
        number_of = {name: number for number, name in enumerate(self.names)}
        if self._takes_positions:
            number_of = {str(number): number for number in range(len(self))}
        for value in distinct.tolist() if column.dtype.kind == "f" and not self._takes_positions else ():
            # A fraction 1.0 is spelled "1" or "1.0", which may be two classes.
            if spelled(value) != repr(value) and {spelled(value), repr(value)} <= set(self.names):
                raise UnderstudyError(f"{where}: {spelled(value)!r} and {value!r} are two classes; store text")
        number_of |= {str(EMPTY): -1, "-1": number_of.get("-1", -1)} if missing else {}
        known = np.array([number_of.get(spelled(value), -2) for value in distinct.tolist()])
        numbers: Array = known.astype(np.int64)[at.reshape(-1)].reshape(column.shape)
        if (numbers == -2).any():
            self._refuse_unknown(numbers.reshape(-1), column, where)
        return numbers

    @property
    def _takes_positions(self) -> bool:
        return self.ordered and not any(is_number(name.removeprefix("-")) for name in self.names)

    def _refuse_unknown(self, numbers: Array, column: Array, where: str) -> None:
        unknown = int((numbers == -2).argmax())
        row, label = unknown // max(1, column[:1].size), column.reshape(-1)[unknown]
        if isinstance(label, str) and not label.strip():
            raise UnderstudyError(f"{where} row {row} is empty; write its class")
        label = label if isinstance(label, str) else label.item()
        raise UnderstudyError(f"{where} row {row} is {label!r}, which is not one of the classes ({self}); correct it")

    def number(self, text: str, where: str) -> int:
        """The number of a class as a person typed it: a name, or a number where there are none."""
        if not self.names:
            if found := _TYPED_NUMBER.fullmatch(text):
                return int(found[1])
            raise UnderstudyError(f"{where} has label {text!r}; write a class number from 0, or skip")
        if self._takes_positions and is_number(text) and int(text) < len(self):
            return int(text)
        if text not in self.names:
            raise UnderstudyError(f"{where} has label {text!r}; write one of the classes ({self}), or skip")
        return self.names.index(text)

    def named(self, labels: Array) -> Array:
        """Class numbers as names, where there are any."""
        return np.array(self.names, dtype=object)[labels] if self.names else labels

    def by_name(self, probs: Array) -> Array:
        """Probabilities ``(n, C)`` as records by class name, where there are any."""
        if not self.names:
            return probs
        record = np.empty(len(probs), dtype=[(name, probs.dtype) for name in self.names])
        for number, name in enumerate(self.names):
            record[name] = probs[:, number]
        return record


def check_same_classes(one: ClassNames | None, other: ClassNames | None, what: str, another: str) -> None:
    """Refuses two sets whose class numbers mean different classes; None: a set built from class numbers internally."""
    if one is None or other is None or one.names == other.names:
        return
    if one and other:
        raise UnderstudyError(f"{what}'s classes are {one}, {another}'s {other}; pass the same classes=(…) to both")
    named, (by_name, by_number) = (one, (what, another)) if one else (other, (another, what))
    if not named.ordered:
        cure = f"pass classes={named.names} to {by_name}, in the order of the numbers"
        raise UnderstudyError(f"{by_name} has class names, {by_number} class numbers, their order is unknown; {cure}")


def joint_names(one: ClassNames | None, other: ClassNames | None) -> ClassNames | None:
    """The class names of two sets that are used together: those of the one that has any."""
    return one if one or other is None else other


def checked_names(classes: Any, where: str, *, printable: bool = False) -> tuple[str, ...]:
    """A list of class names: two or more, different, none empty; ``printable``: also without control characters."""
    texts = None if isinstance(classes, str) else as_texts(classes)
    if texts is None or texts.ndim != 1:
        raise UnderstudyError(f"{where} is {classes!r}; it lists the names of the classes in their order")
    names = tuple(texts.tolist())
    if not all(names) or len(set(names)) < len(names) or len(names) < 2:
        raise UnderstudyError(f"{where} is {list(names)}; name two classes or more, each once, as text")
    bad = [name for name in names if printable and not (name.strip() and name.isprintable())]
    if bad:
        raise UnderstudyError(f"{where}: class name {bad[0]!r} is blank or holds control characters; rename it")
    return names


def name_list(names: Sequence[str]) -> str:
    """Names for a message, the first eight."""
    return ", ".join(names[:8]) + (" …" if len(names) > 8 else "")


def as_texts(values: Any) -> Array | None:
    """Texts as an object array of any shape, "" where a value is missing; None where the values are not texts."""
    column = as_column(values)
    if column is not None:
        kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
        if kind not in TEXTS:
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
    texts = np.asarray(values, dtype=object)
    flat = ["" if value is None or value != value else value for value in texts.reshape(-1).tolist()]
    if not any(flat) or not all(isinstance(value, str) for value in flat):
        return None
    return object_column(list(map(str, flat))).reshape(texts.shape)


def class_numbers(values: Any, classes: Any, where: str) -> tuple[Any, int | None, tuple[str, ...] | None]:
    """Labels over class numbers, the number of classes, and their names where ``classes`` lists them."""
    from understudy.data.checks import check_class_count  # with PyTorch, which names alone do not need

    texts = as_texts(values)
    if classes is None or isinstance(classes, int | np.integer) or not isinstance(classes, Sequence | np.ndarray):
        if texts is not None:
            raise UnderstudyError(f"{where} holds names; list the classes in their order: classes=('neg', 'pos')")
        return values, None if classes is None else check_class_count(classes, where), None
    names = ClassNames.listed(classes, f"{where}: classes=")
    return (values if texts is None else names.numbers(texts, where, missing=True)), len(names), names.names


def is_number(name: str) -> bool:
    """Whether a name is a whole number as numbers are written: 7, not 007."""
    return name.isascii() and _WHOLE.fullmatch(name) is not None


def spelled(value: float) -> str:
    """A number's own spelling: 3 for 3 and for 3.0."""
    return str(int(value)) if np.isfinite(value) and value == int(value) else repr(value)


def without_point(text: str) -> str | None:
    """The whole number of a text such as "3.0"; None for any other text."""
    found = _WITH_POINT.fullmatch(text)
    return found[1] if found else None


def spelled_number(text: str) -> int | None:
    """The class number a text spells: −1 for no label, −2 for a number that is no class (NaN, say), None for a name."""
    if text in ("", "-1", "-1.0"):
        return -1
    whole = without_point(text) or text
    if is_number(whole):
        return int(whole) if len(whole) <= 18 else -2
    return -2 if _NO_CLASS.fullmatch(text) else None


def spelled_numbers(values: Array, where: str) -> Array | None:
    """Class numbers that a column of texts spells (see ``spelled_number``); None where a label is a name."""
    texts = text_array(values.reshape(-1), where).dictionary_encode()
    numbers = [spelled_number(text) for text in texts.dictionary.to_pylist()]
    if None in numbers:
        return None
    known: Array = np.array(numbers, dtype=np.int64)[texts.indices.to_numpy(zero_copy_only=False)]
    return known.reshape(values.shape)
