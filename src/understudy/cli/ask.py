"""``understudy ask``: labels for a pool from an LLM."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from understudy.cli.shared import CLASSES, flag, loading, takes_options
from understudy.errors import UnderstudyError
from understudy.io.data_options import ColumnOptions, pool_file
from understudy.llm.ask_options import COST, PROMPT, AskOptions

BATCHES = "Batches"


@takes_options()
def ask_command(
    options: AskOptions,
    columns: ColumnOptions,
    classes: Annotated[str, CLASSES],
    pool: Annotated[Path | None, flag("The rows, of any kind that train reads, with ids. Default: gold's.")] = None,
    out: Annotated[Path, flag("Of the answers and labels; the same one continues.")] = Path("llm_labels"),
    text: Annotated[str | None, flag("The column of texts. Default: the only one.")] = None,
    gold: Annotated[Path | None, flag("Trusted labels for --examples; rows new to the pool are labelled.")] = None,
    examples: Annotated[int, flag("Gold rows to show; they train, and never calibrate.", panel=PROMPT, min=0)] = 0,
    seed: Annotated[int, flag("Which gold rows are shown.", panel=PROMPT)] = 0,
    dry_run: Annotated[
        bool, flag("Rows, tokens, cost, the first prompt; send nothing.", "--dry-run", panel=COST)
    ] = False,
    batch: Annotated[bool, flag("Write files for a batch service; send nothing.", "--batch", panel=BATCHES)] = False,
    batch_output: Annotated[list[Path] | None, flag("The output of a batch service; repeat.", panel=BATCHES)] = None,
) -> None:
    """Label every row of a pool by an LLM, at any server that speaks OpenAI's protocol.

    OUT gets `pool.parquet`, the pool with its labels: the input of `audit`, `reconcile` and `train`. Every answer is
    on the disk before it is used; stopped or killed at any moment, the same command continues and pays for nothing
    twice. Optional fields that the server does not accept (log-probabilities, structured answers, several choices) are
    left out. An answer outside the classes gives no label; a table counts such answers and how to avoid them.

    Several `--model` give one vote each; `--base-url`, `--key-env` and the prices are then one for all, or one for each
    in the same order. The key is read from the environment and written nowhere. Gold rows shown as `--examples` are
    not labelled and are marked in OUT (`teacher_saw`): they train, and never calibrate.

    Examples:

    `understudy ask --pool reviews.csv --classes neg,pos --model llama3 --base-url http://localhost:11434/v1 --dry-run`

    `understudy ask --pool reviews.csv --classes neg,pos --model gpt-5-mini --gold gold.csv --examples 4
    --price-in 0.25 --price-out 2 --budget 5 --out llm_labels`

    `understudy train --gold gold.csv --pool llm_labels/pool.parquet --out run`
    """
    names = [name.strip() for name in classes.split(",")]
    if batch and (batch_output or dry_run or options.again):
        raise UnderstudyError("--batch writes request files and does nothing else; leave the other options for later")
    with loading():
        from understudy.llm.ask_files import AskFiles, read_output, rows_under_way, write_batches
        from understudy.llm.asking import check_stopped, estimate_cost, first_messages
        from understudy.llm.request import make_plan
        from understudy.report.templates import sentences
        from understudy.store.files import locked

    def say(part: str, *values: Any) -> None:
        typer.echo("\n".join(sentences("ask", part, *values)))

    rows = pool_file([gold], pool)
    files = AskFiles.read(rows, gold, names, text=text, columns=columns.mapping, as_rows=options.prompt is not None)
    shown = files.examples(examples, seed)
    pairs = [(files.rows[place], files.truth[place]) for place in shown]
    options = replace(options, examples=pairs)
    plan = make_plan(names, options)
    if dry_run:
        run = files.run(plan, out, shown)
        say("estimate", estimate_cost(run), len(run.ids), run.ledger().spent, options.budget, first_messages(run))
        return
    with locked(out, lend=True):
        run = files.run(plan, out, shown)
        run.folder.begin(plan)
        if options.again:
            run.forget_unusable()
        if batch:
            say("batch", sum(map(len, rows_under_way(run))), write_batches(run))
            return
        try:
            if batch_output:
                say("batch_output", read_output(run, batch_output))
            else:
                run.run(without=rows_under_way(run))
        finally:
            found = run.labelled()
            files.write(out, found, shown)
    say("answers", files, found, out, gold)
    check_stopped(found.stopped)
