"""How a file's labels are read: classes by name become numbers, and the teacher's columns one of the forms of labels.

    names = ClassNames(("neg", "pos"))
    names.numbers(column, "gold.csv: column 'label'")       # ["pos", "neg"] -> [1, 0]

The order is the alphabet's, or the one the user gives; it is stored in the run. Files whose labels are whole numbers
need no names. The classes of all files together are found once, before any label is read: ``find_labelling``.

What the teacher said may stand in a file as

| columns | form |
| --- | --- |
| ``teacher_probs`` (a list per row, or an object by class name), or ``teacher_prob_CLASS`` columns | probabilities |
| ``teacher_label`` (−1 or empty: none), with or without ``teacher_confidence`` | hard labels |
| ``teacher_topk_index``, ``teacher_topk_prob`` (lists), with or without ``teacher_topk_tail`` | top-k |
| ``teacher_votes`` (a list per row; −1 or empty abstains), or ``teacher_vote_NAME`` columns | votes |

The columns are those the forms list (``labels.forms``); here they are found in a file.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from understudy.errors import UnderstudyError, warn
from understudy.labels.base import Column, VoteModel
from understudy.labels.forms import COLUMNS, FORMS, Labels, ReadOptions
from understudy.store.arrow import Array
from understudy.tables.table import Table, text_array

# Beyond this a column of labels is more likely a column of something else.
MOST_CLASSES = 10_000


@dataclass(frozen=True)
class ClassNames:
    names: tuple[str, ...]

    def __post_init__(self) -> None:
        if len(self.names) < 2:
            raise UnderstudyError(f"there is one class only ({', '.join(self.names)}); two or more are needed")
        if len(set(self.names)) < len(self.names) or not all(self.names):
            raise UnderstudyError(f"class names are empty or repeated ({', '.join(self.names)}); name each class once")
        if len(self.names) > MOST_CLASSES:
            raise UnderstudyError(
                f"{len(self.names)} different labels ({self.names[0]!r}, {self.names[1]!r} …) are too many classes; "
                "is another column the label?"
            )

    def __len__(self) -> int:
        return len(self.names)

    def numbers(self, column: Array, where: str, *, missing: bool = False) -> Array:
        """Class numbers of a column of names (or of numbers); ``missing``: empty and −1 mean no label."""
        if column.dtype.kind not in "OU":
            return self._of_numbers(column, where, missing)
        values = text_array(column.reshape(-1), where)
        index = pc.index_in(values, value_set=pa.array(self.names, pa.large_string()))
        numbers: Array = pc.fill_null(index.cast(pa.int64()), -2).to_numpy(zero_copy_only=False).copy()
        if missing:
            numbers[pc.is_in(values, value_set=pa.array(["", "-1"], pa.large_string())).to_numpy(False)] = -1
        if (numbers == -2).any():
            self._refuse_unknown(numbers, column, where)
        return numbers.reshape(column.shape)

    def _of_numbers(self, column: Array, where: str, missing: bool) -> Array:
        """Numbers that are the names themselves ("1", "2"), where there are such names; else places in the order."""
        if column.dtype.kind not in "biuf":
            raise UnderstudyError(f"{where} holds {column.dtype} values; labels are class names or numbers")
        if not any(is_number(name) for name in self.names):
            numbers = np.where((column >= len(self.names)) | (column < -1) | (column != np.floor(column)), -2, column)
        else:
            known = {float(name): number for number, name in enumerate(self.names) if is_number(name)} | {-1.0: -1}
            numbers = np.array([known.get(value, -2) for value in column.reshape(-1).tolist()]).reshape(column.shape)
        numbers = numbers.astype(np.int64)
        if not missing:
            numbers = np.where(numbers == -1, -2, numbers)
        if (numbers == -2).any():
            self._refuse_unknown(numbers.reshape(-1), column, where)
        return numbers

    def _refuse_unknown(self, numbers: Array, column: Array, where: str) -> None:
        unknown = int((numbers == -2).argmax())
        row, label = unknown // max(1, column[:1].size), column.reshape(-1)[unknown]
        if isinstance(label, str) and not label.strip():
            raise UnderstudyError(f"{where} row {row} is empty; write its class")
        label = label if isinstance(label, str) else label.item()
        raise UnderstudyError(f"{where} row {row} is {label!r}, which is not one of the classes ({self}); correct it")

    def __str__(self) -> str:
        return ", ".join(self.names[:8]) + (" …" if len(self.names) > 8 else "")


@dataclass(frozen=True)
class Labelling:
    """How labels are read: the classes, and how votes are weighed."""

    names: ClassNames | None = None
    classes: int | None = None
    """How many, where the form needs to know."""
    ordered: bool = False
    """Whether the user gave the order of the names, which lists of probabilities then follow."""
    votes: str | VoteModel = "majority"

    def numbers(self, table: Table, column: str, *, missing: bool = False) -> Array:
        """A column of labels as class numbers."""
        values, where = table.columns[column], table.where(column)
        if self.names is not None:
            return self.names.numbers(values, where, missing=missing)
        if values.dtype.kind in "OU" and missing and not np.any(values != ""):
            return np.full(values.shape, -1)
        return table.numbers(column)


def is_number(name: str) -> bool:
    return name.isascii() and name.isdigit()


def find_labelling(
    tables: Mapping[str, Table],
    pool: Table | None,
    classes: int | Sequence[str] | None,
    votes: str,
    *,
    answers: Collection[str] = (),
) -> Labelling:
    """How the labels of these files are read; ``tables`` by role (gold, test, select)."""
    given = None if classes is None or isinstance(classes, int) else classes
    golds = [tables["gold"]] if "gold" in tables else []
    names = find_names(golds, pool, given=given, answers=answers)
    if names is not None and isinstance(classes, int) and classes != len(names):
        raise UnderstudyError(f"the files name {len(names)} classes ({names}), not {classes}; list all names")
    count = classes if isinstance(classes, int) else _count([*tables.values()], pool, names)
    return Labelling(names, count, ordered=given is not None, votes=votes)


def _count(tables: list[Table], pool: Table | None, names: ClassNames | None) -> int | None:
    """How many classes there are, where top-k lists or votes are read, which do not tell."""
    if names is not None:
        return len(names)
    every = [*tables, *([] if pool is None else [pool])]
    silent = {column for form in FORMS.values() if form.needs_classes for column in form.columns}
    if not any(column in silent for table in every for column in table.teacher.values()):
        return None
    largest = 1
    for table in every:
        for name in _label_columns(table, with_truth=table is not pool):
            values = table.columns[name]
            if values.dtype.kind in "iuf":
                # NaN and infinity are refused where the labels are read.
                largest = max(largest, int(values.max(initial=1, where=np.isfinite(values))))
    return largest + 1


def find_names(
    golds: Sequence[Table], pool: Table | None, *, given: Sequence[str] | None = None, answers: Collection[str] = ()
) -> ClassNames | None:
    """The names in gold and in what the teacher said; None where all labels are numbers.

    ``answers`` to a chosen batch decide only where there is nothing else: a typing mistake must not make a class.
    """
    if given is not None:
        return ClassNames(tuple(given))
    texts: set[str] = set()
    numbers: dict[str, set[str]] = {}
    any_text = False
    for table in [*golds, *([] if pool is None else [pool])]:
        texts |= set(_field_names(table))
        for column in _label_columns(table, with_truth=table is not pool):
            values, where = table.columns[column], table.where(column)
            if values.dtype.kind in "OU":
                texts |= set(pc.unique(text_array(values.reshape(-1), where)).to_pylist()) - {"", "-1"}
                any_text = any_text or bool(texts)
            elif values.dtype.kind in "iuf":
                numbers[where] = {f"{value:g}" for value in np.unique(values[values >= 0]).tolist()}
    texts = texts or (set(answers) if not numbers else set())
    # Probabilities by "0", "1", … beside whole-number labels: numbers after all.
    if not any_text and all(map(is_number, texts)):
        return None
    for where, labels in numbers.items():
        if labels and not labels & texts:
            raise UnderstudyError(
                f"{where} holds numbers, other labels are names ({', '.join(sorted(texts)[:5])}); use names "
                "everywhere, or say what the numbers mean: --classes NAME,NAME in the order 0, 1, …"
            )
        texts |= labels
    _warn_of_near_names(texts)
    return ClassNames(tuple(sorted(texts)))


def _warn_of_near_names(names: set[str]) -> None:
    """A capital or a space too many makes another class, which is hardly ever meant."""
    spellings: dict[str, str] = {}
    for name in sorted(names):
        other = spellings.setdefault(" ".join(name.casefold().split()), name)
        if other != name:
            warn(
                f"{other!r} and {name!r} are two classes, which differ in capitals or spaces only; correct one in the "
                "files, or list the classes: --classes NAME,NAME"
            )


def declared_classes(tables: Iterable[Table]) -> tuple[str, ...] | None:
    """The order that the tables themselves declare for their labels; None where none does."""
    found: dict[str, tuple[str, ...]] = {}
    for table in tables:
        for column in _label_columns(table, with_truth=True):
            if column in table.declared:
                found[table.where(column)] = table.declared[column]
    (first, names), *others = found.items() or (("", None),)
    for where, other in others:
        if other != names:
            raise UnderstudyError(
                f"{first} declares the classes {', '.join(names or ())}, {where} {', '.join(other)}; say which order "
                "counts: classes=(…)"
            )
    return names


def _label_columns(table: Table, *, with_truth: bool) -> list[str]:
    names = [name for name, column in table.teacher.items() if column.holds == "class"]
    return [*names, "label"] if with_truth and "label" in table.names else names


def _field_names(table: Table) -> list[str]:
    """Class names that are part of the form: the keys of ``teacher_probs``, the ends of ``teacher_prob_…``."""
    names: list[str] = []
    for name, column in table.teacher.items():
        if column.holds == "number per class":
            records = table.columns[name].dtype.names or ()
            names += records if name == column.name else [name.removeprefix(column.prefix or "")]
    return names


def read_teacher(table: Table, how: Labelling | None = None) -> Labels | None:
    how = how or Labelling()
    given: dict[str, list[str]] = {}
    """Our columns, and those of the file that hold them: one, or several where it is spread."""
    for name in table.names:
        if name in table.teacher:
            given.setdefault(table.teacher[name].name, []).append(name)
        elif name.startswith("teacher_"):
            raise UnderstudyError(
                f"{table.where(name)} is not known; rename it or use one of {', '.join(sorted(COLUMNS))}"
            )
    forms = [form for form in dict.fromkeys(FORMS.values()) if form.columns[0].name in given]
    if len(forms) > 1:
        one, other = (form.columns[0].name for form in forms[:2])
        raise UnderstudyError(f"{table.path} has both {one!r} and {other!r}; keep one of them")
    for form in FORMS.values():
        for column in form.columns[1:]:
            if column.name in given and form not in forms:
                raise UnderstudyError(f"{table.where(column.name)} stands alone; add {form.columns[0].name!r}")
    if not forms:
        return None
    columns, first = forms[0].columns, given[forms[0].columns[0].name]
    absent = [column.name for column in columns if column.required and column.name not in given]
    if absent:
        raise UnderstudyError(f"{table.where(first[0])} stands alone; add {absent[0]!r}")
    values = {column.name: _read(column, given[column.name], table, how) for column in columns if column.name in given}
    classes = how.classes if forms[0].needs_classes else None if how.names is None else len(how.names.names)
    prefix = columns[0].prefix
    spread = prefix is not None and all(name.startswith(prefix) for name in first)
    sources = tuple(name.removeprefix(prefix or "") for name in first) if spread else None
    return forms[0].from_columns(values, ReadOptions(classes, table.where(first[0]), how.votes, sources))


def _read(column: Column, names: list[str], table: Table, how: Labelling) -> Array:
    """One of our columns, from the column of the file that holds it or those it is spread over."""
    spread = column.name not in table.names
    if column.holds == "class":
        parts = [how.numbers(table, name, missing=True) for name in names]
        return np.stack(parts, axis=1) if spread else parts[0]
    if column.holds == "number":
        return table.numbers(column.name)
    if spread:
        return _by_class({name.removeprefix(column.prefix or ""): table.numbers(name) for name in names}, table, how)
    values = table.columns[column.name]
    if values.dtype.names:
        return _by_class({name: values[name] for name in values.dtype.names}, table, how)
    if how.names is not None and not how.ordered:
        raise UnderstudyError(
            f"{table.where(column.name)} holds lists; say which class comes first: "
            f"--classes {','.join(how.names.names)}"
        )
    return table.numbers(column.name)


def _by_class(given: dict[str, Array], table: Table, how: Labelling) -> Array:
    """Columns by class name, side by side in the order of the classes; 0 for a class that is not among them."""
    if how.names is None and all(map(is_number, given)):
        order = {name: int(name) for name in given}
        count = max(how.classes or 0, *order.values(), 0) + 1 if how.classes is None else how.classes
    else:
        assert how.names is not None
        order = {name: number for number, name in enumerate(how.names.names)}
        count = len(how.names)
    rows = len(next(iter(given.values())))
    probs = np.zeros((rows, count), dtype=np.result_type(np.float32, *given.values()))
    for name, column in given.items():
        if name not in order or order[name] >= count:
            raise UnderstudyError(f"{table.path}: the teacher scores {name!r}, which is not one of the classes")
        probs[:, order[name]] = column
    return probs
