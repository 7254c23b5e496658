"""What is refused, and that the message says where and what to do."""

import math
from pathlib import Path

import numpy as np
import pytest
import torch

from understudy.data import checks
from understudy.errors import UnderstudyError


def test_arrays_are_shared_not_copied(tmp_path: Path) -> None:
    array = np.arange(6.0).reshape(3, 2)
    assert checks.to_tensor(array, "x").data_ptr() == array.ctypes.data
    mapped = np.lib.format.open_memmap(tmp_path / "x.npy", mode="w+", dtype=np.float32, shape=(3, 2))
    mapped[:] = 1
    mapped.flush()
    read_only = np.load(tmp_path / "x.npy", mmap_mode="r")
    assert checks.to_tensor(read_only, "x").sum() == 6


@pytest.mark.parametrize(
    "values", [["a", "b"], [object()], [[1, 2], [3]], np.array(["2020-01-01"], dtype="datetime64")]
)
def test_what_is_not_numeric_is_refused(values: object) -> None:
    with pytest.raises(UnderstudyError, match=r"gold\.x is not a numeric array.*pass a tensor"):
        checks.to_tensor(values, "gold.x")


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ([0.5, 0.4], r"p row 2 sums to 0\.9, not 1; pass probabilities"),
        ([0.7, 0.7], "row 2 sums to 1.4"),
        ([math.nan, 1.0], "row 2 holds NaN or infinity"),
        ([math.inf, 0.0], "row 2 holds NaN or infinity"),
        ([1.2, -0.2], "row 2 holds a negative entry"),
    ],
)
def test_probabilities(row: list[float], message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    good = [0.25, 0.75]
    for chunk in (1 << 17, 2):
        monkeypatch.setattr(checks, "CHUNK", chunk)
        with pytest.raises(UnderstudyError, match=message):
            checks.check_probabilities(torch.tensor([good, good, row]), "p")
        checks.check_probabilities(torch.tensor([good, good]), "p")


def test_probabilities_in_half_precision_pass() -> None:
    probs = torch.randn(500, 1000, generator=torch.Generator().manual_seed(0)).softmax(-1).half()
    checks.check_probabilities(probs, "p")


@pytest.mark.parametrize("shape", [(3,), (3, 1), (3, 2, 2)])
def test_probabilities_are_a_matrix(shape: tuple[int, ...]) -> None:
    with pytest.raises(UnderstudyError, match="shape"):
        checks.check_probabilities(torch.ones(shape), "p")
    with pytest.raises(UnderstudyError, match="floating-point"):
        checks.check_probabilities(torch.eye(3, dtype=torch.long), "p")


def test_labels() -> None:
    assert checks.check_labels([0.0, 2.0], "y").tolist() == [0, 2]
    assert checks.check_labels(np.array([1, 0], dtype=np.uint8), "y").dtype == torch.int64
    assert checks.check_labels([-1, 0], "y", missing_allowed=True).tolist() == [-1, 0]
    for labels, message in (
        ([0, -1], "row 1 is -1; class labels count from 0"),
        ([0.5], "row 0 is 0.5; class labels are whole"),
        ([0, math.nan], "row 1 is nan"),
        ([math.inf, 0], "row 0"),
        ([[1]], "one integer per row"),
    ):
        with pytest.raises(UnderstudyError, match=message):
            checks.check_labels(labels, "y")
    with pytest.raises(UnderstudyError, match="row 0 is -2"):
        checks.check_labels([-2], "y", missing_allowed=True)


def test_finite(monkeypatch: pytest.MonkeyPatch) -> None:
    x = torch.zeros(5, 2, 2)
    x[3, 1, 0] = math.nan
    for chunk in (100, 2):
        monkeypatch.setattr(checks, "CHUNK", chunk)
        with pytest.raises(UnderstudyError, match="x row 3 holds NaN"):
            checks.check_finite(x, "x")


def test_finite_numbers_whose_sum_is_infinite_are_no_infinity() -> None:
    checks.check_finite(torch.full((4, 2), 3e38), "x")


def test_ids() -> None:
    assert checks.check_ids(None, 3, "pool") is None
    assert checks.check_ids((f"r{i}" for i in range(2)), 2, "pool").tolist() == ["r0", "r1"]  # type: ignore[union-attr]
    with pytest.raises(UnderstudyError, match=r"pool\.ids holds .*7.* more than once"):
        checks.check_ids([7, 3, 7], 3, "pool")
    with pytest.raises(UnderstudyError, match=r"pool\.ids holds nan more than once"):
        checks.check_ids(np.array([np.nan, 1.0, np.nan]), 3, "pool")
    with pytest.raises(UnderstudyError, match=r"pool\.ids has 2 rows but pool\.x has 3"):
        checks.check_ids([7, 3], 3, "pool")
