"""The site's frame: every page is in its contents, every public name in its reference.

That it builds without a warning is `make docs`'s to say (and the docs job's); here is what can be told without Sphinx.
"""

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

import understudy as us

DOCS = Path(__file__).parents[1] / "docs"
PAGES = sorted(DOCS.rglob("*.md"))


def entries(page: Path) -> set[Path]:
    """What the page's tables of contents list, patterns resolved."""
    found: set[Path] = set()
    for block in re.findall(r"```\{toctree\}\n(.*?)```", page.read_text(encoding="utf-8"), flags=re.DOTALL):
        for line in block.splitlines():
            if line.strip() and not line.startswith(":"):
                name = re.sub(r".*<(.+)>", r"\1", line.strip())
                matched = set(page.parent.glob(f"{name}.md"))
                assert matched, f"{page.name} lists {name}, which is not there"
                found |= matched
    return found


def test_every_page_is_in_the_contents() -> None:
    listed = set().union(*(entries(page) for page in PAGES)) | {DOCS / "index.md"}
    missing = [str(page.relative_to(DOCS)) for page in PAGES if page not in listed]
    assert not missing, f"put {missing} into a toctree of docs/index.md, where readers will look for it"


@pytest.fixture(scope="module")
def reference() -> ModuleType:
    """`docs/site_reference.py`, which needs no Sphinx to be asked."""
    spec = importlib.util.spec_from_file_location("site_reference", DOCS / "site_reference.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_public_name_is_in_the_reference_once(reference: ModuleType) -> None:
    names: list[str] = []
    for page in (DOCS / "reference").glob("*.md"):
        for marker in reference.NAMES.finditer(page.read_text(encoding="utf-8")):
            names += reference.names_of(marker[1])
    missing = {reference.home(name) for name in set(dir(us)) - set(names)}
    assert not missing, f"put {missing} into a '<!-- names: … -->' of a page in docs/reference"
    assert sorted(names) == sorted(dir(us))


def test_every_public_name_is_described(reference: ModuleType) -> None:
    """By its own docstring, or by the first lines of its file."""
    for name in dir(us):
        lines = (getattr(us, name).__doc__ or "").splitlines()
        what = "function" if callable(getattr(us, name)) and not isinstance(getattr(us, name), type) else "data"
        reference.describe(None, what, name, getattr(us, name), None, lines)
        assert any(lines), name


def test_the_commands_are_those_of_the_command_line(reference: ModuleType) -> None:
    text = reference.commands()
    assert "## `understudy train`" in text and "## `understudy example`" in text
    assert "--text" in text and "$ " not in text
