"""``understudy campaign``: rounds of select, label, train and report, until the budget is spent."""

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from understudy.acquisition.strategies import NAMES
from understudy.cli import shared
from understudy.cli.shared import takes_options
from understudy.errors import UnderstudyError
from understudy.io.data_options import DataOptions
from understudy.methods import NAMES as METHOD_NAMES
from understudy.training.options import AUTO


@takes_options("ema", "checkpoint_every", "patience", "finetune", "finetune_lr")
def campaign_command(
    pool: Annotated[Path, typer.Option(help="Rows that may be labelled.", show_default=False)],
    out: Annotated[
        Path, typer.Option(help="The campaign's folder; the same command goes on there.", show_default=False)
    ],
    budget: Annotated[int, typer.Option(min=1, help="How many rows may be asked in all.", show_default=False)],
    data: DataOptions,
    gold: Annotated[list[str] | None, shared.GOLD] = None,
    test: Annotated[Path | None, shared.TEST] = None,
    start: Annotated[int, typer.Option(min=0, help="Rows of the first round, drawn at random.")] = 50,
    batch: Annotated[int, typer.Option(min=1, help="Rows of every further round, picked by the strategy.")] = 50,
    strategy: Annotated[str, typer.Option(help=f"One of {', '.join(NAMES)}.")] = "margin",
    label: Annotated[
        Literal["file", "page"], typer.Option(help="Who answers: a file per round, or the label page.")
    ] = "file",
    answers: Annotated[
        Path | None,
        typer.Option(
            help="A file of id and label that holds answers, or will: rows found there are not waited for.",
            show_default=False,
        ),
    ] = None,
    price: Annotated[float, typer.Option(min=0, help="Of one label, to tell what a point of accuracy costs.")] = 1.0,
    method: Annotated[
        str | None,
        typer.Option(
            help=f"Train on the pool's own imperfect labels too, by one of {', '.join(METHOD_NAMES)}. Without: on "
            "answers and gold alone.",
            show_default=False,
        ),
    ] = None,
    option: Annotated[
        list[str] | None, typer.Option(help="A setting of the method; repeat for more.", show_default=False)
    ] = None,
    stop_after: Annotated[
        int | None, typer.Option(min=1, help="Stop after so many rounds that change little.", show_default=False)
    ] = None,
    stop_change: Annotated[float, typer.Option(min=0, help="Share of the predictions that is little.")] = 0.01,
    student: shared.Student = AUTO,
    quiet: shared.Quiet = False,
    **recipe: Any,
) -> None:
    """Have rows labelled in rounds, the ones that help most first, and see what each round bought.

    Round 0 asks rows drawn at random; every further one those the strategy picks with the last student. Answers come
    from `OUT/batch-003.csv` (fill in `label`; the command stops and goes on when it is given again), from `--answers`,
    or from the page of `understudy label` (`--label page`). After each round the student is trained on all answers and
    on gold, and its accuracy told with its interval, what the round's labels brought, and what a point cost: on the
    test rows, else by students that have not seen them on the rows drawn at random. OUT/report.html shows all rounds.

    Killed at any moment, the same command goes on: no row is asked twice. A larger `--budget` continues a finished one.
    `OUT/labelled.csv` serves `understudy train --gold +labelled.csv`.

    Examples:

    `understudy campaign --pool reviews.csv --text review --classes neg,pos --test test.csv --budget 500 --out camp`

    `understudy campaign --pool pool.parquet --answers truth.csv --budget 400 --strategy badge --price 0.2 --out camp`
    """
    if label == "page" and answers is not None:
        raise UnderstudyError("--answers is a file and --label page asks people; give one of them")
    with shared.loading():
        from understudy.cli.campaign_rounds import Campaign, run_campaign

    asked = Campaign(
        pool=pool, out=out, gold=gold or [], test=test, start=start, batch=batch, budget=budget, strategy=strategy,
        on_page=label == "page", answers=answers, price=price, method=method, options=option or [],
        stop_after=stop_after, stop_change=stop_change, student=student, quiet=quiet,
    )  # fmt: skip
    run_campaign(asked, data, recipe)
