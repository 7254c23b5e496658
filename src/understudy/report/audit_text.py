"""An audit as text: its findings as sentences, the outlook of each method, and tables for a terminal.

The outlook says whether a method should beat ``vanilla``, training on the labels as they are: "likely", "possible",
"unlikely", or "not possible" because what it needs is missing. These are rules of thumb, each tied to a quantity that
the audit measured; the limits are judgement, not law (``docs/audit.md`` lists them), and a comparison on the data
itself is better evidence.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from understudy.auditing.audit import Audit
from understudy.auditing.sources import AuditedSources, VoteModel
from understudy.comparison.interval import Interval
from understudy.maths.proportions import Share, two_sided
from understudy.report.formatting import auc_ci, first_names, p_text, percent_ci, percent_range, shorten


def verdict(audit: Audit) -> list[str]:
    """The findings, the most important first."""
    pairs = audit.confusion.asymmetries
    sentences = [_noise(audit), _accuracy(audit)]
    for pair in [pair for pair in pairs[:3] if pair.significant]:
        there, back = _pair_name(audit, pair.truth, pair.predicted), _pair_name(audit, pair.predicted, pair.truth)
        sentences.append(
            f"Asymmetric confusion: {pair.more} gold rows {there} vs {pair.less} {back}, {percent_ci(pair.share)} of "
            f"the errors between the two ({p_text(pair.p_value)})."
        )
    if pairs and not any(pair.significant for pair in pairs):
        sentences.append("No pair of classes has significantly asymmetric confusion.")
    if audit.calibration is not None:
        sentences.append(_calibration(audit))
    if audit.confidence_auc is not None and audit.confidence_auc.known:
        separates = "separates" if audit.confidence_auc.low > 0.5 else "does not significantly separate"
        sentences.append(
            f"The teacher's confidence {separates} correct from wrong labels: ROC-AUC {auc_ci(audit.confidence_auc)}."
        )
    if audit.sources is not None:
        sentences.append(_sources(audit.sources))
    size = audit.size
    more = f"about {size.more:,} more gold rows would narrow it" if size.more else "gold is large enough"
    sentences.append(
        f"The 95% CI of the noise is ±{100 * size.half_width:.1f} points; {more} to ±{_points(size.target)}."
    )
    return sentences


def audit_warnings(audit: Audit) -> list[str]:
    """What makes the findings doubtful."""
    sentences = []
    if not audit.size.enough:
        sentences.append(
            f"{audit.gold_rows} gold rows measure the teacher over {len(audit.class_names)} classes; "
            f"{audit.size.wanted} or more are needed for a stable estimate."
        )
    missing = [each.name for each in audit.accuracy.per_class if not each.actual]
    if missing:
        sentences.append(f"Gold has no row of {first_names(missing)}: the teacher's accuracy on them is unknown.")
    shift = audit.shift
    if shift is not None and shift.alarming:
        sentences.append(
            f"Gold is not a random sample of the pool: the teacher predicts {audit.class_names[shift.most]} on "
            f"{shift.gold_share:.0%} of gold and {shift.pool_share:.0%} of the pool ({p_text(shift.p_value)}). The "
            "pool's noise is corrected for this; the accuracies on gold are not."
        )
    if audit.noise.uncovered > 0.01:
        sentences.append(
            f"{audit.noise.uncovered:.0%} of the pool is in classes with fewer than 5 gold rows predicted so; their "
            "noise is estimated together with other classes."
        )
    if not audit.same_vote_model:
        sentences.append(
            "The votes on gold and pool are weighted by different models; fit one and pass by=fit to both."
        )
    return sentences


def _pair_name(audit: Audit, truth: int, predicted: int) -> str:
    return f"{audit.class_names[truth]}→{audit.class_names[predicted]}"


def _points(share: float) -> str:
    return f"{100 * share:.0f}"


def _noise(audit: Audit) -> str:
    noise = audit.noise
    if audit.pool_rows is None:
        return f"Label noise on gold: {percent_ci(noise.gold)}, {audit.gold_rows:,} rows."
    rows = [round(audit.pool_rows * part) for part in (noise.pool.estimate, noise.pool.low, noise.pool.high)]
    return (
        f"Estimated label noise of the pool: {percent_ci(noise.pool)}, {rows[0]:,} of {audit.pool_rows:,} rows "
        f"({rows[1]:,}–{rows[2]:,}); on gold {noise.gold.estimate:.1%}."
    )


def _accuracy(audit: Audit) -> str:
    lowest = min((each for each in audit.accuracy.per_class if each.recall.known), key=lambda one: one.recall.estimate)
    return (
        f"Teacher accuracy on {audit.gold_rows:,} gold rows: {percent_ci(audit.accuracy.overall)}; lowest recall: "
        f"{lowest.name}, {percent_ci(lowest.recall)} of {lowest.actual:,}."
    )


def _calibration(audit: Audit) -> str:
    found = audit.calibration
    assert found is not None
    error = f"ECE {100 * found.error:.1f} points, {100 * found.expected:.1f} expected by chance"
    if not found.miscalibrated:
        return f"No significant miscalibration of the teacher's probabilities ({error})."
    how = "overconfident" if found.low > 0 else "underconfident" if found.high < 0 else "miscalibrated"
    gap = f"mean probability minus accuracy {100 * found.gap:+.1f} points"
    return f"The teacher is {how} ({error}, {p_text(found.p_value)}; {gap})."


def _sources(found: AuditedSources) -> str:
    harmful = [source.name for source in found.each if source.harms]
    without = f"; labels are significantly better without {first_names(harmful)}" if harmful else ""
    return (
        f"Accuracy of the votes on gold: {percent_ci(found.majority)} by majority, {percent_ci(found.accuracy)} "
        f"weighted by gold. Largest gain of {len(found.each)} sources: {found.each[0].name}{without}."
    )


# Less noise than this leaves little to gain: at most so many points.
CLEAN = 0.03
# From here on a student may learn more from gold alone than from these labels.
BAD = 0.3
# And from here on gold is no small part of the data.
LARGE_GOLD = 0.1
# A lower bound of the ROC-AUC from which confidence is worth using.
SEPARATES = 0.55


class Expectation(NamedTuple):
    method: str
    #: Better than vanilla ("baseline")? "likely", "possible", "unlikely" or "not possible".
    outlook: str
    reason: str


Outlook = tuple[str, str]


def expectations(audit: Audit) -> list[Expectation]:
    """The outlook of each method, by what was measured."""
    outlooks = {method: rule(audit) for method, rule in RULES.items()}
    for model in () if audit.sources is None else audit.sources.models:
        outlooks[f'us.Votes(by="{model.by}")'] = _against_majority(model)
    return [Expectation(method, *outlook) for method, outlook in outlooks.items()]


def _vanilla(audit: Audit) -> Outlook:
    noise = audit.noise.pool
    if noise.high <= CLEAN:
        return "baseline", f"at most {noise.high:.1%} label noise: corrections have little to gain"
    if noise.low > CLEAN:
        return "baseline", f"it also fits the wrong labels, {_range(noise)}"
    return "baseline", f"the 95% CI of the noise is wide: {_range(noise)}"


def _gold_only(audit: Audit) -> Outlook:
    noise, rows = audit.noise.pool, audit.gold_rows
    if audit.pool_rows is None:
        return "possible", "no pool was given"
    share = rows / max(audit.pool_rows, 1)
    if noise.low >= BAD:
        return "possible", f"label noise of at least {noise.low:.1%}: {rows:,} gold labels may teach more"
    if share >= LARGE_GOLD:
        return "possible", f"gold is {share:.0%} of the pool's size"
    return "unlikely", f"gold is {share:.1%} of the pool's size, and most pool labels are correct"


def _slam(audit: Audit) -> Outlook:
    if audit.noise.pool.high <= CLEAN:
        return "unlikely", f"at most {audit.noise.pool.high:.1%} label noise to correct"
    if not audit.size.enough:
        return "possible", f"its alpha is estimated on {audit.gold_rows} gold rows; {audit.size.wanted} are stable"
    if _separates(audit):
        return "likely", f"confidence separates correct from wrong labels (ROC-AUC {auc_ci(audit.confidence_auc)})"
    spread = _precision_spread(audit)
    if audit.confidence_auc is None and spread is not None and spread.low > 0:
        return "likely", f"alpha per class: the precision of classes differs by {_points(spread.estimate)} points"
    return "possible", "nearly one alpha for all rows: nothing measured separates correct from wrong labels"


def _weighted(audit: Audit) -> Outlook:
    if audit.confidence_auc is None:
        return "possible", "no confidence: weights come from the student's losses alone"
    if audit.noise.pool.high <= CLEAN:
        return "unlikely", "too little label noise to downweight"
    if not _separates(audit):
        return "unlikely", f"confidence does not separate correct from wrong labels ({auc_ci(audit.confidence_auc)})"
    calibrated = audit.calibration is not None and not audit.calibration.miscalibrated
    auc = f"confidence separates correct from wrong labels (ROC-AUC {auc_ci(audit.confidence_auc)})"
    return "likely", f"{auc}, {'and is calibrated' if calibrated else 'though it is not calibrated'}"


def _confident(audit: Audit) -> Outlook:
    if audit.confidence_auc is None:
        return "not possible", "these labels have no confidence"
    if _separates(audit) and audit.noise.pool.low > CLEAN:
        return "possible", "the dropped labels are noisier, but correct ones are dropped too"
    return "unlikely", "the dropped labels are hardly noisier than the kept ones"


def _forward(audit: Audit) -> Outlook:
    if audit.noise.pool.high <= CLEAN:
        return "unlikely", "too little label noise to correct"
    thin = sum(each.actual < 10 for each in audit.accuracy.per_class)
    if thin:
        return "unlikely", f"it needs the full confusion matrix, and gold has fewer than 10 rows of {thin} classes"
    significant = [pair for pair in audit.confusion.asymmetries if pair.significant]
    if significant:
        pair = _pair_name(audit, significant[0].truth, significant[0].predicted)
        return "likely", f"class-dependent noise ({pair}), which is what it corrects"
    return "possible", "no significant class-dependent noise for it to correct"


def _self_distillation(audit: Audit) -> Outlook:
    if not audit.size.enough:
        return "possible", f"it needs no estimates, and {audit.gold_rows} gold rows are few"
    if audit.noise.pool.low > CLEAN:
        return "possible", "it needs no gold: the student's own predictions replace doubtful labels"
    return "unlikely", "too little label noise to replace labels"


def _against_majority(model: VoteModel) -> Outlook:
    """McNemar's test on the gold rows that only one of the two has right."""
    p_value = two_sided(model.better, model.better + model.worse)
    counts = f"on gold only it is correct on {model.better} rows, only the majority on {model.worse}"
    if p_value < 0.05:
        return "likely" if model.better > model.worse else "unlikely", counts
    return "possible", f"{counts} ({p_text(p_value)})"


