"""Labels of a file: classes by name become numbers, and the teacher's columns one of the forms of labels.

    how = find_labelling({"gold": gold}, pool, classes=None, votes="majority")
    how.numbers(gold, "label"), read_teacher(pool, how)

Labels match exactly (``labels/class_names.py``); the order of the classes is stored in the run. Files whose labels are
all whole numbers (``3``; in CSV with gaps also ``3.0``) need no names, unless the numbers are codes (``900000`` among
three labels). The classes of all files together are found once, before any label is read: ``find_labelling``.

The teacher's labels may be in a file as

| columns | form |
| --- | --- |
| ``teacher_probs`` (a list per row, or an object by class name), or ``teacher_prob_CLASS`` columns | probabilities |
| ``teacher_label`` (−1 or empty: none), with or without ``teacher_confidence`` | hard labels |
| ``teacher_topk_index``, ``teacher_topk_prob`` (lists), with or without ``teacher_topk_tail`` | top-k |
| ``teacher_votes`` (a list per row; −1 or empty abstains), or ``teacher_vote_NAME`` columns | votes |

The columns are those the forms list (``labels.forms``); here they are found in a file.
"""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow.compute as pc
import torch
from torch import Tensor

from understudy.data.checks import MAX_CLASSES, check_memory, check_probability
from understudy.data.fitted_rows import GOLD_KEYS, read_keys
from understudy.errors import UnderstudyError, warn
from understudy.features.raw_columns import FALSE, TRUE
from understudy.io.table import Table
from understudy.labels import class_names
from understudy.labels.answer_matching import NEAR, AnswerMatcher
from understudy.labels.base import Column, VoteModel
from understudy.labels.class_names import EMPTY, ClassNames, is_number, spelled_number
from understudy.labels.forms import COLUMNS, FORMS, Labels, ReadOptions
from understudy.store.arrow import Array, text_array

#: Columns of true or false: whether the teacher was shown the row's own label, and the annotator a suggestion.
SAW, SHOWN = "teacher_saw", "suggestion_shown"
#: With which probability the row was drawn for labelling.
DRAWN = "probability"


def true_or_false(cells: Sequence[Any], where: str, meaning: str) -> list[bool]:
    """A column of true and false, however it is written; ``meaning``: of true, for the message."""
    texts = [str(cell).strip().lower() for cell in cells]
    for row, text in enumerate(texts):
        if text not in TRUE | FALSE:
            raise UnderstudyError(f"{where} row {row} is {cells[row]!r}; write true ({meaning}) or false")
    return [text in TRUE for text in texts]


def drawn_with(cells: Sequence[Any], where: str) -> Tensor:
    """A column of probabilities, however it is written; NaN where a cell is empty."""
    numbers = []
    for row, cell in enumerate(cells):
        try:
            numbers.append(float(cell) if str("" if cell is None else cell).strip() else float("nan"))
        except ValueError as error:
            raise UnderstudyError(f"{where} row {row} is {cell!r}; write a number above 0, up to 1") from error
    return check_probability(torch.tensor(numbers, dtype=torch.float64), len(numbers), where)


@dataclass(frozen=True)
class Labelling:
    """How labels are read: the classes, and how votes are weighed."""

    names: ClassNames | None = None
    #: How many, where the form needs to know.
    classes: int | None = None
    votes: str | VoteModel = "majority"
    #: The columns of the pool's annotators, whose order a model of them goes by.
    sources: tuple[str, ...] = ()

    def numbers(self, table: Table, column: str, *, missing: bool = False) -> Array:
        """A column of labels as class numbers."""
        values, where = table.columns[column], table.where(column)
        if self.names is not None:
            if missing and column != "label" and values.dtype.kind in "OU":
                values = table.columns.keep(column, _answers_read(values, self.names.names, where))
            return self.names.numbers(values, where, missing=missing)
        if values.dtype.kind not in "OU":
            values = table.numbers(column)
            return np.where(values == EMPTY, -1, values) if missing and (values == EMPTY).any() else values
        numbers = class_names.spelled_numbers(values, where)
        if numbers is None:
            return table.numbers(column)
        refused = numbers == -2 if missing else numbers < 0
        if refused.any():
            row = int(refused.reshape(len(values), -1).any(1).argmax())
            cell = values.reshape(-1)[int(refused.reshape(-1).argmax())]
            held = f"{cell!r}, which is no class number; correct it" if cell.strip() else "empty; write its class"
            raise UnderstudyError(f"{where} row {row} is {held}")
        return numbers


