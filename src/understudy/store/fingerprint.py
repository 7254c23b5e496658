"""A short text that changes when data, nets or settings change, and stays the same from one Python to the next.

Used to refuse going on with work that was begun with other ones. Arrays above 64 MB are read at 1,000 rows spread over
them, memory maps among them; of a Dataset, which may draw its rows at random, only the length counts. Functions count
by their code, defaults and closure, objects by what they hold and how they are called; what a function finds in its
module is not looked at.
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
from torch.nn.parameter import is_lazy

from understudy.data.examples import Gold, Pool
from understudy.data.rows import Rows, TensorRows
from understudy.labels.forms import Labels

WHOLE_BYTES, SAMPLED_ROWS = 64 << 20, 1000
DERIVED = ("_fit", "answers")
"""What follows from the rest."""
# Would change from run to run; NumPy writes it in capitals.
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")


def fingerprint(thing: Any) -> str:
    digest = hashlib.sha256()
    _feed(digest, thing, ())
    return digest.hexdigest()[:16]


def _feed(digest: Any, thing: Any, above: tuple[int, ...]) -> None:
    """``above``: what this is a part of, by id; an object may hold itself."""
    digest.update(f"<{type(thing).__qualname__}>".encode())
    if id(thing) in above:
        return
    above = (*above, id(thing))
    if isinstance(thing, Tensor):
        _feed_tensor(digest, thing.detach().cpu())
    elif isinstance(thing, np.ndarray):
        _feed_array(digest, thing)
    elif isinstance(thing, nn.Module):
        # Sizes that the first batch will tell have no values yet.
        known = {name: "lazy" if is_lazy(value) else value for name, value in thing.state_dict().items()}
        _feed(digest, [repr(thing), known, [_plain(module) for module in thing.modules()]], above)
    elif isinstance(thing, Rows):
        _feed_rows(digest, thing, above)
    elif isinstance(thing, Gold | Pool | Labels):
        _feed(digest, {name: value for name, value in vars(thing).items() if name not in DERIVED}, above)
    elif isinstance(thing, Mapping):
        for key in thing:
            digest.update(f"{key}=".encode())
            _feed(digest, thing[key], above)
    elif isinstance(thing, list | tuple | set | frozenset):
        digest.update(f"{len(thing)}:".encode())
        for part in sorted(thing, key=repr) if isinstance(thing, set | frozenset) else thing:
            _feed(digest, part, above)
    elif is_dataclass(thing) and not isinstance(thing, type):
        _feed(digest, {part.name: getattr(thing, part.name) for part in fields(thing)}, above)
    elif isinstance(thing, FunctionType | MethodType):
        _feed_function(digest, thing, above)
    elif isinstance(thing, type):
        digest.update(f"{thing.__module__}.{thing.__qualname__}".encode())
    elif isinstance(thing, partial):
        _feed(digest, [thing.func, thing.args, thing.keywords], above)
    elif " object at 0x" in repr(thing) and hasattr(thing, "__dict__"):
        _feed(digest, [vars(thing), type(thing).__call__ if callable(thing) else None], above)
    else:
        digest.update(_ADDRESS.sub("", repr(thing)).encode())


def _plain(module: nn.Module) -> dict[str, Any]:
    """Numbers and texts that a module keeps beside its tensors, such as a loss's label_smoothing."""
    kept = {name: value for name, value in vars(module).items() if isinstance(value, int | float | str | None)}
    return {name: value for name, value in kept.items() if name != "training"}  # a mode, not a setting


def _feed_tensor(digest: Any, tensor: Tensor) -> None:
    digest.update(f"{tensor.dtype}{tuple(tensor.shape)}".encode())
    tensor = tensor if tensor.layout == torch.strided else tensor.to_dense()
    if tensor.nbytes > WHOLE_BYTES:
        tensor = tensor[_spread(len(tensor))]
    digest.update(tensor.reshape(-1).view(torch.uint8).numpy().tobytes())


def _feed_array(digest: Any, array: np.ndarray[Any, Any]) -> None:
    digest.update(f"{array.dtype}{array.shape}".encode())
    some = array[_spread(len(array)).numpy()] if array.nbytes > WHOLE_BYTES else array
    if array.dtype.hasobject:  # texts, mostly; their bytes would be addresses
        digest.update(_ADDRESS.sub("", repr(some.tolist())).encode())
    else:
        digest.update(some.tobytes())


def _feed_rows(digest: Any, rows: Rows, above: tuple[int, ...]) -> None:
    digest.update(f"{len(rows)}".encode())
    if isinstance(rows, TensorRows):
        _feed_tensor(digest, rows.x)
    elif len(rows) and not rows.per_row:
        first = rows.take(torch.arange(1))
        size = len(rows) * sum(part.nbytes for part in (first.values() if isinstance(first, Mapping) else [first]))
        _feed(digest, rows.take(_spread(len(rows)) if size > WHOLE_BYTES else torch.arange(len(rows))), above)


def _spread(rows: int) -> Tensor:
    # In float32 the last of 20 million rows would be one too far.
    return torch.linspace(0, rows - 1, min(SAMPLED_ROWS, rows), dtype=torch.float64).long()


def _feed_function(digest: Any, function: Any, above: tuple[int, ...]) -> None:
    digest.update(f"{function.__module__}.{function.__qualname__}".encode())
    closure = [cell.cell_contents for cell in function.__closure__ or ()]
    _feed(digest, [_code(function.__code__), function.__defaults__, function.__kwdefaults__, closure], above)
    if isinstance(function, MethodType):
        _feed(digest, function.__self__, above)


def _code(code: CodeType) -> list[Any]:
    """What a function does and names, with the functions inside it."""
    constants = [_code(constant) if isinstance(constant, CodeType) else constant for constant in code.co_consts]
    return [code.co_code.hex(), code.co_names, constants]
