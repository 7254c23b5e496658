"""``understudy budget``: which source should label which rows within a budget."""

from pathlib import Path
from typing import Annotated

import typer

from understudy.cli.shared import flag, loading, takes_options
from understudy.errors import UnderstudyError
from understudy.io.data_options import ColumnOptions, pool_file, read_classes
from understudy.store.option_fields import read_pairs


@takes_options()
def budget_command(
    price: Annotated[list[str], flag("A source and the price of a label, e.g. human=0.5; repeat.")],
    budget: Annotated[float, flag("In the unit of the prices.", min=0)],
    columns: ColumnOptions,
    gold: Annotated[Path | None, flag("Trusted labels: id and label.")] = None,
    pool: Annotated[Path | None, flag("The pool's rows: id, and the labels so far. Default: gold's.")] = None,
    trusted: Annotated[str | None, flag("The source treated as ground truth; it gives new gold.")] = None,
    known: Annotated[Path | None, flag("Class probabilities, of reconcile or predict. Default: of the labels.")] = None,
    out: Annotated[Path, flag("New folder: a file of rows for every source.")] = Path("plan"),
    classes: Annotated[str | None, flag("Names (neg,pos), or how many, where the files do not show all.")] = None,
    seed: Annotated[int, flag("Same seed, same rows of new gold.")] = 0,
) -> None:
    """Split a label budget between more gold, better labels for uncertain rows, and more labelled rows, by source.

    Labels so far are in columns `teacher_vote_NAME` of the pool file, empty where NAME gave none; a single
    `teacher_label` is the source `teacher`. Gold rows among them measure each source. Sources with a `--price` can
    label more; the others only count. A source without labels of gold rows gets a trial on gold rows first.

    OUT holds `NAME.csv` for every source with rows to label (`id`, `purpose`, `gain` in clean labels, `why`,
    `predicted`, `confidence`, an empty `label`; largest gain first), `gold.csv` for the new gold of the trusted
    source, and `plan.json` with all numbers and sentences. `understudy label` and `understudy ask` take such
    files; with the column `label` filled in, `understudy train --gold +gold.csv` does. Spend a part, add the labels,
    and plan again: labels improve the next plan.

    Examples:

    `understudy budget --gold gold.csv --pool pool.csv --price small=0.001 --price big=0.02 --price human=0.5
    --trusted human --budget 100 --out plan`

    `understudy budget --gold gold.csv --pool pool.csv --known labels.parquet --price human=0.5 --trusted human
    --budget 40 --out plan`
    """
    if out.exists():
        raise UnderstudyError(f"{out} already exists and is not overwritten; choose another name or remove it")
    wanted = "NAME=PRICE; write e.g. --price human=0.5"
    try:
        prices = {name: float(typed) for name, typed in read_pairs(price, "price", wanted, last=True).items()}
    except ValueError as error:
        raise UnderstudyError(f"--price: {error}; it is not like {wanted}") from error
    with loading():
        from understudy.active.label_plan import plan_labels
        from understudy.active.plan_files import read_sources, write_plan

    given = read_sources(gold, pool_file([gold], pool), known, list(prices), columns.mapping, read_classes(classes))
    every = {**prices, **{name: None for name in given.names if name not in prices}}
    plan = plan_labels(
        every, budget, classes=given.classes, answers=given.answers, known=given.known,
        gold_answers=given.gold_answers, gold_y=given.gold_y, trusted=trusted, seed=seed,
    )  # fmt: skip
    files = write_plan(out, plan, given)
    for sentence in plan.sentences:
        typer.echo(sentence)
    typer.echo(f"Plan: {out} ({', '.join(files)})")
