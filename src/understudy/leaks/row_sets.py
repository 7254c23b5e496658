"""What the search for leaks reads: sets of one kind, turned into codes (equal rows, equal codes) and lookalikes."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from understudy.data.rows import Rows
from understudy.errors import UnderstudyError
from understudy.leaks.image_hash import Images
from understudy.leaks.lookalikes import (
    TABLES,
    Lookalike,
    NumberRows,
    Numbers,
    Scale,
    Texts,
    hash_bytes,
    hash_numbers,
    hash_texts,
)
from understudy.store.arrow import Array

# Rows that tell how widely the features spread.
_SAMPLE = 1 << 14
# Shorter than this on a side, a row with two axes is more likely a table or a signal.
_SMALLEST_IMAGE = 16

Codes = dict[str, Array]


@dataclass(frozen=True)
class RowSet:
    """One set: what its rows hold, and how they are called."""

    content: Any = None
    """Numbers (an array, a memory map, a tensor, ``Rows``; one row per example), texts, or the bytes of image files.
    None: compare ids alone."""
    ids: Any = None
    labels: Any = None
    """Class numbers; −1 for none."""
    images: bool = False
    """Whether an array of numbers holds images."""


def looks_like_images(content: Rows | None) -> bool:
    """Rows (height, width), or (channels, height, width) and the like."""
    row = None if content is None or not len(content) else content.take(torch.arange(1))
    if not isinstance(row, Tensor) or row.dim() not in (3, 4):
        return False
    return sorted(row.shape[1:])[-2] >= _SMALLEST_IMAGE


def read_sets(sets: Mapping[str, RowSet]) -> tuple[Codes, dict[str, Lookalike]]:
    if not sets:
        return {}, {}
    kinds = {name: _kind(name, source) for name, source in sets.items()}
    if len(set(kinds.values())) > 1:
        listed = ", ".join(f"{name} {kind}" for name, kind in kinds.items())
        raise UnderstudyError(f"the sets hold different things ({listed}); compare like with like")
    kind = next(iter(kinds.values()))
    contents = {name: source.content for name, source in sets.items()}
    if kind in ("numbers", "images"):
        return _read_numbers(contents, images=kind == "images")
    if kind == "texts":
        for name, content in contents.items():
            _check_type(content, str, f"{name} row {{}} is a {{}}, not text; give texts alone")
        exact = {name: hash_texts(content) for name, content in contents.items()}
        return _codes(exact), {name: Texts(hash_texts(content, normalised=True)) for name, content in contents.items()}
    for name, content in contents.items():
        _check_type(content, bytes, f"{name} row {{}} is a {{}}; image files are given as bytes")
    exact = {name: hash_bytes(content) for name, content in contents.items()}
    return _codes(exact), {name: Images(content, name) for name, content in contents.items()}


def _kind(name: str, source: RowSet) -> str:
    content = source.content
    if isinstance(content, Rows | Tensor) or (isinstance(content, np.ndarray) and content.dtype.kind in "biuf"):
        return "images" if source.images else "numbers"
    if isinstance(content, np.ndarray | list | tuple):
        if isinstance(content[0], str):
            return "texts"
        if isinstance(content[0], bytes):
            return "files"
    raise UnderstudyError(
        f"{name} holds {type(content[0]).__name__} values; give an array of numbers, texts, or image files as bytes"
    )


def _check_type(content: Any, kind: type, message: str) -> None:
    for number, entry in enumerate(content):
        if not isinstance(entry, kind):
            raise UnderstudyError(message.format(number, type(entry).__name__))


def _read_numbers(contents: dict[str, Any], *, images: bool) -> tuple[Codes, dict[str, Lookalike]]:
    rows = {name: NumberRows(content, name) for name, content in contents.items()}
    widths = {name: part.width for name, part in rows.items()}
    if len(set(widths.values())) > 1:
        listed = ", ".join(f"{name} {width}" for name, width in widths.items())
        raise UnderstudyError(f"rows differ in how many numbers they hold ({listed}); give all sets the same features")
    whole = all(part.whole for part in rows.values())
    scale = None if whole or images else Scale.of(_sample(list(rows.values())))
    exact: Codes = {}
    alikes: dict[str, Lookalike] = {}
    for name, part in rows.items():
        exact[name] = np.empty((len(part), 2), dtype=np.uint64)
        keys = np.empty((len(part), 0 if scale is None else TABLES), dtype=np.uint64)
        for here, chunk in part.chunks(whole=whole):
            exact[name][here] = hash_numbers(chunk)
            if scale is not None:
                keys[here] = scale.keys(chunk)
        alikes[name] = Images(part, name) if images else Numbers(part, scale, keys)
    return _without_collisions(_codes(exact), rows, whole=whole), alikes


def _sample(parts: list[NumberRows]) -> Array:
    """Rows from everywhere, evenly spaced."""
    most = max(1, min(_SAMPLE, parts[0].chunk()) // len(parts))
    spaced = [np.unique(np.linspace(0, len(part) - 1, min(most, len(part))).astype(np.int64)) for part in parts]
    return np.concatenate([part.take(index, whole=False) for part, index in zip(parts, spaced, strict=True)])


def _codes(fingerprints: Codes) -> Codes:
    """Small whole numbers in place of fingerprints."""
    together = np.concatenate(list(fingerprints.values()))
    order = np.lexsort((together[:, 1], together[:, 0]))
    codes = np.empty(len(together), dtype=np.int64)
    codes[order] = np.cumsum((np.diff(together[order], axis=0, prepend=together[order[:1]]) != 0).any(1))
    return _apart(codes, {name: len(values) for name, values in fingerprints.items()})


def _apart(together: Array, sizes: dict[str, int]) -> Codes:
    return dict(zip(sizes, np.split(together, np.cumsum(list(sizes.values()))[:-1]), strict=True))


def _without_collisions(codes: Codes, rows: dict[str, NumberRows], *, whole: bool) -> Codes:
    """Every row compared with the first of its code; one that differs after all gets a code of its own."""
    names, sizes = list(codes), {name: len(part) for name, part in codes.items()}
    together = np.concatenate(list(codes.values()))
    highest = int(together.max())
    first = np.full(highest + 1, -1)
    first[together[::-1]] = np.arange(len(together))[::-1]
    leaders = _apart(first[together], sizes)
    starts = dict(zip(names, np.cumsum([0, *list(sizes.values())[:-1]]).tolist(), strict=True))
    for name in names:
        for other in names:
            leader = leaders[name] - starts[other]
            ours = np.flatnonzero((leader >= 0) & (leader < sizes[other]))
            if name == other:
                ours = ours[leader[ours] != ours]
            step = rows[name].chunk()
            for begin in range(0, len(ours), step):
                some = ours[begin : begin + step]
                a, b = rows[name].take(some, whole=whole), rows[other].take(leader[some], whole=whole)
                # Bit by bit: NaN is the same as NaN here.
                differs = (a.view(np.uint32) != b.view(np.uint32)).any(1)
                odd = some[differs]
                codes[name][odd] = highest + 1 + np.arange(len(odd))
                highest += len(odd)
    return codes