RULES: dict[str, Callable[[Audit], Outlook]] = {
    "vanilla": _vanilla,
    "gold only": _gold_only,
    "slam": _slam,
    "weighted": _weighted,
    "confident": _confident,
    "forward": _forward,
    "self_distillation": _self_distillation,
}


def _precision_spread(audit: Audit) -> Share | None:
    """Between the highest and the lowest precision of a class, where their intervals do not overlap."""
    known = [each.precision for each in audit.accuracy.per_class if each.precision.known]
    if len(known) < 2:
        return None
    best, worst = max(known, key=lambda share: share.low), min(known, key=lambda share: share.high)
    return Share(best.estimate - worst.estimate, best.low - worst.high, best.high - worst.low, best.rows)


def _separates(audit: Audit) -> bool:
    auc = audit.confidence_auc
    return auc is not None and auc.known and auc.low > SEPARATES


def _range(share: Share) -> str:
    return f"{100 * share.low:.1f}–{share.high:.1%}"


def gain_text(gain: Interval) -> str:
    """``+0.023 ± 0.010``, where the interval is known."""
    half = (gain.high - gain.low) / 2
    return f"{gain.mean:+.3f} ± {half:.3f}" if half < math.inf else f"{gain.mean:+.3f}"


# Longer lists are cut; the page shows more.
CLASSES, SUSPECTS, SOURCES = 20, 10, 20
_WIDTH = 100


