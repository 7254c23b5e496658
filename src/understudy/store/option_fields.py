"""The options of a function as one frozen dataclass: each field with its default, help and limits.

    @dataclass(frozen=True)
    class Options(OptionTable):
        rounds: int = option(3, help="Rounds in all.", typed=int, least=1)

The function takes ``**options`` and makes the dataclass of them (``spell_out`` shows them in its signature); the
command line makes its flags from the same fields (``cli/shared.py``). This file loads without PyTorch.

Other public functions hold their arguments to their annotations. Without that, a text in the place of a number fails
somewhere in PyTorch, with an error that names neither:

    @checked
    def smoothing(amount: float = 0.1, *, hard: bool = False) -> Objective: ...

    smoothing("0.1")        # UnderstudyError: smoothing(amount='0.1') must be a number
    smoothing(amout=0.1)    # UnknownOption: unknown option 'amout' of smoothing; did you mean 'amount'?

Only what an annotation says plainly is looked at (numbers, text, truth values, paths, functions, this package's
classes, and lists, mappings and unions of these); arrays have checks of their own. What the values must be is the
functions' matter.
"""

import difflib
import functools
import inspect
import os
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, field, fields
from inspect import Parameter
from numbers import Integral, Real
from pathlib import Path
from typing import Any, Literal, NamedTuple, ParamSpec, TypeVar, Union, get_args, get_origin, get_type_hints

from understudy.errors import UnderstudyError, UnknownOption

Function = TypeVar("Function", bound=Callable[..., Any])
P = ParamSpec("P")
Returned = TypeVar("Returned")
#: Upper limit of every count.
MOST = (1 << 31) - 1


@dataclass(frozen=True)
class Option:
    """What is known of an option beside its type and default."""

    help: str
    #: Its type on a command line; True: that of the field; None: Python only.
    typed: Any = None
    #: Its name on a command line where that differs: ``pretrain`` for ``--pretrain``.
    flag: str | None = None
    #: Makes the value from what was typed.
    read: Callable[[Any], Any] | None = None
    metavar: str | None = None
    panel: str | None = None
    least: float | None = None
    above: float | None = None
    most: float | None = None
    #: What it may be instead of a number.
    word: str | None = None
    #: Its type in the signature of a function that resolves it; None: that of the field.
    shown: Any = None
    #: Whether resumed work may have another value: it changes no result.
    may_differ: bool = False


def option(default: Any = MISSING, **known: Any) -> Any:
    return field(default=default, metadata={"option": Option(**known)})


def typed_option(default: Any = MISSING, *, typed: Any = True, **known: Any) -> Any:
    """One that can be typed: as the type of its field, if it is not given another."""
    return option(default, typed=typed, **known)


def known(each: "Field[Any]") -> Option:
    """The ``Option`` of a field."""
    found: Option = each.metadata["option"]
    return found


def typed_as(each: "Field[Any]") -> Any:
    """The type of a field on a command line; None where it cannot be typed."""
    return each.type if known(each).typed is True else known(each).typed


def is_whole(each: "Field[Any]") -> bool:
    return each.type in (int, int | None)


def read_pairs(texts: Sequence[str] | None, flag: str, wanted: str, *, last: bool = False) -> dict[str, str]:
    """``["a=b"]`` as ``{"a": "b"}``; ``last``: split at the last ``=``."""
    pairs: dict[str, str] = {}
    for text in texts or ():
        key, sign, value = (part.strip() for part in (text.rpartition if last else text.partition)("="))
        if not (key and sign and value):
            raise UnderstudyError(f"--{flag} {text!r} is not like {wanted}")
        if key in pairs:
            raise UnderstudyError(f"--{flag} names {key!r} twice; name it once")
        pairs[key] = value
    return pairs


def plain(value: Any) -> Any:
    """NumPy's numbers as Python's, which JSON and PyTorch's seeds need."""
    import numpy as np

    return value.item() if isinstance(value, np.generic) else value


def check_options(options: Any) -> None:
    """Every field within its limits; NumPy's numbers become Python's."""
    for each in fields(options):
        value = plain(getattr(options, each.name))
        object.__setattr__(options, each.name, value)
        if not (value is None and (each.default is None or each.type == int | None)):
            check_limits(each, value)


