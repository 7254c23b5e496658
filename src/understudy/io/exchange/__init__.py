"""Rows to other labelling tools and annotations back, as plain files: Label Studio, Prodigy, Argilla, ``datasets``.

    tool = find_tool("label-studio")
    tool.write_tasks(path, make_tasks(table, classes))              # tasks.py: what goes out; returns the new paths
    tool.read_annotations(path, ExportLayout(classes))              # annotations.py: what comes back

A tool is one class and a line in ``TOOLS``: ``json_tools.py`` has those that exchange files of JSON,
``folder_tools.py`` those that exchange folders.
"""

from importlib import import_module
from typing import Any

TOOLS = {
    "label-studio": "json_tools.LabelStudio",
    "prodigy": "json_tools.Prodigy",
    "argilla": "folder_tools.Argilla",
    "datasets": "folder_tools.HFDatasets",
}
#: What the annotations of several people can become.
FORMS = ("answers", "agreed", "votes")
#: The entry of a task that holds its row's id. Not ``id``: in Label Studio's small exports that is its own number.
ROW = "row_id"
#: The name of the question for the class in what we write.
QUESTION = "label"


def find_tool(name: str) -> Any:
    """Has ``suffixes`` of files of tasks (none: tasks are a folder), ``write_tasks`` and ``read_annotations``."""
    module, _, cls = TOOLS[name].partition(".")
    return getattr(import_module(f"{__name__}.{module}"), cls)()
