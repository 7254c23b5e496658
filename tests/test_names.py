"""Names that lead to one place: no public class or function, and no module, has a namesake elsewhere; sizes a reader
can take in."""

import ast
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).parents[1] / "src" / "understudy"
FILES = sorted(ROOT.rglob("*.py"))
LONGEST_FILE, LONGEST_BODY = 400, 60
# Commands are named like what they run; pure functions have the papers' names, as the methods do.
NAMED_FREELY = ("cli", "maths")


def _home(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def _public(path: Path) -> list[str]:
    kinds = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    body = ast.parse(path.read_text(encoding="utf-8")).body
    return [node.name for node in body if isinstance(node, kinds) and not node.name.startswith("_")]


def _twice(homes: dict[str, list[str]]) -> list[str]:
    return [f"{name}: {', '.join(places)}" for name, places in sorted(homes.items()) if len(places) > 1]


def test_no_public_name_has_two_homes() -> None:
    homes: dict[str, list[str]] = defaultdict(list)
    for path in FILES:
        # standalone.py is copied out of the package: its Model does there what us.Model does here.
        free = _home(path).split("/")[0] == "maths" or _home(path) == "inference/standalone.py"
        for name in [] if free else _public(path):
            homes[name].append(_home(path))
    assert not _twice(homes), "\n".join(_twice(homes))


def test_no_module_name_has_two_homes() -> None:
    homes: dict[str, list[str]] = defaultdict(list)
    for path in FILES:
        if not path.stem.startswith("__") and _home(path).split("/")[0] not in NAMED_FREELY:
            homes[path.stem].append(_home(path))
    assert not _twice(homes), "\n".join(_twice(homes))


def test_files_and_functions_fit_their_reader() -> None:
    long: list[str] = []
    for path in FILES:
        text = path.read_text(encoding="utf-8")
        if (lines := len(text.splitlines())) > LONGEST_FILE:
            long.append(f"{_home(path)}: {lines} lines")
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                body = node.body[1:] if ast.get_docstring(node) is not None else node.body
                if body and (lines := (node.end_lineno or 0) - body[0].lineno + 1) > LONGEST_BODY:
                    long.append(f"{_home(path)}: {node.name} has {lines} lines")
    assert not long, "\n".join(long)