class OptionTable:
    """A dataclass of options, checked when it is made."""

    def __post_init__(self) -> None:
        check_options(self)


def check_limits(each: "Field[Any]", value: Any) -> None:
    option, or_none = known(each), ", or None" if each.default is None else ""
    if option.word is not None and value == option.word:
        return
    is_number = isinstance(value, Real) and not isinstance(value, bool)
    if option.above is not None and not (is_number and value > option.above):
        raise UnderstudyError(f"{each.name}={value} must be a number greater than {option.above}{or_none}")
    if option.most is not None and is_number and value > option.most:
        raise UnderstudyError(f"{each.name}={value} must be at most {option.most}{or_none}")
    if option.least is None:
        return
    if is_whole(each) and not (is_number and isinstance(value, int) and value >= option.least):
        raise UnderstudyError(f"{each.name}={value} must be a whole number, at least {option.least}{or_none}")
    if is_whole(each) and value > MOST:
        raise UnderstudyError(f"{each.name}={value} must be a whole number, at most {MOST:,}{or_none}")
    if not (is_number and value >= option.least):
        raise UnderstudyError(f"{each.name}={value} must be a number and not negative")


def check_interval(function: str, interval: str, **options: float) -> None:
    """Refuses an option of a function that is outside an interval such as "(0, 1]"."""
    low, high = map(float, interval[1:-1].split(","))
    for name, value in options.items():
        at_open_end = (value == low and interval[0] == "(") or (value == high and interval[-1] == ")")
        if at_open_end or not low <= value <= high:
            raise UnderstudyError(f"{function}({name}={value}) must lie in {interval}")


def with_parameters(
    function: Function, shown: Sequence[Parameter], *, first: bool = False, keep_others: bool = False
) -> Function:
    """The function with these keywords in its signature instead of ``**options``; ``first``: before its own ones.

    ``keep_others``: beside ``**options``, for a function that takes more than these.
    """
    signature = inspect.signature(function)
    own = [each for each in signature.parameters.values() if each.kind is not Parameter.VAR_KEYWORD]
    others = [each for each in signature.parameters.values() if keep_others and each not in own]
    at = next((i for i, each in enumerate(own) if each.kind is Parameter.KEYWORD_ONLY), len(own)) if first else len(own)
    function.__signature__ = signature.replace(parameters=[*own[:at], *shown, *own[at:], *others])  # type: ignore[attr-defined]
    return function


def field_parameters(table: type, names: Iterable[str] | None = None, **types: Any) -> list[Parameter]:
    """The fields of a dataclass (those named, or all) as keyword parameters; ``types``: names its annotations quote."""
    hints, kept = get_type_hints(table, localns=types), None if names is None else set(names)
    return [
        Parameter(
            each.name, Parameter.KEYWORD_ONLY, annotation=known(each).shown or hints[each.name],
            default=Parameter.empty if each.default is MISSING else each.default,
        )
        for each in fields(table)
        if kept is None or each.name in kept
    ]  # fmt: skip


def spell_out(table: type, *, keep_others: bool = False) -> Callable[[Function], Function]:
    """The function with its signature showing the fields of ``table``; ``keep_others`` as in ``with_parameters``."""
    return lambda function: with_parameters(function, field_parameters(table), keep_others=keep_others)


def check_names(given: Iterable[str], names: Iterable[str], function: str) -> None:
    """Refuse an option that is misspelt, or that ``function`` does not take."""
    names = list(names)
    if other := sorted(set(given) - set(names)):
        near = difflib.get_close_matches(other[0], names, n=1)
        cure = f"did you mean {near[0]!r}?" if near else f"it takes {', '.join(names) or 'none'}"
        raise UnknownOption(f"unknown option {other[0]!r} of {function}; {cure}")


#: Of longer ones only the first elements are looked at.
LONGEST_LIST = 1_000


