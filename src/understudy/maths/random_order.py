"""A random order of rows that needs no list of all of them: every row number has a key, and the smallest come first.

    key = draw_key(generator)
    rows[random_keys(rows, key).argsort()]            # shuffled

The key of row i is the i-th number of SplitMix64 (Steele, Lea and Flood 2014) after the state ``key``. All differ,
since each step can be undone, and the keys of some of the rows are known without the others. So parts
of a pool that are shuffled apart, and merged by their keys, are in the order of the whole.
"""

import numpy as np
import torch
from torch import Tensor

_STEP, _FIRST, _SECOND = (
    np.array([number], dtype=np.uint64) for number in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB)
)


def draw_key(generator: torch.Generator) -> int:
    return int(torch.randint(2**63 - 1, (1,), generator=generator))


def random_keys(rows: Tensor, key: int) -> Tensor:
    """One number (int64) for each row number; arrays of 64-bit integers wrap around."""
    state = np.array([key], dtype=np.uint64) + (rows.numpy().astype(np.uint64) + np.uint64(1)) * _STEP
    state = (state ^ (state >> np.uint64(30))) * _FIRST
    state = (state ^ (state >> np.uint64(27))) * _SECOND
    state ^= state >> np.uint64(31)
    return torch.from_numpy(state.view(np.int64))
