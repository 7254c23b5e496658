"""The notebooks of this folder, from the scripts beside them: every cell is run and its output kept.

    python docs/notebooks/execute.py            # or `make notebooks`: about two minutes of one core

A script is cells between lines ``# %%`` (code) and ``# %% [markdown]``, as editors know them. Of a cell its prints and
the value of its last expression are kept, as a notebook's are; nothing but this package is needed.
"""

import ast
import contextlib
import io
import json
import os
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent
#: Characters of a picture or table that are kept; beyond, the text alone is.
MOST = 60_000


def cells_of(script: Path) -> list[tuple[str, str]]:
    """Kind and text of each cell."""
    found: list[tuple[str, list[str]]] = []
    for line in script.read_text(encoding="utf-8").splitlines():
        if line.startswith("# %%"):
            found.append(("markdown" if "[markdown]" in line else "code", []))
        elif found:
            kind, lines = found[-1]
            lines.append(line.removeprefix("#").removeprefix(" ") if kind == "markdown" else line)
    return [(kind, "\n".join(lines).strip("\n")) for kind, lines in found]


def run_cell(source: str, names: dict[str, Any]) -> list[dict[str, Any]]:
    """The outputs of a cell of code, run with these names."""
    body = ast.parse(source).body
    last = body.pop() if body and isinstance(body[-1], ast.Expr) else None
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(ast.Module(body, []), "cell", "exec"), names)
        value = None if last is None else eval(compile(ast.Expression(last.value), "cell", "eval"), names)  # noqa: S307
    outputs: list[dict[str, Any]] = []
    if printed.getvalue():
        outputs.append(
            {"name": "stdout", "output_type": "stream", "text": printed.getvalue().splitlines(keepends=True)}
        )
    if value is not None:
        data = {"text/plain": repr(value).splitlines(keepends=True)}
        html = getattr(value, "_repr_html_", lambda: None)()
        if html is not None and len(html) <= MOST:
            data["text/html"] = html.splitlines(keepends=True)
        outputs.append({"data": data, "execution_count": None, "metadata": {}, "output_type": "execute_result"})
    return outputs


def notebook(script: Path) -> dict[str, Any]:
    """The executed notebook, as JSON; run in an empty folder."""
    names: dict[str, Any] = {"__name__": "__main__"}
    cells, count, before = [], 0, Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            for number, (kind, source) in enumerate(cells_of(script)):
                cell: dict[str, Any] = {"cell_type": kind, "id": f"cell-{number}", "metadata": {}}
                cell["source"] = source.splitlines(keepends=True)
                if kind == "code":
                    count += 1
                    outputs = run_cell(source, names)
                    for output in outputs:
                        if "execution_count" in output:
                            output["execution_count"] = count
                    cell |= {"execution_count": count, "outputs": outputs}
                cells.append(cell)
        finally:
            os.chdir(before)
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    about = {"kernelspec": kernel, "language_info": {"name": "python"}}
    return {"cells": cells, "metadata": about, "nbformat": 4, "nbformat_minor": 5}


def main(chosen: list[str]) -> None:
    os.environ.setdefault("UNDERSTUDY_ENCODER", "none")
    warnings.simplefilter("ignore")
    for script in sorted(FOLDER.glob("*.py")):
        if script.name != Path(__file__).name and (not chosen or script.stem in chosen):
            content = json.dumps(notebook(script), indent=1, ensure_ascii=False) + "\n"
            script.with_suffix(".ipynb").write_text(content, encoding="utf-8")
            print(f"{script.stem}: {len(content) / 1000:.0f} KB")


if __name__ == "__main__":
    main(sys.argv[1:])
