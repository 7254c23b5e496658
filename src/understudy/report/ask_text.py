"""What ``understudy ask`` prints: the estimated cost before, the outcome of the answers and the next commands after."""

import shlex
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from understudy.labels import answer_matching as kinds
from understudy.llm.answer_folder import Labelled
from understudy.llm.ask_files import GOLD, POOL, AskFiles
from understudy.llm.asking import BUDGET, INTERRUPTED, AskRun, estimate_cost

_CURES = {
    kinds.UNKNOWN: "describe the classes (--describe), or add an --alias for the model's word",
    kinds.AMBIGUOUS: "describe the classes so that only one fits (--describe)",
    kinds.EMPTY: "a reasoning model needs more --max-tokens",
    kinds.REFUSED: "make labelling plainly the task in the prompt (--prompt), or use another model",
    kinds.TRUNCATED: "raise --max-tokens",
    kinds.ERROR: "see the messages above; shorten texts that are too long",
    kinds.NO_LOGPROBS: "--form hard accepts these answers too",
}


def estimate_lines(run: AskRun, budget: float | None) -> Iterator[str]:
    spent = run.ledger().spent
    for each in estimate_cost(run):
        yield (
            f"{each.model}: {each.rows:,} of {len(run.ids):,} rows left, {each.requests:,} requests, about "
            f"{each.tokens_in:,} tokens in and {each.tokens_out:,} out (estimated from letters)"
        )
        if each.most_cost:
            yield f"  about {each.cost:.4g}, at most {each.most_cost:.4g} without retries"
    if spent:
        yield f"spent so far: {spent:.4g}"
    if budget is not None:
        yield f"budget: {budget:g}, of which {max(0.0, budget - spent):.4g} is left"
    yield "nothing was sent"


def batch_lines(under_way: int, written: Sequence[Path]) -> Iterator[str]:
    """After request files were written; ``under_way``: rows in earlier ones."""
    if under_way:
        yield f"{under_way:,} rows wait in request files that were written before"
    for path in written:
        yield f"requests: {path}"
    if written:
        yield "send each file to the batch service (endpoint /v1/chat/completions); then repeat the command with"
        yield "--batch-output OUTPUT.jsonl in the place of --batch. Delete a file that you do not send"
    elif not under_way:
        yield "every row has its answers"


def output_line(counts: Counter[str]) -> str:
    return "batch output: " + ", ".join(f"{number:,} {kind}" for kind, number in counts.items())


def answer_lines(files: AskFiles, found: Labelled, out: Path, gold: Path | None) -> Iterator[str]:
    for model, report in found.reports.items():
        if len(found.reports) > 1:
            yield f"{model}:"
        yield str(report)
    seen = {kind for report in found.reports.values() for kind in report.counts}
    for kind, cure in _CURES.items():
        if kind in seen:
            yield f"{kind}: {cure}; then --again"
    if found.lost:
        lost = ", ".join(f"{kind} {number:,}" for kind, number in found.lost.most_common())
        yield f"requests that were repeated: {lost}"
    cost = f", cost {found.cost:.4g}" if found.cost else ""
    yield f"{found.requests:,} requests in all, {found.tokens_in:,} tokens in, {found.tokens_out:,} out{cost}"
    if found.unanswered:
        why = {BUDGET: " (the budget would be exceeded)", INTERRUPTED: " (interrupted)"}.get(found.stopped or "", "")
        yield f"{found.unanswered:,} rows are not answered yet{why}; the same command continues with them"
    labelled = int(found.labels.labelled().sum())
    if labelled:
        yield f"{labelled:,} labels ({type(found.labels).__name__.lower()}): {out / POOL}"
        yield from _next_commands(files, found, out, gold)


def _next_commands(files: AskFiles, found: Labelled, out: Path, gold: Path | None) -> Iterator[str]:
    if gold is None:
        trusted = "GOLD"
        yield "Next: label a hundred rows yourself, drawn at random (id,label in a file GOLD), then"
    else:
        trusted = str(out / GOLD) if files.own else str(out / POOL) if files.gold is None else shlex.quote(str(gold))
        yield "Next:"
    more = f" --text {shlex.quote(files.text)}" if files.text else ""
    more += " --votes gold" if len(found.sources) > 1 else ""
    yield f"  understudy audit --gold {trusted} --pool {out / POOL}{more} --out audit.html"
    yield f"  understudy train --gold {trusted} --pool {out / POOL}{more} --out run"
