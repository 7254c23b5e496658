"""What the documents say exists, exists; what the README shows, runs."""

import ast
import importlib
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import rich
import torch
import typer

import understudy as us
from understudy import cli
from understudy.acquisition.strategy import ArrayRows
from understudy.objective import Outputs, Step

ROOT = Path(__file__).parents[1]
PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")])
# CONTRIBUTING adds a method as an example.
INVENTED = {"smoothing"}
LAYERS = ROOT / "tests/test_imports.py"


def names_in(text: str) -> set[str]:
    return set(re.findall(r"\bus((?:\.[A-Za-z_]\w*)+)", text))


def resolve(dotted: str) -> object:
    value: object = us
    for part in dotted.strip(".").split("."):
        value = getattr(value, part)
    return value


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_name_in_the_documents_resolves(page: Path) -> None:
    for name in names_in(page.read_text(encoding="utf-8")):
        if name.strip(".").split(".")[0] not in INVENTED:
            assert resolve(name) is not None, f"{page.name} mentions us{name}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_between_the_documents_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), f"{page.name} links to {target}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_within_a_document_lead_to_its_headings(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    headings = re.findall(r"^#+ (.*)$", text, flags=re.MULTILINE)
    anchors = {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
    assert set(re.findall(r"\]\(#([^)]+)\)", text)) <= anchors


# What CONTRIBUTING's examples add.
ADDED = {"smoothing", "surprise", "candidates", "NAME", "test_NAME"} | {
    f"test_{name}" for name in ("smoothing", "surprise", "candidates")
}


@pytest.mark.parametrize("name", ["CONTRIBUTING.md", "docs/architecture.md"])
def test_every_file_in_the_map_of_the_code_exists(name: str) -> None:
    text = (ROOT / name).read_text(encoding="utf-8")
    for path in re.findall(r"`([a-z_][\w/]*/\w+\.py)\b", text):
        if Path(path).stem not in ADDED:
            assert any((root / path).exists() for root in (ROOT, ROOT / "src/understudy")), f"{name} mentions {path}"


def test_the_map_of_the_code_names_every_package() -> None:
    text = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
    packages = [folder.name for folder in (ROOT / "src/understudy").iterdir() if (folder / "__init__.py").exists()]
    missing = [name for name in packages if f"{name}/" not in text]
    assert not missing, f"docs/architecture.md does not show {missing}"


def test_the_map_of_the_code_shows_the_layers() -> None:
    text = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
    shown = re.findall(
        r"^\| ((?:`[\w.]+`(?:, )?)+) \|", text[text.index("## Layers") : text.index("## Data flow")], re.MULTILINE
    )
    layers = ast.literal_eval(
        re.search(r"^LAYERS = (\[.*?^\])", LAYERS.read_text("utf-8"), re.MULTILINE | re.DOTALL)[1]
    )  # type: ignore[index]
    assert [set(re.findall(r"[\w.]+", row)) for row in shown] == [
        {name for name in row.split() if not name.startswith("__")} for row in layers
    ]


@pytest.mark.parametrize("folder", ["experiments", "benchmarks"])
def test_every_name_in_experiments_and_benchmarks_resolves(folder: str) -> None:
    for path in (ROOT / folder).glob("*.py"):
        for name in names_in(path.read_text(encoding="utf-8")):
            assert resolve(name) is not None, f"{path.name} uses us{name}"


def test_the_readme_lists_every_method() -> None:
    """Its table holds the first line of each method's file; a failure shows the row to put there."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    listed = dict(re.findall(r"^\| `(\w+)` \| (.*) \|$", readme, flags=re.MULTILINE))
    files = {name: importlib.import_module(f"understudy.methods.{name}") for name in us.METHODS}
    assert listed == {name: str(file.__doc__).split("\n")[0] for name, file in files.items()}


def commands_in(text: str) -> list[list[str]]:
    """The lines of code blocks that call ``understudy``, comments and continuations resolved."""
    blocks = re.findall(r"```\w*\n(.*?)```", text, flags=re.DOTALL)
    lines = [line for block in blocks for line in block.replace("\\\n", " ").splitlines()]
    # In the help's examples a command stands alone between backticks, over several lines.
    quoted = [" ".join(part.split()) for part in re.findall(r"\n\n    `(understudy [^`]*)`(?=\n)", text)]
    return [shlex.split(line, comments=True)[1:] for line in [*lines, *quoted] if line.startswith("understudy ")]


@pytest.mark.parametrize(
    "page", [*PAGES, *sorted((ROOT / "src/understudy/cli").glob("*.py"))], ids=lambda page: page.name
)
def test_every_command_in_the_documents_is_understood(page: Path) -> None:
    commands = typer.main.get_command(cli.app).commands  # type: ignore[attr-defined]
    for words in commands_in(page.read_text(encoding="utf-8")):
        assert words[0] in commands, words
        if len(words) > 1 and not any("…" in word for word in words):
            commands[words[0]].make_context(words[0], words[1:]).close()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::understudy.UnderstudyWarning")
def test_the_readme_example_runs(capsys: pytest.CaptureFixture[str]) -> None:
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), flags=re.DOTALL)
    namespace: dict[str, object] = {}
    exec(compile(next(code for code in blocks if "us.digits" in code), "README.md", "exec"), namespace)
    accuracy = float(capsys.readouterr().out.split()[0])
    teacher, x, y = namespace["teacher"], namespace["x"], namespace["y"]
    assert accuracy > us.evaluate(teacher, us.Gold(x[1260:], y[1260:]))["accuracy"]  # type: ignore[arg-type, index]


def test_the_examples_of_contributing_work() -> None:
    """The method and the strategy that it adds are what their packages expect."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    names: dict[str, Any] = {"__name__": "example"}
    for example in re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL):
        exec(compile(example, "CONTRIBUTING.md", "exec"), names)
    objective = names["smoothing"](epsilon=0.5, temperature=2.0)
    step = Step(Outputs(torch.zeros(1, 2)), torch.tensor([[1.0, 0.0]]), torch.arange(1))
    assert objective.target(step).tolist() == [[0.75, 0.25]] and objective.temperature == 2.0
    arrays = {"probs": torch.tensor([[1.0, 0.0]] * 2), "probs_ema": torch.tensor([[1.0, 0.0], [0.5, 0.5]])}
    surprise, everything = names["surprise"], torch.tensor([True, True])
    picks = surprise.pick(2, ArrayRows(arrays, 2), available=everything, generator=torch.Generator())
    assert picks.tolist() == [1, 0]
    reasons = surprise.explain(picks, arrays, labelled=torch.tensor([]), names=["a", "b"])
    assert reasons == ([1.0, 0.0], ["1.00 off its average", "0.00 off its average"])


def _loop(with_line: str) -> str:
    """The first block of ``docs/loops.md`` that holds such a line."""
    blocks: list[str] = re.findall(r"```python\n(.*?)```", (ROOT / "docs/loops.md").read_text(), flags=re.DOTALL)
    return next(block for block in blocks if with_line in block)


def _loop_names() -> dict[str, Any]:
    torch.manual_seed(0)
    x, probs = torch.randn(200, 20), torch.randn(200, 3).softmax(1)
    gold, pool = us.Gold(x[:50], probs[:50].argmax(1), probs[:50]), us.Pool(x[50:], probs[50:])
    return {"us": us, "torch": torch, "gold": gold, "pool": pool}


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning")
@pytest.mark.parametrize(
    ("package", "line", "optimizer"),
    [
        ("accelerate", "accelerator.backward", "adam"),
        ("accelerate", "us.hf.Trainer", "adamw"),
        ("lightning", "us.lightning.UnderstudyModule", "adam"),
        ("sklearn", "UnderstudyClassifier", "adam"),
    ],
)
def test_the_front_ends_of_the_documents_end_like_train(
    package: str, line: str, optimizer: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip(package)
    monkeypatch.chdir(tmp_path)
    names = _loop_names()
    torch.manual_seed(1)
    exec(_loop(line), names)
    torch.manual_seed(1)
    first = us.models.mlp(20, 3, hidden=(32,))
    run = us.train(
        first, names["gold"], names["pool"], us.slam(), epochs=5, optimizer=optimizer, weight_decay=0.0, progress=False
    )
    for name, value in run.student.state_dict().items():
        student = names["classifier"].run_.student if package == "sklearn" else names["student"]
        assert value.equal(student.state_dict()[name])


def test_the_loop_of_the_documents_ends_like_train(capsys: pytest.CaptureFixture[str]) -> None:
    """``docs/loops.md`` as it stands, beside ``us.train`` with the same settings."""
    names = _loop_names()
    gold, pool = names["gold"], names["pool"]
    torch.manual_seed(1)
    exec(_loop("optimizer = torch.optim.Adam(session.parameters(), lr=1e-3"), names)
    torch.manual_seed(1)
    first = us.models.mlp(20, 3, hidden=(32,))
    run = us.train(first, gold, pool, us.slam(), epochs=5, progress=False)
    for name, value in run.student.state_dict().items():
        assert value.equal(names["student"].state_dict()[name])
    exec(_loop("class Log(us.Callback)"), names)
    assert capsys.readouterr().out.startswith("1 ")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ["audit", "reconcile", "compare", "faq"])
def test_python_blocks_run(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a small set of two classes, with fewer epochs and seeds than on the page."""
    monkeypatch.chdir(tmp_path)
    torch.manual_seed(0)
    x = torch.randn(320, 8)
    y = (x[:, 0] > 0).long()
    probs = torch.nn.functional.one_hot(torch.where(torch.rand(320) < 0.2, 1 - y, y), 2) * 0.6 + 0.2
    gold, pool = us.Gold(x[:60], y[:60], probs[:60]), us.Pool(x[60:220], probs[60:220])
    student = us.models.mlp(8, 2, hidden=(4,))
    names: dict[str, Any] = {
        "us": us, "rich": rich, "gold": gold, "pool": pool, "student": student, "test": us.Gold(x[220:], y[220:]),
        "x_test": x[220:], "y_test": y[220:], "run": us.train(student, gold, pool, us.slam(), epochs=1, progress=False),
    }  # fmt: skip
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / f"docs/{name}.md").read_text("utf-8"), flags=re.DOTALL)
    assert blocks
    for block in blocks:
        shorter = re.sub(r"epochs=\d+", "epochs=1, workers=1", block).replace("seeds=5", "seeds=2")
        shorter = shorter.replace("evaluate=True", "evaluate=True, epochs=1")
        exec(shorter, names)
