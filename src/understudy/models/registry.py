"""Which nets exist, how one was built, and how to build it again.

Every factory takes `inputs` (the shape of one row) and `classes`, then its own options. Each is entered in
`MODELS` by `@model`, which also notes on the module it returns the name and the arguments, defaults
included. A run directory keeps that note as JSON beside the weights, so that a student is rebuilt without
pickle.

    net = mlp(inputs=784, hidden=(128, 128), classes=10)
    spec = spec_of(net)        # {"name": "mlp", "args": {"inputs": 784, "hidden": [128, 128], …}}
    twin = build(spec)         # same shape, fresh weights: load the saved ones into it
    from_text("mlp:128,128", shape=(784,), classes=10)            # as typed on the command line

The note describes the net as built: a layer replaced by hand afterwards is not in it.
"""

import copy
import functools
import inspect
import json
import operator
from collections.abc import Callable, Sequence
from typing import Any, ParamSpec

from torch import nn

from understudy.errors import UnderstudyError

P = ParamSpec("P")

MODELS: dict[str, Callable[..., nn.Module]] = {}

_NOTE = "_understudy_spec"


def model(factory: Callable[P, nn.Module]) -> Callable[P, nn.Module]:
    """Enter a factory in MODELS under its own name and have its modules remember how they were built."""
    name = factory.__name__
    signature = inspect.signature(factory)

    @functools.wraps(factory)
    def noted(*args: P.args, **kwargs: P.kwargs) -> nn.Module:
        call = signature.bind(*args, **kwargs)
        call.apply_defaults()
        module = factory(*args, **kwargs)
        # A plain attribute: deepcopy carries it along and the state dict does not see it.
        module.__dict__[_NOTE] = {"name": name, "args": _jsonable(name, dict(call.arguments))}
        return module

    MODELS[name] = noted
    return noted


def spec_of(module: nn.Module) -> dict[str, Any] | None:
    """How a net of this package was built, ready for JSON; None for any other module."""
    return copy.deepcopy(module.__dict__.get(_NOTE))


def build(spec: dict[str, Any]) -> nn.Module:
    """The net that `spec_of` described, with fresh weights."""
    if not isinstance(spec, dict) or not isinstance(spec.get("name"), str):
        raise UnderstudyError(f'a model spec looks like {{"name": "mlp", "args": {{…}}}}, not {spec!r}')
    name, args = spec["name"], spec.get("args", {})
    factory = _factory(name)
    signature = inspect.signature(factory)
    try:
        signature.bind(**args)
    except TypeError as error:
        takes = ", ".join(signature.parameters)
        raise UnderstudyError(f"model {name!r}: {error}; it takes {takes}") from error
    try:
        return factory(**args)
    except (TypeError, ValueError, RuntimeError) as error:
        raise UnderstudyError(f"model {name!r} cannot be built with {args}: {error}") from error


def from_text(text: str, *, shape: Sequence[int], classes: int) -> nn.Module:
    """The net a command line names: "linear", "mlp:128,128", "mobilenet:width=2", "mlp:64,dropout=0.1".

    `shape` is that of one row of the data. Bare numbers are hidden layer sizes; other options are
    `name=value`.
    """
    name, _, options = text.strip().partition(":")
    args: dict[str, Any] = {"inputs": list(shape), "classes": classes}
    hidden: list[int] = []
    for option in filter(None, (part.strip() for part in options.split(","))):
        key, equals, value = option.partition("=")
        if key in args:
            raise UnderstudyError(f"model {text!r}: {key!r} is given twice or comes from the data; leave it out")
        if equals:
            args[key] = _value(value)
        elif key.isdecimal():
            hidden.append(int(key))
        else:
            raise UnderstudyError(f"model {text!r}: {key!r} is neither a layer size nor like dropout=0.1")
    if hidden and "hidden" not in inspect.signature(_factory(name)).parameters:
        raise UnderstudyError(f"model {text!r}: {name} has no hidden layers to size; write its options as name=value")
    if hidden:
        args["hidden"] = hidden
    return build({"name": name, "args": args})


def _factory(name: str) -> Callable[..., nn.Module]:
    if name not in MODELS:
        raise UnderstudyError(f"there is no model {name!r}; there are {', '.join(sorted(MODELS))}")
    return MODELS[name]


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return text


def _jsonable(name: str, args: dict[str, Any]) -> dict[str, Any]:
    """Tuples as lists, NumPy integers as integers: what a reader of the JSON file will see."""
    try:
        plain: dict[str, Any] = json.loads(json.dumps(args, default=operator.index))
    except TypeError as error:
        raise UnderstudyError(f"model {name!r}: arguments are numbers, text or lists of these: {error}") from error
    return plain
