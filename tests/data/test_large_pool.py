"""Pools in files cost memory per row, not per feature: training, weights, alpha and k, selecting."""

import importlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
SELECTING = """
import sys
import numpy as np, torch
from benchmarks.large_pool import MemoryWatch, private_megabytes
torch.set_num_threads(1)
import understudy.inference.passes as memory
from understudy.active.loop import score
from understudy.acquisition.select import select
from understudy.models import linear
memory.LARGE = 1 << 20
x, net = np.load(sys.argv[1], mmap_mode="r"), linear(1024, 10)
score(net, x[:64]), select("badge", 3, **score(net, x[:64]).arrays())
before = private_megabytes()
with MemoryWatch(0.002) as watch:
    arrays = score(net, x).arrays()
    for strategy in ("badge", "coreset", "entropy"):
        assert len(select(strategy, 20, labelled=np.arange(10), **arrays)) == 20
print(watch.peak - before)
"""


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """60,000 × 1,024 float16: 123 MB."""
    folder = tmp_path_factory.mktemp("pool")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT))
        importlib.import_module("benchmarks.large_pool").make_pool(folder, 60_000, 1024)
    return folder


def _last_line(*command: str) -> Any:
    done = subprocess.run([sys.executable, *command], capture_output=True, text=True, cwd=ROOT, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
@pytest.mark.parametrize(
    ("method", "kind"), [("weighted", "cold"), pytest.param("slam", "warm", marks=pytest.mark.torture)]
)
def test_training_takes_a_fraction_of_the_array(method: str, kind: str, pool: Path) -> None:
    size = (pool / "x.npy").stat().st_size / 2**20
    measured = _last_line("-m", "benchmarks.large_pool", "--worker", kind, method, "--folder", str(pool))
    assert measured["extra_mb"] - measured["fixed_mb"] < 0.7 * size  # a copy would be all of it


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_selecting_takes_a_fraction_of_the_features(
    pool: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("UNDERSTUDY_CACHE", str(tmp_path))
    rows, columns = np.load(pool / "x.npy", mmap_mode="r").shape
    # The features of a linear student are the rows, as float32.
    assert _last_line("-c", SELECTING, str(pool / "x.npy")) < 0.25 * rows * columns * 4 / 2**20
