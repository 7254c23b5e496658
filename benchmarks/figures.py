"""One measured figure, beside its peer and its target; tables of them as Markdown and JSON.

A benchmark is a module with ``figures() -> list[Figure]``. Its last line is ``main(figures)``:

    python -m benchmarks.reweight_step                  # prints the table
    python -m benchmarks.reweight_step --json FILE      # and keeps it
"""

import argparse
import json
import operator
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

SIGNS = {"≤": operator.le, "<": operator.lt, "≥": operator.ge, ">": operator.gt}


@dataclass(frozen=True)
class Figure:
    what: str
    unit: str
    """Of ``ours`` and ``theirs``: s, ms, MB, rows/s …"""
    ours: float | None
    peer: str = ""
    theirs: float | None = None
    value: float | None = None
    """What the target speaks of: a ratio, or ``ours`` itself."""
    target: str = ""
    """A sign and a number, such as "≤ 1.8"; empty where none was set."""
    note: str = ""
    """What cannot be a number: "not installed", "out of memory"."""

    @property
    def met(self) -> bool | None:
        if not self.target or self.value is None:
            return None
        sign, number = self.target.split()[:2]
        return bool(SIGNS[sign](self.value, float(number.replace(",", ""))))


def shown(number: float | None) -> str:
    """Three digits that matter, without exponents."""
    if number is None:
        return "–"
    return f"{number:,.0f}" if abs(number) >= 100 else f"{number:.3g}"


def markdown(figures: Sequence[Figure]) -> str:
    lines = ["|what|ours|peer|theirs|ratio|target|met|", "|---|--:|---|--:|--:|---|---|"]
    for figure in figures:
        met = {None: "", True: "yes", False: "**no**"}[figure.met]
        theirs = figure.note or ("" if figure.theirs is None else f"{shown(figure.theirs)} {figure.unit}")
        ratio = "" if figure.value is None or figure.value == figure.ours else shown(figure.value)
        cells = [figure.what, f"{shown(figure.ours)} {figure.unit}", figure.peer, theirs, ratio, figure.target, met]
        lines.append(f"|{'|'.join(cells)}|")
    return "\n".join(lines) + "\n"


def main(figures: Callable[[], list[Figure]], words: Sequence[str] | None = None) -> None:
    """``words``: what is left of the command line where a benchmark has options of its own."""
    import torch

    torch.set_num_threads(1)
    parser = argparse.ArgumentParser()
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    options = parser.parse_args(words)
    found = figures()
    print(markdown(found))
    if options.json is not None:
        options.json.write_text(json.dumps([asdict(figure) for figure in found], ensure_ascii=False, indent=2) + "\n")
