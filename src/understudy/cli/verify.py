"""``understudy verify``: whether the files of a run, a comparison, a label store or a loop are as they were written."""

from pathlib import Path
from typing import Annotated

import typer

from understudy.cli.folders import kind_of
from understudy.errors import UnderstudyError, shown
from understudy.store.copies import work_folder


def verify_command(
    folder: Annotated[Path, typer.Argument(help="A run, a comparison, a label store or a loop.", show_default=False)],
) -> None:
    """Check every file of a folder against its checksum. Exit code 0: all are unchanged; 2: one is not.

    Checksums find damage, deleted and exchanged files, and careless edits; not forgery by somebody who may write to
    the folder.

    Example: `understudy verify runs/first`
    """
    folder = work_folder(folder)
    kind = kind_of(folder)
    findings = list(kind.inspect(folder))
    for path, problem in findings:
        typer.echo(shown(f"unchanged  {path}" if problem is None else f"CHANGED  {path} {problem}"))
    changed = sum(problem is not None for _, problem in findings)
    if changed:
        raise UnderstudyError(
            f"{changed} of {len(findings)} files of the {kind.name} in {folder} have changed; restore them"
        )
    typer.echo(shown(f"the {kind.name} in {folder} is unchanged: {len(findings)} files"))
