"""``understudy estimate``: what a pool is made of, with intervals that hold although its labels are imperfect."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from understudy.cli.shared import GOLD, POOL, flag, loading, takes_options
from understudy.errors import UnderstudyError, shown, warn
from understudy.io.data_options import DataOptions, is_batch, pool_file, read_list
from understudy.store.console import collected_warnings
from understudy.store.files import check_new_file, write_json

if TYPE_CHECKING:
    from understudy.io.read import Examples

WHAT = "share, accuracy, precision, recall, f1, confusion"
PROXIES = ("teacher", "reconciled")


@takes_options("image_size", "scale")
def estimate_command(
    gold: Annotated[list[str], GOLD],
    data: DataOptions,
    pool: Annotated[Path | None, POOL] = None,
    what: Annotated[str, flag(f"{WHAT}; separated by commas.")] = "share",
    by: Annotated[str | None, flag("Also by a column, or day:, week:, month: or year: and a column of dates.")] = None,
    labels: Annotated[str | None, flag("Of the labels in this column, instead of the teacher's.")] = None,
    run: Annotated[Path | None, flag("Of the predictions of this run, on rows that did not train it.")] = None,
    proxy: Annotated[str, flag("What tells rows apart: teacher, or reconciled (trains; narrower).")] = "teacher",
    width: Annotated[float | None, flag("Count the gold rows for intervals so many points wide, end to end.")] = None,
    out: Annotated[Path | None, flag("New .html page or .json file.")] = None,
) -> None:
    """Estimate the shares of the classes in a pool, and how good its labels are, with 95% intervals.

    Gold rows must be a random sample of the rows the pool is about, or drawn with a known `probability`. Counting the
    teacher's labels would be biased by its errors; gold alone is unbiased and wide. This takes both: the shares are
    measured on gold within the rows that the teacher labels alike, and weighted as the pool has them. A poor teacher
    makes the interval wider. *Worth* says how many times as many gold rows alone would give one as narrow.

    Examples:

    `understudy estimate --gold gold.csv --pool tickets.csv --text message --what share,accuracy`

    `understudy estimate --gold gold.csv --pool tickets.csv --text message --by week:created_at --out shares.html`

    `understudy estimate --gold gold.csv --pool tickets.csv --what f1,confusion --labels other_llm --width 4`
    """
    if out is not None:
        check_new_file(out, "estimates are", (".html", ".json"))
    if proxy not in PROXIES:
        raise UnderstudyError(f"--proxy {proxy} is neither {' nor '.join(PROXIES)}; choose one")
    if labels is not None and run is not None:
        raise UnderstudyError("--labels and --run both name labels to measure; leave one of them out")
    if width is not None and not 0 < width < 100:
        raise UnderstudyError(f"--width {width:g} is not between 0 and 100 points")
    with loading():
        from understudy.auditing.pool_estimates import as_records, estimate
        from understudy.io.gold_pool import is_one_file
        from understudy.io.read import column_by_id
        from understudy.report.estimates_text import print_estimates

    with collected_warnings():
        # The features are used by reconciled labels alone.
        reader = data if proxy == "reconciled" else replace(data, encoder="none")
        examples = reader.read(gold, needs_pool=True, pool=pool)
        rows = Path(pool_file(gold, pool))
        files = [rows, *(Path(name) for name in gold if not (is_batch(name) or is_one_file(name, rows)))]
        measured: Any = None
        if run is not None:
            examples, measured = _predictions(run, files, examples)
        elif labels is not None:
            measured = _class_numbers(column_by_id(labels, files, examples.both, data.mapping), repr(labels), examples)
        found = estimate(
            *examples.both, what=read_list(what) or (), labels=measured, proxy=proxy,
            by=None if by is None else _groups(by, files, examples, data), class_names=examples.class_names,
            probability=_probabilities(rows, examples, data),
        )  # fmt: skip
    wanted = None if width is None else width / 100
    print_estimates(found, wanted)
    if out is None:
        return
    if out.suffix.lower() == ".json":
        write_json(out, as_records(found, wanted))
    else:
        from understudy.report.estimates_page import write_estimates_report

        settings = {"Gold file": ", ".join(gold), "Pool file": rows, "Labels": run or labels or "the teacher's"}
        settings |= {"Strata": f"by {proxy} labels"}
        write_estimates_report(out, found, (len(examples.both[0]), len(examples.both[1])), wanted, settings=settings)
    typer.echo(shown(f"Estimates: {out}"))


def _groups(by: str, files: list[Path], examples: "Examples", data: DataOptions) -> tuple[Any, Any]:
    from understudy.features.raw_columns import split_window, time_windows
    from understudy.io.read import column_by_id

    window, column = split_window(by)
    values = column_by_id(column, files, examples.both, data.mapping)
    on_gold, on_pool = (time_windows(each, window, column) for each in values) if window else values
    return on_gold, on_pool


def _probabilities(pool: Path, examples: "Examples", data: DataOptions) -> tuple[Any, Any] | None:
    """With which gold and pool rows were drawn, where all of them are known: the strata's sizes are then too."""
    from understudy.io.label_columns import DRAWN, drawn_with
    from understudy.io.read import column_by_id
    from understudy.io.table import read_table

    (gold, rows), table = examples.both, read_table(pool, columns=data.mapping)
    if DRAWN not in table.names or rows.ids is None or bool(gold.probability.isnan().any()):
        return None
    if len(gold.batch.unique()) > 1:
        return None  # the pool's probabilities are of one draw
    on_pool = drawn_with(
        column_by_id(table.theirs.get(DRAWN, DRAWN), [pool], [rows], data.mapping)[0].tolist(), table.where(DRAWN)
    )
    return None if bool(on_pool.isnan().any()) else (gold.probability, on_pool)


def _class_numbers(texts: list[Any], where: str, examples: "Examples") -> tuple[Any, Any]:
    """−1 where there is no label."""
    from understudy.labels.class_names import ClassNames

    names = ClassNames(examples.class_names or tuple(map(str, range(examples.classes))), ordered=True)
    on_gold, on_pool = (names.numbers(each.astype(object), f"column {where}", missing=True) for each in texts)
    return on_gold, on_pool


def _predictions(run: Path, files: list[Path], examples: "Examples") -> "tuple[Examples, tuple[Any, Any]]":
    """The run's predictions of gold and pool rows, and the rows without those that trained it."""
    import torch

    from understudy.io.read import values_by_id
    from understudy.parallel.run_on_file import predict_by_id

    gold, pool = examples.both
    wanted = [one for each in (gold, pool) if each.ids is not None for one in each.ids.tolist()]
    values, trained = predict_by_id(run, files, wanted)
    kept: list[Any] = []
    for each, what in ((gold, "gold"), (pool, "pool")):
        ids = [] if each.ids is None else each.ids.tolist()
        rows = torch.tensor([row for row, one in enumerate(ids) if one not in trained], dtype=torch.long)
        if ids and not len(rows):
            raise UnderstudyError(f"every {what} row trained {run}: it cannot be measured on them; give other rows")
        if len(rows) < len(ids):
            warn(f"{len(ids) - len(rows):,} of {len(ids):,} {what} rows trained {run} and are left out")
        kept.append(each.take(rows) if ids else each)
    examples = replace(examples, gold=kept[0], pool=kept[1])
    return examples, _class_numbers(values_by_id(values, f"a prediction of {run}", kept), "of predictions", examples)
