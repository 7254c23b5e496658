"""Rows that are nearly the same, without comparing every row with every other.

Each row is entered in a few tables under a key that similar rows probably share. Pairs that share a key are
candidates; of these, what is really alike is kept, so that chance never makes a pair.

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

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np

from understudy.leaks.row_hash import NumberRows
from understudy.store.arrow import Array

TOLERANCE = 1e-3
TABLES, PROJECTIONS = 8, 4
# With fewer numbers in a row, chance alone puts rows this close together.
FEWEST_FEATURES = 8
# A cell is so many times wider than the distance of two rows that differ by the tolerance everywhere.
CELL = 8.0
# Candidates per pair of sets and table: about ten seconds of comparing.
MOST_CANDIDATES = 50_000_000
_AT_ONCE = 1 << 21


class Lookalike(ABC):
    """The rows of one set, entered in tables."""

    tables: Array
    """``(rows, tables)`` keys."""
    entered: Array
    """Rows that can be alike others at all."""

    def plausible(self, other: Any, mine: Array, theirs: Array) -> Array:
        """A cheap first look at candidate pairs."""
        return np.ones(len(mine), dtype=bool)

    @abstractmethod
    def alike(self, other: Any, mine: Array, theirs: Array) -> Array:
        """The truth about candidate pairs."""


class Texts(Lookalike):
    def __init__(self, fingerprints: Array) -> None:
        self.tables, self.second = fingerprints[:, :1], fingerprints[:, 1]
        self.entered = np.asarray(fingerprints.any(1))

    def alike(self, other: "Texts", mine: Array, theirs: Array) -> Array:
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

    def standardised(self, rows: Array) -> Array:
        # A feature that never varies in the sample says nothing here; `alike` still wants it equal.
        return np.nan_to_num((rows - self.mean) / np.where(self.deviation > 0, self.deviation, np.inf))

    def keys(self, rows: Array) -> Array:
        with np.errstate(invalid="ignore", over="ignore"):
            cells = np.floor(self.standardised(rows) @ self.directions + self.offsets).astype(np.int64).view(np.uint64)
        cells = cells.reshape(len(rows), TABLES, PROJECTIONS)
        multipliers = np.random.default_rng(2).integers(1, 1 << 63, size=PROJECTIONS, dtype=np.uint64) * 2 + 1
        return np.asarray((cells * multipliers).sum(-1, dtype=np.uint64))


class Numbers(Lookalike):
    """``scale`` is None for whole numbers, which are the same or not."""

    def __init__(self, rows: NumberRows, scale: Scale | None, keys: Array) -> None:
        self.rows, self.scale, self.tables = rows, scale, keys
        enough = scale is not None and int((scale.deviation > 0).sum()) >= FEWEST_FEATURES
        self.entered = np.full(len(rows), enough)

    def alike(self, other: "Numbers", mine: Array, theirs: Array) -> Array:
        assert self.scale is not None
        answer = np.zeros(len(mine), dtype=bool)
        step = self.rows.chunk()
        deviation, mean = self.scale.deviation, self.scale.mean
        with np.errstate(invalid="ignore", over="ignore"):
            for start in range(0, len(mine), step):
                here = slice(start, start + step)
                a, b = self.rows.take(mine[here], whole=False), other.rows.take(theirs[here], whole=False)
                room = TOLERANCE * (deviation + np.where(deviation > 0, np.abs(a - mean), 0))
                answer[here] = (np.abs(a - b) <= room).all(1)
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
        # Crowded cells last: where there are too many candidates, the rest is left out and said to be.
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
            keep = a.plausible(b, mine, theirs)
            mine, theirs = mine[keep], theirs[keep]
            keep = a.alike(b, mine, theirs)
            # Written from the last to the first, so that the first row wins.
            best = np.lexsort((mine[keep], theirs[keep]))[::-1]
            match[theirs[keep][best]] = mine[keep][best]
    return match, left_out
