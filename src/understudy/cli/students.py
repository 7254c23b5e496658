"""A student as it is typed: a net of ``us.models``, or a pretrained one that reads texts.

reads_texts("hf:minilm,freeze=3")                                    # True
build = student_builder("hf:minilm,freeze=3", examples, classes=2)   # us.text("minilm", classes=…, freeze=3)
build = student_builder("mlp:128,128", examples, classes=2)          # can be sent to other processes, as the other can
"""

import re
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from torch import nn

from understudy import models
from understudy.errors import UnderstudyError
from understudy.method_options import read_options

if TYPE_CHECKING:
    from understudy.hf.text import TextStudent
    from understudy.io.read import Examples

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
    told = read_options(_text_options, options, PREFIX.rstrip(":"))
    return text(folder, classes=classes if names is None else names, **told)


def _text_options(
    *,
    max_tokens: int | None = None,
    freeze: int | str = 0,
    layer_decay: float = 1.0,
    head_scale: float = 1.0,
    checkpointing: bool = False,
) -> None:
    """What may be typed after the folder."""


def student_builder(student: str, examples: "Examples", classes: int) -> Callable[[], nn.Module]:
    if reads_texts(student):
        names = examples.class_names
        return text_student(student, classes, names if names is not None and len(names) == classes else None)
    return partial(models.from_text, student, shape=examples.shape, classes=classes)
