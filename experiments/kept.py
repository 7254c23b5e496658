"""Nets that several settings share (the teacher of one split, say), trained once and kept beside the finished jobs.

    with kept_in(work / "nets"):                            # the runner, around a job
        teacher = kept(net_function, train, "teacher", seed, setting)   # from the folder, or trained now

Outside of such a block everything is trained. A net is named by what it was trained with; two processes that train the
same one at the same time write the same file.
"""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from torch import nn

from understudy.store.files import digest, write_bytes
from understudy.training.run import load_state, state_to_bytes

_folder: Path | None = None


@contextmanager
def kept_in(folder: Path) -> Iterator[None]:
    global _folder
    before, _folder = _folder, folder
    try:
        yield
    finally:
        _folder = before


def kept(build: Callable[[], nn.Module], train: Callable[[], nn.Module], *setting: Any) -> nn.Module:
    """``build`` makes the net without its weights; ``setting``: what JSON can hold, and names the net."""
    if _folder is None:
        return train()
    path = _folder / f"{digest(json.dumps(setting).encode())[:24]}.safetensors"
    if path.exists():
        module = build()
        load_state(module, path)
        return module.eval()
    module = train()
    path.parent.mkdir(parents=True, exist_ok=True)
    write_bytes(path, state_to_bytes(module.state_dict()))
    return module
