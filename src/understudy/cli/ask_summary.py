"""What ``understudy ask`` says: before, what it would take; after, what became of every answer and how to go on."""

import shlex
from collections.abc import Sequence
from pathlib import Path

import typer

from understudy.cli.asked import GOLD, POOL, AskedFiles
from understudy.llm.answered import CURES, Labelled
from understudy.llm.asking import BUDGET, INTERRUPTED, Asking
from understudy.llm.batch import pending, read_output, write_batches
from understudy.llm.estimate import estimate


def tell_estimate(asking: Asking, budget: float | None) -> None:
    spent = asking.ledger().spent
    for each in estimate(asking):
        typer.echo(
            f"{each.model}: {each.rows:,} of {len(asking.ids):,} rows to ask, {each.requests:,} requests, about "
            f"{each.tokens_in:,} tokens in and {each.tokens_out:,} out (estimated from letters)"
        )
        if each.most_cost:
            typer.echo(f"  about {each.cost:.4g}, at most {each.most_cost:.4g} without repetitions")
    if spent:
        typer.echo(f"spent so far: {spent:.4g}")
    if budget is not None:
        typer.echo(f"budget: {budget:g}, of which {max(0.0, budget - spent):.4g} is left")
    typer.echo("nothing was sent")


def tell_batches(asking: Asking) -> None:
    before = sum(map(len, pending(asking)))
    written = write_batches(asking)
    if before:
        typer.echo(f"{before:,} rows wait in request files that were written before")
    for path in written:
        typer.echo(f"requests: {path}")
    if written:
        typer.echo("send each file to the batch service (endpoint /v1/chat/completions); then repeat the command with")
        typer.echo("--batch-output OUTPUT.jsonl in the place of --batch. A file that you do not send: delete it")
    elif not before:
        typer.echo("nothing is left to ask")


def take_output(asking: Asking, files: Sequence[Path]) -> None:
    counts = read_output(asking, files)
    typer.echo("batch output: " + ", ".join(f"{number:,} {kind}" for kind, number in counts.items()))


def tell(files: AskedFiles, found: Labelled, out: Path, gold: Path | None) -> None:
    for model, report in found.reports.items():
        if len(found.reports) > 1:
            typer.echo(f"{model}:")
        typer.echo(str(report))
    kinds = {kind for report in found.reports.values() for kind in report.counts}
    for kind, cure in CURES.items():
        if kind in kinds:
            typer.echo(f"{kind}: {cure}; then --again")
    if found.lost:
        lost = ", ".join(f"{kind} {number:,}" for kind, number in found.lost.most_common())
        typer.echo(f"requests that were repeated: {lost}")
    cost = f", cost {found.cost:.4g}" if found.cost else ""
    typer.echo(f"{found.requests:,} requests in all, {found.tokens_in:,} tokens in, {found.tokens_out:,} out{cost}")
    if found.unanswered:
        why = {None: "", BUDGET: " (the budget would be passed)", INTERRUPTED: " (interrupted)"}.get(found.stopped, "")
        typer.echo(f"{found.unanswered:,} rows are not answered yet{why}; the same command goes on with them")
    labelled = int(found.labels.labelled().sum())
    if labelled:
        _tell_next(files, found, out, gold, labelled)


def _tell_next(files: AskedFiles, found: Labelled, out: Path, gold: Path | None, labelled: int) -> None:
    typer.echo(f"{labelled:,} labels ({type(found.labels).__name__.lower()}): {out / POOL}")
    if gold is None:
        trusted = "GOLD"
        typer.echo("Next: label a hundred rows yourself, drawn at random (id,label in a file GOLD), then")
    else:
        trusted = str(out / GOLD) if files.own else str(out / POOL) if files.gold is None else shlex.quote(str(gold))
        typer.echo("Next:")
    more = f" --text {shlex.quote(files.text)}" if files.text else ""
    more += " --votes gold" if len(found.sources) > 1 else ""
    typer.echo(f"  understudy audit --gold {trusted} --pool {out / POOL}{more} --out audit.html")
    typer.echo(f"  understudy train --gold {trusted} --pool {out / POOL}{more} --out run")
