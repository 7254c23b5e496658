"""``understudy upgrade``: a folder that an older version wrote, in the format of this one."""

from pathlib import Path
from typing import Annotated

import typer

from understudy.cli.folders import kind_of
from understudy.errors import UnderstudyError, shown
from understudy.store.copies import work_folder
from understudy.store.files import locked, read_json


def upgrade_command(
    folder: Annotated[Path, typer.Argument(help="A run, a comparison, a label store or a loop.", show_default=False)],
) -> None:
    """Bring a folder that an older version wrote to the format of this one, in place.

    Its files are read and checked first, against the checksums that it has; what is damaged or cannot be read is
    refused, and nothing is changed. The file that names the format is replaced last and in one go: killed at any
    moment, the folder is of the old format or of the new one, and the same command goes on. A folder of the present
    format is left alone.

    Example: `understudy upgrade runs/old`
    """
    folder = work_folder(folder)
    kind = kind_of(folder)
    with locked(folder):
        content = read_json(folder / kind.file, format=kind.format, older=kind.older)
        is_older = content["format"] != kind.format
        if is_older:
            kind.upgrade(folder)
        for path, problem in kind.inspect(folder):
            if problem is not None:
                raise UnderstudyError(f"{path} {problem}; restore it")
    if is_older:
        was = content["format"]
        typer.echo(shown(f"the {kind.name} in {folder} was of format {was} and is now of format {kind.format}"))
    else:
        whole = f"the {kind.name} in {folder} is of the present format ({kind.format}) and whole; nothing to do"
        typer.echo(shown(whole))
