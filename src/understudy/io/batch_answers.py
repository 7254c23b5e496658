"""Answers to a batch that was chosen for labelling: a file of ``id`` and ``label``, filled in by people.

``label`` holds a class (its name or number), or ``skip`` (or −1) where no label can be given; such rows are left out. A
class that is called ``skip`` is that class. ``chosen`` (optional, 0 or 1) marks the rows that a strategy picked;
without it all were. ``suggestion_shown`` (optional, true or false) marks the rows whose annotator saw a suggestion:
such a label is biased towards it, so it trains and never calibrates. Other columns (scores, reasons) are ignored.
"""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from understudy.errors import UnderstudyError
from understudy.io.label_columns import DRAWN, SHOWN, true_or_false
from understudy.io.table import Table, read_table
from understudy.labels.class_names import SKIPPED, ClassNames
from understudy.store.arrow import object_column

_WHOLE = re.compile(r"0|-?[1-9][0-9]*")


def read_chosen(table: Table, pool: Table, names: ClassNames) -> Table:
    """Columns ``id`` (of the pool's type), ``label`` (numbers) and ``chosen`` of the rows that were answered."""
    path, given = table.path, {name: table.texts(name) for name in table.names}
    if pool.numbered and "row" in given and "id" not in given:
        given["id"] = given["row"]
        _check_rows(given, pool, f"{path}: column 'row'")
    for name in ("id", "label"):
        if name not in given:
            raise UnderstudyError(f"{path} has no column {name!r}; answers are joined to {pool.path} by id: add ids")
    known = pool.known_ids(f" to join the answers of {path} by; add it")
    labels = [label.strip() for label in given["label"]]
    if "" in labels:
        raise UnderstudyError(f"{path}: column 'label' row {labels.index('')} is empty; write its class, or skip")
    answered = [row for row, label in enumerate(labels) if not names.skips(label)]
    if not answered:
        raise UnderstudyError(f"{path}: every row is skipped; leave the file out")
    chosen = given.get("chosen", ["1"] * len(labels))
    shown = given.get(SHOWN, ["false"] * len(labels))
    seen = true_or_false(shown, f"{path}: column {SHOWN!r}", "the annotator saw a suggestion")
    drawn = {DRAWN: ["" if seen[row] else given[DRAWN][row] for row in answered]} if DRAWN in given else {}
    ids = [given["id"][row] for row in answered]
    # As numbers where the pool's are numbers; whether the pool has them is checked later.
    whole = known.dtype.kind in "iu" and all(map(_WHOLE.fullmatch, ids))
    found = {
        "id": np.asarray([int(text) for text in ids]) if whole else object_column(ids),
        "label": np.array([names.number(labels[row], f"{path}: column 'label' row {row}") for row in answered]),
        "chosen": np.array([seen[row] or chosen[row].strip() not in ("0", "False", "false") for row in answered]),
    }
    found |= {name: object_column(cells) for name, cells in drawn.items()}
    return table.with_columns(found, np.array(answered), "answered rows")


def _check_rows(answers: Mapping[str, Sequence[str]], pool: Table, where: str) -> None:
    """Refuses row numbers of another state of the file, by the texts that stand beside them."""
    rows = [int(text) if _WHOLE.fullmatch(text) else -1 for text in answers["row"]]
    for name in answers.keys() & pool.names:
        cells = pool.columns[name] if name not in ("id", "label") else np.empty(0)
        if cells.dtype != object:
            continue
        for place, (row, text) in enumerate(zip(rows, answers[name], strict=True)):
            if not 0 <= row < len(cells) or text != str(cells[row] or ""):
                held = f"{name!r} of row {answers['row'][place]} is another in {pool.path}"
                raise UnderstudyError(f"{where} row {place}: {held}; select again")


def named_answers(paths: Sequence[str | Path]) -> set[str]:
    """Every class in some files of answers."""
    return classes_named([read_table(path) for path in paths])


def classes_named(answered: Sequence[Table]) -> set[str]:
    labels = {label.strip() for table in answered if "label" in table.names for label in table.texts("label")}
    return {label for label in labels if label and label.lower() not in SKIPPED}
