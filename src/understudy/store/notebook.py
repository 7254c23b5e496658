"""Notebooks: how values look there, and whether this is one.

class Run(Shown): ...                            # shown as its report shows it
bar = notebook_display()                         # None outside of notebooks
"""

import sys
from importlib import import_module
from typing import Any


class Shown:
    """A value that a notebook shows as the page of its report does.

    The reports lie above everything they show: they are found by name, when a notebook asks.
    """

    def _repr_html_(self) -> str:
        html: str = import_module("understudy.report.notebook").html_of(self)
        return html


def notebook_display() -> Any:
    """``IPython.display`` where a notebook's kernel runs this; None elsewhere, a terminal's IPython included."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return import_module("IPython.display") if hasattr(shell, "kernel") else None
