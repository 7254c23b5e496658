"""``understudy audit``: how good the labels of a pool are, before any training."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from understudy.cli.shared import POOL, flag, loading, takes_options
from understudy.errors import UnderstudyError, shown
from understudy.io.data_options import FEATURES, DataOptions, pool_file
from understudy.store.files import check_new_file, write_json


@takes_options("small", "image_size", "scale")
def audit_command(
    gold: Annotated[Path, flag("Trusted labels, of rows the teacher labelled too.")],
    data: DataOptions,
    pool: Annotated[Path | None, POOL] = None,
    out: Annotated[Path | None, flag("New .html page, with all scores beside it as .csv; or .json.")] = None,
    rows_wrong: Annotated[int, flag("How many suspect rows to list; 0: none.", min=0)] = 20,
    target: Annotated[float, flag("Count the gold rows for a noise interval of ± so many points.")] = 2.0,
    seed: Annotated[int, flag("Same seed, same result.")] = 0,
    encoder: Annotated[
        str, flag("For suspects: an encoder's name or folder, or auto; none: TF-IDF.", panel=FEATURES)
    ] = "none",
) -> None:
    """Say how good the labels of a pool are, how sure that is, and what to expect of each method.

    Everything is measured on gold rows that the teacher labelled without having seen their truth: a gold file of `id`
    and `label` is enough where the pool file has these rows too. Printed are the estimated share of wrong labels in the
    pool, the teacher's accuracy by class, its largest confusions and whether they lean to one side, what its confidence
    is worth, the rows most likely wrong, and how much more gold would narrow the estimates; all with 95% intervals.
    Files are those of `understudy train`.

    Examples:

    `understudy audit --gold gold.parquet --pool pool.parquet --out audit.html`

    `understudy audit --gold gold.csv --pool reviews.csv --text review --teacher llm --rows-wrong 50`
    """
    if out is not None:
        check_new_file(out, "an audit is", (".html", ".json"))
        scores = out.with_name(f"{out.stem}_scores.csv")
        if out.suffix.lower() == ".html":
            check_new_file(scores, "scores are", (".csv",))
    if not 0 < target < 100:
        raise UnderstudyError(f"--target {target:g} is not between 0 and 100 points")
    with loading():
        from understudy.auditing.audit import audit
        from understudy.report.audit_text import print_audit

        if out is not None and out.suffix.lower() == ".html":
            from understudy.report.audit_page import write_audit_report, write_scores

    examples = replace(data, encoder=encoder).read([str(gold)], pool=pool)
    if examples.gold is None:
        raise UnderstudyError(f"{gold} holds no gold rows; give rows with a trusted label")
    result = audit(
        examples.gold, examples.pool, class_names=examples.class_names, rows_wrong=rows_wrong, target=target / 100,
        seed=seed,
    )  # fmt: skip
    if result.suspects is not None:
        texts = None if examples.texts is None else examples.texts["pool"].content
        result = replace(result, suspects=result.suspects.located(examples.line, texts, numbered=examples.numbered))
    print_audit(result)
    if out is None:
        return
    if out.suffix.lower() == ".json":
        write_json(out, result.to_dict())
    else:
        settings = {"Gold file": gold} | ({} if examples.pool is None else {"Pool file": pool_file([gold], pool)})
        write_audit_report(out, result, settings=settings, pool=examples.pool, file=settings.get("Pool file"))
        if result.suspects is not None and examples.pool is not None:
            write_scores(scores, result, examples.pool, examples.line)
            typer.echo(shown(f"Scores of all pool rows: {scores}"))
    typer.echo(shown(f"Audit: {out}"))
