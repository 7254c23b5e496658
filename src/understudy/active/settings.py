"""What tells one loop from another, in a form that JSON gives back unchanged."""

from typing import Any

import torch

from understudy.store.fingerprint import fingerprint


def as_json(values: dict[str, Any]) -> dict[str, Any]:
    """Functions by name and fingerprint, devices as text, tuples as lists."""
    found: dict[str, Any] = {}
    for name, value in values.items():
        if callable(value):
            found[name] = f"{getattr(value, '__qualname__', type(value).__name__)} {fingerprint(value)}"
        elif isinstance(value, list | tuple):
            found[name] = [list(step) for step in value]
        else:
            found[name] = str(value) if isinstance(value, torch.device) else value
    return found
