"""``understudy unlock``: the lock that a dead process left at an address."""

from pathlib import Path
from typing import Annotated

import typer

from understudy.cli.shared import argument


def unlock_command(folder: Annotated[Path, argument("Address of a run, comparison or label store.")]) -> None:
    """Let others write to a folder at an address (s3:// …) whose writer is dead.

    Storage knows no locks: a process that writes there leaves a note of who it is and since when, and one that was
    killed cannot take it away. Make sure that it runs no more. One that does run stops before it writes again.

    Example: `understudy unlock s3://bucket/runs/first`
    """
    from understudy.store.files import as_given
    from understudy.store.remote import unlock

    typer.echo(f"{as_given(folder)} is free; it was locked by {unlock(folder)}")
