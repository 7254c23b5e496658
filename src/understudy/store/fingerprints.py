"""A *fingerprint*: a short text that changes when data, nets or settings change, and stays the same from one Python to
the next.

Arrays above 64 MB are read at 1,000 rows spread over them, memory maps among them; functions count by their code,
defaults and closure, objects by what they hold and how they are called; what a function finds in its module is not
looked at. A class that lists ``derived`` counts by all its attributes but these, which follow from the rest; a type
that counts in a way of its own registers it beside its class:

    @add_parts.register
    def _(rows: Rows, into: Hash, above: Above) -> None: ...
"""

import hashlib
import re
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from functools import partial, singledispatch
from types import CodeType, FunctionType, MethodType
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

WHOLE_BYTES, SAMPLED_ROWS = 64 << 20, 1000
Hash = Any
#: What a thing is a part of, by id: an object may hold itself.
Above = tuple[int, ...]
# Would change from run to run; NumPy writes it in capitals.
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")


def fingerprint(thing: Any) -> str:
    into = hashlib.sha256()
    add(thing, into, ())
    return into.hexdigest()[:16]


def add(thing: Any, into: Hash, above: Above) -> None:
    """Its type, and what it holds."""
    into.update(f"<{type(thing).__qualname__}>".encode())
    if id(thing) not in above:
        add_parts(thing, into, (*above, id(thing)))


@singledispatch
def add_parts(thing: Any, into: Hash, above: Above) -> None:
    derived: tuple[str, ...] | None = getattr(type(thing), "derived", None)
    if derived is not None:
        add({name: value for name, value in vars(thing).items() if name not in derived}, into, above)
    elif is_dataclass(thing):
        add({part.name: getattr(thing, part.name) for part in fields(thing)}, into, above)
    elif " object at 0x" in repr(thing) and hasattr(thing, "__dict__"):
        add([vars(thing), type(thing).__call__ if callable(thing) else None], into, above)
    else:
        into.update(_ADDRESS.sub("", repr(thing)).encode())


@add_parts.register
def _(thing: type, into: Hash, above: Above) -> None:
    into.update(f"{thing.__module__}.{thing.__qualname__}".encode())


@add_parts.register
def _(thing: Mapping, into: Hash, above: Above) -> None:  # type: ignore[type-arg]
    for key in thing:
        into.update(f"{key}=".encode())
        add(thing[key], into, above)


@add_parts.register
def _(thing: list | tuple | set | frozenset, into: Hash, above: Above) -> None:  # type: ignore[type-arg]
    into.update(f"{len(thing)}:".encode())
    for part in sorted(thing, key=repr) if isinstance(thing, set | frozenset) else thing:
        add(part, into, above)


@add_parts.register
def add_tensor(tensor: Tensor, into: Hash, above: Above = ()) -> None:
    into.update(f"{tensor.dtype}{tuple(tensor.shape)}".encode())
    tensor = tensor.detach().cpu()
    tensor = tensor if tensor.layout == torch.strided else tensor.to_dense()
    if tensor.nbytes > WHOLE_BYTES:
        tensor = tensor[looked_at(len(tensor), tensor.nbytes)]
    into.update(tensor.reshape(-1).view(torch.uint8).numpy().tobytes())


@add_parts.register
def _(array: np.ndarray, into: Hash, above: Above) -> None:
    into.update(f"{array.dtype}{array.shape}".encode())
    some = array[looked_at(len(array), array.nbytes).numpy()] if array.nbytes > WHOLE_BYTES else array
    if array.dtype.hasobject:  # texts, mostly; their bytes would be addresses
        into.update(_ADDRESS.sub("", repr(some.tolist())).encode())
    else:
        into.update(some.tobytes())


def looked_at(rows: int, nbytes: int) -> Tensor:
    """Which rows of an array of this size count."""
    if nbytes <= WHOLE_BYTES:
        return torch.arange(rows)
    # In float32 the last of 20 million rows would be one too far.
    return torch.linspace(0, rows - 1, min(SAMPLED_ROWS, rows), dtype=torch.float64).long()


@add_parts.register
def _(module: nn.Module, into: Hash, above: Above) -> None:
    # Sizes that the first batch will tell have no values yet.
    known = {name: "lazy" if is_lazy(value) else value for name, value in module.state_dict().items()}
    add([repr(module), known, [_plain_attributes(part) for part in module.modules()]], into, above)


def _plain_attributes(module: nn.Module) -> dict[str, Any]:
    """Numbers and texts that a module keeps beside its tensors, such as a loss's label_smoothing."""
    plain = {name: value for name, value in vars(module).items() if isinstance(value, int | float | str | None)}
    return {name: value for name, value in plain.items() if name != "training"}  # a mode, not a setting


@add_parts.register
def _(thing: partial, into: Hash, above: Above) -> None:  # type: ignore[type-arg]
    add([thing.func, thing.args, thing.keywords], into, above)


@add_parts.register
def _(function: FunctionType | MethodType, into: Hash, above: Above) -> None:
    into.update(f"{function.__module__}.{function.__qualname__}".encode())
    plain: Any = function
    closure = [cell.cell_contents for cell in plain.__closure__ or ()]
    add([_code(plain.__code__), plain.__defaults__, plain.__kwdefaults__, closure], into, above)
    if isinstance(function, MethodType):
        add(function.__self__, into, above)


def _code(code: CodeType) -> list[Any]:
    """What a function does and names, with the functions inside it."""
    constants = [_code(constant) if isinstance(constant, CodeType) else constant for constant in code.co_consts]
    return [code.co_code.hex(), code.co_names, constants]
