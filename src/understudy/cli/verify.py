"""``understudy verify`` and ``unlock``: whether a folder's files are as they were written, and who may write there."""

from pathlib import Path
from typing import Annotated

import typer

from understudy.cli.shared import argument, loading
from understudy.errors import UnderstudyError, shown
from understudy.store.checked_folder import FolderKind
from understudy.store.files import work_folder


def verify_command(
    folder: Annotated[Path, argument("A run, comparison, label store, loop, pass over shards, watch or ask folder.")],
) -> None:
    """Check every file of a folder against its checksum. Exit code 0: all are unchanged; 2: one is not.

    Checksums detect damage, deleted and replaced files, and careless edits; not forgery by a person who may write to
    the folder.

    Example: `understudy verify runs/first`
    """
    folder = work_folder(folder)
    with loading():
        kind = kind_of(folder)
    findings = kind.verify(folder)
    for path, problem in findings:
        typer.echo(shown(f"unchanged  {path}" if problem is None else f"CHANGED  {path} {problem}"))
    if changed := sum(problem is not None for _, problem in findings):
        raise UnderstudyError(f"{changed} of {len(findings)} files of the {kind.name} {folder} have changed; restore")
    typer.echo(shown(f"the {kind.name} in {folder} is unchanged: {len(findings)} files"))


def unlock_command(folder: Annotated[Path, argument("Address of a run, comparison or label store.")]) -> None:
    """Let others write to a folder at an address (s3:// …) whose writer is dead.

    Storage knows no locks: a process that writes there leaves a note of who it is and since when, and one that was
    killed cannot take it away. Make sure that it runs no more. One that does run stops before it writes again.

    Example: `understudy unlock s3://bucket/runs/first`
    """
    from understudy.store.files import as_given
    from understudy.store.remote import unlock

    typer.echo(f"{as_given(folder)} is free; it was locked by {unlock(folder)}")


def kind_of(folder: Path) -> FolderKind:
    """The kind that the folder's manifest names; of a damaged manifest, the kind with a manifest of this name."""
    kinds = folder_kinds()
    found = [kind for kind in kinds if (folder / kind.manifest).exists()]
    if not found:
        names = ", ".join(f"{kind.name} ({kind.manifest})" for kind in kinds)
        raise UnderstudyError(f"{folder} holds no finished {names}; name such a folder")
    same = [kind for kind in found if kind.manifest == found[0].manifest]
    return next((kind for kind in same if kind.matches(folder)), same[0])


def folder_kinds() -> tuple[FolderKind, ...]:
    """Every kind of checked folder."""
    from understudy.active.loop_state import LOOP
    from understudy.auditing.watch_files import WATCH
    from understudy.comparison.compare import COMPARISON
    from understudy.labels.label_shards import LABEL_STORE
    from understudy.llm.answer_folder import ASK
    from understudy.parallel.map_shards import SHARD_PASS
    from understudy.training.job import TRAIN_REQUEST
    from understudy.training.run import RUN

    return RUN, LABEL_STORE, LOOP, COMPARISON, SHARD_PASS, ASK, TRAIN_REQUEST, WATCH
