"""A method's options: those that every method shares, and all of them as typed on a command line.

A method names its own options and takes the shared ones, the objective's slots, as ``**slots``:

    @method
    def smoothing(amount: float = 0.1, **slots: Unpack[Slots]) -> Objective:
        return Objective(name="smoothing", loss=SmoothedLoss(amount), **slots)

    read_options(us.slam, ["lower_bound=0.6", "k=auto"])      # {"lower_bound": 0.6, "k": "auto"}

Only plain values (numbers, text, true/false, none, pairs of numbers) can be typed; parts such as ``loss=`` or
``weight=`` are built in Python. An unknown name or a value of the wrong type is an error that says what would do.
"""

import dataclasses
import inspect
import types
from collections.abc import Callable, Sequence
from inspect import Parameter
from typing import Any, TypedDict, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from understudy.errors import UnderstudyError
from understudy.objective import Loss, Objective, Term, Weight
from understudy.store.option_fields import check_names, checked_plainly, with_parameters


class WeightSlots(TypedDict, total=False):
    """For a method that says loss and temperature itself."""

    hard: bool
    weight: Weight | None
    terms: tuple[Term, ...]
    temperature_scale: bool | None


class TemperedSlots(WeightSlots, total=False):
    """For a method that brings its own loss."""

    temperature: float | tuple[float, float]


class Slots(TemperedSlots, total=False):
    """What every method takes beside its own options; left out, they are as ``Objective`` has them."""

    loss: Loss


SomeSlots = TypeVar("SomeSlots", bound=WeightSlots)
Method = TypeVar("Method", bound=Callable[..., Objective])


def with_weight(slots: SomeSlots, weight: Weight) -> SomeSlots:
    """The slots with a method's own weight: it multiplies the one the user passed."""
    given = cast(Weight | None, slots.get("weight"))
    return cast(SomeSlots, {**slots, "weight": weight if given is None else weight * given})


def method(factory: Method) -> Method:
    """A method whose signature shows every slot with its default; what it does not show the objective refuses."""
    (names,) = get_args(inspect.signature(factory).parameters["slots"].annotation)
    types = get_type_hints(names)
    shown = [
        Parameter(each.name, Parameter.KEYWORD_ONLY, annotation=types[each.name], default=each.default)
        for each in dataclasses.fields(Objective)
        if each.name in types
    ]
    return cast(Method, checked_plainly(with_parameters(factory, shown)))


def read_options(
    factory: Callable[..., Any], texts: Sequence[str], name: str | None = None, *, leave_out: Sequence[str] = ()
) -> dict[str, Any]:
    """Keyword arguments for ``factory``; ``name``: what to call it in errors; ``leave_out``: those that it has."""
    name = str(name or getattr(factory, "__name__", "method"))
    kinds = {key: each for key, each in option_kinds(factory).items() if key not in leave_out}
    values: dict[str, Any] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        key, value = key.strip(), value.strip()
        if not equals:
            raise UnderstudyError(f"option {text!r} is not like name=value; {name} takes {', '.join(kinds) or 'none'}")
        check_names([key], kinds, name)
        if key in values:
            raise UnderstudyError(f"option {key!r} is given twice; give it once")
        values[key] = _read(value, kinds[key], f"{name}: option {key!r}")
    return values


def option_kinds(factory: Callable[..., Any]) -> dict[str, list[Any]]:
    """Each option that can be typed -> the types it may have."""
    parameters = inspect.signature(factory, eval_str=True).parameters
    kinds = {name: _plain_kinds(parameter.annotation) for name, parameter in parameters.items()}
    return {name: plain for name, plain in kinds.items() if plain}


def _plain_kinds(hint: Any) -> list[Any]:
    alternatives = get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)
    readable = [kind for kind in KINDS if kind in alternatives]
    return [*readable, *([types.NoneType] if readable and types.NoneType in alternatives else [])]


def _read(text: str, kinds: list[Any], where: str) -> Any:
    if text.lower() in ("none", "null") and types.NoneType in kinds:
        return None
    readable = [KINDS[kind] for kind in kinds if kind is not types.NoneType]
    for _, read in readable:
        try:
            return read(text)
        except (ValueError, KeyError):
            continue
    wanted = [name for name, _ in readable] + (["none"] if types.NoneType in kinds else [])
    raise UnderstudyError(f"{where} is {text!r}; it must be {' or '.join(wanted)}")


def _pair(text: str) -> tuple[float, float]:
    first, second = text.split(",")
    return float(first), float(second)


# In reading order: "true" is a truth value before it is text, 3 a whole number before it is a fraction.
KINDS: dict[Any, tuple[str, Callable[[str], Any]]] = {
    bool: ("true or false", lambda text: {"true": True, "false": False}[text.lower()]),
    int: ("a whole number", int),
    float: ("a number", float),
    tuple[float, float]: ("two numbers like 1,2", _pair),
    str: ("text", str),
}
