"""An audit in a terminal: the verdict, then a table per question. Fits 100 columns."""

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from understudy.auditing.result import Audit
from understudy.auditing.words import auc, percent

# Longer lists are cut; the page shows more.
CLASSES, SUSPECTS = 20, 10
# Class names and ids are a user's: cut to what a column holds.
_LONGEST = 18
_WIDTH = 100


def print_audit(audit: Audit, console: Console | None = None) -> None:
    out = console or _wide_enough(Console())
    pool = "" if audit.pool_rows is None else f", {audit.pool_rows:,} pool rows"
    left_out = f" ({audit.unlabelled:,} more without a label)" if audit.unlabelled else ""
    out.print(
        f"[bold]Audit[/] {audit.form}, {len(audit.class_names)} classes, {audit.gold_rows:,} gold rows{pool}{left_out}"
    )
    for warning in audit.warnings:
        out.print(f"[yellow]! {escape(warning)}[/]")
    for sentence in audit.verdict:
        out.print(f"• {escape(sentence)}")
    _show(out, "Right, of the gold rows it calls so; found, of those that are so, with 95% intervals", _classes(audit))
    if audit.confusion.flows:
        _show(out, "The confusion that matters", _flows(audit))
    if audit.accuracy.top_k[1:]:
        shown = "  ".join(f"top {k}: {percent(share)}" for k, share in enumerate(audit.accuracy.top_k, start=1))
        out.print(f"Truth among the teacher's first classes, %: {shown}")
    if audit.suspects is not None and audit.suspects.top:
        roc = audit.suspects.roc
        worth = auc(roc) if roc.known else "unknown"
        _show(out, f"Rows most likely wrong (ROC-AUC of the ranking on gold: {worth})", _suspects(audit))
    _show(out, "What to expect of each method", _expectations(audit))


def _wide_enough(console: Console) -> Console:
    """A pipe counts as 80 columns, where intervals would be cut off; a narrow terminal breaks lines by itself."""
    return console if console.width >= _WIDTH else Console(width=_WIDTH)


def _show(out: Console, title: str, table: Table) -> None:
    out.print(f"\n[bold]{title}[/]")
    out.print(table)


def _table(*headings: str, left: int = 1) -> Table:
    table = Table(padding=(0, 1), box=None, header_style="dim")
    for number, heading in enumerate(headings):
        table.add_column(heading, justify="left" if number < left else "right", no_wrap=True)
    return table


def _classes(audit: Audit) -> Table:
    table = _table("class", "called so", "right", "are so", "found", "of the pool")
    for one in audit.accuracy.per_class[:CLASSES]:
        share = "" if one.pool_share is None else f"{one.pool_share:.1%}"
        table.add_row(
            _short(one.name),
            f"{one.gold_named:,}",
            percent(one.precision),
            f"{one.gold_true:,}",
            percent(one.recall),
            share,
        )
    if len(audit.accuracy.per_class) > CLASSES:
        table.add_row(f"… {len(audit.accuracy.per_class) - CLASSES} more", "", "", "", "", "")
    accuracy = audit.accuracy
    table.add_row("mean of classes", "", percent(accuracy.macro_precision), "", percent(accuracy.macro_recall), "")
    return table


def _flows(audit: Audit) -> Table:
    table = _table("truth→said", "on gold", "of rows called so", "pool rows", "95% interval")
    for flow in audit.confusion.flows:
        wrong = flow.pool_wrong
        table.add_row(
            f"{_short(audit.class_names[flow.truth])}→{_short(audit.class_names[flow.named])}",
            f"{flow.gold_rows:,}",
            percent(flow.share),
            *(("", "") if wrong is None else (f"{wrong[0]:,.0f}", f"{wrong[1]:,.0f} to {wrong[2]:,.0f}")),
        )
    return table


def _suspects(audit: Audit) -> Table:
    assert audit.suspects is not None
    table = _table("row", "id", "label", "rather", "chance wrong", left=4)
    for suspect in audit.suspects.top[:SUSPECTS]:
        table.add_row(
            f"{suspect.row}",
            "" if suspect.id is None else _short(str(suspect.id), 30),
            _short(audit.class_names[suspect.label]),
            "" if suspect.suggestion is None else _short(audit.class_names[suspect.suggestion]),
            f"{suspect.chance:.0%}",
        )
    return table


def _expectations(audit: Audit) -> Table:
    table = _table("method", "beats vanilla?", left=2)
    table.add_column("because", justify="left")
    for one in audit.expectations:
        table.add_row(escape(one.method), one.outlook, escape(one.reason))
    return table


def _short(text: str, longest: int = _LONGEST) -> str:
    return escape(text if len(text) <= longest else text[: longest - 1] + "…")
