"""The kinds of folders that commands take, and what each can tell of its files.

    kind = kind_of(folder)                     # a run, a label store, a loop or a comparison
    findings = list(kind.inspect(folder))      # every file that counts, and what is wrong with it

``understudy verify`` prints these, ``understudy upgrade`` brings older formats to the present one.
"""

from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import NamedTuple

from understudy.errors import UnderstudyError
from understudy.store.seal import Finding


class Kind(NamedTuple):
    name: str
    file: str
    """By which it is known, and which holds its format."""
    format: int
    older: Collection[int]
    """Formats that this version still reads."""
    inspect: Callable[[Path], Iterator[Finding]]
    reseal: Callable[[Path], None]
    """Take the files as they are for right."""
    upgrade: Callable[[Path], None]
    """The present format in the place of an older one; an error, and nothing changed, where a file cannot be read."""


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
    from understudy.active import state
    from understudy.comparison import compare
    from understudy.labels.store import shards
    from understudy.parallel import map_shards
    from understudy.training import run, upgrade

    return (
        Kind("run", run.CONFIG, run.FORMAT, run.OLDER, run.inspect_run, run.reseal_run, upgrade.upgrade_run),
        Kind(
            "label store", shards.SETTINGS, shards.FORMAT, shards.OLDER, shards.inspect_store, shards.reseal_store,
            shards.upgrade_store,
        ),
        Kind("loop", state.STATE, state.FORMAT, state.OLDER, state.inspect_loop, state.reseal_loop, state.upgrade_loop),
        Kind(
            "comparison", compare.SETTINGS, compare.FORMAT, compare.OLDER, compare.inspect_comparison,
            compare.reseal_comparison, compare.upgrade_comparison,
        ),
        Kind(
            "pass over shards", map_shards.PASS, map_shards.FORMAT, (), map_shards.inspect_pass,
            map_shards.reseal_pass, map_shards.upgrade_pass,
        ),
    )  # fmt: skip
