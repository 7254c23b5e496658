"""``understudy budget``: who should label which rows for so much money."""

from pathlib import Path
from typing import Annotated

import typer

from understudy.cli import shared
from understudy.errors import UnderstudyError


def budget_command(
    pool: Annotated[Path, typer.Option(help="The pool's rows: id, and what was answered so far.", show_default=False)],
    price: Annotated[
        list[str],
        typer.Option(help="A source and the price of its answer, e.g. human=0.5; repeat.", show_default=False),
    ],
    budget: Annotated[float, typer.Option(min=0, help="What may be spent, in the prices' unit.", show_default=False)],
    gold: Annotated[Path | None, typer.Option(help="Trusted labels: id and label.", show_default=False)] = None,
    trusted: Annotated[
        str | None, typer.Option(help="The source whose word is gold. Without: no new gold.", show_default=False)
    ] = None,
    known: Annotated[
        Path | None,
        typer.Option(
            help="What is known of the rows, as reconcile or predict wrote it. Without: what the answers say.",
            show_default=False,
        ),
    ] = None,
    out: Annotated[Path, typer.Option(help="New folder: a file of rows for every source.")] = Path("plan"),
    column: shared.Column = None,
    classes: Annotated[
        str | None,
        typer.Option(
            help="Names in order (neg,pos), or how many, where the files do not show all.", show_default=False
        ),
    ] = None,
    seed: Annotated[int, typer.Option(help="Same seed, same rows of new gold.")] = 0,
) -> None:
    """Split a budget: more gold, better labels for doubtful rows, or more labelled rows; and by whom.

    Answers so far stand in columns `teacher_vote_NAME` of the pool file, empty where NAME was not asked; a single
    `teacher_label` is the source `teacher`. On rows that are gold they tell how good each source is. Sources with a
    `--price` can be asked; the others only count. A source that gold tells nothing of gets a trial on gold rows first.

    OUT holds `NAME.csv` for every source with rows to answer (`id`, `purpose`, `gain` in clean labels, `why`,
    `predicted`, `confidence`, an empty `label`; what adds most first), `gold.csv` for the new gold of the trusted
    source, and `plan.json` with everything in numbers and words. `understudy label` and `understudy ask` take such
    files; with the column `label` filled in, `understudy train --gold +gold.csv` does. Spend a part, add the answers,
    and ask again: answers tell what the next ones are worth.

    Examples:

    `understudy budget --gold gold.csv --pool pool.csv --price small=0.001 --price big=0.02 --price human=0.5
    --trusted human --budget 100 --out plan`

    `understudy budget --gold gold.csv --pool pool.csv --known labels.parquet --price human=0.5 --trusted human
    --budget 40 --out plan`
    """
    if out.exists():
        raise UnderstudyError(f"{out} already exists and is not overwritten; choose another name or remove it")
    prices = _prices(price)
    with shared.loading():
        from understudy.active.label_plan import plan_labels
        from understudy.cli.plan_files import read_sources, write_plan

    given = read_sources(gold, pool, known, list(prices), shared.read_mapping(column), shared.read_classes(classes))
    every = {**prices, **{name: None for name in given.names if name not in prices}}
    plan = plan_labels(
        every, budget, classes=given.classes, answers=given.answers, known=given.known,
        gold_answers=given.gold_answers, gold_y=given.gold_y, trusted=trusted, seed=seed,
    )  # fmt: skip
    files = write_plan(out, plan, given)
    for sentence in plan.words:
        typer.echo(sentence)
    typer.echo(f"Plan: {out} ({', '.join(files)})")


def _prices(texts: list[str]) -> dict[str, float]:
    """``["human=0.5"]`` as ``{"human": 0.5}``."""
    prices: dict[str, float] = {}
    for text in texts:
        name, equals, number = (part.strip() for part in text.rpartition("="))
        try:
            amount = float(number)
        except ValueError:
            amount = -1.0
        if not (name and equals and amount >= 0):
            raise UnderstudyError(f"--price {text!r} is not like NAME=PRICE; write e.g. --price human=0.5")
        if name in prices:
            raise UnderstudyError(f"--price names {name!r} twice; name it once")
        prices[name] = amount
    return prices
