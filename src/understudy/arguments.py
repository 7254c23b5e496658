"""Arguments of public functions held to their annotations: what is none of these types is refused in one line.

Without that, a text in the place of a number fails somewhere in PyTorch, with an error that names neither.

    @checked
    def smoothing(amount: float = 0.1, *, hard: bool = False) -> Objective: ...

    smoothing("0.1")        # UnderstudyError: smoothing(amount='0.1') must be a number

Only what an annotation says plainly is looked at (numbers, text, truth values, paths, functions, this package's
classes, and lists, mappings and unions of these); arrays have checks of their own. What the values must be is the
functions' matter.
"""

import functools
import inspect
import os
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from numbers import Integral, Real
from pathlib import Path
from typing import Any, Literal, ParamSpec, TypeVar, Union, get_args, get_origin

from understudy.errors import UnderstudyError

P = ParamSpec("P")
Result = TypeVar("Result")
#: Of longer ones only the first elements are looked at.
LONGEST_LIST = 1_000


def checked(function: Callable[P, Result]) -> Callable[P, Result]:
    """Refuses arguments of other types than annotated; a wrong name or number of them stays Python's own error."""
    return _checked(function, plainly=False)


def checked_plainly(function: Callable[P, Result]) -> Callable[P, Result]:
    """The same of numbers, text and truth values only: of the rest the function says itself what it wants."""
    return _checked(function, plainly=True)


def _checked(function: Callable[P, Result], *, plainly: bool) -> Callable[P, Result]:
    signature = inspect.signature(function)
    several = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    kinds = {
        name: each.annotation
        for name, each in signature.parameters.items()
        if each.kind not in several and each.annotation is not each.empty and not isinstance(each.annotation, str)
        if not plainly or _is_plain(each.annotation)
    }

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> Result:
        # Left to the function itself, so that it is the function that is named.
        try:
            given = signature.bind(*args, **kwargs).arguments
        except TypeError:
            return function(*args, **kwargs)
        for name, value in given.items():
            if name in kinds and not fits(value, kinds[name]):
                called, wanted = function.__qualname__.removesuffix(".__init__"), " or ".join(_words(kinds[name]))
                raise UnderstudyError(f"{called}({name}={_shown(value)}) must be {wanted}")
        return function(*args, **kwargs)

    return call


def _is_plain(kind: Any) -> bool:
    return all(one in _PLAIN for one in (get_args(kind) if get_origin(kind) in (Union, types.UnionType) else (kind,)))


def fits(value: Any, kind: Any) -> bool:
    origin, inner = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        return any(fits(value, one) for one in inner)
    if origin is Literal:
        return any(type(value) is type(one) and value == one for one in inner)
    if kind in _PLAIN:
        return _PLAIN[kind][1](value)
    if origin is Callable or kind is Callable:
        return callable(value)
    if origin is tuple and Ellipsis not in inner:
        return isinstance(value, tuple | list) and len(value) == len(inner) and all(map(fits, value, inner))
    if origin is not None and isinstance(origin, type):
        return _is_collection(value, origin, inner)
    if isinstance(kind, type) and kind.__module__.partition(".")[0] in ("understudy", "torch"):
        return getattr(kind, "_is_protocol", False) or isinstance(value, kind)
    return True


def _is_collection(value: Any, origin: type, inner: tuple[Any, ...]) -> bool:
    if issubclass(origin, Mapping):
        return isinstance(value, Mapping)
    if isinstance(value, str | bytes | bytearray | memoryview):
        return str in inner and isinstance(value, str)  # functions that take lists of texts say it better
    if not issubclass(origin, Iterable):
        return True
    if isinstance(value, Mapping | set) or not isinstance(value, Iterable) or getattr(value, "shape", None) == ():
        return isinstance(value, Iterable) and not issubclass(origin, Sequence)
    if issubclass(origin, Sequence) and not (hasattr(value, "__len__") and hasattr(value, "__getitem__")):
        return False
    if not isinstance(value, list | tuple) or not inner or inner[0] not in _PLAIN:
        return True
    return all(fits(one, inner[0]) for one in value[:LONGEST_LIST])


def _is_number(value: Any, kind: type) -> bool:
    return isinstance(value, kind) and not isinstance(value, bool)


# What a plain annotation is called, and what passes for it; NumPy's numbers do.
_PLAIN: dict[Any, tuple[str, Callable[[Any], bool]]] = {
    bool: ("True or False", lambda value: type(value).__name__ in ("bool", "bool_")),
    int: ("a whole number", lambda value: _is_number(value, Integral)),
    float: ("a number", lambda value: _is_number(value, Real)),
    str: ("text", lambda value: isinstance(value, str)),
    Path: ("a path", lambda value: isinstance(value, str | os.PathLike)),
    None: ("None", lambda value: value is None),
    types.NoneType: ("None", lambda value: value is None),
}


def _words(kind: Any) -> list[str]:
    origin, inner = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        return list(dict.fromkeys(word for one in inner for word in _words(one)))
    if origin is Literal:
        return [repr(one) for one in inner]
    if kind in _PLAIN:
        return [_PLAIN[kind][0]]
    if origin is Callable or kind is Callable:
        return ["a function"]
    if origin is not None and isinstance(origin, type):
        if issubclass(origin, Mapping):
            return ["a mapping"]
        of = f" of {_words(inner[0])[0].removeprefix('a ')}s" if inner and inner[0] in (int, float, str) else ""
        return [f"a list{of}"]
    return [f"a {getattr(kind, '__name__', kind)}"]


def _shown(value: Any) -> str:
    """Plain values as they are; of others the type, since their text may be pages long."""
    if isinstance(value, str | int | float | bytes | None) and len(repr(value)) < 80:
        return repr(value)
    return f"<{type(value).__name__}>"
