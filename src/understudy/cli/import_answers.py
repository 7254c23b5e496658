"""``understudy import``: an LLM's answers as the teacher's labels, or people's from another tool."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from understudy.errors import UnderstudyError, shown
from understudy.io.exchange import FORMS as PEOPLES_FORMS
from understudy.io.exchange import TOOLS
from understudy.labels.llm import FORMS
from understudy.llm.ask_options import read_aliases
from understudy.store.files import check_new_file

if TYPE_CHECKING:
    from understudy.io.table import Stored
    from understudy.labels.llm.answer_labels import Answers

PEOPLE = "People's answers"


def import_command(
    files: Annotated[
        list[Path],
        typer.Argument(help="Files of answers; of --from argilla and datasets, folders.", show_default=False),
    ],
    classes: Annotated[str, typer.Option(help="The classes, e.g. neg,pos.", show_default=False)],
    out: Annotated[Path, typer.Option(help="New file: .parquet, .jsonl or .npz.")] = Path("labels.parquet"),
    pool: Annotated[
        Path | None, typer.Option(help="The file the ids come from, to write with its labels.", show_default=False)
    ] = None,
    alias: Annotated[
        list[str] | None,
        typer.Option(help="Another word for a class; repeat for more.", metavar="WORD=CLASS", show_default=False),
    ] = None,
    field: Annotated[
        str | None, typer.Option(help="The entry of structured answers that names the class.", show_default=False)
    ] = None,
    form: Annotated[str, typer.Option(help=f"One of {', '.join(FORMS)}.")] = "auto",
    source: Annotated[
        str, typer.Option("--from", help=f"llm, or where people answered: {', '.join(TOOLS)}.", rich_help_panel=PEOPLE)
    ] = "llm",
    as_: Annotated[
        str,
        typer.Option("--as", help=f"What people's answers become: {', '.join(PEOPLES_FORMS)}.", rich_help_panel=PEOPLE),
    ] = "answers",
    question: Annotated[
        str | None, typer.Option(help="Which question asks for the class.", show_default=False, rich_help_panel=PEOPLE)
    ] = None,
    row: Annotated[
        str | None,
        typer.Option("--id", help="The entry with the row's id.", show_default=False, rich_help_panel=PEOPLE),
    ] = None,
) -> None:
    """Turn the answers of an LLM into labels, and account for every line; or people's answers in another tool.

    FILES are batch outputs in the OpenAI style (chat completions or responses, with or without top log-probabilities),
    or lines of `{"id": …, "answer": …}`; the `custom_id` of a request is the id of its row. Answers are matched to the
    classes as they are, without case and punctuation, in a sentence that names one class, and with small typing errors;
    what stays unclear gets no label. A table says what became of the lines.

    Without `--pool` OUT holds the labels by id. With it, OUT is the pool file with the labels beside: what
    `understudy train --pool` takes. Log-probabilities become top-k labels with a tail (`--form hard` leaves them out,
    except for a confidence; `--form probs` spreads the tail). An existing file is not overwritten.

    Examples:

    `understudy import answers.jsonl --classes neg,pos --pool reviews.parquet --out pool.parquet`

    `understudy import part1.jsonl part2.jsonl --classes spam,ham --alias "not spam=ham" --out labels.parquet`

    `--from label-studio`, `prodigy`, `argilla` or `datasets` reads what people answered there (`understudy tasks`
    writes such tasks). OUT is then the answers that `train --gold +OUT` takes; `--as votes` keeps what each person
    said, as the labels of a pool (with `--pool`, beside its rows). Answers given with a suggestion in view train and
    never estimate.

    `understudy import export.json --from label-studio --classes neg,pos --out answers.csv`
    """
    if source != "llm":
        from understudy.cli.import_people import import_people

        names = [name.strip() for name in classes.split(",")]
        import_people(
            files, source, names, out, form=as_, pool=pool, aliases=read_aliases(alias), question=question, row=row
        )
        return
    check_new_file(out, "labels are", (".parquet", ".jsonl", ".npz"))
    from understudy.io.write import write_table
    from understudy.labels.forms import named_columns
    from understudy.labels.llm.answer_labels import read_answers

    names = [name.strip() for name in classes.split(",")]
    answers = read_answers(files, names, aliases=read_aliases(alias), field=field, form=form)
    typer.echo(str(answers.report))
    if not len(answers):
        raise UnderstudyError("no answer could be used; check --classes against the examples above")
    labels = {"id": answers.ids} | named_columns(answers.labels, answers.classes)
    write_table(out, labels if pool is None else _joined(answers, pool))
    _tell(answers, files, out)
    form = type(answers.labels).__name__
    typer.echo(shown(f"{len(answers):,} labels ({form.lower()}): {out}"))


def _tell(answers: "Answers", files: list[Path], out: Path) -> None:
    from understudy.store.copies import known_as
    from understudy.store.remote import as_given
    from understudy.store.trail import Trail, beside, of_file

    said = answers.labels.top1().tolist()
    labels = {
        name: None if label < 0 else answers.classes[label]
        for name, label in zip(answers.ids.tolist(), said, strict=True)
    }
    pinned = {as_given(path): of_file(path) for path in files}
    Trail(beside(out)).add("answered", ", ".join(map(known_as, files)), labels, files=pinned)


def _joined(answers: "Answers", path: Path) -> "dict[str, Stored]":
    """The pool's columns as they are, and the labels of its rows."""
    from understudy.io.table import Table, read_table
    from understudy.labels.forms import named_columns

    pool = read_table(path)
    labelled = [name for name in pool.columns if name.startswith("teacher_")]
    if labelled:
        raise UnderstudyError(f"{pool.where(labelled[0])} holds labels already; remove it, or import without --pool")
    ids = pool.ids
    if ids is None:
        raise UnderstudyError(f"{path} has no column 'id' to join the answers by; add it")
    Table(Path("the answers"), {"id": answers.ids}).check_spelling(pool)
    labels = answers.aligned(ids)
    matched = int(labels.labelled().sum())
    if not matched:
        raise UnderstudyError(f"no id of the answers is among those of {path} ({answers.ids[0]!s} …); check both")
    typer.echo(f"{matched:,} of {len(pool):,} rows of {path} have a label")
    if matched < len(answers):
        typer.echo(f"note: {len(answers) - matched:,} answers are for ids that {path} does not have")
    return {name: pool.stored(name) for name in pool.names} | named_columns(labels, answers.classes)
