"""The options of a function as one frozen dataclass: each field with its default, help and limits.

    @dataclass(frozen=True)
    class Options:
        rounds: int = option(3, help="Rounds in all.", typed=int, least=1)

        def __post_init__(self) -> None:
            check_options(self)

The function takes ``**options`` and makes the dataclass of them (``spell_out`` shows them in its signature); the
command line makes its flags from the same fields (``cli/shared.py``). This file loads without PyTorch.
"""

import inspect
from collections.abc import Callable, Iterable, Sequence
from dataclasses import MISSING, Field, dataclass, field, fields
from inspect import Parameter
from numbers import Real
from typing import Any, TypeVar, get_type_hints

from understudy.errors import UnderstudyError

Function = TypeVar("Function", bound=Callable[..., Any])
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


def known(each: "Field[Any]") -> Option:
    """The ``Option`` of a field."""
    found: Option = each.metadata["option"]
    return found


def typed_as(each: "Field[Any]") -> Any:
    """The type of a field on a command line; None where it cannot be typed."""
    return each.type if known(each).typed is True else known(each).typed


def is_whole(each: "Field[Any]") -> bool:
    return each.type in (int, int | None)


def plain(value: Any) -> Any:
    """NumPy's numbers as Python's, which JSON and PyTorch's seeds need."""
    import numpy as np

    return value.item() if isinstance(value, np.generic) else value


def check_options(options: Any) -> None:
    """Every field within its limits; NumPy's numbers become Python's."""
    for each in fields(options):
        value = plain(getattr(options, each.name))
        object.__setattr__(options, each.name, value)
        if not (value is None and each.default is None):
            check_limits(each, value)


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
