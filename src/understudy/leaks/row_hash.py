"""Every row of a set as 128 bits, so that equal rows are found by sorting numbers, whatever the rows are.

Rows of numbers are hashed in whole chunks: with u the row's 32-bit words and M random 64-bit numbers, drawn once with
a fixed seed, the fingerprint is Σ_j u_j·M_j mod 2⁶⁴, twice. Two different rows agree by chance with probability at
most 2⁻⁶⁶ (2⁻³³ per sum: a difference of words has at most 31 trailing zero bits), 10⁻⁸ for any pair among a million
rows; and who compares contents afterwards is never wrong. Texts and files get 128 bits of BLAKE2.
"""

import hashlib
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import torch
from torch import Tensor

from understudy.data.rows import Rows, TensorRows
from understudy.errors import UnderstudyError
from understudy.store.arrow import Array

# What is looked at together: memory stays bounded whatever the width of a row.
CHUNK_BYTES = 1 << 25
_TEXTS = 1 << 14


class NumberRows:
    """Rows of numbers as a ``(rows, width)`` array, from an array, a memory map, a tensor or ``Rows``.

    Floating-point numbers are compared as float32, which is what a student gets to see; −0 is 0.
    """

    def __init__(self, content: Any, name: str) -> None:
        self.rows: Any = content
        if isinstance(content, TensorRows):
            self.rows = content.x
        if isinstance(self.rows, Tensor):
            self.rows = self.rows.detach().cpu()
        first = self._raw(np.arange(min(1, len(self.rows))))
        if first.dtype.kind not in "biuf":
            raise UnderstudyError(f"{name} holds {first.dtype} values; duplicates are looked for in numbers or text")
        self.shape = first.shape[1:]
        self.width = int(np.prod(self.shape, dtype=np.int64))
        self.whole = first.dtype.kind in "biu"

    def __len__(self) -> int:
        return len(self.rows)

    def _raw(self, index: Array | slice) -> Array:
        if isinstance(self.rows, Rows):
            numbers = np.arange(len(self))[index] if isinstance(index, slice) else index
            batch = self.rows.take(torch.from_numpy(np.ascontiguousarray(numbers)))
            if isinstance(batch, Tensor):
                return batch.cpu().numpy()
            # Token ids and masks, in an order that does not depend on who wrote the mapping.
            return torch.cat([batch[key].flatten(1).cpu().float() for key in sorted(batch)], 1).numpy()
        if isinstance(self.rows, Tensor):
            part = self.rows[index if isinstance(index, slice) else torch.from_numpy(index)]
            return part.numpy()
        return np.asarray(self.rows[index])

    def take(self, index: Array | slice, *, whole: bool) -> Array:
        """Some rows, as int64 (``whole``) or float32; a caller may change them."""
        part = self._raw(index)
        part = part.reshape(len(part), -1)
        if whole:
            return part.astype(np.int64)
        with np.errstate(over="ignore"):
            return part.astype(np.float32) + np.float32(0)

    def chunk(self) -> int:
        """How many rows fit CHUNK_BYTES."""
        return max(1, CHUNK_BYTES // (8 * max(self.width, 1)))

    def chunks(self, *, whole: bool) -> Iterator[tuple[slice, Array]]:
        for start in range(0, len(self), self.chunk()):
            here = slice(start, min(start + self.chunk(), len(self)))
            yield here, self.take(here, whole=whole)


def hash_numbers(rows: Array) -> Array:
    """``(n, 2)`` fingerprints of the rows of an int64 or float32 array."""
    words = np.ascontiguousarray(rows).view(np.uint32).astype(np.uint64)
    multipliers = np.random.default_rng(0).integers(1, 1 << 63, size=(words.shape[1], 2), dtype=np.uint64) * 2 + 1
    # One column at a time: NumPy's product of a matrix and a vector of integers is far faster than with a matrix.
    return np.stack([words @ multipliers[:, 0], words @ multipliers[:, 1]], axis=1)


def hash_texts(texts: Sequence[str], *, normalised: bool = False) -> Array:
    """``(n, 2)`` fingerprints; of the texts as they are, or without case, punctuation and spacing.

    An empty text (or one of punctuation alone, where that is ignored) gets zeros.
    """
    hashes = np.zeros((len(texts), 2), dtype=np.uint64)
    for start in range(0, len(texts), _TEXTS):
        part = [str(text).encode("utf-8", "replace").decode() for text in texts[start : start + _TEXTS]]
        if normalised:
            part = normalise(part)
        hashes[start : start + len(part)] = hash_bytes([text.encode() for text in part])
    return hashes


def normalise(texts: list[str]) -> list[str]:
    """Compatibility characters unified (NFKC), lower case, everything but letters, marks and digits as one space."""
    values = pc.utf8_lower(pc.utf8_normalize(pa.array(texts, pa.large_string()), form="NFKC"))
    values = pc.utf8_trim_whitespace(pc.replace_substring_regex(values, r"[^\pL\pM\pN]+", " "))
    return list(values.to_pylist())


def hash_bytes(contents: Sequence[bytes]) -> Array:
    digests = b"".join(
        hashlib.blake2b(content, digest_size=16).digest() if content else bytes(16) for content in contents
    )
    return np.frombuffer(digests, dtype=np.uint64).reshape(-1, 2).copy()
