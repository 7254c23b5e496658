"""A random order of row numbers that does not depend on how the rows are split into parts.

Every row number has a random key, the i-th number of SplitMix64 (Steele, Lea and Flood 2014) after a state that is
drawn once: ties, and rows drawn uniformly, are ordered by keys.

    lowest([(slice(0, 100), margins)], 10, available=free, key=draw_key(torch.Generator().manual_seed(0)))
"""

from collections.abc import Iterable

import numpy as np
import torch
from torch import Tensor

_STEP, _FIRST, _SECOND = (
    np.array([number], dtype=np.uint64) for number in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB)
)


def draw_key(generator: torch.Generator) -> int:
    return int(torch.randint(2**63 - 1, (1,), generator=generator))


def random_keys(rows: Tensor, key: int) -> Tensor:
    """One number (int64) for each row number, all different; arrays of 64-bit integers wrap around."""
    state = np.array([key], dtype=np.uint64) + (rows.numpy().astype(np.uint64) + np.uint64(1)) * _STEP
    state = (state ^ (state >> np.uint64(30))) * _FIRST
    state = (state ^ (state >> np.uint64(27))) * _SECOND
    state ^= state >> np.uint64(31)
    return torch.from_numpy(state.view(np.int64))


def lowest(scores: Iterable[tuple[slice, Tensor]], n: int, *, available: Tensor, key: int) -> Tensor:
    """The n available rows of smallest score, given part by part; ties in the random order of ``key``."""
    score, rows = torch.zeros(0), torch.zeros(0, dtype=torch.long)
    for part, found in scores:
        free = available[part].nonzero().squeeze(1)
        score, rows = torch.cat([score, found[free]]), torch.cat([rows, free + part.start])
        order = torch.from_numpy(np.lexsort((random_keys(rows, key).numpy(), score.numpy()))[:n])
        score, rows = score[order], rows[order]
    return rows


def uniform(parts: Iterable[slice], n: int, *, available: Tensor, key: int) -> Tensor:
    """The first n available rows in the random order of ``key``."""
    return lowest(((part, torch.zeros(part.stop - part.start)) for part in parts), n, available=available, key=key)
