"""``understudy tasks``: rows of a file as tasks for another labelling tool."""

from pathlib import Path
from typing import Annotated

import typer

from understudy.cli.shared import CLASSES, argument, flag, loading, takes_options
from understudy.errors import UnderstudyError
from understudy.io.data_options import ColumnOptions
from understudy.io.exchange import TOOLS
from understudy.store.files import check_new_file


@takes_options()
def tasks_command(
    table: Annotated[Path, argument("A file of any kind that train reads, with ids.")],
    to: Annotated[str, flag(f"One of {', '.join(TOOLS)}.", "--to")],
    classes: Annotated[str, CLASSES],
    out: Annotated[Path, flag("New .json or .jsonl file, or folder.")],
    columns: ColumnOptions,
    batch: Annotated[Path | None, flag("Only the rows of this file, e.g. of select.")] = None,
    show: Annotated[list[str] | None, flag("A column to show; repeat for more.")] = None,
    image: Annotated[str | None, flag("A column with addresses of images to show.")] = None,
    show_suggestion: Annotated[
        bool, flag("Send the teacher's label along; such answers never calibrate.", "--show-suggestion")
    ] = False,
) -> None:
    """Write rows as tasks for Label Studio, Prodigy, Argilla or `datasets`.

    Each task holds the row's id and its shown columns; `understudy import --from TOOL` reads the answers. For
    Label Studio OUT is the .json to import, and beside it the .xml of the labelling configuration; for Prodigy the
    .jsonl of its choice interface; for Argilla a folder for `rg.Dataset.from_disk`; for `datasets` a folder for
    `load_dataset`. An existing file is not overwritten.

    The teacher's label stays hidden unless `--show-suggestion` is given: people tend to agree with a suggestion.

    Examples:

    `understudy tasks pool.parquet --batch batch.csv --to label-studio --classes neg,pos --show text --out tasks.json`

    `understudy import export.json --from label-studio --classes neg,pos --out answers.csv`
    """
    if to not in TOOLS:
        raise UnderstudyError(f"--to {to!r} is not known; use one of {', '.join(TOOLS)}")
    with loading():
        from understudy.io.exchange import find_tool
        from understudy.io.exchange.tasks import make_tasks
        from understudy.io.table import read_table

    tool = find_tool(to)
    if tool.suffixes:
        for path in (out, out.with_suffix(".xml")) if to == "label-studio" else (out,):
            check_new_file(path, "tasks are", (*tool.suffixes, ".xml") if path != out else tool.suffixes)
    rows = read_table(table, columns=columns.mapping)
    tasks = make_tasks(
        rows, classes=[name.strip() for name in classes.split(",")], show=show or (),
        images=[image] if image else (), batch=batch, suggest=show_suggestion,
    )  # fmt: skip
    written = tool.write_tasks(out, tasks)
    typer.echo(f"{len(tasks.items):,} rows to label: {', '.join(map(str, written))}")
