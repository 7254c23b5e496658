"""Arrays to Arrow and back, of any depth."""

from pathlib import Path

import numpy as np
import pytest

from understudy.errors import UnderstudyError
from understudy.store.arrow import from_parquet, to_parquet


@pytest.mark.parametrize("shape", [(4,), (4, 3), (4, 3, 2), (0, 3)])
@pytest.mark.parametrize("kind", [np.float32, np.int64, np.bool_])
def test_arrays_come_back(tmp_path: Path, shape: tuple[int, ...], kind: type) -> None:
    column = np.arange(np.prod(shape)).reshape(shape).astype(kind)
    back = from_parquet(tmp_path / "x", content=to_parquet({"id": ["ä"] * len(column), "x": column}))
    assert back["id"].tolist() == ["ä"] * len(column)
    assert back["x"].dtype == column.dtype and back["x"].shape == column.shape and (back["x"] == column).all()
    back["x"][...] = 0  # an array of its own


def test_what_cannot_be_read_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(UnderstudyError, match=r"cannot read .*gone: No such file"):
        from_parquet(tmp_path / "gone")
    with pytest.raises(UnderstudyError, match=r"cannot read .*x as Parquet: .*; write it again"):
        from_parquet(tmp_path / "x", content=b"PAR1", cure="write it again")
    with pytest.raises(UnderstudyError, match=r"cannot read .*x as Parquet: .*; restore it"):
        from_parquet(tmp_path / "x", ["label"], content=to_parquet({"id": [1]}))
