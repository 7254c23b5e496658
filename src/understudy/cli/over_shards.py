"""What ``predict``, ``teach`` and ``select`` share where the pool is a folder of shards."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from understudy.cli import shared
from understudy.errors import UnderstudyError
from understudy.store.remote import is_remote

if TYPE_CHECKING:
    from understudy.parallel.executors import Executor
    from understudy.parallel.pool_shards import PoolShards

PANEL = "Folders of shards"
Workers = Annotated[
    int | None,
    typer.Option(
        min=1, help="Processes of one thread each (1); with --ray, shards at once (as many as there is room for).",
        show_default=False, rich_help_panel=PANEL,
    ),
]  # fmt: skip
Ray = Annotated[
    str | None,
    typer.Option(
        "--ray", help="Pass over the shards on Ray: local, auto or HOST:PORT.", metavar="ADDRESS", show_default=False,
        rich_help_panel=PANEL,
    ),
]  # fmt: skip


def executor_of(workers: int | None, ray: str | None) -> "Executor":
    """Who passes over the shards: this process, processes, or Ray."""
    from understudy.parallel.executors import executor_for

    where: dict[str, Any] = shared.where_to_run(workers if workers is not None or ray else 1, ray)
    return executor_for(where.get("workers"), where.get("executor"))


def shards_for(pool: Path, out: Path) -> "PoolShards | None":
    """The shards of a pool, where the output is to be a folder of shards too."""
    if out.suffix:
        return None
    from understudy.parallel.pool_shards import list_pool_shards

    if not is_remote(pool) and not pool.exists():
        raise UnderstudyError(f"{pool} is not there; check the path")
    return list_pool_shards(pool)


def refuse_engines(workers: int | None, ray: str | None, cure: str) -> None:
    """A file in one piece is worked on here."""
    if workers is not None or ray is not None:
        named = "--ray" if ray is not None else "--workers"
        raise UnderstudyError(f"{named} is for folders of shards; {cure}")
