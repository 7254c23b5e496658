"""The experiments are a package of the checkout, beside the tests; data folders in these tests are the test's own."""

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))


@pytest.fixture
def data_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty data folder, and no downloads."""
    monkeypatch.setenv("UNDERSTUDY_DATA", str(tmp_path))
    monkeypatch.delenv("UNDERSTUDY_DOWNLOAD", raising=False)
    return tmp_path
