"""``understudy watch``: an alarm when a teacher changes behind its name."""

from pathlib import Path
from typing import Annotated

import typer

from understudy.cli.shared import argument, flag, loading, takes_options
from understudy.errors import UnderstudyError, shown
from understudy.io.data_options import ColumnOptions
from understudy.store.files import check_new_file


@takes_options()
def watch_command(
    folder: Annotated[Path, argument("Of the watch; the same one continues.")],
    columns: ColumnOptions,
    gold: Annotated[Path | None, flag("The anchors: id, label, content. Needed to begin and to draw.")] = None,
    answers: Annotated[list[Path] | None, flag("Answers (id, teacher_label or label, perhaps time); repeat.")] = None,
    draw: Annotated[int | None, flag("Write so many anchors to ask next, at random, to --out.", min=1)] = None,
    out: Annotated[Path | None, flag("New file of the drawn anchors, without their labels.")] = None,
    looks: Annotated[int | None, flag("Looks that share a year's chance of a false alarm. Default: 52.", min=1)] = None,
) -> None:
    """Watch a teacher: ask it the same anchors again every week, and get an alarm when it answers otherwise.

    An LLM may change behind its name. Anchors are rows whose true class you know. Each anchor's answers are compared
    with its own earlier ones, so that neither a reference's uncertainty nor answers that vary by chance give an alarm:
    in at most 5% of whole years is there one without a change, however often the teacher is wrong. An alarm says that
    the accuracy fell, or that a class is named more or less often than before.

    A call with `--answers` is a look. The first is the reference, unless the gold file holds the teacher's labels. A
    file with `time` has a look for every calendar week that is over, and is read on where it was left. Answers to rows
    that are no anchors are watched for their class shares alone. An answer without a class counts as wrong.

    Exit code 0: no alarm at the last look; 1: alarm; 2: a mistake in the arguments or files.

    Examples:

    `understudy watch llm --gold anchors.csv --draw 50 --out ask.csv`

    `understudy ask --pool ask.csv --classes neg,pos --model gpt-5-mini --out week12`

    `understudy watch llm --answers week12/pool.parquet`
    """
    if (draw is None) != (out is None) or (draw is not None and gold is None):
        raise UnderstudyError("--draw, --out and --gold go together: how many anchors, where to, and where they are")
    if out is not None:
        check_new_file(out, "anchors are", (".csv", ".parquet", ".jsonl"))
    with loading():
        from understudy.auditing.watch_files import WatchFolder, read_anchors
        from understudy.report.watch_text import print_looks
        from understudy.store.files import locked

    truth, reference = (None, []) if gold is None else read_anchors(gold, columns.mapping)
    with locked(folder, lend=True):
        kept = WatchFolder(folder, truth, looks_a_year=looks, reference=reference)
        added = sum(len(kept.read(path, columns.mapping)) for path in answers or ())
        if draw is not None and gold is not None and out is not None:
            kept.draw(draw, gold, out, columns.mapping)
            typer.echo(shown(f"{draw} anchors to ask: {out}"))
    print_looks(kept.watch, added if answers else None)
    if kept.watch.looks and kept.watch.looks[-1].alarm:
        raise typer.Exit(1)
