"""``understudy estimate``: what a pool is made of, with intervals that hold although its labels are imperfect."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from understudy.cli import shared
from understudy.cli.shared import flag, takes_options
from understudy.errors import UnderstudyError, shown
from understudy.io.data_options import DataOptions, read_list
from understudy.store.files import check_new_file, write_json

WHAT = "share, accuracy, precision, recall, f1, confusion"


@takes_options("encoder", "small", "image_size", "scale")
def estimate_command(
    gold: Annotated[Path, flag("Trusted labels: a random sample, which the teacher labelled too.")],
    pool: Annotated[Path, shared.POOL],
    data: DataOptions,
    what: Annotated[str, typer.Option(help=f"{WHAT}; separated by commas.")] = "share",
    by: Annotated[str | None, flag("A column of the files: also by group, and each group beside the others.")] = None,
    out: Annotated[Path | None, flag("New .json file.")] = None,
) -> None:
    """Estimate the shares of the classes in a pool, and the teacher's accuracy on it, with 95% intervals.

    Gold rows must be a random sample of the rows the pool is about. Counting the teacher's labels would be biased by
    its errors; gold alone is unbiased and wide. This takes both: the shares are measured on gold within the rows that
    the teacher labels alike, and weighted as the pool has them. A poor teacher makes the interval wider.

    Examples:

    `understudy estimate --gold gold.csv --pool tickets.csv --text message --what share,accuracy`

    `understudy estimate --gold gold.csv --pool tickets.csv --text message --by month --out shares.json`
    """
    if out is not None:
        check_new_file(out, "estimates are", (".json",))
    from understudy.auditing.pool_estimates import as_records, estimate
    from understudy.report.estimates_text import print_estimates

    # The features are not used here.
    examples = replace(data, encoder="none").read([str(gold)], pool=pool)
    if examples.gold is None or examples.pool is None:
        raise UnderstudyError(f"estimate needs gold rows and a pool; {gold} or {pool} has none")
    groups = None
    if by is not None:
        from understudy.io.read import column_by_id

        on_gold, on_pool = column_by_id(by, [pool, gold], [examples.gold, examples.pool], data.mapping)
        groups = on_gold, on_pool
    found = estimate(
        examples.gold, examples.pool, what=read_list(what) or (), by=groups, class_names=examples.class_names
    )
    print_estimates(found)
    if out is not None:
        write_json(out, as_records(found))
        typer.echo(shown(f"Estimates: {out}"))
