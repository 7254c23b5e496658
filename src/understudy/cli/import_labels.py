"""``understudy import``: an LLM's answers as the teacher's labels, or people's from another tool."""

from pathlib import Path
from typing import Annotated, Any

import typer

from understudy.cli.shared import CLASSES, argument, flag, loading
from understudy.io.exchange import FORMS as PEOPLES_FORMS
from understudy.io.exchange import TOOLS
from understudy.labels import ANSWER_FORMS
from understudy.llm.ask_options import read_aliases

PEOPLE = "People's answers"


def import_command(
    files: Annotated[list[Path], argument("Files of answers; folders with --from argilla, datasets.")],
    classes: Annotated[str, CLASSES],
    out: Annotated[Path, flag("New file: .parquet, .jsonl or .npz.")] = Path("labels.parquet"),
    pool: Annotated[Path | None, flag("The file the ids come from, to write with its labels.")] = None,
    alias: Annotated[list[str] | None, flag("Another word for a class; repeat for more.", metavar="WORD=CLASS")] = None,
    field: Annotated[str | None, flag("The entry of structured answers that names the class.")] = None,
    form: Annotated[str, flag(f"One of {', '.join(ANSWER_FORMS)}.")] = "auto",
    source: Annotated[str, flag(f"llm, or a labelling tool: {', '.join(TOOLS)}.", "--from", panel=PEOPLE)] = "llm",
    as_: Annotated[str, flag(f"People's answers as {', '.join(PEOPLES_FORMS)}.", "--as", panel=PEOPLE)] = "answers",
    question: Annotated[str | None, flag("The question about the class.", panel=PEOPLE)] = None,
    row: Annotated[str | None, flag("The entry with the row's id.", "--id", panel=PEOPLE)] = None,
) -> None:
    """Turn the answers of an LLM into labels, and account for every line; or people's answers in another tool.

    FILES are batch outputs in the OpenAI style (chat completions or responses, with or without top log-probabilities),
    or lines of `{"id": …, "answer": …}`; the `custom_id` of a request is the id of its row. Answers are matched to the
    classes as they are, without case and punctuation, in a sentence that names one class, and with small typing errors;
    ambiguous ones get no label. A table counts the outcomes.

    Without `--pool` OUT holds the labels by id. With it, OUT is the pool file with its labels: the input of
    `understudy train --pool`. Log-probabilities become top-k labels with a tail (`--form hard` leaves them out, except
    for a confidence; `--form probs` spreads the tail). An existing file is not overwritten.

    Examples:

    `understudy import answers.jsonl --classes neg,pos --pool reviews.parquet --out pool.parquet`

    `understudy import part1.jsonl part2.jsonl --classes spam,ham --alias "not spam=ham" --out labels.parquet`

    `--from label-studio`, `prodigy`, `argilla` or `datasets` reads people's answers there (`understudy tasks` writes
    such tasks). OUT is then a file for `train --gold +OUT`; `--as votes` keeps each person's labels as votes of a pool
    (with `--pool`, beside its rows). Answers given with a suggestion in view train and never calibrate.

    `understudy import export.json --from label-studio --classes neg,pos --out answers.csv`
    """
    names = [name.strip() for name in classes.split(",")]
    given: dict[str, Any] = {"pool": pool, "aliases": read_aliases(alias), "echo": typer.echo}
    with loading():
        from understudy.io.exchange.annotations import import_annotations, import_llm_answers

    if source == "llm":
        import_llm_answers(files, names, out, field=field, form=form, **given)
    else:
        import_annotations(files, source, names, out, form=as_, question=question, row=row, **given)
