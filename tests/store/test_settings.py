"""Settings: through JSON and back; the first that differs is named."""

from pathlib import Path

import pytest

from understudy.errors import UnderstudyError
from understudy.store.fingerprints import fingerprint
from understudy.store.settings import as_json, check_same


def test_settings_are_compared_as_a_file_gives_them_back() -> None:
    steps = {"schedule": [(0.5, 0.1)], "augment": abs}
    stored = as_json(steps)
    assert stored == {"schedule": [[0.5, 0.1]], "augment": fingerprint(abs)}
    check_same(stored, steps, "run")


def test_the_first_that_differs_is_named() -> None:
    with pytest.raises(UnderstudyError, match=r"run was begun with another lr \(0.1, now 0.2\); repeat"):
        check_same({"lr": 0.1, "seed": 0}, {"lr": 0.2, "seed": 1}, Path("run"))
    with pytest.raises(UnderstudyError, match=r"another seed \(None, now 1\)"):
        check_same({}, {"seed": 1}, "run")
    check_same({"budget": 1}, {"budget": 2}, "run", free=["budget"])


def test_fingerprints_are_not_shown() -> None:
    before, now = {"gold": fingerprint(1)}, {"gold": fingerprint(2)}
    with pytest.raises(UnderstudyError, match="another gold; repeat"):
        check_same(before, now, "run")
    with pytest.raises(UnderstudyError, match=r"another gold \(rows or labels\); repeat"):
        check_same(before, now, "run", hints={"gold": "rows or labels"})
