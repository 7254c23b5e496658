"""The errors and warnings users see: what is wrong, where, and what to do about it."""

import re
import sys
import warnings
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

#: On the package index, where ``understudy`` is another project.
NAME = "understudy-ml"
# The place comes first and the cure last; what is too long lies between.
LONGEST, HEAD = 1_000, 700
#: What changes texts before users see them: a local copy goes by the address it is a copy of (``store/copies.py``).
SHOWN: list[Callable[[str], str]] = []
#: The line of a row in files that people edit, by the file's name: messages say it beside the row's number.
LINES: dict[str, Callable[[int], int]] = {}
_ROW = re.compile(r"[ (]row (\d+)\b")
# An address that came as a ``Path`` has only one of its slashes left.
_SLASH_LOST = re.compile(r"\b(s3|gs|memory):/(?!/)")


def shown(text: object) -> str:
    text = _with_lines(_SLASH_LOST.sub(r"\1://", str(text)))
    for change in SHOWN:
        text = change(text)
    return text


def _with_lines(text: str) -> str:
    """``gold.csv: column 'label' row 17`` as ``gold.csv line 19: column 'label' row 17``."""
    for path, line in LINES.items():
        # A process may have read thousands of files, and each would be a pattern to compile (0.3 ms).
        if path not in text:
            continue
        start = re.search(rf"{re.escape(path)}(?=: column | row \d)", text)
        if start is not None and (found := _ROW.search(text, start.end())) is not None:
            with suppress(Exception):  # the file may be gone, and the message matters more
                text = f"{text[: start.end()]} line {line(int(found[1]))}{text[start.end() :]}"
    return text


class UnderstudyError(Exception):
    """Bad input or an impossible request. The message is one line: what, where, the cure.

    Whatever it quotes (a cell, a name, another library's words) cannot break the line, nor steer a terminal, nor bury
    what the message says.
    """

    def __init__(self, message: object) -> None:
        line = "".join(sign if sign.isprintable() else _escaped(sign) for sign in shown(message))
        super().__init__(line if len(line) <= LONGEST else f"{line[:HEAD]} … {line[HEAD - LONGEST :]}")


class UnknownOption(UnderstudyError, TypeError):
    """A keyword that a function does not take, misspelt mostly."""


class UnderstudyWarning(UserWarning):
    """Something is legal but probably not what the user wants (too little gold, a shifted class prior…)."""


def install(extra: str) -> str:
    """The command that installs an extra: by the name on the index, or from the folder of the sources in use."""
    root = Path(__file__).parents[2]
    from_folder = (root / "pyproject.toml").exists()
    return f'pip install -e "{root}[{extra}]"' if from_folder else f'pip install "{NAME}[{extra}]"'


def optional(module: str, needed: str, extra: str) -> Any:
    """A module of an extra; ``needed``: by what, for the message where it is not installed."""
    try:
        return import_module(module)
    except ImportError as error:
        raise UnderstudyError(f"{needed}: {install(extra)}") from error


def warn(message: str) -> None:
    """An ``UnderstudyWarning`` at the line of the caller's own code that led here, however deep in this package."""
    level, frame = 1, sys._getframe()
    own = ("understudy", "contextlib")  # decorators of ours
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] in own:
        level, frame = level + 1, frame.f_back
    warnings.warn(shown(message), UnderstudyWarning, stacklevel=level)


def _escaped(sign: str) -> str:
    return " " if sign in "\n\r\t" else sign.encode("unicode_escape").decode()


def first_line(error: BaseException) -> str:
    """What another library's error says, short enough to quote: its first line (and the next after a colon).

    ``raise UnderstudyError(f"cannot read {path}: {first_line(error)}; write it again") from error``
    """
    lines = str(error).split("\n")
    quoted = ""
    for line in filter(None, (" ".join(line.split()) for line in lines)):
        quoted = f"{quoted} {line}".lstrip()
        if not line.endswith(":"):
            break
    return quoted[:200].rstrip(".:; ") or type(error).__name__
