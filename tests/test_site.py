"""The site's frame: every page is in its contents, every public name in its reference.

`make docs` (and the docs job) checks that it builds without a warning; this file checks what needs no Sphinx.
"""

import importlib.util
import json
import re
from pathlib import Path
from types import ModuleType

import pytest

import understudy as us
from understudy import samples

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


def script(name: str) -> ModuleType:
    """A file of the site's, which is no part of the package."""
    spec = importlib.util.spec_from_file_location(Path(name).stem, DOCS / name)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def reference() -> ModuleType:
    """It is importable without Sphinx."""
    return script("site_reference.py")


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


def test_the_documents_stay_short() -> None:
    words = sum(len(page.read_text(encoding="utf-8").split()) for page in PAGES)
    assert words <= 60_000 and len(PAGES) <= 50, "merge or shorten pages before adding to them"
    assert len((DOCS / "results.md").read_text(encoding="utf-8").split()) <= 600, "an index of one screen"


@pytest.mark.parametrize("term", ["F1", "deploy", "weak supervision", "Glossary", "pseudo-label", "imbalanced", "GPU"])
def test_the_words_of_the_field_are_found(term: str) -> None:
    assert any(
        term in page.read_text(encoding="utf-8") for page in (DOCS / "glossary.md", DOCS / "faq.md", DOCS / "index.md")
    )


def numbers(text: str) -> set[str]:
    return set(re.findall(r"\d+\.\d", text))


def test_what_comparing_methods_quotes_was_measured() -> None:
    """Every decimal number of its section on ``auto`` stands in the tables it refers to, rounded as there."""
    page = (DOCS / "compare.md").read_text(encoding="utf-8")
    page = page[page.index("## What auto gains") : page.index("## By what you have")]
    auto, alternatives = ((DOCS / "results" / f"{name}.md").read_text("utf-8") for name in ("auto", "alternatives"))
    lead = re.search(r"auto − best alternative, mean over 24 of 24 settings \| \+([\d.]+)", alternatives)
    assert lead is not None
    means = re.findall(r"^\| (\S+|gold only) \|.* \| ([\d.]+) \|$", auto, flags=re.MULTILINE)
    known = {mean for _, mean in means} | {f"{float(lead[1]):.1f}", "82.0"}
    assert numbers(page) and numbers(page) <= known
    assert "settings below it by more than 0.5 | 0 | 0 | yes" in alternatives
    assert re.search(r"^\| \*\*auto\*\* \|.* 83\.6 \|$", auto, flags=re.MULTILINE)


def shares(text: str) -> set[str]:
    return set(re.findall(r"\b(\d+%)", text))


def test_pictures_show_the_numbers_of_the_pages() -> None:
    """The start page says in words what its picture shows, in both looks; the other one shows every setting."""
    page = (DOCS / "index.md").read_text(encoding="utf-8")
    for look in ("light", "dark"):
        picture = (DOCS / f"figures/problem-{look}.svg").read_text(encoding="utf-8")
        assert shares("".join(re.findall(r">(\d+%)<", picture))) == shares(page), look
    found = script("figures/settings.py").settings((DOCS / "results/alternatives.md").read_text(encoding="utf-8"))
    picture = (DOCS / "figures/settings-light.svg").read_text(encoding="utf-8")
    assert len(found) == 24 and all(f">{setting.name}<" in picture for setting in found)


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("full", [False, pytest.param(True, marks=pytest.mark.torture)], ids=["small", "full"])
def test_the_start_page_s_numbers_come_out_again(full: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Within three points: another machine sums in another order. The suite draws it on fewer messages."""
    problem = script("figures/problem.py")
    if full:
        found = problem.measure()
        picture = (DOCS / "figures/problem-light.svg").read_text("utf-8")
        shown = [int(share[:-1]) for share in re.findall(r">(\d+%)<", picture)]
        assert [100 * value for value in found.accuracies.values()] == pytest.approx(shown, abs=3)
    else:
        for name, rows in {"POOL": 300, "GOLD": 40, "TEST": 100}.items():
            monkeypatch.setattr(samples, name, rows)
        found = problem.measure(epochs=1)
    problem.draw(tmp_path / "again.svg", found, *problem.LOOKS["light"])
    assert len(re.findall(r">\d+%<", (tmp_path / "again.svg").read_text("utf-8"))) == 4


def test_the_workflows_name_files_that_are_there() -> None:
    root = DOCS.parent
    for workflow in (root / ".github/workflows").glob("*.yml"):
        for name in re.findall(r"\b(?:tests|docs|benchmarks)/[\w./]+\.(?:py|md|txt)\b", workflow.read_text("utf-8")):
            assert (root / name).exists(), f"{workflow.name}: {name}"


NOTEBOOKS = sorted(each for each in (DOCS / "notebooks").glob("*.py") if each.name != "execute.py")


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebooks_are_those_of_their_scripts(path: Path) -> None:
    """Cells of the script, run to the end without an error, small; every public name in them is there."""
    stored = json.loads(path.with_suffix(".ipynb").read_text(encoding="utf-8"))
    assert path.with_suffix(".ipynb").stat().st_size < 200_000 and stored["nbformat"] == 4
    cells = [(cell["cell_type"], "".join(cell["source"])) for cell in stored["cells"]]
    assert cells == script("notebooks/execute.py").cells_of(path), "run `make notebooks`"
    assert all(cell["execution_count"] for cell in stored["cells"] if cell["cell_type"] == "code")
    for name in re.findall(r"\bus\.(\w+)", "\n".join(source for _, source in cells)):
        assert hasattr(us, name), name


def test_a_notebook_keeps_prints_and_the_last_value(tmp_path: Path) -> None:
    (tmp_path / "one.py").write_text("# %% [markdown]\n# # One\n\n# %%\nprint(1)\nx = 2\nx + 1\n\n# %%\nx\nx = 5\n")
    made = script("notebooks/execute.py").notebook(tmp_path / "one.py")
    assert [cell["cell_type"] for cell in made["cells"]] == ["markdown", "code", "code"]
    first, second = made["cells"][1:]
    assert made["cells"][0]["source"] == ["# One"] and second["outputs"] == []
    assert first["outputs"][0]["text"] == ["1\n"] and first["outputs"][1]["data"]["text/plain"] == ["3"]


@pytest.mark.torture
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebooks_run(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNDERSTUDY_ENCODER", "none")
    script("notebooks/execute.py").notebook(path)
