"""Rows to other labelling tools and annotations back, as plain files: Label Studio, Prodigy, Argilla, ``datasets``.

    tool = find_tool("label-studio")
    tool.write_tasks(path, make_tasks(table, classes))              # tasks.py: what goes out
    tool.read_annotations(path, ExportLayout(classes))              # annotations.py: what comes back

A tool is one class in a file of its own, and a line in ``TOOLS``.
"""

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from understudy.io.exchange.annotations import Annotation, ExportLayout
    from understudy.io.exchange.tasks import Tasks

TOOLS = {
    "label-studio": "label_studio.LabelStudio",
    "prodigy": "prodigy.Prodigy",
    "argilla": "argilla.Argilla",
    "datasets": "hf_datasets.HFDatasets",
}
#: What the annotations of several people can become.
FORMS = ("answers", "agreed", "votes")
#: The entry of a task that holds its row's id. Not ``id``: in Label Studio's small exports that is its own number.
ROW = "row_id"
#: The name of the question for the class in what we write.
QUESTION = "label"


class LabellingTool(Protocol):
    #: Of files of tasks; empty: tasks are a folder.
    suffixes: tuple[str, ...]

    def write_tasks(self, path: Path, tasks: "Tasks") -> list[Path]:
        """Writes a new file or folder; returns every new path."""

    def read_annotations(self, path: Path, layout: "ExportLayout") -> "list[Annotation]": ...


def find_tool(name: str) -> LabellingTool:
    module, _, cls = TOOLS[name].partition(".")
    tool: LabellingTool = getattr(import_module(f"{__name__}.{module}"), cls)()
    return tool
