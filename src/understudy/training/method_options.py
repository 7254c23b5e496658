"""A method's options as typed on a command line: ``name=value`` texts, read by the factory's own signature.

    read_options(us.slam, ["lower_bound=0.6", "k=auto"])      # {"lower_bound": 0.6, "k": "auto"}

Only plain values (numbers, text, true/false, none, pairs of numbers) can be typed; parts such as ``loss=`` or
``weight=`` are built in Python. An unknown name or a value of the wrong type is an error that says what would do.
"""

import inspect
import types
from collections.abc import Callable, Sequence
from typing import Any, Union, get_args, get_origin, get_type_hints

from understudy.errors import UnderstudyError


def read_options(factory: Callable[..., Any], texts: Sequence[str], name: str | None = None) -> dict[str, Any]:
    """Keyword arguments for ``factory``; ``name``: what to call it in errors."""
    name = name or getattr(factory, "__name__", "method")
    kinds = option_kinds(factory)
    values: dict[str, Any] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        key, value = key.strip(), value.strip()
        if not equals:
            raise UnderstudyError(f"option {text!r} is not like name=value; {name} takes {', '.join(kinds) or 'none'}")
        if key not in kinds:
            raise UnderstudyError(f"{name} has no option {key!r}; it takes {', '.join(kinds) or 'none'}")
        if key in values:
            raise UnderstudyError(f"option {key!r} is given twice; give it once")
        values[key] = _read(value, kinds[key], f"{name}: option {key!r}")
    return values


def option_kinds(factory: Callable[..., Any]) -> dict[str, list[Any]]:
    """Each option that can be typed -> the types it may have."""
    hints = get_type_hints(factory)
    kinds = {name: _plain_kinds(hints.get(name)) for name in inspect.signature(factory).parameters}
    return {name: found for name, found in kinds.items() if found}


def _plain_kinds(hint: Any) -> list[Any]:
    alternatives = get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)
    # In reading order: "true" is a truth value before it is text, 3 a whole number before it is a fraction.
    readable = [kind for kind in (bool, int, float, tuple[float, float], str) if kind in alternatives]
    return [*readable, *([types.NoneType] if readable and types.NoneType in alternatives else [])]


def _read(text: str, kinds: list[Any], where: str) -> Any:
    if text.lower() in ("none", "null") and types.NoneType in kinds:
        return None
    for kind in kinds:
        try:
            return READERS[kind](text)
        except ValueError:
            continue
    said = " or ".join(KIND_NAMES[kind] for kind in kinds)
    raise UnderstudyError(f"{where} is {text!r}; it must be {said}")


def _truth(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError(text)
    return text.lower() == "true"


def _pair(text: str) -> tuple[float, float]:
    first, second = text.split(",")
    return float(first), float(second)


def _nothing(text: str) -> None:
    raise ValueError(text)


READERS: dict[Any, Callable[[str], Any]] = {
    bool: _truth,
    int: int,
    float: float,
    tuple[float, float]: _pair,
    str: str,
    types.NoneType: _nothing,
}
KIND_NAMES: dict[Any, str] = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    tuple[float, float]: "two numbers like 1,2",
    str: "text",
    types.NoneType: "none",
}
