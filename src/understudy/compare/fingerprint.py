"""A short text that changes when data, nets or settings change, and stays the same from one Python to the next.

Used to refuse going on with a comparison that was begun with other ones. Arrays above 64 MB are read at 1,000 rows
spread over them; Datasets at their first and last rows.
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
from understudy.data.rows import DatasetRows, Rows

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
        _feed_array(digest, thing.detach().cpu())
    elif isinstance(thing, np.ndarray):
        digest.update(f"{thing.dtype}{thing.shape}".encode() + thing.tobytes())
    elif isinstance(thing, nn.Module):
        digest.update(repr(thing).encode())
        _feed(digest, thing.state_dict())
    elif isinstance(thing, DatasetRows):
        ends = [number for number in (0, 1, len(thing) - 2, len(thing) - 1) if 0 <= number < len(thing)]
        _feed(digest, [len(thing), thing.take(torch.tensor(ends, dtype=torch.long))])
    elif isinstance(thing, Gold | Pool | Labels | Rows):
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


def _feed_array(digest: Any, array: Tensor) -> None:
    digest.update(f"{array.dtype}{tuple(array.shape)}".encode())
    if array.nbytes > WHOLE_BYTES:
        array = array[torch.linspace(0, len(array) - 1, SAMPLED_ROWS, dtype=torch.float64).long()]
    digest.update(array.contiguous().view(torch.uint8).numpy().tobytes() if array.dim() else repr(array).encode())


def _feed_function(digest: Any, function: Any) -> None:
    digest.update(f"{function.__module__}.{function.__qualname__}".encode())
    code = function.__code__
    constants = [constant for constant in code.co_consts if not isinstance(constant, CodeType)]
    closure = [cell.cell_contents for cell in function.__closure__ or ()]
    _feed(digest, [code.co_code.hex(), constants, function.__defaults__, function.__kwdefaults__, closure])
