"""Rows that gold, pool, test and select have in common and should not: found before training.

    leaks = find_leaks({"gold": RowSet(texts, ids, labels), "test": RowSet(test_texts, test_ids)})
    leaks = leaks_between(gold=gold, pool=pool, test=test)
    leaks.warn()

Found are ids that occur in two sets, exact copies, and rows that are the same but for rounding (numbers), case,
spacing and punctuation (text) or brightness, size and noise (images); copies within a set whose labels contradict each
other; and many copies within gold. A row counts as one kind of copy, the closest that holds; ids shared by different
contents count apart. Rows of a coarse table (age, sex, job) are equal by chance: where two sets share rows as often as
the rows of one set repeat, they are different examples, and nothing warns of them (``Leak.by_chance``).

    for line in leaks.lines():
        print(line)
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np
import torch
from torch import Tensor

from understudy.data.checks import check_length
from understudy.data.examples import Gold, Pool, weighed
from understudy.data.lookalikes import (
    Codes,
    ImageHashes,
    Lookalike,
    NumberCells,
    NumberRows,
    first_alike,
    read_numbers,
    read_texts,
)
from understudy.data.rows import Rows
from understudy.errors import UnderstudyError, warn
from understudy.store.arrow import Array
from understudy.store.console import from_report

SAME_ID, OTHER_CONTENT, EXACT, NEAR, CONTRADICTION = "same id", "other content", "exact", "near", "contradiction"
REPEATED = "repeated"
KINDS = (SAME_ID, EXACT, NEAR, OTHER_CONTENT, CONTRADICTION, REPEATED)

# The worst first: a score measured on rows that were trained on is worth nothing.
PAIRS = (
    ("gold", "test"), ("pool", "test"), ("select", "test"), ("gold", "select"), ("pool", "select"), ("gold", "pool"),
)  # fmt: skip
EXAMPLES = 5
# Shorter than this on a side, a row with two axes is more likely a table or a signal.
_SMALLEST_IMAGE = 16
# Where features tell rows apart, those that repeat more rarely within a set are copies.
_COARSE = 0.005
# This share of repeated rows of gold raises a cross-validated accuracy by at most two points.
_FEW = 0.02
# Rows of the larger set that are compared with its others.
_COMPARED = 5000

#: Rows of one set, and for each the row of the other that matches.
Pairs = tuple[Array, Array]


@dataclass(frozen=True)
class RowSet:
    """One set: what its rows hold, and how they are called."""

    #: Numbers (an array, a memory map, a tensor, ``Rows``; one row per example) or texts. None: compare ids alone.
    content: Any = None
    #: Unique.
    ids: Any = None
    #: Class numbers; −1 for none.
    labels: Any = None
    #: Whether an array of numbers holds images.
    images: bool = False


@dataclass(frozen=True)
class Leak:
    """``rows`` of the ``of`` rows of the second set have a counterpart in the first (for contradictions: the same)."""

    kind: str
    sets: tuple[str, str]
    rows: int
    of: int
    #: Up to five pairs of ids (row numbers where there are none), in the order of ``sets``.
    examples: tuple[tuple[Any, Any], ...]
    #: Whether rows within a set are as often alike: features too coarse to identify a row.
    by_chance: bool = False

    def line(self) -> str:
        return str(from_report("templates").sentences("leaks", "line", self)[0])


@dataclass(frozen=True)
class Leaks:
    #: The most severe first.
    found: tuple[Leak, ...]
    #: What could not be searched, and why.
    notes: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.found)

    def __iter__(self) -> Iterator[Leak]:
        return iter(self.found)

    def lines(self) -> list[str]:
        return [leak.line() for leak in self.found] + list(self.notes)

    def warn(self) -> None:
        """One warning per kind: its worst case in full, the others in numbers."""
        for kind in KINDS:
            alike = [leak for leak in self.found if leak.kind == kind and not leak.by_chance]
            if alike:
                more = ", ".join(f"{leak.rows:,} in {'/'.join(dict.fromkeys(leak.sets))}" for leak in alike[1:])
                warn(alike[0].line() + (f" (also {more})" if more else ""))


def leaks_between(
    gold: Gold | None = None, pool: Pool | None = None, test: Gold | None = None, select: Gold | None = None
) -> Leaks:
    """Leaks between the sets of a training. Of a Dataset, which is read row by row, only the ids are compared."""
    sets: dict[str, RowSet] = {}
    notes = []
    pool = pool if gold is None else weighed(pool, gold)
    for name, part in {"gold": gold, "pool": pool, "test": test, "select": select}.items():
        if part is None:
            continue
        content: Rows | list[str] | None = part.rows
        if part.rows.is_text:
            content = part.rows.take(torch.arange(len(part)))
        if part.rows.per_row:
            content = None
            notes.append(f"{name} is a Dataset: it was searched for shared ids, not for copies")
        teacher = None if part.teacher is None or part.teacher.needs_gold else part.teacher
        labels = part.y if isinstance(part, Gold) else None if teacher is None else teacher.top1()
        sets[name] = RowSet(content, part.ids, None if labels is None else labels.numpy(), _looks_like_images(content))
    leaks = find_leaks(sets)
    return replace(leaks, notes=(*notes, *leaks.notes))


def find_leaks(sets: Mapping[str, RowSet]) -> Leaks:
    """Compare every two sets. Memory: 200 bytes per row, and a chunk of the rows."""
    ids = {name: None if part.ids is None else np.asarray(part.ids) for name, part in sets.items()}
    filled = {name: source for name, source in sets.items() if source.content is not None and len(source.content)}
    codes, alikes = _read_sets(filled)
    leaks, notes, coarse = list[Leak](), list[str](), False
    for pair in combinations(sets, 2):
        a, b = pair if pair[::-1] not in PAIRS else pair[::-1]
        pairs = _shared_ids(ids[a], ids[b], codes.get(a), codes.get(b))
        if a in codes and b in codes:
            copies, left_out = _copies(codes[a], codes[b], alikes[a], alikes[b], without=pairs[SAME_ID][1])
            pairs |= copies
            if left_out:
                notes.append(f"{a} and {b} hold so many similar rows that not all were compared for near copies")
        size = len(next((each for each in (sets[b].content, sets[b].ids) if each is not None), ()))
        by_chance = dict[str, bool]()
        if EXACT in pairs and isinstance(cells := alikes[a], NumberCells):
            least = _COARSE if cells.rich else 0.0
            by_chance[EXACT] = equal = _equal_by_chance(codes[a], codes[b], pairs, least)
            coarse |= equal
            near = len(pairs[NEAR][1])
            by_chance[NEAR] = equal or (near > 0 and _near_by_chance(cells, alikes[b], near / max(1, size), least))
        leaks += [
            Leak(kind, (a, b), len(rows[1]), size, _named(rows, (a, b), ids), by_chance.get(kind, False))
            for kind, rows in pairs.items()
            if len(rows[0])
        ]
    for name, source in filled.items():
        if name == "gold":
            leaks += _repeated(name, codes[name], ids, coarse or not getattr(alikes[name], "rich", True))
        if source.labels is not None:
            check_length(len(source.labels), len(codes[name]), f"{name}.labels", f"the content of {name}")
            found = _contradictions(name, codes[name], np.asarray(source.labels), ids)
            leaks += [replace(leak, by_chance=coarse) for leak in found]
    return Leaks(tuple(sorted(leaks, key=_severity)), tuple(notes))


def _severity(leak: Leak) -> tuple[int, int]:
    place = PAIRS.index(leak.sets) if leak.sets in PAIRS else len(PAIRS) + (leak.sets[0] == leak.sets[1])
    return place, KINDS.index(leak.kind)


def _looks_like_images(content: Rows | list[str] | None) -> bool:
    """Rows (height, width), or (channels, height, width) and the like."""
    row = None if content is None or not len(content) or isinstance(content, list) else content.take(torch.arange(1))
    if not isinstance(row, Tensor) or row.dim() not in (3, 4):
        return False
    return sorted(row.shape[1:])[-2] >= _SMALLEST_IMAGE


def _read_sets(sets: Mapping[str, RowSet]) -> tuple[Codes, Mapping[str, Lookalike]]:
    """Sets of one kind, turned into codes (equal rows, equal codes) and lookalikes."""
    if not sets:
        return {}, {}
    kinds = {name: _kind(name, source) for name, source in sets.items()}
    if len(set(kinds.values())) > 1:
        listed = ", ".join(f"{name} {kind}" for name, kind in kinds.items())
        raise UnderstudyError(f"the sets hold different things ({listed}); compare like with like")
    contents = {name: source.content for name, source in sets.items()}
    if "texts" in kinds.values():
        return read_texts(contents)
    rows, images = {name: NumberRows(content, name) for name, content in contents.items()}, "images" in kinds.values()
    codes, alikes = read_numbers(rows, near=not images)
    return codes, {name: ImageHashes(part) for name, part in rows.items()} if images else alikes


def _kind(name: str, source: RowSet) -> str:
    content = source.content
    if isinstance(content, Rows | Tensor) or (isinstance(content, np.ndarray) and content.dtype.kind in "biuf"):
        return "images" if source.images else "numbers"
    for row, entry in enumerate(content):
        if not isinstance(entry, str):
            raise UnderstudyError(f"{name} row {row} is a {type(entry).__name__}; give an array of numbers, or texts")
    return "texts"


def _shared_ids(a: Array | None, b: Array | None, codes_a: Array | None, codes_b: Array | None) -> dict[str, Pairs]:
    nothing = np.empty(0, dtype=np.int64)
    if a is None or b is None:
        return {SAME_ID: (nothing, nothing)}
    # As text: one file may hold numbers where another holds the same as words.
    _, mine, theirs = np.intersect1d(a.astype(str), b.astype(str), assume_unique=True, return_indices=True)
    order = np.argsort(theirs)
    mine, theirs = mine[order], theirs[order]
    if codes_a is None or codes_b is None:
        return {SAME_ID: (mine, theirs)}
    same = codes_a[mine] == codes_b[theirs]
    return {SAME_ID: (mine[same], theirs[same]), OTHER_CONTENT: (mine[~same], theirs[~same])}


def _copies(a: Array, b: Array, like_a: Lookalike, like_b: Lookalike, without: Array) -> tuple[dict[str, Pairs], bool]:
    """Exact and near copies; rows of ``b`` that are known by their id already are left ``without``."""
    first = np.full(int(max(a.max(), b.max())) + 1, -1)
    first[a[::-1]] = np.arange(len(a))[::-1]
    match = first[b]
    exact = match >= 0
    rest = ~exact
    exact[without] = rest[without] = False
    near, left_out = first_alike(like_a, like_b, first[first >= 0], np.flatnonzero(rest))
    close = np.flatnonzero(near >= 0)
    return {EXACT: (match[exact], np.flatnonzero(exact)), NEAR: (near[close], close)}, left_out


def _equal_by_chance(a: Array, b: Array, pairs: Mapping[str, Pairs], least: float) -> bool:
    """Whether rows of ``b`` are equal to rows of ``a`` about as often as if both were drawn from the larger set, of
    which more than the ``least`` share repeats."""
    larger = max(a, b, key=len)
    others = np.bincount(larger)[larger] - 1
    # Each of a row's equals is among the rows of ``a`` with this probability.
    drawn = min(1.0, len(a) / max(1, len(larger) - 1))
    expected = float((1 - (1 - drawn) ** others).mean())
    found = len(pairs[EXACT][1]) / max(1, len(b) - len(pairs[SAME_ID][1]))
    # Of pairs of random parts of Adult, by 2 to 13 of its columns, 99.5% lie within.
    slack = _slack(expected, min(len(a), len(b)))
    within = expected / 1.1 - slack <= found <= 1.1 * expected + slack
    return bool((others > 0).mean() > least and within)


def _slack(expected: float, rows: int) -> float:
    """Three standard errors of a share of so many rows, of which one more may be alike."""
    return float(3 * np.sqrt((expected + 1 / max(1, rows)) / max(1, rows)))


def _near_by_chance(a: Lookalike, b: Lookalike, found: float, least: float) -> bool:
    """Whether rows of ``b`` are nearly equal to rows of ``a`` no more often than rows of the larger set to each other:
    one fine column among coarse ones tells few rows apart."""
    larger = max(a, b, key=lambda each: len(each.entered))
    order = np.random.default_rng(0).permutation(len(larger.entered))
    some, others = np.split(order, [min(len(order) // 2, _COMPARED)])

    def expected(rows: Array) -> float:
        """The more ``rows``, the more precise; more than ``a`` has say too little where most have several."""
        match, _ = first_alike(larger, larger, np.sort(rows), np.sort(some))
        return float((match[some] >= 0).sum() * len(a.entered) / max(1, len(some) * len(rows)))

    share = max(expected(others), expected(others[: len(a.entered)]))
    return share > least and found <= 1.1 * share + _slack(share, min(len(some), len(b.entered)))


def _repeated(name: str, codes: Array, ids: Mapping[str, Array | None], coarse: bool) -> list[Leak]:
    """Rows that are equal to an earlier one, which cross-validation trains on."""
    _, first, group = np.unique(codes, return_index=True, return_inverse=True)
    again = np.flatnonzero(first[group] < np.arange(len(codes)))
    leak = Leak(REPEATED, (name, name), len(again), len(codes), _named((first[group][again], again), (name, name), ids))
    return [replace(leak, by_chance=coarse)] if len(again) > _FEW * len(codes) else []


def _contradictions(name: str, codes: Array, labels: Array, ids: Mapping[str, Array | None]) -> list[Leak]:
    """Equal rows with different labels."""
    rows = np.flatnonzero(labels >= 0)
    _, first, group = np.unique(codes[rows], return_index=True, return_inverse=True)
    equal = rows[first][group]  # the first row that is equal
    differs = labels[rows] != labels[equal]
    if not differs.any():
        return []
    firsts, seconds = np.unique(equal[differs], return_index=True)
    examples = _named((firsts, rows[differs][seconds]), (name, name), ids)
    return [Leak(CONTRADICTION, (name, name), int(np.isin(equal, firsts).sum()), len(labels), examples)]


def _named(pairs: Pairs, sets: tuple[str, str], ids: Mapping[str, Array | None]) -> tuple[tuple[Any, Any], ...]:
    some = [(ids[name], rows[:EXAMPLES]) for name, rows in zip(sets, pairs, strict=True)]
    a, b = ((rows if called is None else called[rows]).tolist() for called, rows in some)
    return tuple(zip(a, b, strict=True))