def _answers_read(values: Array, names: Sequence[str], where: str) -> Array:
    """A teacher's labels, with answers in words ("It is a Bug.") as the class that each names, empty where none is.

    Where they name no class as a rule, they are labels of another kind, and stay for the message that refuses them."""
    cells = values.reshape(-1).tolist()
    found = _meant({*filter(None, cells)} - {"-1", *names}, names)
    if 2 * sum(map(bool, found.values())) <= len(found):
        return values
    some, label = next((text, label) for text, label in found.items() if label)
    odd = sum(not found.get(cell, "read") for cell in cells)
    warn(f"{where}: answers in words are read ({some!r} is {label}); {odd:,} of {len(cells):,} name none, or several")
    read = np.array([found.get(cell, cell) for cell in cells], dtype=object)
    return read.reshape(values.shape)


def _meant(texts: Collection[str], names: Sequence[str]) -> dict[str, str]:
    """The class that each of these answers in words names; "" where it names none, or several.

    One that is a letter off names none: level_1b is a class of its own, not level_1a."""
    if not texts or len(names) < 2 or not all(name.strip() and name.isprintable() for name in names):
        return {}
    matcher = AnswerMatcher(names)
    found = {text: matcher(text) for text in sorted(texts)}
    return {text: names[one.label] if one.label >= 0 and one.how != NEAR else "" for text, one in found.items()}


def label_column(table: Table, names: ClassNames) -> Array | None:
    """A file's labels as class numbers, −1 where there are none; None where it has no such column."""
    if "label" not in table.names:
        return None
    table.columns.with_gaps("label")
    return Labelling(names or None).numbers(table, "label", missing=True)


def find_labelling(
    tables: Mapping[str, Table], pool: Table | None, classes: int | Sequence[str] | None, votes: str, *,
    answers: Collection[str] = (),
) -> Labelling:  # fmt: skip
    """How the labels of these files are read; ``tables`` by role (gold, test, select)."""
    given, count = (None, classes) if isinstance(classes, int) else (classes, None)
    golds = [tables["gold"]] if "gold" in tables else []
    names = find_names(golds, pool, given=given, answers=answers, counted=count is not None)
    if names is not None and count not in (None, len(names)):
        raise UnderstudyError(f"the files name {len(names)} classes ({names}), not {classes}; list all names")
    if names is not None or count is not None:
        return Labelling(names, count if names is None else len(names), votes=votes)
    # Forms that do not hold it: top-k lists and votes.
    every = [*tables.values(), *([] if pool is None else [pool])]
    silent = {column for form in FORMS.values() if form.needs_classes for column in form.columns}
    if not any(column in silent for table in every for column in table.teacher.values()):
        return Labelling(None, None, votes=votes)
    found = (_spellings(table, name) for table in every for name in _label_columns(table, with_truth=table is not pool))
    whole = (int(letter) for letters, _ in found for letter in letters if is_number(letter))
    return Labelling(None, max(1, *whole, 1) + 1, votes=votes)


def _spellings(table: Table, column: str) -> tuple[set[str], bool]:
    """The labels of a column as they are spelled (numbers in their own spelling), and whether they are names."""
    values, where = table.columns[column], table.where(column)
    if values.dtype.kind in "iuf":
        # NaN and infinity are refused where the labels are read.
        distinct = np.unique(values[(values >= 0) & np.isfinite(values)])
        return set(map(class_names.spelled, distinct.tolist())), False
    if values.dtype.kind not in "OU":
        return set(), False
    letters = set(pc.unique(text_array(values.reshape(-1), where)).to_pylist()) - {"", "-1"}
    numbers = [spelled_number(letter) for letter in letters]
    if table.by_letter and None not in numbers:
        return {str(number) for number in numbers if number is not None and number >= 0}, False
    return letters, bool(letters)


