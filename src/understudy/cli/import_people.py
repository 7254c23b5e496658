"""``understudy import --from``: people's answers in another labelling tool, as gold or as votes."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from understudy.errors import UnderstudyError, warn
from understudy.io.exchange import FORMS, TOOLS
from understudy.store.files import check_new_file

if TYPE_CHECKING:
    from understudy.io.exchange.annotations import Annotations
    from understudy.io.table import Stored


def import_people(
    files: Sequence[Path],
    tool: str,
    classes: Sequence[str],
    out: Path,
    *,
    form: str,
    pool: Path | None,
    aliases: Mapping[str, str],
    question: str | None,
    row: str | None,
) -> None:
    for given, known, flag in ((tool, TOOLS, "--from"), (form, FORMS, "--as")):
        if given not in known:
            raise UnderstudyError(f"{flag} {given!r} is not known; use one of {', '.join(known)}")
    check_new_file(out, "answers are", (".csv", ".parquet"))
    from understudy.io.exchange import find_tool
    from understudy.io.exchange.annotations import ExportLayout, collect_annotations
    from understudy.labels.class_names import ClassNames

    names = ClassNames(tuple(classes)).names
    where = ", ".join(map(str, files))
    reading = ExportLayout(names, question, row)
    opinions = [one for file in files for one in find_tool(tool).read_annotations(file, reading)]
    gathered = collect_annotations(opinions, names, aliases=aliases, where=where)
    typer.echo(gathered.summary())
    if form == "votes":
        _write_votes(gathered, out, pool)
    else:
        _write_answers(gathered, out, pool, form, where)
    _tell(gathered, tool, files, out)


def _write_answers(gathered: "Annotations", out: Path, pool: Path | None, form: str, where: str) -> None:
    from understudy.active.oracle import write_columns

    if form == "agreed" and (left_out := len(gathered.disputed())):
        warn(f"{left_out} rows that people disagree on are left out; what is left is easier than the pool")
    columns = gathered.answers(form, where)
    if pool is not None:
        _rows_in(columns["id"], out, pool)
    write_columns(out, columns)
    typer.echo(f"{len(columns['id']):,} answers: {out}")


def _write_votes(gathered: "Annotations", out: Path, pool: Path | None) -> None:
    from understudy.io.readers.arrow_columns import object_column
    from understudy.io.table import read_table
    from understudy.io.write import write_table

    columns = {name: object_column(cells) for name, cells in gathered.votes().items()}
    names = columns.pop("id")
    if pool is None:
        write_table(out, {"id": names} | columns)
    else:
        table = read_table(pool)
        if labelled := [name for name in table.columns if name.startswith("teacher_")]:
            raise UnderstudyError(f"{table.where(labelled[0])} holds labels already; remove it, or leave --pool out")
        rows = _rows_in(names.tolist(), out, pool)
        stored: dict[str, Stored] = {name: table.stored(name) for name in table.names}
        for name, cells in columns.items():
            whole = object_column([""] * len(table))
            whole[rows] = cells
            stored[name] = whole
        write_table(out, stored)
    typer.echo(f"votes of {len(columns)} people on {len(names):,} rows: {out}")


def _rows_in(names: Sequence[str], out: Path, pool: Path) -> list[int]:
    """Where these rows are in the pool file; all must be there."""
    import numpy as np

    from understudy.io.table import Table, read_table

    table = read_table(pool)
    if table.ids is None:
        raise UnderstudyError(f"{pool} has no column 'id' to find the answers' rows by; add it")
    answers = Table(out, {"id": np.array(names, dtype=object)})
    answers.check_spelling(table)
    index = answers.rows_in(table)
    if (index < 0).any():
        wrong = names[int((index < 0).argmax())]
        raise UnderstudyError(f"{int((index < 0).sum())} answers are for ids that {pool} does not have ({wrong!r} …)")
    return list(index.tolist())


def _tell(gathered: "Annotations", tool: str, files: Sequence[Path], out: Path) -> None:
    """One entry per person in the trail beside the file."""
    from understudy.store.trail import Trail, beside, of_file

    trail, pinned = Trail(beside(out)), {str(path): of_file(path) for path in files}
    for who in gathered.annotators:
        said = {name: by[who] for name, by in gathered.by_row.items() if who in by}
        trail.add("answered", f"{who} in {tool}", said, files=pinned)
