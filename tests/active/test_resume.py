"""A loop killed at any moment ends as if nothing had happened."""

import json
from pathlib import Path
from typing import Any

import pytest

from .kill_and_resume import main

MOMENTS = 4  # `make torture`: twenty


def outcome(folder: Path) -> dict[str, Any]:
    """Everything a loop leaves behind, but its timings."""
    state = json.loads((folder / "state.json").read_text())
    for record in state["records"]:
        del record["seconds"]
    del state["manifest_sha256"], state["sha256"], state["history"]  # of these, too
    last = folder / f"round-{state['round'] - 1:03}"
    tensors = {name: (last / name).read_bytes() for name in ("student.safetensors", "ema.safetensors")}
    return state | tensors | {"labelled": (folder / "labelled.csv").read_text()}


@pytest.mark.slow
def test_killed_at_many_moments(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    main(tmp_path, MOMENTS)
    assert len(capfd.readouterr().out.splitlines()) == MOMENTS
    undisturbed = outcome(tmp_path / "undisturbed")
    assert len(undisturbed["rows"]) == 60 and len(undisturbed["records"]) == 5
    for moment in range(MOMENTS):
        folder = tmp_path / f"killed-{moment}"
        assert outcome(folder) == undisturbed, f"moment {moment}"
        # At most a temporary name, never half of a file under its own.
        kept = {path.name for path in folder.iterdir() if not path.name.startswith(".")}
        assert kept == {"state.json", "labelled.csv", "label_history.jsonl", "round-004"}
