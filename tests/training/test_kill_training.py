"""Real SIGKILLs at steps drawn at random; `make torture` has a hundred for each method."""

import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.slow
def test_killed_trainings_end_with_the_same_bits(tmp_path: Path) -> None:
    script = Path(__file__).parent / "kill_training.py"
    done = subprocess.run([sys.executable, str(script), str(tmp_path), "7"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.count("every one ended with the same bits") == 4
