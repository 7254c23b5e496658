"""Rows as numbers that are quickly compared: hashes of equal rows are equal, keys of similar ones probably.

**Equal rows.** Every row of a set becomes 128 bits of BLAKE2, so that equal rows are found by sorting numbers, whatever
the rows are.

**Similar rows**, without comparing every row with every other. Each row is entered in a few tables under a key that
similar rows probably share. Pairs that share a key are candidates; only those that are really alike are kept, so that
chance never makes a pair.

=======  =====================================================  =======================================================
rows     keys                                                   alike
=======  =====================================================  =======================================================
numbers  8 times: 4 random projections, cut into cells          every feature within 10⁻³ of its standard deviation
                                                                (and of its distance from the mean)
images   the 64 bits of a difference hash, in 4 bands of 16     at most 3 bits apart, and the 32 × 32 thumbnails
                                                                correlate to more than 0.995
text     the normalised text                                    the same normalised text
=======  =====================================================  =======================================================

Rows of numbers that differ by the whole tolerance in every feature are missed with probability 10⁻³; rows stored as
float16 in between, 10⁻⁶. Images at most 3 bits apart share a band for certain.
"""

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import torch
from torch import Tensor

from understudy.data.rows import Rows, TensorRows
from understudy.errors import UnderstudyError
from understudy.store.arrow import Array

# Bytes compared at a time: memory stays bounded whatever the width of a row.
CHUNK_BYTES = 1 << 25
_TEXTS = 1 << 14