def find_names(
    golds: Sequence[Table], pool: Table | None, *, given: Sequence[str] | None = None, answers: Collection[str] = (),
    counted: bool = False,
) -> ClassNames | None:  # fmt: skip
    """The class names in gold and in the teacher's labels; None where all labels are numbers.

    ``answers`` to a chosen batch decide only where there is nothing else: a typing mistake must not make a class.
    ``counted``: the user gave the number of classes, so that large numbers are no codes.
    """
    if given is not None:
        return ClassNames(tuple(given), ordered=True)
    texts: set[str] = set()
    numbers: dict[str, set[str]] = {}
    any_text = False
    tables = [*golds, *([] if pool is None else [pool])]
    by_file: list[set[str]] = []
    true: set[str] = set()
    for table in tables:
        by_file.append(set(_field_names(table)))
        texts |= by_file[-1]
        for column in _label_columns(table, with_truth=table is not pool):
            (letters, are_names), kind = _spellings(table, column), table.columns[column].dtype.kind
            by_file[-1] |= letters
            true |= letters if column == "label" else set()
            any_text = any_text or are_names
            if are_names:
                texts |= letters
            elif kind in "iufOUb":
                numbers[table.where(column)] = {"true or false"} if kind == "b" else letters
    texts = texts or (set(answers) if not numbers else set())
    # Probabilities by "0", "1", … beside whole-number labels: numbers after all.
    if not any_text and all(map(is_number, texts)):
        return None if counted else _codes(texts.union(*numbers.values()), tables)
    for where, labels in numbers.items():
        if labels and not labels & texts:
            held = "true or false" if "true or false" in labels else "numbers"
            others = ", ".join(sorted(texts)[:5])
            cure = "use names everywhere, or say what the numbers mean: --classes NAME,NAME in the order 0, 1, …"
            raise UnderstudyError(f"{where} holds {held}, other labels are names ({others}); {cure}")
        texts |= labels
    in_words = [text for text, label in _meant(sorted(texts - true)[:200], sorted(true)).items() if label]
    if len(in_words) > max(2, len(texts - true) // 2):
        answers = f"answers in words, like {in_words[0]!r}; list the classes, and they are read"
        raise UnderstudyError(f"the teacher's labels are {answers}: --classes {','.join(sorted(true))!r}")
    _look_for_near_names(texts, by_file)
    if len(by_file) > 1 and all(by_file) and not set.intersection(*by_file):
        gold_names, pool_names = (", ".join(sorted(letters)[:4]) for letters in by_file)
        both = f"gold's classes ({gold_names}) and the teacher's ({pool_names})"
        raise UnderstudyError(f"{both} have none in common; write them alike, or list them: --classes NAME,NAME")
    return ClassNames.found(texts)


def _codes(labels: set[str], tables: Iterable[Table]) -> ClassNames | None:
    """The numbers as names, where they are too large to count classes by (900000 among three labels)."""
    numbers = sorted(int(label) for label in labels if is_number(label))
    # Lists of probabilities and of indices go by the number of the class.
    by_place = any(
        column.lists or (column.holds == "number per class" and not _field_names(table))
        for table in tables
        for column in table.teacher.values()
        if column.name != "teacher_votes"
    )
    if by_place or len(numbers) < 2 or not len(numbers) <= class_names.MOST_CLASSES <= numbers[-1]:
        return None
    return ClassNames(tuple(map(str, numbers)))


def _look_for_near_names(names: set[str], by_file: Sequence[set[str]]) -> None:
    """A capital, a space or a zero too many makes another class. A file that holds both may mean it; where gold spells
    a class in one way and the pool in another, it is a mistake."""
    spellings: dict[str, str] = {}
    for name in sorted(names):
        if (whole := class_names.without_point(name)) in names:
            both = f"{whole!r} and {name!r} (whole numbers are written so where cells are empty)"
            raise UnderstudyError(f"labels hold {both}; write both alike, or list the classes: --classes NAME,NAME")
        plain = re.sub(r"^0+(?=[0-9])", "", " ".join(name.casefold().split()))
        if (other := spellings.setdefault(plain, name)) == name:
            continue
        differ = f"{other!r} and {name!r} are two classes, which differ in capitals, spaces or zeros only"
        text = f"{differ}; correct one in the files, or list the classes: --classes NAME,NAME"
        if not any({other, name} <= letters for letters in by_file):
            raise UnderstudyError(text)
        warn(text)


def declared_classes(tables: Iterable[Table]) -> tuple[str, ...] | None:
    """The order that the tables themselves declare for their labels; None where none does."""
    found: dict[tuple[str, ...], str] = {}
    for table in tables:
        for column in _label_columns(table, with_truth=True):
            if column in table.declared:
                found.setdefault(table.declared[column], table.where(column))
    if len(found) > 1:
        (one, first), (other, second), *_ = ((", ".join(names), where) for names, where in found.items())
        raise UnderstudyError(f"{first} declares the classes {one}, {second} {other}; say the order: classes=(…)")
    return next(iter(found), None)


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
    #: Our columns, and those of the file that hold them: one, or several where it is spread.
    given: dict[str, list[str]] = {}
    for name in table.names:
        if name in table.teacher:
            given.setdefault(table.teacher[name].name, []).append(name)
        elif name.startswith("teacher_") and name not in (SAW, GOLD_KEYS):
            known = ", ".join(sorted(COLUMNS))
            raise UnderstudyError(f"{table.where(name)} is not known; rename it or use one of {known}")
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
    if how.sources and sources_of(table):
        if odd := {*first} ^ {*how.sources}:
            differ = f"votes of different annotators ({min(odd)!r} is in one of them only)"
            raise UnderstudyError(f"{table.path} and the pool have {differ}; name the same columns in both")
        given[columns[0].name] = first = list(how.sources)
    absent = [column.name for column in columns if column.required and column.name not in given]
    if absent:
        raise UnderstudyError(f"{table.where(first[0])} stands alone; add {absent[0]!r}")
    values = {column.name: _read(column, given[column.name], table, how) for column in columns if column.name in given}
    classes = how.classes if forms[0].needs_classes else None if how.names is None else len(how.names.names)
    prefix = columns[0].prefix
    spread = prefix is not None and all(name.startswith(prefix) for name in first)
    sources = tuple(name.removeprefix(prefix or "") for name in first) if spread else None
    labels = forms[0].from_columns(values, ReadOptions(classes, table.where(first[0]), how.votes, sources))
    if GOLD_KEYS in table.names:
        labels.fitted_to = read_keys(table.columns[GOLD_KEYS])
    return labels


def sources_of(table: Table) -> tuple[str, ...]:
    """The columns of several annotators, where a file has one for each."""
    return tuple(
        name
        for name, column in table.teacher.items()
        if column.prefix and column.holds == "class" and name != column.name
    )


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
    if how.names is not None and not how.names.ordered:
        order = ",".join(how.names.names)
        raise UnderstudyError(f"{table.where(column.name)} holds lists; say which class comes first: --classes {order}")
    return table.numbers(column.name)


def _by_class(given: dict[str, Array], table: Table, how: Labelling) -> Array:
    """Columns by class name, side by side in the order of the classes; 0 for a class that is not among them."""
    if how.names is None:
        order = {name: int(name) for name in given if is_number(name)}
        count = how.classes or max(order.values(), default=0) + 1
        if count > MAX_CLASSES:
            large = f"the teacher scores class {max(order.values())}, which would make {count:,} classes"
            raise UnderstudyError(f"{table.path}: {large}; correct the column's name")
    else:
        order = {name: number for number, name in enumerate(how.names.names)}
        count = len(how.names)
    rows = len(next(iter(given.values())))
    check_memory(8 * rows * count, f"{table.path}: the teacher's probabilities of {count:,} classes")
    probs = np.zeros((rows, count), dtype=np.result_type(np.float32, *given.values()))
    for name, column in given.items():
        if name not in order or order[name] >= count:
            raise UnderstudyError(f"{table.path}: the teacher scores {name!r}, which is not one of the classes")
        probs[:, order[name]] = column
    return probs
