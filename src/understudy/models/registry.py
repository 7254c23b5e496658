"""What the nets share: their layers, and a note of how each was built, so that it can be built again.

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
import math
import operator
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any, Literal, ParamSpec

import torch
from torch import Tensor, nn

from understudy.errors import UnderstudyError, first_line
from understudy.store.option_fields import check_names, checked

Shape = int | Sequence[int]
#: How an image enters: as published, for 224×224, or so that a small one keeps its size.
Stem = Literal["imagenet", "small"]
Student = nn.Module | Callable[[], nn.Module]
#: ``(channels in, channels out, stride)``.
Block = Callable[[int, int, int], nn.Module]
P = ParamSpec("P")

MODELS: dict[str, Callable[..., nn.Module]] = {}

_NOTE, _DRAWN, _READER = "_understudy_spec", "_understudy_drawn", "_understudy_reader"


def model(factory: Callable[P, nn.Module]) -> Callable[P, nn.Module]:
    """Enter a factory in MODELS under its own name and have its modules remember how they were built."""
    name = factory.__name__
    signature, whole = inspect.signature(factory), checked(factory)

    @functools.wraps(factory)
    def noted(*args: P.args, **kwargs: P.kwargs) -> nn.Module:
        check_names(kwargs, signature.parameters, name)
        call = signature.bind(*args, **kwargs)
        call.apply_defaults()
        try:
            module = whole(*args, **kwargs)
        except (TypeError, ValueError, RuntimeError, IndexError, OverflowError) as error:
            given = ", ".join(f"{key}={value!r:.60}" for key, value in call.arguments.items())
            raise UnderstudyError(f"model {name!r} cannot be built with {given}: {first_line(error)}") from error
        # A plain attribute: deepcopy carries it along and the state dict does not see it.
        module.__dict__[_NOTE] = {"name": name, "args": _jsonable(name, dict(call.arguments))}
        return module

    MODELS[name] = noted
    return noted


def note_drawn(module: nn.Module, parts: Sequence[str]) -> None:
    """Say which parts of a pretrained net were drawn at random: a twin with weights of its own draws them alone."""
    module.__dict__[_DRAWN] = tuple(parts)


def drawn_parts(module: nn.Module) -> list[nn.Module]:
    """The layers of those parts; every layer of a net that is not pretrained."""
    names = module.__dict__.get(_DRAWN)
    if names is None:
        return list(module.modules())
    return [layer for name in names for layer in module.get_submodule(name).modules()]


def note_reader(module: nn.Module, reader: Any) -> None:
    """Say how a student reads texts (``data/inputs.py``)."""
    module.__dict__[_READER] = reader


def reader_of(module: nn.Module) -> Any:
    """How a student reads texts; None for one that takes numbers."""
    return module.__dict__.get(_READER)


def spec_of(module: nn.Module) -> dict[str, Any] | None:
    """How a net of this package was built, ready for JSON; None for any other module."""
    return copy.deepcopy(module.__dict__.get(_NOTE))


def build(spec: dict[str, Any]) -> nn.Module:
    """The net that `spec_of` described, with fresh weights."""
    if not isinstance(spec, dict) or not isinstance(spec.get("name"), str):
        raise UnderstudyError(f'a model spec looks like {{"name": "mlp", "args": {{…}}}}, not {spec!r}')
    factory = _factory(spec["name"])
    try:
        return factory(**spec.get("args", {}))
    except TypeError as error:
        takes = ", ".join(inspect.signature(factory).parameters)
        raise UnderstudyError(f"model {spec['name']!r}: {error}; it takes {takes}") from error


@checked
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


def fresh_student(student: Student) -> nn.Module:
    """A copy of a net, or what a function builds."""
    if isinstance(student, nn.Module):
        return copy.deepcopy(student)
    if not callable(student):
        raise UnderstudyError(f"student is a {type(student).__name__}; pass a module, or a function that builds one")
    try:
        built = student()
    except TypeError as error:
        raise UnderstudyError(f"student() fails: {first_line(error)}; pass a function without arguments") from error
    if not isinstance(built, nn.Module):
        raise UnderstudyError(f"student() gave a {type(built).__name__}; pass a function that builds a module")
    return built


def initial_student(student: Student, seed: int) -> nn.Module:
    """The untrained student of a seed, as ``us.train`` would make it."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return fresh_student(student)


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


def row_size(inputs: Shape) -> int:
    """How many numbers a row holds."""
    return math.prod(_sizes(inputs))


