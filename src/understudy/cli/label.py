"""``understudy label``: a page where people label rows."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from understudy.cli.shared import argument, flag, loading, takes_options
from understudy.errors import UnderstudyError
from understudy.io.data_options import ColumnOptions, read_classes, read_list

if TYPE_CHECKING:
    from understudy.web.cards import Cards

SHOWN, PEOPLE, SERVED = "What is shown", "Several people", "The server"


@takes_options()
def label_command(
    rows: Annotated[Path, argument("The rows to label: a batch of select, or any file train reads.")],
    columns: ColumnOptions,
    pool: Annotated[Path | None, flag("The file to show them from, where ROWS has ids alone.")] = None,
    classes: Annotated[str | None, flag("Their names (neg,pos), how many, or a file with one a line.")] = None,
    run: Annotated[Path | None, flag("A finished training with the same classes.")] = None,
    out: Annotated[Path | None, flag("File of the answers, at the end. Default: ROWS-answers.csv.")] = None,
    book: Annotated[Path | None, flag("The file that stores every answer. Default: ROWS.book.")] = None,
    export: Annotated[Path | None, flag("Write the answers so far to this file, and serve nothing.")] = None,
    random: Annotated[bool, flag("ROWS are a random sample: their answers may calibrate.", "--random")] = False,
    text: Annotated[str | None, flag("The column of texts.", panel=SHOWN)] = None,
    image: Annotated[str | None, flag("The column of images.", panel=SHOWN)] = None,
    show: Annotated[str | None, flag("Columns for a table (age,job).", panel=SHOWN)] = None,
    highlight: Annotated[list[str] | None, flag("A word to highlight in texts; repeat for more.", panel=SHOWN)] = None,
    guideline: Annotated[Path | None, flag("A Markdown file to read beside.", panel=SHOWN)] = None,
    show_suggestion: Annotated[
        bool,
        flag("Show the student's or teacher's label; such answers never calibrate.", "--show-suggestion", panel=SHOWN),
    ] = False,
    annotator: Annotated[list[str] | None, flag("A person, with a link; repeat. Default: you.", panel=PEOPLE)] = None,
    overlap: Annotated[float | None, flag("Share of the rows for several people.", panel=PEOPLE, min=0, max=1)] = None,
    people: Annotated[int | None, flag("How many label such a row. Default: 2.", panel=PEOPLE, min=2)] = None,
    host: Annotated[str, flag("Another address serves other machines too; unencrypted.", panel=SERVED)] = "127.0.0.1",
    port: Annotated[int | None, flag("Default: 8420, or a free one.", panel=SERVED, min=0, max=65535)] = None,
) -> None:
    """Label rows by hand, on a page in the browser: keys 1 to 9, skip, undo, on a phone too.

    ROWS is the output of `understudy select` (with `--pool`, the file of its ids), or any file with an `id`: a text, an
    image or a table of its columns is shown, and no label or prediction. Every answer is in the book (`ROWS.book`)
    before the next row; stop and start as you like. Ctrl-C ends it and writes `ROWS-answers.csv`, which
    `train --gold +FILE` takes. With several `--annotator`, each has a link, rows go to one person at a time except for
    the `--overlap`, and each person's labels are in `ROWS-votes.parquet` as well: a pool with votes.

    Rows that select chose train and never calibrate. Give `--random` for a random sample, whose answers may do both;
    suggestions are never shown for those. The page is for this machine alone unless `--host` names another address.

    Examples:

    `understudy label batch.csv --pool pool.parquet --run runs/first`

    `understudy label reviews.csv --classes neg,pos --random --guideline guideline.md`

    `understudy label reviews.csv --classes neg,pos --annotator ann --annotator bob --overlap 0.2`
    """
    with loading():
        from understudy.web.answer_book import AnswerBook
        from understudy.web.cards import Cards
        from understudy.web.serve import LabelServer, add_rows, check_export, serve_rows, write_answers

    kept = book or rows.with_name(f"{rows.stem}.book")
    if export is not None:
        with AnswerBook(kept) as answers:
            typer.echo(write_answers(answers, export, rows=rows))
        return
    cards = Cards.of(
        rows, pool, columns=columns.mapping, text=text, image=image, fields=read_list(show), words=highlight or ()
    )
    names = None if classes is None and run is None and kept.exists() else _classes(classes, run, cards)
    with AnswerBook(kept, names, overlap=overlap, people=people, pin=cards.pin) as answers:
        add_rows(answers, cards, random=random)
        out = out or rows.with_name(f"{rows.stem}-answers.csv")
        check_export(answers, out)
        server = LabelServer(
            answers, cards, annotators=annotator, host=host, port=port, title=cards.rows.path.name,
            guideline=guideline, show_suggestion=show_suggestion,
        )  # fmt: skip
        serve_rows(server, out, echo=typer.echo)


def _classes(typed: str | None, run: Path | None, cards: "Cards") -> list[str]:
    """The classes as typed, of the run, or in the files."""
    if typed is not None:
        if Path(typed).is_file():
            lines = Path(typed).read_text(encoding="utf-8-sig").splitlines()
            return [line.strip() for line in lines if line.strip()]
        given = read_classes(typed)
        return [str(number) for number in range(given)] if isinstance(given, int) else list(given or ())
    if run is not None:
        from understudy.training.run import Run

        names = Run.load(run).config.get("class_names")
        if not names:
            raise UnderstudyError(f"the classes of {run} have no names; give their number: --classes 10")
        return [str(name) for name in names]
    from understudy.io.label_columns import find_labelling

    how = find_labelling({}, cards.shown, None, "majority")
    if how.names is None:
        raise UnderstudyError(f"{cards.shown.path} does not name the classes; write --classes neg,pos, or --run FOLDER")
    return list(how.names.names)
