"""Tables whose meaning is known are understood right or refused; and the fuzz sees it when they are not.

``make meaning`` tries 3,000 tables (two minutes of one core); here are the first of them.
"""

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from fuzz.meaning import Tally, run_tables, run_world

TABLES = 60


def test_every_table_is_understood_right_or_refused(tmp_path: Path) -> None:
    found = run_tables(TABLES, tmp_path)
    assert not found.silent, "\n".join([str(found), *found.silent])
    assert found.tables >= TABLES
    ends = Counter({end: sum(n for (_, each), n in found.ends.items() if each == end) for end in ("right", "refused")})
    assert min(ends.values()) > TABLES / 6, f"{ends}: it tries too little"


def _as_it_came(column: Any, kind: str, letters: Any, where: str) -> Any:
    return column


def _loosely(word: str) -> int | None:
    try:
        return int(float(word or -1))
    except (ValueError, OverflowError):
        return None


def _as_places(names: Any, column: Any, *_: Any) -> Any:
    return column.astype(int) % len(names)


def _nothing(*_: Any) -> None:
    return None


MISTAKES: dict[str, tuple[str, Callable[..., Any]]] = {
    "a CSV that happens to hold digits is numbers": ("table.as_kind", _as_it_came),
    "ids that differ in spelling are other rows": ("table.misspelt", _nothing),
    "007 is 7": ("label_columns.spelled_number", _loosely),
    "numbers are places among the names": ("label_columns.ClassNames._of_numbers", _as_places),
    "gold and pool spell a class in two ways": ("label_columns._look_for_near_names", _nothing),
}
FOUND_IN = {
    "a CSV that happens to hold digits is numbers": 6,
    "ids that differ in spelling are other rows": 1,
    "007 is 7": 11,
    "numbers are places among the names": 2,
    "gold and pool spell a class in two ways": 29,
}
"""The first world that shows it."""


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_in_reading_is_seen(mistake: str, tmp_path: Path) -> None:
    place, wrong = MISTAKES[mistake]
    tally = Tally(Counter(), [])
    with mock.patch(f"understudy.io.{place}", wrong):
        run_world(FOUND_IN[mistake], tmp_path / "world", tally)
    assert tally.silent, f"{mistake}: {tally}"