class NumberRows:
    """Rows of numbers as a ``(rows, width)`` array, from an array, a memory map, a tensor or ``Rows``.

    Floating-point numbers are compared as float32, as students get them; −0 is 0.
    """

    def __init__(self, content: Any, name: str) -> None:
        self.rows: Any = content.x if isinstance(content, TensorRows) else content
        if isinstance(self.rows, Tensor):
            self.rows = self.rows.detach().cpu().numpy()
        first = self._raw(np.arange(min(1, len(self.rows))))
        if first.dtype.kind not in "biuf":
            raise UnderstudyError(f"{name} holds {first.dtype} values; duplicates are searched in numbers or text")
        self.shape = first.shape[1:]
        self.width = int(np.prod(self.shape, dtype=np.int64))
        self.is_integer = first.dtype.kind in "biu"
        #: How many rows fit CHUNK_BYTES.
        self.chunk = max(1, CHUNK_BYTES // (8 * max(self.width, 1)))

    def __len__(self) -> int:
        return len(self.rows)

    def _raw(self, index: Array) -> Array:
        if not isinstance(self.rows, Rows):
            return np.asarray(self.rows[index])
        batch = self.rows.take(torch.from_numpy(np.ascontiguousarray(index)))
        if isinstance(batch, Tensor):
            return batch.cpu().numpy()
        # Token ids and masks, in an order that does not depend on who wrote the mapping.
        return torch.cat([batch[key].flatten(1).cpu().float() for key in sorted(batch)], 1).numpy()

    def take(self, index: Array, *, as_integer: bool) -> Array:
        """Some rows, as int64 (``as_integer``) or float32; a caller may change them."""
        part = self._raw(index)
        part = part.reshape(len(part), -1)
        if as_integer:
            return part.astype(np.int64)
        with np.errstate(over="ignore"):
            return part.astype(np.float32) + np.float32(0)

    def chunks(self, index: Array, *, as_integer: bool = False) -> Iterator[tuple[slice, Array]]:
        """Some rows at a time, and their places in ``index``."""
        for start in range(0, len(index), self.chunk):
            here = slice(start, min(start + self.chunk, len(index)))
            yield here, self.take(index[here], as_integer=as_integer)


def hash_numbers(rows: Array) -> Array:
    """``(n, 2)`` hashes of the rows of an int64 or float32 array."""
    width = rows.shape[1] * rows.itemsize
    data = memoryview(np.ascontiguousarray(rows).tobytes())
    return hash_contents([data[start : start + width] for start in range(0, len(data), width)])


def hash_texts(texts: Sequence[str], *, normalised: bool = False) -> Array:
    """``(n, 2)`` hashes; of the texts as they are, or without case, punctuation and spacing.

    An empty text (or one of punctuation alone, where that is ignored) gets zeros.
    """
    found = np.zeros((len(texts), 2), dtype=np.uint64)
    for start in range(0, len(texts), _TEXTS):
        part = [str(text).encode("utf-8", "replace").decode() for text in texts[start : start + _TEXTS]]
        found[start : start + len(part)] = hash_contents(
            [text.encode() for text in (normalise_texts(part) if normalised else part)]
        )
    return found


def normalise_texts(texts: list[str]) -> list[str]:
    """Compatibility characters unified (NFKC), lower case, everything but letters, marks and digits as one space."""
    values = pc.utf8_lower(pc.utf8_normalize(pa.array(texts, pa.large_string()), form="NFKC"))
    values = pc.utf8_trim_whitespace(pc.replace_substring_regex(values, r"[^\pL\pM\pN]+", " "))
    return list(values.to_pylist())


def hash_contents(contents: Sequence[bytes | memoryview]) -> Array:
    digests = [hashlib.blake2b(content, digest_size=16).digest() if content else bytes(16) for content in contents]
    return np.frombuffer(b"".join(digests), dtype=np.uint64).reshape(-1, 2).copy()


# Rows that tell how widely the features spread.
_SAMPLE = 1 << 14

Codes = dict[str, Array]

TOLERANCE = 1e-3
TABLES, PROJECTIONS = 8, 4
# With fewer numbers in a row, chance alone puts rows this close together.
FEWEST_FEATURES = 8
# Rows that tell how often two have the same value in a column.
_COMPARED = 1000
# A cell is so many times wider than the distance of two rows that differ by the tolerance everywhere.
CELL = 8.0
# Candidates per pair of sets and table: about ten seconds of comparing.
MOST_CANDIDATES = 50_000_000
_AT_ONCE = 1 << 21


class Lookalike(ABC):
    """The rows of one set, entered in tables."""

    #: ``(rows, tables)`` keys.
    tables: Array
    #: Which rows can be like others at all.
    entered: Array

    @abstractmethod
    def alike(self, other: Any, mine: Array, theirs: Array) -> Array:
        """Which candidate pairs are really alike."""


class TextHashes(Lookalike):
    def __init__(self, hashes: Array) -> None:
        self.tables, self.second = hashes[:, :1], hashes[:, 1]
        self.entered = np.asarray(hashes.any(1))

    def alike(self, other: "TextHashes", mine: Array, theirs: Array) -> Array:
        return np.asarray(self.second[mine] == other.second[theirs])


@dataclass(frozen=True)
class Scale:
    """Where the features lie, and the cells: the same for all sets, or their keys would not meet."""

    mean: Array
    deviation: Array
    directions: Array
    offsets: Array

    @classmethod
    def of(cls, sample: Array) -> "Scale":
        rng = np.random.default_rng(1)
        sample = np.nan_to_num(sample.astype(np.float64))
        width = CELL * TOLERANCE * np.sqrt(sample.shape[1])
        directions = rng.normal(size=(sample.shape[1], TABLES * PROJECTIONS)) / width
        return cls(
            mean=sample.mean(0).astype(np.float32),
            deviation=sample.std(0).astype(np.float32),
            directions=directions.astype(np.float32),
            offsets=rng.random(TABLES * PROJECTIONS).astype(np.float32),
        )

    def keys(self, rows: Array) -> Array:
        # A feature that is constant in the sample counts nothing here; `alike` still requires it to be equal.
        standardised = np.nan_to_num((rows - self.mean) / np.where(self.deviation > 0, self.deviation, np.inf))
        with np.errstate(invalid="ignore", over="ignore"):
            cells = np.floor(standardised @ self.directions + self.offsets).astype(np.int64).view(np.uint64)
        cells = cells.reshape(len(rows), TABLES, PROJECTIONS)
        multipliers = np.random.default_rng(2).integers(1, 1 << 63, size=PROJECTIONS, dtype=np.uint64) * 2 + 1
        return np.asarray((cells * multipliers).sum(-1, dtype=np.uint64))


class NumberCells(Lookalike):
    """``scale`` is None for whole numbers, which are the same or not; ``rich``: features tell rows apart."""

    def __init__(self, rows: NumberRows, scale: Scale | None, keys: Array, *, rich: bool) -> None:
        self.rows, self.scale, self.tables, self.rich = rows, scale, keys, rich
        enough = scale is not None and int((scale.deviation > 0).sum()) >= FEWEST_FEATURES
        self.entered = np.full(len(rows), enough)

    def alike(self, other: "NumberCells", mine: Array, theirs: Array) -> Array:
        assert self.scale is not None
        answer = np.zeros(len(mine), dtype=bool)
        deviation, mean = self.scale.deviation, self.scale.mean
        with np.errstate(invalid="ignore", over="ignore"):
            for here, a in self.rows.chunks(mine):
                room = TOLERANCE * (deviation + np.where(deviation > 0, np.abs(a - mean), 0))
                answer[here] = (np.abs(a - other.rows.take(theirs[here], as_integer=False)) <= room).all(1)
        return answer


def first_alike(a: Lookalike, b: Lookalike, rows_a: Array, rows_b: Array) -> tuple[Array, bool]:
    """For each row of ``b`` a row of ``a`` that is alike, or −1; and whether some candidates were left out."""
    match = np.full(len(b.entered), -1, dtype=np.int64)
    rows_a, rows_b = rows_a[a.entered[rows_a]], rows_b[b.entered[rows_b]]
    left_out = False
    for table in range(a.tables.shape[1]):
        rows_b = rows_b[match[rows_b] < 0]
        keys_a, keys_b = a.tables[rows_a, table], b.tables[rows_b, table]
        # The smaller side is sorted, the larger one only looked up in it.
        swapped = len(rows_a) > len(rows_b)
        small, large = (keys_b, keys_a) if swapped else (keys_a, keys_b)
        order = np.argsort(small, kind="stable")
        first, last = (np.searchsorted(small[order], large, side=side) for side in ("left", "right"))
        hits = np.flatnonzero(last > first)
        # Crowded cells last: beyond too many candidates the rest is left out, which a note reports.
        counts = (last - first)[hits]
        hits = hits[np.argsort(counts, kind="stable")]
        totals = np.cumsum((last - first)[hits])
        if len(totals) and totals[-1] > MOST_CANDIDATES:
            left_out = True
            hits, totals = hits[totals <= MOST_CANDIDATES], totals[totals <= MOST_CANDIDATES]
        cuts = np.searchsorted(totals, np.arange(_AT_ONCE, totals[-1] if len(totals) else 0, _AT_ONCE))
        for part in np.split(hits, cuts):
            sizes = (last - first)[part]
            position = np.repeat(first[part] - np.cumsum(sizes) + sizes, sizes) + np.arange(sizes.sum())
            some, others = np.repeat(part, sizes), order[position]
            mine, theirs = (rows_a[some], rows_b[others]) if swapped else (rows_a[others], rows_b[some])
            keep = a.alike(b, mine, theirs)
            mine, theirs = mine[keep], theirs[keep]
            # Written from the last to the first, so that the first row wins.
            best = np.lexsort((mine, theirs))[::-1]
            match[theirs[best]] = mine[best]
    return match, left_out


def read_texts(texts: Mapping[str, Sequence[str]]) -> tuple[Codes, dict[str, Lookalike]]:
    """Codes (equal rows, equal codes) and lookalikes of sets of texts."""
    exact = {name: hash_texts(part) for name, part in texts.items()}
    return codes_of(exact), {name: TextHashes(hash_texts(part, normalised=True)) for name, part in texts.items()}


def read_numbers(rows: dict[str, NumberRows], *, near: bool) -> tuple[Codes, dict[str, Lookalike]]:
    """Codes (equal rows, equal codes) and lookalikes of sets of numbers, in one pass; ``near``: search these too."""
    widths = {name: part.width for name, part in rows.items()}
    if len(set(widths.values())) > 1:
        listed = ", ".join(f"{name} {width}" for name, width in widths.items())
        raise UnderstudyError(f"rows differ in how many numbers they hold ({listed}); give all sets the same features")
    as_integer = all(part.is_integer for part in rows.values())
    sample = _sample(list(rows.values()))
    scale = Scale.of(sample) if near and not as_integer else None
    # Rich: if columns were independent, no two of all rows would be equal by chance; 1 in 20,000, as they are not.
    some = np.random.default_rng(0).permutation(np.nan_to_num(sample[:: len(sample) // _COMPARED + 1]))
    equal = (1 + (some == np.roll(some, 1, axis=0)).sum(0)) / (1 + len(some))
    rich = bool(np.log(equal).sum() + 2 * np.log(max(1, sum(map(len, rows.values())))) < -10)
    exact: Codes = {}
    alikes: dict[str, Lookalike] = {}
    for name, part in rows.items():
        exact[name] = np.empty((len(part), 2), dtype=np.uint64)
        keys = np.empty((len(part), 0 if scale is None else TABLES), dtype=np.uint64)
        for here, chunk in part.chunks(np.arange(len(part)), as_integer=as_integer):
            exact[name][here] = hash_numbers(chunk)
            if scale is not None:
                keys[here] = scale.keys(chunk)
        alikes[name] = NumberCells(part, scale, keys, rich=rich)
    return codes_of(exact), alikes


def _sample(parts: list[NumberRows]) -> Array:
    """Rows from everywhere, evenly spaced."""
    most = max(1, min(_SAMPLE, parts[0].chunk) // len(parts))
    spaced = [np.unique(np.linspace(0, len(part) - 1, min(most, len(part))).astype(np.int64)) for part in parts]
    return np.concatenate([part.take(index, as_integer=False) for part, index in zip(parts, spaced, strict=True)])


def codes_of(hashes: Codes) -> Codes:
    """Small whole numbers in place of the hashes of every set: equal rows have equal ones."""
    together = np.concatenate(list(hashes.values()))
    order = np.lexsort((together[:, 1], together[:, 0]))
    codes = np.empty(len(together), dtype=np.int64)
    codes[order] = np.cumsum((np.diff(together[order], axis=0, prepend=together[order[:1]]) != 0).any(1))
    ends = np.cumsum([len(values) for values in hashes.values()])
    return dict(zip(hashes, np.split(codes, ends[:-1]), strict=True))


# "Clearly": more than this part of the image's range, so that noise on a plain background flips no bits.
CLEARLY = 0.03
MOST_BITS = 3
# The grids the bits come from must correlate this well, or the thumbnails cannot.
COARSELY = 0.99
THUMB = 32
CORRELATION = 0.995


class ImageHashes(Lookalike):
    """Images as arrays: ``(n, H, W)``, ``(n, C, H, W)`` or ``(n, H, W, C)``.

    A bit says whether the image gets clearly brighter from one cell of an 8 × 9 grid to its right neighbour, so neither
    the size of an image nor its brightness or contrast matters.
    """

    def __init__(self, rows: NumberRows) -> None:
        self.rows = rows
        grids = self._thumbnails(np.arange(len(rows)), 8, 9)
        reach = np.ptp(grids.reshape(len(grids), -1), axis=1)
        self.entered = reach > 0
        bits = np.diff(grids, axis=2) > CLEARLY * reach[:, None, None]
        # Neighbouring cells are often alike, so each band takes bits from everywhere.
        mixed = bits.reshape(len(bits), 64)[:, np.random.default_rng(3).permutation(64)]
        self.hash = np.ascontiguousarray(np.packbits(mixed, axis=1)).view(np.uint16)
        self.tables = self.hash.astype(np.uint64)
        self.grids = _standardised(grids).astype(np.float16)

    def alike(self, other: "ImageHashes", mine: Array, theirs: Array) -> Array:
        answer = np.zeros(len(mine), dtype=bool)
        bands = range(self.hash.shape[1])
        apart = sum(_ONES[self.hash[mine, band] ^ other.hash[theirs, band]] for band in bands)
        near = np.flatnonzero(apart <= MOST_BITS)
        for start in range(0, len(near), 1 << 14):
            some = near[start : start + (1 << 14)]
            a, b = self.grids[mine[some]].astype(np.float32), other.grids[theirs[some]].astype(np.float32)
            some = some[np.einsum("ij,ij->i", a, b) > COARSELY]
            a, b = (_standardised(each._thumbnails(at[some])) for each, at in ((self, mine), (other, theirs)))
            answer[some] = (a * b).sum(1) > CORRELATION
        return answer

    def _thumbnails(self, index: Array, height: int = THUMB, width: int = THUMB) -> Array:
        """``(n, height, width)`` means over equal areas, in grey."""
        thumbnails = np.empty((len(index), height, width), dtype=np.float32)
        for here, rows in self.rows.chunks(index):
            images = rows.reshape(-1, *self.rows.shape)
            if images.ndim == 4:  # the channels are the short axis
                images = images.mean(1 if images.shape[1] <= images.shape[3] else 3)
            thumbnails[here] = _areas(images.shape[1], height) @ images @ _areas(images.shape[2], width).T
        return np.nan_to_num(thumbnails)


# How many bits of a 16-bit number are set.
_ONES = np.unpackbits(np.arange(1 << 16, dtype=np.uint16).view(np.uint8).reshape(-1, 2), axis=1).sum(1, dtype=np.uint8)


@lru_cache(maxsize=64)
def _areas(size: int, parts: int) -> Array:
    """``(parts, size)``: how much of each pixel lies in each part, as weights of a mean."""
    edges = np.linspace(0, size, parts + 1)
    pixels = np.arange(size)
    overlap = np.minimum(pixels + 1, edges[1:, None]) - np.maximum(pixels, edges[:-1, None])
    return np.asarray((np.clip(overlap, 0, None) * parts / size).astype(np.float32))


def _standardised(thumbnails: Array) -> Array:
    flat = thumbnails.reshape(len(thumbnails), -1).astype(np.float64)
    flat -= flat.mean(1, keepdims=True)
    return np.asarray(flat / np.maximum(np.linalg.norm(flat, axis=1, keepdims=True), 1e-12))
