"""``understudy example``: files to follow the tutorials with."""

from pathlib import Path
from typing import Annotated

import typer

from understudy.cli.shared import flag


def example_command(out: Annotated[Path, flag("New folder for the files.")] = Path("tickets")) -> None:
    """Write the files of the tutorials: support messages, an LLM's answers, a crowd's, and some labels that are right.

    - `mine.csv`: 1,500 messages, what an LLM called each (`llm`), and the 120 labels that are right (`checked`)

    The same in several files, as it often comes:

    - `messages.csv`: `id` and `message`

    - `answers.jsonl`: the LLM's answers in its own words, right about three times in four

    - `crowd.csv`: the labels of six annotators, each of half of the messages

    - `gold.csv`: the labels that are right, `id` and `label`; `test.csv`: 500 more messages, to test on

    Everything is made up, the LLM and the crowd too. The same files each time, and nothing is downloaded.

    Example: `understudy example --out tickets`
    """
    from understudy.samples import write_tickets

    for path in write_tickets(out):
        typer.echo(path)
    columns = "--text message --label checked --teacher llm"
    typer.echo(f"\nnext: understudy train --gold {out / 'mine.csv'} {columns} --out first")
