"""The kinds of folders that commands take, and what each can tell of its files.

    kind = kind_of(folder)                     # a run, a label store, a loop or a comparison
    findings = list(kind.inspect(folder))      # every file that counts, and what is wrong with it

``understudy verify`` prints these.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from understudy.errors import UnderstudyError
from understudy.store.seal import Finding


class Kind(NamedTuple):
    name: str
    file: str
    """By which it is known."""
    inspect: Callable[[Path], Iterator[Finding]]


def kind_of(folder: Path) -> Kind:
    kinds = _kinds()
    for kind in kinds:
        if (folder / kind.file).exists():
            return kind
    raise UnderstudyError(
        f"{folder} holds no finished run, comparison, label store, loop or pass (none of "
        f"{', '.join(kind.file for kind in kinds)}); name such a folder"
    )


def _kinds() -> tuple[Kind, ...]:
    from understudy.active import loop_state as state
    from understudy.comparison import compare
    from understudy.labels.store import shards
    from understudy.parallel import map_shards
    from understudy.training import run

    return (
        Kind("run", run.CONFIG, run.inspect_run),
        Kind("label store", shards.SETTINGS, shards.inspect_store),
        Kind("loop", state.STATE, state.inspect_loop),
        Kind("comparison", compare.SETTINGS, compare.inspect_comparison),
        Kind("pass over shards", map_shards.PASS, map_shards.inspect_pass),
    )
