"""An audit for a terminal: its findings, and tables.

The sentences, and the outlook of each method, are in ``audit.txt.jinja``.
"""

from collections.abc import Iterator, Sequence

from rich.console import Console
from rich.text import Text

from understudy.auditing.audit import Audit
from understudy.auditing.sources import AuditedSources
from understudy.report.templates import auc_ci, gain_text, percent_range, print_table, sentences, shorten, wide_console

# Longer lists are cut; the page shows more.
CLASSES, SUSPECTS, SOURCES = 20, 10, 20
# Letters of a class in a column.
NAME_WIDTH = 18


def print_audit(audit: Audit, console: Console | None = None) -> None:
    """The findings, then a table each for classes, confusions, sources, suspects and methods."""
    out = console or wide_console()
    pool = "" if audit.pool_rows is None else f", {audit.pool_rows:,} pool rows"
    left_out = f" ({audit.unlabelled:,} more without a label)" if audit.unlabelled else ""
    counted = f"{audit.gold_rows:,} gold rows{pool}{left_out}"
    out.print(f"[bold]Audit[/] {audit.form}, {len(audit.class_names)} classes, {counted}")
    for warning in audit.warnings:
        out.print(Text(f"! {warning}", "yellow"))
    for sentence in audit.verdict:
        out.print(Text(f"• {sentence}"))
    columns = ["class", "predicted", "precision", "actual", "recall", "pool share"]
    print_table(out, "Teacher on gold, by class (95% CI)", columns, _classes(audit))
    if audit.confusion.pairs:
        columns = ["truth→predicted", "gold rows", "rate (95% CI)", "pool rows", "95% CI"]
        title = "Most frequent confusions that gold shows: of few rows, rates look too high"
        print_table(out, title, columns, _confusions(audit))
    if audit.accuracy.top_k[1:]:
        top = "  ".join(f"top-{k} {percent_range(share)}" for k, share in enumerate(audit.accuracy.top_k, start=1))
        out.print(f"Top-k accuracy (95% CI): {top}")
    if audit.sources is not None:
        columns = ["source", "votes", "accuracy", "coverage", "overlap", "conflict", "gain", "net correct"]
        title = "Sources on gold (95% CI); gain: log-loss without the source minus with it"
        print_table(out, title, columns, _source_rows(audit.sources))
    if audit.suspects is not None and audit.suspects.top:
        title = f"Rows most likely mislabelled (ranking's ROC-AUC on gold: {auc_ci(audit.suspects.roc)})"
        rows = list(_suspects(audit))
        print_table(out, title, list(rows[0]), (list(row.values()) for row in rows), left=len(rows[0]) - 1)
        out.print(sentences("audit", "suspects", audit.suspects)[0])
    columns = ["method", "beats vanilla?", "reason"]
    print_table(out, "Expected of each method", columns, audit.expectations, left=3, wraps="reason")


def _classes(audit: Audit) -> Iterator[Sequence[str]]:
    accuracy = audit.accuracy
    for each in accuracy.per_class[:CLASSES]:
        share = "" if each.pool_share is None else f"{each.pool_share:.1%}"
        precision, recall = percent_range(each.precision), percent_range(each.recall)
        yield shorten(each.name, NAME_WIDTH), f"{each.predicted:,}", precision, f"{each.actual:,}", recall, share
    if len(accuracy.per_class) > CLASSES:
        yield [f"… {len(accuracy.per_class) - CLASSES} more"]
    yield "macro average", "", percent_range(accuracy.macro_precision), "", percent_range(accuracy.macro_recall)


def _confusions(audit: Audit) -> Iterator[Sequence[str]]:
    names = [shorten(name, NAME_WIDTH) for name in audit.class_names]
    for pair in audit.confusion.pairs:
        name = f"{names[pair.truth]}→{names[pair.predicted]}"
        wrong = pair.pool_wrong
        rows = ("",) if wrong is None else (f"{wrong.estimate:,.0f}", f"{wrong.low:,.0f}–{wrong.high:,.0f}")
        yield name, f"{pair.gold_rows:,}", percent_range(pair.rate), *rows


def _source_rows(found: AuditedSources) -> Iterator[Sequence[str]]:
    for source in found.each[:SOURCES]:
        shares = (f"{share:.0%}" for share in (source.coverage, source.overlap, source.conflict))
        votes, accuracy, net = f"{source.accuracy.rows:.0f}", percent_range(source.accuracy), f"{source.net_correct:+d}"
        yield shorten(source.name, NAME_WIDTH), votes, accuracy, *shares, gain_text(source.gain), net
    if len(found.each) > SOURCES:
        yield [f"… {len(found.each) - SOURCES} more"]


def _suspects(audit: Audit) -> Iterator[dict[str, str]]:
    """By column; of lines, ids and texts those that the file has."""
    assert audit.suspects is not None
    names = [shorten(name, NAME_WIDTH) for name in audit.class_names]
    for one in audit.suspects.top[:SUSPECTS]:
        yield {
            **({"row": f"{one.row}"} if one.line is None else {"line": f"{one.line}"}),
            **({} if one.id is None else {"id": shorten(str(one.id), 30)}),
            "label": names[one.label],
            "suggested": "" if one.suggestion is None else names[one.suggestion],
            **({} if one.text is None else {"text": shorten(" ".join(one.text.split()), 40)}),
            "P(wrong)": f"{one.probability:.0%}",
        }
