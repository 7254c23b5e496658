"""Real SIGKILLs at steps drawn at random; `make torture` has a hundred for each method."""

from pathlib import Path

import pytest

from .kill_training import main


@pytest.mark.slow
def test_killed_trainings_end_with_the_same_bits(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(tmp_path, 3)
    assert capsys.readouterr().out.count("every one ended with the same bits") == 4
