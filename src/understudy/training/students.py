"""A student by its name, as typed on a command line: a net of ``us.models``, or a pretrained one that reads texts.

student, options = resolve_student("auto", examples, options)        # "linear", {"optimizer": "lbfgs", …}
build = student_builder("mlp:128,128", examples, classes=2)          # can be sent to other processes, as the next can
build = student_builder("hf:minilm,freeze=3", examples, classes=2)   # us.text("minilm", classes=…, freeze=3)
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import fields
from functools import partial
from typing import TYPE_CHECKING, Any

from torch import nn

from understudy import models
from understudy.errors import UnderstudyError
from understudy.features.encoder import Encoded
from understudy.inference.passes import usable_device
from understudy.io.read import Examples
from understudy.method_options import read_options
from understudy.training.automatic_options import LINEAR, NET, fill_defaults, prefers_linear, resolve_options
from understudy.training.options import AUTO, CHOSEN_AUTOMATICALLY, TrainingOptions

if TYPE_CHECKING:
    from understudy.hf.text import TextStudent

PREFIX = "hf:"
_OPTION = re.compile(r",(?=[a-z_]+=)")


def reads_texts(student: str) -> bool:
    return student.startswith(PREFIX)


def text_student(student: str, classes: int, names: tuple[str, ...] | None = None) -> "TextStudent":
    """``hf:FOLDER`` or ``hf:FOLDER,option=value``."""
    from understudy.hf.text import text

    folder, *options = _OPTION.split(student.removeprefix(PREFIX))
    if not folder:
        raise UnderstudyError(f"--student {student} names no net; write hf:FOLDER, or hf:NAME of the hub")
    given = read_options(_text_options, options, PREFIX.rstrip(":"))
    return text(folder, classes=classes if names is None else names, **given)


def _text_options(
    *,
    max_tokens: int | None = None,
    freeze: int | str = 0,
    layer_decay: float = 1.0,
    head_scale: float = 1.0,
    checkpointing: bool = False,
) -> None:
    """The options that may follow the folder."""


def student_builder(student: str, examples: Examples, classes: int) -> Callable[[], nn.Module]:
    """A function that builds the student of that name for these features."""
    if reads_texts(student):
        names = examples.class_names
        return text_student(student, classes, names if names is not None and len(names) == classes else None)
    return partial(models.from_text, student, shape=examples.shape, classes=classes)


def resolve_student(student: str, examples: Examples, options: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """The student's name, and the options with defaults for what was not given; ``epochs`` may still be ``auto``."""
    defaults: dict[str, Any] = {
        each.name: each.default for each in fields(TrainingOptions) if each.name in CHOSEN_AUTOMATICALLY
    }
    if reads_texts(student):
        own = text_student(student, max(examples.classes, 2)).options(options["device"])
        return student, _fill_in(_fill_in(options, own), defaults)
    if student == AUTO:
        frozen = any(isinstance(part, Encoded) for part in examples.featuriser.parts)
        first = examples.gold if examples.pool is None else examples.pool
        assert first is not None
        student = LINEAR if prefers_linear(first.rows, frozen=frozen) else NET
    return student, _fill_in(fill_defaults(student, options), defaults)


def _fill_in(options: Mapping[str, Any], defaults: Mapping[str, Any]) -> dict[str, Any]:
    """The options, and the defaults of those that were left out (None)."""
    return {**options, **{name: value for name, value in defaults.items() if options.get(name) is None}}


def resolve_epochs(
    build: Callable[[], nn.Module], examples: Examples, options: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The options with a number of epochs, and what a config keeps of its choice on gold."""
    given = {**options, "device": usable_device(options["device"])} | ({"ema": None} if "ema" in options else {})
    resolved, choice = resolve_options(build, examples.gold, examples.pool, given, select=examples.select)
    return {**options, "epochs": resolved.epochs}, choice
