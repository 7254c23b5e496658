"""What tells one loop from another, in a form that JSON gives back unchanged."""

from typing import Any

import torch


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
