"""Finished cells: found again under their key and settings, refused under others."""

from pathlib import Path

import pytest

from understudy.errors import UnderstudyError
from understudy.store.checked_folder import Jobs

KEYS = [("slam", 0), ("slam:k=2", 0), ("slam_k=2", 0)]


def test_what_is_done_is_not_done_again(tmp_path: Path) -> None:
    jobs = Jobs(tmp_path, ("method", "seed"), {"lr": 0.1})
    assert jobs.missing(KEYS) == KEYS
    for number, key in enumerate(KEYS):
        jobs.write(key, {"accuracy": number})
    again = Jobs(tmp_path, ("method", "seed"), {"lr": 0.1})
    assert again.missing([*KEYS, ("gce", 1)]) == [("gce", 1)]
    assert again.read(KEYS[2]) == {"method": "slam_k=2", "seed": 0, "accuracy": 2}


def test_other_cells_and_settings_are_refused(tmp_path: Path) -> None:
    Jobs(tmp_path, ("method", "seed"), {"lr": 0.1}).write(("slam", 0), {})
    with pytest.raises(UnderstudyError, match=r"slam-0.json was begun with another lr \(0.1, now 0.2\)"):
        Jobs(tmp_path, ("method", "seed"), {"lr": 0.2}).read(("slam", 0))
    (tmp_path / "slam-0.json").rename(tmp_path / "gce-0.json")
    with pytest.raises(UnderstudyError, match=r"gce-0.json is not the cell of method gce, seed 0; remove it"):
        Jobs(tmp_path, ("method", "seed")).read(("gce", 0))
