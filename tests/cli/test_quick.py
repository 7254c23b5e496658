"""Help, completion and mistakes in the arguments are answered before anything heavy is loaded."""

import subprocess
import sys
from pathlib import Path

import pytest

HEAVY = ("matplotlib", "numpy", "pyarrow", "scipy", "sklearn", "torch")
# What only trainings need, and Arrow's machinery for folders of files.
IN_VAIN = (
    "pyarrow.dataset",
    "understudy.data.leaks",
    "understudy.training.train",
    "understudy.report.run_page",
    "s3fs",
)

# One process for all: what a command had loaded would still be there at the end.
ASK = f"""
import sys
from typer.main import get_command
from typer.testing import CliRunner
import understudy
from understudy import cli, errors

commands = get_command(cli.app).commands
lines = [[], ["--help"], ["--version"], ["nonsense"], ["train", "--bogus"], ["predict"], ["train", "--epochs", "few"]]
for words in [*lines, *([name, "--help"] for name in commands)]:
    result = CliRunner().invoke(cli.app, words)
    assert result.exit_code in (0, 2) and result.output, (words, result.output)
    loaded = [name for name in {HEAVY} if name in sys.modules]
    assert not loaded, f"understudy {{' '.join(words)}} loads {{loaded}}"
completed = CliRunner().invoke(
    cli.app, [], env={{"_UNDERSTUDY_COMPLETE": "complete_bash", "COMP_WORDS": "understudy pre", "COMP_CWORD": "1"}},
    prog_name="understudy",
)
assert completed.output.split() == ["predict"], completed.output
assert not [name for name in {HEAVY} if name in sys.modules]
print(len(commands))
"""

PREDICT = f"""
import gc, sys
from understudy.cli import app
app(["predict", "run", "new.csv", "--out", "predictions.csv"], standalone_mode=False)
assert gc.isenabled() and gc.get_freeze_count() > 100_000, "what was loaded is searched for garbage"
print([name for name in {HEAVY + IN_VAIN} if name in sys.modules])
"""


LOADED_AT_ONCE = """
import gc, sys
from understudy.cli import app
app(sys.argv[1:], standalone_mode=False)
assert gc.isenabled() and gc.get_freeze_count() > 100_000, "what was loaded is searched for garbage"
print([name for name in ("matplotlib", "sklearn", "torch") if name in sys.modules])
"""


def test_small_nets_are_trained_without_pytorchs_compiler() -> None:
    """Which takes a second to load."""
    code = """
import sys
import torch
import understudy as us
pool = us.Pool(torch.zeros(4, 2), us.Hard(torch.tensor([0, 1, 0, 1]), classes=2))
for optimizer in ("adam", "adamw", "sgd"):
    run = us.train(us.models.mlp(2, 2, hidden=[3]), None, pool, us.vanilla(), epochs=1, optimizer=optimizer)
assert "torch._dynamo" not in sys.modules
import torch._dynamo
us.train(us.models.mlp(2, 2, hidden=[3]), None, pool, us.vanilla(), epochs=1, progress=False)
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_process_that_runs_already_is_left_as_it_is() -> None:
    import gc

    import torch  # noqa: F401

    from understudy.cli.shared import loading

    before = gc.get_freeze_count()
    with loading():
        assert gc.isenabled()
    assert gc.isenabled() and gc.get_freeze_count() == before


def _python(code: str, folder: Path, *words: str) -> str:
    done = subprocess.run([sys.executable, "-c", code, *words], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()[-1]


def test_nothing_heavy_is_loaded_before_a_command_runs(tmp_path: Path) -> None:
    assert int(_python(ASK, tmp_path)) >= 9


def test_the_help_of_a_command_does_not_load_what_checks_arguments(tmp_path: Path) -> None:
    code = "import sys; from understudy.cli import app; app(['train', '--help'], standalone_mode=False)"
    assert _python(f"{code}; print('pydantic' in sys.modules)", tmp_path) == "False"


def test_predictions_load_pytorch_and_the_reader_alone(tmp_path: Path) -> None:
    import torch

    from understudy.cli import app

    rows = "".join(f"{a},{a % 2}\n" for a in range(40))
    (tmp_path / "gold.csv").write_text("a,label\n" + rows)
    (tmp_path / "new.csv").write_text("a\n1\n2\n")
    out, before = tmp_path / "run", torch.get_num_threads()
    files = ["--gold", str(tmp_path / "gold.csv"), "--out", str(out), "--quiet"]
    app(["train", "--method", "vanilla", "--epochs", "1", *files], standalone_mode=False)
    torch.set_num_threads(before)
    assert _python(PREDICT, tmp_path) == str(["numpy", "pyarrow", "torch"])


def test_an_audit_loads_the_drawing_only_for_a_page(tmp_path: Path) -> None:
    rows = [f"{a},{a % 7},{'ab'[a % 2]},{'ab'[a % 5 > 0]}" for a in range(60)]
    (tmp_path / "gold.csv").write_text("\n".join(["id,a,label,teacher_label", *rows[:30]]) + "\n")
    pool = [row.rpartition(",")[0].rpartition(",")[0] + "," + row.rpartition(",")[2] for row in rows[30:]]
    (tmp_path / "pool.csv").write_text("\n".join(["id,a,teacher_label", *pool]) + "\n")
    files = ["--gold", "gold.csv", "--pool", "pool.csv"]
    assert _python(LOADED_AT_ONCE, tmp_path, "estimate", *files) == str(["torch"])
    assert _python(LOADED_AT_ONCE, tmp_path, "audit", *files) == str(["torch"])
    assert _python(LOADED_AT_ONCE, tmp_path, "audit", *files, "--out", "audit.json") == str(["torch"])
    assert _python(LOADED_AT_ONCE, tmp_path, "audit", *files, "--out", "audit.html") == str(["matplotlib", "torch"])


def test_commands_on_a_run_load_pytorch_at_once(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    import torch

    from understudy.cli import app

    (tmp_path / "gold.csv").write_text("a,label\n" + "".join(f"{a},{a % 2}\n" for a in range(40)))
    files, before = ["--gold", str(tmp_path / "gold.csv"), "--out", str(tmp_path / "run")], torch.get_num_threads()
    app(["train", "--method", "vanilla", "--epochs", "1", "--quiet", *files], standalone_mode=False)
    torch.set_num_threads(before)
    assert _python(LOADED_AT_ONCE, tmp_path, "verify", "run") == str(["torch"])
    assert _python(LOADED_AT_ONCE, tmp_path, "export", "run", "--out", "student.onnx") == str(["torch"])
