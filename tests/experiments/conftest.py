"""Data folders in these tests are the test's own."""

from pathlib import Path

import pytest


@pytest.fixture
def data_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty data folder, and no downloads."""
    monkeypatch.setenv("UNDERSTUDY_DATA", str(tmp_path))
    monkeypatch.delenv("UNDERSTUDY_DOWNLOAD", raising=False)
    return tmp_path
