"""Front ends whose packages are not installed say so in one line that names the extra; nothing is loaded before."""

import importlib
import subprocess
import sys
from pathlib import Path

import pytest

import understudy as us
from understudy import errors


def test_the_trainer_names_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(vars(us.hf), "Trainer", raising=False)
    monkeypatch.setitem(sys.modules, "accelerate", None)
    with pytest.raises(us.UnderstudyError, match=r'us\.hf\.Trainer needs .*: pip install .*\[hf\]"'):
        us.hf.Trainer  # noqa: B018


def test_lightning_names_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(vars(us), "lightning", raising=False)
    monkeypatch.delitem(sys.modules, "understudy.lightning", raising=False)
    monkeypatch.setitem(sys.modules, "lightning.pytorch", None)
    with pytest.raises(us.UnderstudyError, match=r'needs Lightning: pip install .*\[lightning\]"'):
        us.lightning.UnderstudyModule  # noqa: B018
    # So that programs that import every module of a package pass over it.
    with pytest.raises(ImportError):
        importlib.import_module("understudy.lightning")


def test_asking_names_its_extra(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "httpx2", None)
    with pytest.raises(us.UnderstudyError, match=r'needs httpx2: pip install .*\[llm\]"'):
        us.ask(["a"], ["neg", "pos"], model="m", base_url="http://localhost:1/v1", out=tmp_path / "asked")


def test_front_ends_load_nothing_before_they_are_used() -> None:
    heavy = [
        "torch",
        "transformers",
        "accelerate",
        "lightning",
        "tensorboard",
        "mlflow",
        "IPython",
        "httpx2",
        "fsspec",
        "s3fs",
    ]
    code = f"import sys, understudy as us; us.hf; print(sorted(sys.modules.keys() & {set(heavy)}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_label_page_names_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    from understudy.web.serve import LabelServer

    monkeypatch.setitem(sys.modules, "uvicorn", None)
    with pytest.raises(us.UnderstudyError, match=r'the label page needs .*: pip install .*\[label\]"'):
        LabelServer(None, None)  # type: ignore[arg-type]


def test_the_hint_names_the_index_or_the_folder_of_the_sources(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(errors, "__file__", str(tmp_path / "src/understudy/errors.py"))
    assert errors.install("hf") == 'pip install "understudy-ml[hf]"'
    (tmp_path / "pyproject.toml").touch()
    assert errors.install("hf") == f'pip install -e "{tmp_path}[hf]"'
