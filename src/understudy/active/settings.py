"""What tells one loop from another, in a form that JSON gives back unchanged."""

import hashlib
from typing import Any

import torch
from torch import Tensor

from understudy.data.rows import Rows


def fingerprint(rows: Rows) -> str:
    """Of 64 rows spread over the pool: enough to notice another file or another order."""
    some = rows.take(torch.linspace(0, len(rows) - 1, min(64, len(rows)), dtype=torch.float64).long())
    tensors = [some] if isinstance(some, Tensor) else [some[name] for name in sorted(some)]
    return hashlib.sha256(b"".join(tensor.contiguous().numpy().tobytes() for tensor in tensors)).hexdigest()[:16]


def as_json(values: dict[str, Any]) -> dict[str, Any]:
    """Functions by their name, devices as text, tuples as lists."""
    found: dict[str, Any] = {}
    for name, value in values.items():
        if callable(value):
            found[name] = getattr(value, "__qualname__", type(value).__name__)
        elif isinstance(value, list | tuple):
            found[name] = [list(step) for step in value]
        else:
            found[name] = str(value) if isinstance(value, torch.device) else value
    return found
