"""Images that look the same: a difference hash of 64 bits finds candidates, thumbnails decide.

A bit says whether the image gets clearly brighter from one cell of an 8 × 9 grid to its right neighbour, so neither
the size of an image nor its brightness or contrast matters.
"""

from functools import lru_cache
from typing import Any

import numpy as np

from understudy.features.images import open_image
from understudy.leaks.lookalikes import Lookalike, NumberRows
from understudy.store.arrow import Array

# "Clearly": more than this part of the image's range, so that noise on a plain background flips no bits.
CLEARLY = 0.03
MOST_BITS = 3
BANDS = 4
# The grids the bits come from must correlate this well, or the thumbnails cannot.
COARSELY = 0.99
THUMB = 32
CORRELATION = 0.995


class ImageHashes(Lookalike):
    """Images as arrays (``(n, H, W)``, ``(n, C, H, W)`` or ``(n, H, W, C)``) or as the bytes of files."""

    def __init__(self, content: Any, name: str) -> None:
        self.content, self.name = content, name
        grids = self._thumbnails(np.arange(len(content)), 8, 9)
        reach = np.ptp(grids.reshape(len(grids), -1), axis=1)
        self.entered = reach > 0
        bits = np.diff(grids, axis=2) > CLEARLY * reach[:, None, None]
        # Neighbouring cells are often alike, so each band takes bits from everywhere.
        mixed = bits.reshape(len(bits), 64)[:, np.random.default_rng(3).permutation(64)]
        self.hash = np.ascontiguousarray(np.packbits(mixed, axis=1)).view(np.uint16)
        self.tables = self.hash.astype(np.uint64)
        self.grids = _standardised(grids).astype(np.float16)

    def plausible(self, other: "ImageHashes", mine: Array, theirs: Array) -> Array:
        apart = np.zeros(len(mine), dtype=np.uint8)
        for band in range(BANDS):
            apart += _ONES[self.hash[mine, band] ^ other.hash[theirs, band]]
        near = np.flatnonzero(apart <= MOST_BITS)
        answer = np.zeros(len(mine), dtype=bool)
        for start in range(0, len(near), 1 << 16):
            some = near[start : start + (1 << 16)]
            a, b = self.grids[mine[some]].astype(np.float32), other.grids[theirs[some]].astype(np.float32)
            answer[some] = np.einsum("ij,ij->i", a, b) > COARSELY
        return answer

    def alike(self, other: "ImageHashes", mine: Array, theirs: Array) -> Array:
        answer = np.zeros(len(mine), dtype=bool)
        for start in range(0, len(mine), 1 << 14):
            here = slice(start, start + (1 << 14))
            a, b = _standardised(self._thumbnails(mine[here])), _standardised(other._thumbnails(theirs[here]))
            answer[here] = (a * b).sum(1) > CORRELATION
        return answer

    def _thumbnails(self, index: Array, height: int = THUMB, width: int = THUMB) -> Array:
        """``(n, height, width)`` means over equal areas, in grey."""
        thumbnails = np.empty((len(index), height, width), dtype=np.float32)
        if isinstance(self.content, NumberRows):
            step = self.content.chunk()
            for start in range(0, len(index), step):
                rows = self.content.take(index[start : start + step], as_integer=False)
                grey = _grey(rows.reshape(-1, *self.content.shape))
                thumbnails[start : start + len(rows)] = shrink(grey, height, width)
        else:
            for row, number in enumerate(index.tolist()):
                image = open_image(self.content[number], f"{self.name} row {number}").convert("L")
                thumbnails[row] = shrink(np.asarray(image, dtype=np.float32)[None], height, width)[0]
        return np.nan_to_num(thumbnails)


# How many bits of a 16-bit number are set.
_ONES = np.unpackbits(np.arange(1 << 16, dtype=np.uint16).view(np.uint8).reshape(-1, 2), axis=1).sum(1, dtype=np.uint8)


def shrink(images: Array, height: int, width: int) -> Array:
    rows, columns = _areas(images.shape[1], height), _areas(images.shape[2], width)
    return np.asarray(rows @ images @ columns.T)


@lru_cache(maxsize=64)
def _areas(size: int, parts: int) -> Array:
    """``(parts, size)``: how much of each pixel lies in each part, as weights of a mean."""
    edges = np.linspace(0, size, parts + 1)
    pixels = np.arange(size)
    overlap = np.minimum(pixels + 1, edges[1:, None]) - np.maximum(pixels, edges[:-1, None])
    return np.asarray((np.clip(overlap, 0, None) * parts / size).astype(np.float32))


def _grey(images: Array) -> Array:
    if images.ndim == 3:
        return images
    # The channels are the short axis.
    return np.asarray(images.mean(1 if images.shape[1] <= images.shape[3] else 3))


def _standardised(thumbnails: Array) -> Array:
    flat = thumbnails.reshape(len(thumbnails), -1).astype(np.float64)
    flat -= flat.mean(1, keepdims=True)
    return np.asarray(flat / np.maximum(np.linalg.norm(flat, axis=1, keepdims=True), 1e-12))