def checked(function: Callable[P, Returned], *, plainly: bool = False) -> Callable[P, Returned]:
    """Refuses arguments of other types than annotated, and names that the signature as it is shown does not have; a
    wrong number of arguments stays Python's own error."""
    signature, called = inspect.signature(function), function.__qualname__.removesuffix(".__init__")
    several = (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)
    kinds = {
        name: read_kind(each.annotation)
        for name, each in signature.parameters.items()
        if each.kind not in several and each.annotation is not each.empty and not isinstance(each.annotation, str)
    }

    @functools.cache  # later than here: decorators above this one may show more
    def shown() -> Mapping[str, Parameter]:
        return inspect.signature(call).parameters

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> Returned:
        if not any(each.kind is Parameter.VAR_KEYWORD for each in shown().values()):
            check_names(kwargs, shown(), called)
        # Left to the function itself, so that it is the function that is named.
        try:
            given = signature.bind(*args, **kwargs).arguments
        except TypeError:
            return function(*args, **kwargs)
        for name, value in given.items():
            if name in kinds and (kinds[name].plain or not plainly) and not kinds[name].fits(value):
                wanted = " or ".join(kinds[name].words)
                raise UnderstudyError(f"{called}({name}={_shown(value)}) must be {wanted}")
        return function(*args, **kwargs)

    return call


def checked_plainly(function: Callable[P, Returned]) -> Callable[P, Returned]:
    """The same of numbers, text and truth values only: of the rest the function says itself what it wants."""
    return checked(function, plainly=True)


class Kind(NamedTuple):
    """What an annotation is called, and which values fit it."""

    words: list[str]
    fits: Callable[[Any], bool]
    #: A number, text, truth value, path or None.
    plain: bool = False


def read_kind(kind: Any) -> Kind:
    origin, inner = get_origin(kind), get_args(kind)
    if kind in _PLAIN:
        return _PLAIN[kind]
    if origin in (Union, types.UnionType):
        parts = [read_kind(one) for one in inner]
        words = list(dict.fromkeys(word for part in parts for word in part.words))
        return Kind(words, lambda value: any(part.fits(value) for part in parts), all(part.plain for part in parts))
    if origin is Literal:
        same = [(type(one), one) for one in inner]
        return Kind(
            [repr(one) for one in inner], lambda value: any(type(value) is t and value == one for t, one in same)
        )
    if Callable in (origin, kind):
        return Kind(["a function"], callable)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return Kind(["a mapping"], lambda value: isinstance(value, Mapping))
    if isinstance(origin, type):
        of = f" of {_PLAIN[inner[0]].words[0].removeprefix('a ')}s" if inner and inner[0] in (int, float, str) else ""
        return Kind([f"a list{of}"], lambda value: _is_collection(value, origin, inner))
    ours = isinstance(kind, type) and kind.__module__.partition(".")[0] in ("understudy", "torch")
    named = f"a {getattr(kind, '__name__', kind)}"
    if ours and not getattr(kind, "_is_protocol", False):
        return Kind([named], lambda value: isinstance(value, kind))
    return Kind([named], lambda value: True)


def _is_collection(value: Any, origin: type, inner: tuple[Any, ...]) -> bool:
    if origin is tuple and Ellipsis not in inner:
        pairs = (
            zip(value, inner, strict=False) if isinstance(value, tuple | list) and len(value) == len(inner) else None
        )
        return pairs is not None and all(read_kind(one).fits(each) for each, one in pairs)
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
    return all(map(_PLAIN[inner[0]].fits, value[:LONGEST_LIST]))


def _plain(word: str, fits: Callable[[Any], bool]) -> Kind:
    return Kind([word], fits, True)


_NONE = _plain("None", lambda value: value is None)
# NumPy's numbers pass for numbers.
_PLAIN: dict[Any, Kind] = {
    bool: _plain("True or False", lambda value: type(value).__name__ in ("bool", "bool_")),
    int: _plain("a whole number", lambda value: isinstance(value, Integral) and not isinstance(value, bool)),
    float: _plain("a number", lambda value: isinstance(value, Real) and not isinstance(value, bool)),
    str: _plain("text", lambda value: isinstance(value, str)),
    Path: _plain("a path", lambda value: isinstance(value, str | os.PathLike)),
    None: _NONE,
    types.NoneType: _NONE,
}


def _shown(value: Any) -> str:
    """Plain values as they are; of others the type, since their text may be pages long."""
    if isinstance(value, str | int | float | bytes | None) and len(repr(value)) < 80:
        return repr(value)
    return f"<{type(value).__name__}>"
