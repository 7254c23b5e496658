"""The tools by name; each can ``write`` tasks and ``read`` what came of them."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from understudy.io.exchange import TOOLS, argilla, hf_datasets, label_studio, prodigy
from understudy.io.exchange.opinions import Opinion, Reading
from understudy.io.exchange.tasks import Tasks


@dataclass(frozen=True)
class Tool:
    write: Callable[[Path, Tasks], list[Path]]
    """Writes a new file or folder; every path that is new."""
    read: Callable[[Path, Reading], list[Opinion]]
    kinds: tuple[str, ...]
    """How the names of files of tasks end; none: it is a folder."""


BY_NAME = dict(
    zip(
        TOOLS,
        (Tool(each.write, each.read, each.KINDS) for each in (label_studio, prodigy, argilla, hf_datasets)),
        strict=True,
    )
)