def image_shape(inputs: Shape, *, smallest: int = 1) -> tuple[int, int, int]:
    """(channels, height, width) of a row; (height, width) is an image of one channel."""
    sizes = _sizes(inputs)
    if len(sizes) == 2:
        sizes = (1, *sizes)
    if len(sizes) != 3:
        raise UnderstudyError(f"an image net needs rows (channels, height, width), not {sizes}; use mlp")
    channels, height, width = sizes
    if min(height, width) < smallest:
        raise UnderstudyError(f"this net needs images of at least {smallest}×{smallest}, not {height}×{width}")
    return channels, height, width


def _sizes(inputs: Shape) -> tuple[int, ...]:
    sizes = (inputs,) if isinstance(inputs, int) else tuple(int(size) for size in inputs)
    if not sizes or min(sizes) < 1:
        raise UnderstudyError(f"the shape of a row is one or more positive sizes, not {sizes}")
    return sizes


def stem_for(inputs: Shape, stem: Stem | None) -> Stem:
    """The stem by name, or the default for the image's size."""
    _, height, width = image_shape(inputs)
    return stem or ("small" if min(height, width) < 64 else "imagenet")


class AsImages(nn.Module):
    """Gives batches of (height, width) rows their one channel; leaves (B, C, H, W) alone."""

    def forward(self, x: Tensor) -> Tensor:
        return x.unsqueeze(1) if x.dim() == 3 else x


def conv(inputs: int, outputs: int, *, kernel: int = 3, stride: int = 1, groups: int = 1) -> nn.Conv2d:
    """A convolution that keeps the image size (up to its stride). No bias: batch normalisation brings one."""
    return nn.Conv2d(inputs, outputs, kernel, stride=stride, padding=kernel // 2, groups=groups, bias=False)


def conv_norm(inputs: int, outputs: int, *, kernel: int = 3, stride: int = 1, groups: int = 1) -> list[nn.Module]:
    """A convolution and its batch normalisation."""
    return [conv(inputs, outputs, kernel=kernel, stride=stride, groups=groups), nn.BatchNorm2d(outputs)]


def way_in(inputs: Shape, outputs: int, *, kernel: int = 3, stride: int = 1) -> list[nn.Module]:
    """The first convolution of an image net, and its batch normalisation."""
    channels, _, _ = image_shape(inputs)
    return [AsImages(), *conv_norm(channels, outputs, kernel=kernel, stride=stride)]


def basic(inputs: int, outputs: int, stride: int) -> nn.Sequential:
    """3×3, ReLU, 3×3: what a basic block adds to its shortcut (He et al. 2016)."""
    return nn.Sequential(*conv_norm(inputs, outputs, stride=stride), nn.ReLU(), *conv_norm(outputs, outputs))


def stages(block: Block, channels: int, widths: Sequence[int], counts: Sequence[int]) -> list[nn.Module]:
    """Blocks, so many of each width; each stage but the first halves the image."""
    blocks = []
    for stage, (outputs, count) in enumerate(zip(widths, counts, strict=True)):
        for number in range(count):
            blocks.append(block(channels, outputs, 2 if stage and number == 0 else 1))
            channels = outputs
    return blocks


def classifier(features: int, classes: int, kind: type[nn.Linear] = nn.Linear) -> nn.Linear:
    """The last layer."""
    if classes < 1:
        raise UnderstudyError(f"a net needs at least one class, not {classes}")
    return kind(features, classes)


def pooled(features: int, classes: int) -> nn.Sequential:
    """Mean over the image, then the classifier."""
    return nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), classifier(features, classes))


def network(**parts: nn.Module) -> nn.Sequential:
    """The parts in order, under their names, freshly initialised.

    He et al. (2015): variance 2 / fan-in for weights followed by a ReLU; the classifier, last, 1 / fan-in.

    Fan-in and not fan-out: for a depthwise convolution PyTorch's fan-out counts all channels and shrinks
    the weights by their square root (32-fold at 1024 channels).
    """
    net = nn.Sequential(OrderedDict(parts))
    weighted = [layer for layer in net.modules() if isinstance(layer, nn.Conv2d | nn.Linear)]
    for layer in weighted:
        gain = 1.0 if layer is weighted[-1] else 2.0
        fan_in = layer.weight[0].numel()
        nn.init.normal_(layer.weight, std=math.sqrt(gain / fan_in))
        if layer.bias is not None:
            nn.init.zeros_(layer.bias)
    return net
