"""An audit for a terminal: its findings, and tables.

The sentences, and the outlook of each method, are in ``audit.txt.jinja``.
"""

from collections.abc import Iterator, Sequence

from rich.console import Console
from rich.markup import escape

from understudy.auditing.audit import Audit
from understudy.auditing.sources import AuditedSources
from understudy.report.templates import auc_ci, gain_text, percent_range, print_table, sentences, shorten, wide_console

# Longer lists are cut; the page shows more.
CLASSES, SUSPECTS, SOURCES = 20, 10, 20


def print_audit(audit: Audit, console: Console | None = None) -> None:
    """The findings, then a table each for classes, confusions, sources, suspects and methods."""
    out = console or wide_console()
    pool = "" if audit.pool_rows is None else f", {audit.pool_rows:,} pool rows"
    left_out = f" ({audit.unlabelled:,} more without a label)" if audit.unlabelled else ""
    out.print(
        f"[bold]Audit[/] {audit.form}, {len(audit.class_names)} classes, {audit.gold_rows:,} gold rows{pool}{left_out}"
    )
    for warning in audit.warnings:
        out.print(f"[yellow]! {escape(warning)}[/]")
    for sentence in audit.verdict:
        out.print(f"• {escape(sentence)}")
    columns = ["class", "predicted", "precision", "actual", "recall", "pool share"]
    print_table(out, "[bold]Teacher on gold, by class (95% CI)[/]", _classes(audit), columns)
    if audit.confusion.pairs:
        columns = ["truth→predicted", "gold rows", "rate (95% CI)", "pool rows", "95% CI"]
        title = "[bold]Most frequent confusions that gold shows: of few rows, rates look too high[/]"
        print_table(out, title, _confusions(audit), columns)
    if audit.accuracy.top_k[1:]:
        top = "  ".join(f"top-{k} {percent_range(share)}" for k, share in enumerate(audit.accuracy.top_k, start=1))
        out.print(f"Top-k accuracy (95% CI): {top}")
    if audit.sources is not None:
        columns = ["source", "votes", "accuracy", "coverage", "overlap", "conflict", "gain", "net correct"]
        title = "[bold]Sources on gold (95% CI); gain: log-loss without the source minus with it[/]"
        print_table(out, title, _source_rows(audit.sources), columns)
    if audit.suspects is not None and audit.suspects.top:
        title = f"[bold]Rows most likely mislabelled (ranking's ROC-AUC on gold: {auc_ci(audit.suspects.roc)})[/]"
        one = audit.suspects.top[0]
        place = "row" if one.line is None else "line"
        given = {place: True, "id": one.id is not None, "label": True, "suggested": True, "text": one.text is not None}
        columns = [name for name, there in given.items() if there]
        print_table(out, title, _suspects(audit), [*columns, "P(wrong)"], left=len(columns))
        out.print(sentences("audit", "suspects", audit.suspects)[0])
    reasons = ((escape(each.method), each.outlook, escape(each.reason)) for each in audit.expectations)
    columns = ["method", "beats vanilla?", "reason"]
    print_table(out, "[bold]Expected of each method[/]", reasons, columns, left=3, wraps="reason")


def _classes(audit: Audit) -> Iterator[Sequence[str]]:
    accuracy = audit.accuracy
    for each in accuracy.per_class[:CLASSES]:
        share = "" if each.pool_share is None else f"{each.pool_share:.1%}"
        precision, recall = percent_range(each.precision), percent_range(each.recall)
        yield _cell(each.name), f"{each.predicted:,}", precision, f"{each.actual:,}", recall, share
    if len(accuracy.per_class) > CLASSES:
        yield [f"… {len(accuracy.per_class) - CLASSES} more"]
    yield "macro average", "", percent_range(accuracy.macro_precision), "", percent_range(accuracy.macro_recall)


def _confusions(audit: Audit) -> Iterator[Sequence[str]]:
    for pair in audit.confusion.pairs:
        name = f"{_cell(audit.class_names[pair.truth])}→{_cell(audit.class_names[pair.predicted])}"
        wrong = pair.pool_wrong
        rows = ("",) if wrong is None else (f"{wrong.estimate:,.0f}", f"{wrong.low:,.0f}–{wrong.high:,.0f}")
        yield name, f"{pair.gold_rows:,}", percent_range(pair.rate), *rows


def _source_rows(found: AuditedSources) -> Iterator[Sequence[str]]:
    for source in found.each[:SOURCES]:
        shares = (f"{share:.0%}" for share in (source.coverage, source.overlap, source.conflict))
        votes, accuracy = f"{source.accuracy.rows:.0f}", percent_range(source.accuracy)
        yield _cell(source.name), votes, accuracy, *shares, gain_text(source.gain), f"{source.net_correct:+d}"
    if len(found.each) > SOURCES:
        yield [f"… {len(found.each) - SOURCES} more"]


def _suspects(audit: Audit) -> Iterator[Sequence[str]]:
    assert audit.suspects is not None
    for row in audit.suspects.top[:SUSPECTS]:
        suggested = "" if row.suggestion is None else _cell(audit.class_names[row.suggestion])
        yield (
            f"{row.row if row.line is None else row.line}",
            *([] if row.id is None else [_cell(str(row.id), 30)]),
            _cell(audit.class_names[row.label]),
            suggested,
            *([] if row.text is None else [_cell(" ".join(row.text.split()), 40)]),
            f"{row.probability:.0%}",
        )


def _cell(text: str, longest: int = 18) -> str:
    """Class names and ids are a user's: cut to what a column holds."""
    return escape(shorten(text, longest))
