"""An audit in a terminal: the verdict, then a table per question. Fits 100 columns."""

from collections.abc import Iterable, Iterator, Sequence

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from understudy.auditing.result import Audit
from understudy.auditing.sources import AuditedSources
from understudy.auditing.suspects import Suspects
from understudy.auditing.words import added, auc, percent

# Longer lists are cut; the page shows more.
CLASSES, SUSPECTS, SOURCES = 20, 10, 20
# Class names and ids are a user's: cut to what a column holds.
_LONGEST = 18
_WIDTH = 100


def print_audit(audit: Audit, console: Console | None = None) -> None:
    # A pipe counts as 80 columns, where intervals would be cut off; a narrow terminal breaks lines by itself.
    out = console or Console(width=max(_WIDTH, Console().width))
    pool = "" if audit.pool_rows is None else f", {audit.pool_rows:,} pool rows"
    left_out = f" ({audit.unlabelled:,} more without a label)" if audit.unlabelled else ""
    out.print(
        f"[bold]Audit[/] {audit.form}, {len(audit.class_names)} classes, {audit.gold_rows:,} gold rows{pool}{left_out}"
    )
    for warning in audit.warnings:
        out.print(f"[yellow]! {escape(warning)}[/]")
    for sentence in audit.verdict:
        out.print(f"• {escape(sentence)}")
    _show(
        out, "Right, of the gold rows it calls so; found, of those that are so, with 95% intervals", _classes(audit),
        "class", "called so", "right", "are so", "found", "of the pool",
    )  # fmt: skip
    if audit.confusion.flows:
        columns = ("truth→said", "on gold", "of rows called so", "pool rows", "95% interval")
        _show(out, "The confusion that matters", _flows(audit), *columns)
    if audit.accuracy.top_k[1:]:
        shown = "  ".join(f"top {k}: {percent(share)}" for k, share in enumerate(audit.accuracy.top_k, start=1))
        out.print(f"Truth among the teacher's first classes, %: {shown}")
    if audit.sources is not None:
        title = "Each source; right where it votes, with 95% intervals; adds: log-loss on gold without it minus with it"
        _show(
            out, title, _sources(audit.sources), "source", "votes", "right", "covers", "overlaps", "conflicts", "adds",
            "decides",
        )  # fmt: skip
    suspects = audit.suspects
    if suspects is not None and suspects.top:
        worth = auc(suspects.roc) if suspects.roc.known else "unknown"
        title = f"Rows most likely wrong (ROC-AUC of the ranking on gold: {worth})"
        _show(out, title, _suspects(audit, suspects), "row", "id", "label", "rather", "chance wrong", left=4)
    reasons = ((escape(one.method), one.outlook, escape(one.reason)) for one in audit.expectations)
    _show(out, "What to expect of each method", reasons, "method", "beats vanilla?", "because", left=3)


def _show(out: Console, title: str, rows: Iterable[Sequence[str]], *headings: str, left: int = 1) -> None:
    """A table whose first ``left`` columns are text; a last one called "because" may break its lines."""
    table = Table(padding=(0, 1), box=None, header_style="dim")
    for number, heading in enumerate(headings):
        table.add_column(heading, justify="left" if number < left else "right", no_wrap=heading != "because")
    for row in rows:
        table.add_row(*row)
    out.print(f"\n[bold]{title}[/]")
    out.print(table)


def _classes(audit: Audit) -> Iterator[Sequence[str]]:
    accuracy = audit.accuracy
    for one in accuracy.per_class[:CLASSES]:
        share = "" if one.pool_share is None else f"{one.pool_share:.1%}"
        named, true = f"{one.gold_named:,}", f"{one.gold_true:,}"
        yield _short(one.name), named, percent(one.precision), true, percent(one.recall), share
    if len(accuracy.per_class) > CLASSES:
        yield [f"… {len(accuracy.per_class) - CLASSES} more"]
    yield "mean of classes", "", percent(accuracy.macro_precision), "", percent(accuracy.macro_recall)


def _flows(audit: Audit) -> Iterator[Sequence[str]]:
    for flow in audit.confusion.flows:
        name = f"{_short(audit.class_names[flow.truth])}→{_short(audit.class_names[flow.named])}"
        about = [] if flow.pool_wrong is None else [f"{rows:,.0f}" for rows in flow.pool_wrong]
        yield name, f"{flow.gold_rows:,}", percent(flow.share), *about[:1], " to ".join(about[1:])


def _sources(found: AuditedSources) -> Iterator[Sequence[str]]:
    for one in found.each[:SOURCES]:
        company = (f"{share:.0%}" for share in (one.coverage, one.overlap, one.conflict))
        votes = f"{one.accuracy.rows:.0f}" if one.accuracy.known else "0"
        yield _short(one.name), votes, percent(one.accuracy), *company, added(one.adds), f"{one.rights:+d}"
    if len(found.each) > SOURCES:
        yield [f"… {len(found.each) - SOURCES} more"]


def _suspects(audit: Audit, suspects: Suspects) -> Iterator[Sequence[str]]:
    for suspect in suspects.top[:SUSPECTS]:
        identity = "" if suspect.id is None else _short(str(suspect.id), 30)
        rather = "" if suspect.suggestion is None else _short(audit.class_names[suspect.suggestion])
        yield f"{suspect.row}", identity, _short(audit.class_names[suspect.label]), rather, f"{suspect.chance:.0%}"


def _short(text: str, longest: int = _LONGEST) -> str:
    return escape(text if len(text) <= longest else text[: longest - 1] + "…")
