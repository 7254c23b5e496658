"""``understudy campaign``: rounds of select, label, train and report, until the budget is spent."""

from typing import Any

import typer

from understudy.active.loop_options import CampaignOptions
from understudy.cli.shared import loading, takes_options
from understudy.errors import UnderstudyError
from understudy.io.data_options import DataOptions


@takes_options("ema", "small", "checkpoint_every", "patience", "finetune", "finetune_lr")
def campaign_command(options: CampaignOptions, data: DataOptions, **training: Any) -> None:
    """Label rows in rounds, the most useful first, and see the accuracy gained per label.

    Round 0 has rows drawn at random; every further one those that the strategy picks with the last student. Labels come
    from `OUT/batch-003.csv` (fill in `label`; the command stops, and continues when it is given again), from
    `--answers`, or from the page of `understudy label` (`--label page`). After each round the student is trained on all
    labels and on gold; a line gives its accuracy with its interval, the gain of the round and the cost per point: on
    the test rows, else cross-validated on the rows drawn at random. OUT/report.html shows all rounds.

    With `--from-log`, the pool is the log of `understudy serve`: the rows that it deferred are labelled, beside gold,
    and each round tells which share of the test rows is left to the teacher for the same accuracy. `OUT/batch-001.csv`
    shows the rows; a better model may answer: `understudy ask --pool OUT/batch-001.csv`, then `--answers`.

    Killed at any moment, the same command continues: no label is requested twice. A larger `--budget` continues a
    finished campaign. `OUT/labelled.csv` serves `understudy train --gold +labelled.csv`.

    Examples:

    `understudy campaign --pool reviews.csv --text review --classes neg,pos --test test.csv --budget 500 --out camp`

    `understudy campaign --pool pool.parquet --answers truth.csv --budget 400 --strategy badge --price 0.2 --out camp`

    `understudy campaign --from-log --pool served --text text --gold gold.csv --test test.csv --budget 300 --out camp`
    """
    if options.label == "page" and options.answers is not None:
        raise UnderstudyError("--answers is a file, and with --label page people label; give one of them")
    with loading():
        from understudy.active.campaign import run_campaign

    run_campaign(options, data, training, echo=typer.echo)
