"""What the site takes from the code: public names by package, the commands, and headings for tables that lack one.

A page that says `<!-- names: training data -->` gets every public name whose home is in one of these packages, so a new
name is there without an edit; `others` are the packages that no page names. `<!-- commands -->` becomes the command
line's own help.
"""

import inspect
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import understudy as us
from understudy.methods import METHODS, PUBLIC

NAMES = re.compile(r"<!-- names: ([\w ]+) -->")
COMMANDS = "<!-- commands -->"
TABLES = {"METHODS": "Every method by its name, as ``--method`` and ``us.compare`` take it."}


def home(name: str) -> str:
    """The package a public name is at home in: `training` for `us.train`."""
    value = getattr(us, name)
    if name in PUBLIC or name == "METHODS":
        return "methods" if name in METHODS else "slots"
    return us._HOME.get(name, f"understudy.{name}").split(".")[1] if not isinstance(value, ModuleType) else name


def names_of(packages: str) -> list[str]:
    """Public names by package; those of packages that no page of the reference names are the ``others``."""
    wanted = packages.split()
    if wanted == ["others"]:
        pages = "".join(page.read_text(encoding="utf-8") for page in (Path(__file__).parent / "reference").glob("*.md"))
        listed = " ".join(NAMES.findall(pages)).split()
        wanted = sorted({home(name) for name in dir(us)} - set(listed))
    found = [name for name in dir(us) if home(name) in wanted]
    # What one calls before what one is given.
    return sorted(found, key=lambda name: (inspect.isclass(getattr(us, name)), wanted.index(home(name)), name.lower()))


def directive(name: str) -> str:
    """The autodoc directive for it."""
    value = getattr(us, name)
    if isinstance(value, ModuleType):
        return f".. automodule:: {value.__name__}\n   :members:\n"
    if inspect.isclass(value):
        return f".. autoclass:: understudy.{name}\n   :members:\n"
    if callable(value):
        return f".. autofunction:: understudy.{name}\n"
    return f".. py:data:: understudy.{name}\n\n   {TABLES[name]}\n"


def commands() -> str:
    import typer.main
    from typer.cli import get_docs_for_click

    from understudy.cli import app

    root = typer.main.get_command(app)
    text = get_docs_for_click(obj=root, ctx=typer.Context(root), name="understudy").partition("\n")[2]
    # The list of commands cuts their sentences short; the page has them in full.
    text = re.sub(r"\*\*Commands\*\*:\n\n(\* .*\n)+", "", text, count=1)
    return text.replace("```console\n$ ", "```text\n")


def write(app: Any, docname: str, source: list[str]) -> None:
    text = source[0]
    if not text.startswith(("# ", "---")):
        bold = re.match(r"\*\*(.+?)\*\* *", text)
        title = bold[1] if bold else docname.rpartition("/")[2].replace("_", " ").capitalize()
        text = f"# {title}\n\n{text[bold.end() :] if bold else text}"
    for marker in NAMES.finditer(text):
        block = "\n".join(directive(name) for name in names_of(marker[1]))
        text = text.replace(marker[0], f"```{{eval-rst}}\n{block}```")
    source[0] = text.replace(COMMANDS, commands()) if COMMANDS in text else text


def describe(app: Any, what: str, name: str, thing: Any, options: Any, lines: list[str]) -> None:
    """Methods are documented in the first lines of their files, beside the formula; a record's fields speak alone."""
    own = inspect.getdoc(thing) or ""
    if what == "class" and own.startswith(f"{thing.__name__}("):
        lines.clear()
    elif not own and what == "function":
        about = inspect.getdoc(sys.modules[thing.__module__]) or ""
        lines[:] = about.splitlines()
    # Formulas and examples stand indented, which would be a quotation.
    lines[:] = re.sub(r"([^\n])\n\n(?=    )", r"\1\n\n::\n\n", "\n".join(lines)).splitlines()


def signature(app: Any, what: str, name: str, thing: Any, options: Any, given: str | None, returned: str | None) -> Any:
    """Defaults that are no Python (functions, factories) would leave the whole signature unread."""
    if given is None:
        return None
    readable = re.sub(r"<function (\w+)[^>]*>", r"\1", given).replace("<factory>", "...")
    return readable.replace("collections.abc.", "").replace("typing.", ""), returned


def setup(app: Any) -> None:
    app.connect("autodoc-process-signature", signature)
    app.connect("source-read", write)
    app.connect("autodoc-process-docstring", describe)
