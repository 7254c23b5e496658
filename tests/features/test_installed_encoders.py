"""Which encoder ``--encoder auto`` takes: folders as the package and the hub's cache have them."""

import sys
import threading
import time
from pathlib import Path

import pytest

from understudy.errors import install
from understudy.features import installed_encoders
from understudy.features.installed_encoders import PACKAGE, PREFERRED, found_encoders, installed
from understudy.store.console import complain

MAIN = "0123456789abcdef"
ONCE = installed_encoders._say


def _model(folder: Path, size: int = 10, weights: str = "model.safetensors") -> Path:
    folder.mkdir(parents=True)
    (folder / "modules.json").write_text("[]")
    (folder / weights).write_bytes(bytes(size))
    return folder


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine with transformers and nothing else: no package, no cache, no network."""
    for name in ("UNDERSTUDY_ENCODER", "HF_HUB_CACHE", "SENTENCE_TRANSFORMERS_HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setattr(installed_encoders, "_say", complain)
    real = installed_encoders.find_spec

    def find_spec(name: str) -> object:
        known = {"transformers": sys.__spec__, "huggingface_hub": sys.__spec__}
        packaged = name == PACKAGE.replace("-", "_") and str(tmp_path / "site") not in sys.path
        return known.get(name) or (None if packaged else real(name))

    monkeypatch.setattr(installed_encoders, "find_spec", find_spec)
    return tmp_path


def _hub(home: Path, name: str, size: int = 10, commit: str = MAIN) -> Path:
    repository = home / "hf" / "hub" / f"models--{name.replace('/', '--')}"
    folder = _model(repository / "snapshots" / commit, size)
    (repository / "refs").mkdir(exist_ok=True)
    (repository / "refs" / "main").write_text(MAIN)
    return folder


def test_the_order_is_package_then_minilm_then_the_smallest(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert installed() == {}
    large, small = _hub(home, "org/large", 30), _hub(home, "org/small", 20)
    assert installed() == {"org/small": small, "org/large": large}
    old = _model(home / ".cache" / "torch" / "sentence_transformers" / PREFERRED.replace("/", "_"), 99)
    assert list(installed()) == [PREFERRED, "org/small", "org/large"] and installed()[PREFERRED] == old
    package = home / "site" / PACKAGE.replace("-", "_")
    (package / "model").parent.mkdir(parents=True)
    (package / "__init__.py").write_text("raise AssertionError('looked for, not imported')")
    _model(package / "model")
    monkeypatch.syspath_prepend(home / "site")
    assert list(installed())[:2] == [PACKAGE, PREFERRED] and installed()[PACKAGE] == package / "model"


def test_incomplete_and_pickled_and_older_ones_are_not_taken(home: Path) -> None:
    broken = _hub(home, "org/broken")
    (broken / "model.safetensors").unlink()
    _model(home / "hf" / "hub" / "models--org--pickled" / "snapshots" / MAIN, weights="pytorch_model.bin")
    new = _hub(home, "org/two")
    _hub(home, "org/two", commit="fedcba")
    assert installed() == {"org/two": new}


def test_what_is_chosen_is_said(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert list(found_encoders()) == []
    line = capsys.readouterr().err
    assert line.startswith("Texts: TF-IDF") and install("encoder") in line and line.count("\n") == 1
    folder = _hub(home, "org/small")
    assert next(found_encoders()) == "org/small"
    assert capsys.readouterr().err == f"Texts: sentence vectors by org/small ({folder}); --encoder none takes TF-IDF\n"
    assert list(found_encoders()) == ["org/small"] and "TF-IDF; " in capsys.readouterr().err.splitlines()[1]
    monkeypatch.setattr(installed_encoders, "find_spec", lambda name: None)
    assert list(found_encoders()) == [] and "TF-IDF" in capsys.readouterr().err


def test_it_is_said_once(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    ONCE.cache_clear()
    monkeypatch.setattr(installed_encoders, "_say", ONCE)
    assert list(found_encoders()) == list(found_encoders()) == [] and capsys.readouterr().err.count("TF-IDF;") == 1


@pytest.mark.parametrize(("answers", "wanted"), [(True, PREFERRED), (False, None)])
def test_the_hub_is_asked_last_and_not_for_long(
    answers: bool, wanted: str | None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    hub = pytest.importorskip("huggingface_hub")
    monkeypatch.setenv("HF_HUB_OFFLINE", "0")
    monkeypatch.setattr(installed_encoders, "PATIENCE", 0.2)
    release = threading.Event()

    def model_info(self: object, name: str, timeout: float) -> str:
        assert answers or release.wait(10)
        return name

    monkeypatch.setattr(hub.HfApi, "model_info", model_info)
    started = time.monotonic()
    assert next(found_encoders(), None) == wanted and time.monotonic() - started < 2
    assert ("fetching" in capsys.readouterr().err) == answers
    release.set()
