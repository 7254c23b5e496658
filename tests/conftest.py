"""One thread everywhere, so that sums, timings and random draws do not depend on the machine."""

import gc
import os
import sys
from collections.abc import Callable, Iterator
from functools import lru_cache
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
# Texts by TF-IDF, whatever encoders this machine has; tests of encoders name theirs.
os.environ["UNDERSTUDY_ENCODER"] = "none"

import numpy as np
import pytest
import torch
import typer.testing
from hypothesis import HealthCheck, settings

torch.set_num_threads(1)
# No test cuts the power: a killed process leaves what it wrote. Waiting for the disk was a fifth of small trainings.
os.fsync = lambda handle: None
# A runner makes all commands with all of their options for every call; they are the same ones each time.
typer.testing._get_command = lru_cache(typer.testing._get_command)  # type: ignore[attr-defined]
# What several test files share is a module beside them: ``from three_blobs import …``. The experiments are a package of
# the checkout, beside the tests.
TESTS = Path(__file__).parent
sys.path[:0] = [str(folder) for folder in (TESTS, TESTS.parent) if str(folder) not in sys.path]
# Neither a deadline nor a word about slowness: a busy machine is no fault of the code.
settings.register_profile(
    "understudy", deadline=None, derandomize=True, max_examples=60, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("understudy")


def pytest_collection_finish() -> None:
    """What was imported and collected stays: no collection of garbage need look at its million objects again."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="module", autouse=True)
def empty_pictures(request: pytest.FixtureRequest) -> Iterator[None]:
    """Reports hold empty frames for pictures: to draw a report's eight takes longer than a small training. Modules with
    the mark ``pictures``, and tests/report, draw them."""
    with pytest.MonkeyPatch.context() as patch:
        if request.node.get_closest_marker("pictures") is None and "report" not in request.path.parts:
            from markupsafe import Markup

            frame = Markup('<svg class="{}" viewBox="0 0 1 1"></svg>')
            patch.setattr("understudy.report.figures._svg", lambda figure, salt, kind: frame.format(kind))
        yield


@pytest.fixture
def shared_data() -> Callable[[str], Path]:
    """Real data for slow tests: $UNDERSTUDY_DATA, else ../shared/data beside the checkout."""
    root = Path(os.environ.get("UNDERSTUDY_DATA", Path(__file__).parents[2] / "shared" / "data"))

    def find(name: str) -> Path:
        if not (root / name).exists():
            pytest.skip(f"{name} is not in {root}; set UNDERSTUDY_DATA to the folder that holds it")
        return root / name

    return find


@pytest.fixture
def generator() -> torch.Generator:
    return torch.Generator().manual_seed(0)


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(0)
