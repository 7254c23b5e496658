"""Notebooks: how values look there, and whether this is one.

class Run(Shown): ...                            # shown as its report shows it
bar = notebook_display()                         # None outside of notebooks
"""

import sys
from importlib import import_module
from typing import Any


def from_report(module: str) -> Any:
    """A module of ``report/``, which lies above everything it shows: found by name, when a user asks for text."""
    return import_module(f"understudy.report.{module}")


class Shown:
    """A value that a notebook shows as the page of its report does."""

    def _repr_html_(self) -> str:
        html: str = from_report("html").html_of(self)
        return html


def notebook_display() -> Any:
    """``IPython.display`` where a notebook's kernel runs this; None elsewhere, a terminal's IPython included."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return import_module("IPython.display") if hasattr(shell, "kernel") else None
