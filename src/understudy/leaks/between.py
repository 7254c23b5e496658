"""Rows that gold, pool, test and select have in common and should not: found before training.

    leaks = find_leaks({"gold": Source(texts, ids, labels), "test": Source(test_texts, test_ids)})
    leaks = leaks_between(gold=gold, pool=pool, test=test)
    leaks.warn()

Found are ids that occur in two sets, exact copies, and rows that are the same but for rounding (numbers), case,
spacing and punctuation (text) or brightness, size and noise (images); and copies within a set whose labels contradict
each other. A row counts as one kind of copy, the closest that holds; ids shared by different contents count apart.
"""

from collections.abc import Mapping
from itertools import combinations
from typing import Any

import numpy as np

from understudy.data.checks import check_ids, check_length
from understudy.data.examples import Gold, Pool
from understudy.data.rows import Rows
from understudy.leaks.lookalikes import Lookalike, first_alike
from understudy.leaks.report import (
    CONTRADICTION,
    EXACT,
    EXAMPLES,
    NEAR,
    OTHER_CONTENT,
    PAIRS,
    SAME_ID,
    Leak,
    Leaks,
    severity,
)  # fmt: skip
from understudy.leaks.rows import Source, looks_like_images, read_sources
from understudy.store.arrow import Array

__all__ = ["Leak", "Leaks", "Source", "find_leaks", "leaks_between"]


def leaks_between(
    gold: Gold | None = None, pool: Pool | None = None, test: Gold | None = None, select: Gold | None = None
) -> Leaks:
    """Leaks between the sets of a training. A Dataset is asked row by row, so of it only the ids are compared."""
    sets: dict[str, Source] = {}
    notes = []
    for name, part in {"gold": gold, "pool": pool, "test": test, "select": select}.items():
        if part is None:
            continue
        content: Rows | None = part.rows
        if part.rows.per_row:
            content = None
            notes.append(f"{name} is a Dataset: it was searched for shared ids, not for copies")
        labels = part.y if isinstance(part, Gold) else None if part.teacher is None else part.teacher.top1()
        sets[name] = Source(content, part.ids, None if labels is None else labels.numpy(), looks_like_images(content))
    found = find_leaks(sets)
    return Leaks(found.found, (*notes, *found.notes))


def find_leaks(sets: Mapping[str, Source]) -> Leaks:
    """Compare every two sets. Memory: about 200 bytes per row, and a chunk of the rows at a time."""
    ids = {name: _ids(name, source) for name, source in sets.items()}
    filled = {name: source for name, source in sets.items() if source.content is not None and len(source.content)}
    codes, alikes = read_sources(filled)
    found: list[Leak] = []
    notes: list[str] = []
    for pair in combinations(sets, 2):
        a, b = pair if pair[::-1] not in PAIRS else pair[::-1]
        pairs = _shared_ids(ids[a], ids[b], codes.get(a), codes.get(b))
        if a in codes and b in codes:
            copies, left_out = _copies(codes[a], codes[b], alikes[a], alikes[b], without=pairs[SAME_ID][1])
            pairs |= copies
            if left_out:
                notes.append(f"{a} and {b} hold so many similar rows that not all were compared for near copies")
        size = _size(sets[b])
        found += [_leak(kind, (a, b), rows, size, ids) for kind, rows in pairs.items() if len(rows[0])]
    for name, source in filled.items():
        if source.labels is not None:
            check_length(len(source.labels), len(codes[name]), f"{name}.labels", f"the content of {name}")
            found += _contradictions(name, codes[name], np.asarray(source.labels), ids)
    return Leaks(tuple(sorted(found, key=severity)), tuple(notes))


Pairs = tuple[Array, Array]
"""Rows of one set, and for each the row of the other that matches."""


def _ids(name: str, source: Source) -> Array | None:
    return check_ids(source.ids, _size(source), name)


def _size(source: Source) -> int:
    some = source.ids if source.content is None else source.content
    return 0 if some is None else len(some)


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
    found = np.flatnonzero(near >= 0)
    return {EXACT: (match[exact], np.flatnonzero(exact)), NEAR: (near[found], found)}, left_out


def _contradictions(name: str, codes: Array, labels: Array, ids: Mapping[str, Array | None]) -> list[Leak]:
    rows = np.flatnonzero(labels >= 0)
    rows = rows[np.argsort(codes[rows], kind="stable")]
    if not len(rows):
        return []
    starts = np.flatnonzero(np.diff(codes[rows], prepend=-1))
    lowest, highest = (pick.reduceat(labels[rows], starts) for pick in (np.minimum, np.maximum))
    bad = np.flatnonzero(lowest != highest)
    if not len(bad):
        return []
    sizes = np.diff(starts, append=len(rows))
    bad = bad[np.argsort(rows[starts[bad]], kind="stable")]
    firsts = rows[starts[bad[:EXAMPLES]]]
    groups = [rows[starts[group] : starts[group] + sizes[group]] for group in bad[:EXAMPLES]]
    seconds = np.array(
        [group[labels[group] != labels[one]][0] for group, one in zip(groups, firsts, strict=True)], dtype=np.int64
    )
    examples = _named((firsts, seconds), (name, name), ids)
    return [Leak(CONTRADICTION, (name, name), int(sizes[bad].sum()), len(labels), examples)]


def _leak(kind: str, sets: tuple[str, str], pairs: Pairs, size: int, ids: Mapping[str, Array | None]) -> Leak:
    return Leak(kind, sets, len(pairs[1]), size, _named(pairs, sets, ids))


def _named(pairs: Pairs, sets: tuple[str, str], ids: Mapping[str, Array | None]) -> tuple[tuple[Any, Any], ...]:
    def names(rows: Array, name: str) -> list[Any]:
        called = ids[name]
        return list((rows if called is None else called[rows]).tolist())

    (a, b), (mine, theirs) = sets, (pairs[0][:EXAMPLES], pairs[1][:EXAMPLES])
    return tuple(zip(names(mine, a), names(theirs, b), strict=True))