def print_audit(audit: Audit, console: Console | None = None) -> None:
    """The findings, then a table each for classes, confusions, sources, suspects and methods; 100 columns wide."""
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
    columns: tuple[str, ...] = ("class", "predicted", "precision", "actual", "recall", "pool share")
    _print_table(out, "Teacher on gold, by class (95% CI)", _classes(audit), *columns)
    if audit.confusion.pairs:
        columns = ("truth→predicted", "gold rows", "rate (95% CI)", "pool rows", "95% CI")
        _print_table(out, "Most frequent confusions", _confusions(audit), *columns)
    if audit.accuracy.top_k[1:]:
        top = "  ".join(f"top-{k} {percent_range(share)}" for k, share in enumerate(audit.accuracy.top_k, start=1))
        out.print(f"Top-k accuracy (95% CI): {top}")
    if audit.sources is not None:
        columns = ("source", "votes", "accuracy", "coverage", "overlap", "conflict", "gain", "net correct")
        title = "Sources on gold (95% CI); gain: log-loss without the source minus with it"
        _print_table(out, title, _source_rows(audit.sources), *columns)
    if audit.suspects is not None and audit.suspects.top:
        title = f"Rows most likely mislabelled (ranking's ROC-AUC on gold: {auc_ci(audit.suspects.roc)})"
        _print_table(out, title, _suspects(audit), "row", "id", "label", "suggested", "P(wrong)", left=4)
    reasons = ((escape(each.method), each.outlook, escape(each.reason)) for each in audit.expectations)
    _print_table(out, "Expected of each method", reasons, "method", "beats vanilla?", "reason", left=3)


def _print_table(out: Console, title: str, rows: Iterable[Sequence[str]], *headings: str, left: int = 1) -> None:
    """A table whose first ``left`` columns are text; a last one called "reason" may break its lines."""
    table = Table(padding=(0, 1), box=None, header_style="dim")
    for number, heading in enumerate(headings):
        table.add_column(heading, justify="left" if number < left else "right", no_wrap=heading != "reason")
    for row in rows:
        table.add_row(*row)
    out.print(f"\n[bold]{title}[/]")
    out.print(table)


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
        identity = "" if row.id is None else _cell(str(row.id), 30)
        suggested = "" if row.suggestion is None else _cell(audit.class_names[row.suggestion])
        yield f"{row.row}", identity, _cell(audit.class_names[row.label]), suggested, f"{row.probability:.0%}"


def _cell(text: str, longest: int = 18) -> str:
    """Class names and ids are a user's: cut to what a column holds."""
    return escape(shorten(text, longest))
