"""Runs that older versions wrote, in the present format: sealed, if all that they hold can be read.

    upgrade_run(folder)

Where something is damaged or missing that is an error, and nothing has changed.
"""

import warnings
from pathlib import Path
from typing import Any

from understudy.errors import UnderstudyError, UnderstudyWarning
from understudy.features.featuriser import VALUES_FILE, Featuriser
from understudy.store.seal import read_sealed
from understudy.training.run import (
    CONFIG,
    FORMAT,
    OLDER,
    Run,
    check_stored_keys,
    read_columns,
    read_history,
    read_state,
    reseal_run,
)

_CURE = "restore it, or train again with this version"


def upgrade_run(folder: Path) -> None:
    """Only ``config.json`` changes, and in one go: a run is of the old format or of the new one, never between."""
    path = folder / CONFIG
    config = read_sealed(path, format=FORMAT, older=OLDER, cure=_CURE)  # what checksums there are must fit
    check_stored_keys(path, config)
    _check_features(folder, config)
    if config["student"] is None:  # a class of the user's own, which only Python can build
        read_history(folder / "metrics.jsonl")
        read_columns(folder / "columns.parquet")
        for weights in folder.glob("*.safetensors"):
            read_state(weights)
    else:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UnderstudyWarning)  # that it is of an older format
            run = Run.load(folder)
        if run.selected_epoch is not None:
            run.selected()
    reseal_run(folder)


def _check_features(folder: Path, config: dict[str, Any]) -> None:
    if (folder / VALUES_FILE).exists():
        Featuriser.load(folder)
    elif isinstance(config.get("features"), list):
        # Numbers would go in unscaled, and nothing would say so.
        raise UnderstudyError(
            f"{folder} was trained on the columns {', '.join(map(str, config['features'][:3]))} … but has no "
            f"{VALUES_FILE} that says how to read them; {_CURE}"
        )
