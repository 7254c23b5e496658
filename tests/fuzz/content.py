"""Tables whose form is right and whose content is not: gaps, wrong types, repeated ids, unknown classes, …"""

import datetime
import math
import random
from collections.abc import Callable
from typing import Any

from fuzz.good import Cells

ODD: list[Any] = [
    *(None, "", " ", "unknown", "-1", "nan", "1e400", "\0", "a\nb", "=1+1", "٣", "\ud800", "x" * 5_000),
    *(math.nan, math.inf, -math.inf, -1, -2, 7, 0.5, 2**31, 2**63, 2**64, -(2**63) - 1, 10**30, 1e308, 5e-324),
    *(True, [], [1], [[1]], [1, [2]], [None], {}, {"a": 1}, {"a": "b"}, {"": 1}, {"neg": 0.5, "pos": 0.5}, b"\xff\x00"),
]


def spoil(cells: Cells, draw: random.Random) -> Cells:
    """One to three mistakes."""
    cells = {name: list(column) for name, column in cells.items()}
    for _ in range(draw.choice([1, 1, 2, 3])):
        if cells and all(cells.values()):
            draw.choice(MISTAKES)(cells, draw)
    return cells


def _column(cells: Cells, draw: random.Random) -> str:
    return draw.choice(list(cells))


def _odd_cell(cells: Cells, draw: random.Random) -> None:
    column = cells[_column(cells, draw)]
    column[draw.randrange(len(column))] = draw.choice(ODD)


def _odd_column(cells: Cells, draw: random.Random) -> None:
    name = _column(cells, draw)
    cells[name] = [draw.choice(ODD)] * len(cells[name])


def _odd_dates(cells: Cells, draw: random.Random) -> None:
    name = _column(cells, draw)
    cells[name] = [datetime.datetime(2020, 1, 1) + datetime.timedelta(days=row) for row in range(len(cells[name]))]


def _repeated(cells: Cells, draw: random.Random) -> None:
    name = "id" if "id" in cells else _column(cells, draw)
    cells[name][-1] = cells[name][0]


def _swapped(cells: Cells, draw: random.Random) -> None:
    one, other = _column(cells, draw), _column(cells, draw)
    cells[one], cells[other] = cells[other], cells[one]


def _without(cells: Cells, draw: random.Random) -> None:
    del cells[_column(cells, draw)]


def _renamed(cells: Cells, draw: random.Random) -> None:
    name = draw.choice(
        ["", " id", "ID", "teacher_", "teacher_foo", "teacher_prob_", "teacher_vote_", "label", "x", "\0"]
    )
    cells[name] = cells.pop(_column(cells, draw))


def _another_form(cells: Cells, draw: random.Random) -> None:
    rows = len(next(iter(cells.values())))
    name, cell = draw.choice(
        [
            ("teacher_label", 0),
            ("teacher_probs", [0.5, 0.5]),
            ("teacher_votes", [0, 1]),
            ("teacher_topk_index", [0]),
            ("teacher_topk_prob", [1.0]),
            ("teacher_topk_tail", 0.0),
            ("teacher_confidence", 0.5),
            ("teacher_prob_neg", 1.0),
            ("x", [1.0, 2.0]),
        ]
    )
    cells[name] = [cell] * rows


def _uneven(cells: Cells, draw: random.Random) -> None:
    lists = [name for name, column in cells.items() if isinstance(column[0], list)]
    if lists:
        column = cells[draw.choice(lists)]
        row = draw.randrange(len(column))
        if isinstance(column[row], list):
            column[row] = draw.choice(
                [
                    [],
                    column[row][:-1],
                    [*column[row], 0.5],
                    [column[row]],
                    [draw.choice([None, math.nan, math.inf]), *column[row][1:]],
                ]
            )


def _off(cells: Cells, draw: random.Random) -> None:
    """Numbers that are a little or far too large."""
    name = _column(cells, draw)
    factor = draw.choice([1.01, -1.0, 100.0, 1e30, 0.0])

    def scaled(cell: Any) -> Any:
        if isinstance(cell, list):
            return [scaled(inner) for inner in cell]
        return cell * factor if isinstance(cell, int | float) else cell

    cells[name] = [scaled(cell) for cell in cells[name]]


def _no_rows(cells: Cells, draw: random.Random) -> None:
    for name in cells:
        cells[name] = []


def _one_row(cells: Cells, draw: random.Random) -> None:
    for name in cells:
        cells[name] = cells[name][:1]


MISTAKES: list[Callable[[Cells, random.Random], None]] = [
    *(_odd_cell, _odd_cell, _odd_cell, _odd_cell, _odd_column, _odd_dates, _repeated, _repeated, _swapped, _without),
    *(_renamed, _another_form, _uneven, _uneven, _off, _no_rows, _one_row),
]
