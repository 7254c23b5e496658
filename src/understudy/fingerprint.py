"""A short text that changes when data, nets or settings change, and stays the same from one Python to the next.

Used to refuse going on with work that was begun with other ones. Arrays above 64 MB are read at 1,000 rows spread over
them, memory maps among them; of a Dataset, which may draw its rows at random, only the length counts.
"""

import hashlib
import re
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from functools import partial
from types import CodeType, FunctionType, MethodType
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from understudy.data.examples import Gold, Pool
from understudy.data.labels import Labels
from understudy.data.rows import Rows, TensorRows

WHOLE_BYTES, SAMPLED_ROWS = 64 << 20, 1000
DERIVED = ("_fit", "answers")
"""What follows from the rest."""


def fingerprint(thing: Any) -> str:
    digest = hashlib.sha256()
    _feed(digest, thing)
    return digest.hexdigest()[:16]


def _feed(digest: Any, thing: Any) -> None:
    digest.update(f"<{type(thing).__qualname__}>".encode())
    if isinstance(thing, Tensor):
        _feed_tensor(digest, thing.detach().cpu())
    elif isinstance(thing, np.ndarray):
        some = thing[_spread(len(thing)).numpy()] if thing.nbytes > WHOLE_BYTES else thing
        digest.update(f"{thing.dtype}{thing.shape}".encode() + some.tobytes())
    elif isinstance(thing, nn.Module):
        digest.update(repr(thing).encode())
        _feed(digest, thing.state_dict())
    elif isinstance(thing, Rows):
        _feed_rows(digest, thing)
    elif isinstance(thing, Gold | Pool | Labels):
        _feed(digest, {name: value for name, value in vars(thing).items() if name not in DERIVED})
    elif isinstance(thing, Mapping):
        for key in thing:
            digest.update(f"{key}=".encode())
            _feed(digest, thing[key])
    elif isinstance(thing, list | tuple | set | frozenset):
        for part in sorted(thing, key=repr) if isinstance(thing, set | frozenset) else thing:
            _feed(digest, part)
    elif is_dataclass(thing) and not isinstance(thing, type):
        _feed(digest, {part.name: getattr(thing, part.name) for part in fields(thing)})
    elif isinstance(thing, FunctionType | MethodType):
        _feed_function(digest, thing)
    elif isinstance(thing, type):
        digest.update(f"{thing.__module__}.{thing.__qualname__}".encode())
    elif isinstance(thing, partial):
        _feed(digest, [thing.func, thing.args, thing.keywords])
    elif " object at 0x" in repr(thing) and hasattr(thing, "__dict__"):
        _feed(digest, vars(thing))
    else:
        # An address would change from run to run.
        digest.update(re.sub(r" at 0x[0-9a-f]+", "", repr(thing)).encode())


def _feed_tensor(digest: Any, tensor: Tensor) -> None:
    digest.update(f"{tensor.dtype}{tuple(tensor.shape)}".encode())
    if tensor.nbytes > WHOLE_BYTES:
        tensor = tensor[_spread(len(tensor))]
    digest.update(tensor.contiguous().view(torch.uint8).numpy().tobytes() if tensor.dim() else repr(tensor).encode())


def _feed_rows(digest: Any, rows: Rows) -> None:
    digest.update(f"{len(rows)}".encode())
    if isinstance(rows, TensorRows):
        _feed_tensor(digest, rows.x)
    elif not rows.per_row:
        _feed(digest, rows.take(_spread(len(rows))))


def _spread(rows: int) -> Tensor:
    # In float32 the last of 20 million rows would be one too far.
    return torch.linspace(0, rows - 1, min(SAMPLED_ROWS, rows), dtype=torch.float64).long()


def _feed_function(digest: Any, function: Any) -> None:
    digest.update(f"{function.__module__}.{function.__qualname__}".encode())
    closure = [cell.cell_contents for cell in function.__closure__ or ()]
    _feed(digest, [_code(function.__code__), function.__defaults__, function.__kwdefaults__, closure])
    if isinstance(function, MethodType):
        _feed(digest, function.__self__)


def _code(code: CodeType) -> list[Any]:
    """What a function does and names, with the functions inside it."""
    constants = [_code(constant) if isinstance(constant, CodeType) else constant for constant in code.co_consts]
    return [code.co_code.hex(), code.co_names, constants]
