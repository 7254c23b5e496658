"""An audit's findings as sentences, the most important first; and what makes them doubtful.

And what to expect of each method: rules of thumb, each tied to a quantity the audit measured.
The limits are judgement, not law; ``docs/audit.md`` lists them. ``outlook`` says whether the method should
beat ``vanilla``, training on the labels as they are: "likely", "possible", "unlikely", or "not possible" because what
it needs is missing. A comparison on the data itself beats every line of this.
"""

import math
from collections.abc import Callable

import torch

from understudy.auditing.measures import Calibration, Lean
from understudy.auditing.record import Record
from understudy.auditing.result import Audit, Expectation
from understudy.auditing.sources import AuditedSources
from understudy.comparison.interval import Interval
from understudy.labels.votes import Votes
from understudy.maths.proportions import Share, two_sided


def verdict_of(audit: Audit) -> list[str]:
    sentences = [_noise(audit), _accuracy(audit)]
    sentences += [_lean(audit, lean) for lean in audit.confusion.leans[:3] if lean.sure]
    if audit.confusion.leans and not any(lean.sure for lean in audit.confusion.leans):
        sentences.append("No pair of classes is mistaken in one direction more than chance explains.")
    if audit.calibration is not None:
        sentences.append(_calibration(audit.calibration))
    if audit.telling is not None and audit.telling.known:
        sentences.append(_telling(audit.telling))
    if audit.sources is not None:
        sentences.append(_sources(audit.sources))
    sentences.append(_size(audit))
    return sentences


def warnings_of(audit: Audit, record: Record) -> list[str]:
    sentences = []
    if not audit.size.enough:
        sentences.append(
            f"{audit.gold_rows} gold rows measure the teacher over {len(audit.class_names)} classes; "
            f"{audit.size.wanted} or more are needed for a steady estimate."
        )
    missing = [one.name for one in audit.accuracy.per_class if not one.gold_true]
    if missing:
        listed = ", ".join(missing[:5]) + (f" and {len(missing) - 5} more" if len(missing) > 5 else "")
        sentences.append(f"Gold holds no row of {listed}: nothing is known about how the teacher treats them.")
    shift = audit.shift
    if shift is not None and shift.alarming:
        name = audit.class_names[shift.most]
        sentences.append(
            f"Gold is not a random sample of the pool: the teacher says {name} on {shift.gold_share:.0%} of gold and "
            f"{shift.pool_share:.0%} of the pool ({chance(shift.p_value)}). The pool's noise is corrected for this; "
            "the accuracies on gold are not."
        )
    if audit.noise.uncovered > 0.01:
        sentences.append(
            f"{audit.noise.uncovered:.0%} of the pool is of classes with fewer than 5 gold rows the teacher named so; "
            "their noise is measured together with others'."
        )
    if record.pool is not None and not record.gold.labels.weighed_like(record.pool.labels):
        sentences.append("The votes on gold and pool are weighed by different models; fit one and pass by=fit to both.")
    return sentences


def percent(share: Share) -> str:
    """ "93.8% (90.9 to 96.0)", or a dash."""
    return f"{share.estimate:.1%} ({interval(share)})" if share.known else "–"


def interval(share: Share) -> str:
    return f"{100 * share.low:.1f} to {100 * share.high:.1f}" if share.known else "–"


def auc(share: Share | None) -> str:
    """ "0.81, 0.74 to 0.88" """
    if share is None or not share.known:
        return "no mistake seen"
    return f"{share.estimate:.2f}, {share.low:.2f} to {share.high:.2f}"


def added(adds: Interval) -> str:
    """ "+0.023 ± 0.010", where the interval is known."""
    half = (adds.high - adds.low) / 2
    return f"{adds.mean:+.3f} ± {half:.3f}" if half < math.inf else f"{adds.mean:+.3f}"


def chance(p_value: float) -> str:
    return "p < 0.0001" if p_value < 1e-4 else f"p = {p_value:.2g}"


def _noise(audit: Audit) -> str:
    noise = audit.noise
    if audit.pool_rows is None:
        return f"{percent(noise.plain)} of the teacher's labels are wrong, on {audit.gold_rows:,} gold rows."
    rows = [round(audit.pool_rows * part) for part in (noise.pool.estimate, noise.pool.low, noise.pool.high)]
    return (
        f"About {percent(noise.pool)} of the pool's labels are wrong: {rows[0]:,} of {audit.pool_rows:,} rows "
        f"({rows[1]:,} to {rows[2]:,}); {noise.plain.estimate:.1%} on gold as it is."
    )


def _accuracy(audit: Audit) -> str:
    known = [one for one in audit.accuracy.per_class if one.recall.known]
    worst = min(known, key=lambda one: one.recall.estimate)
    return (
        f"The teacher is right on {percent(audit.accuracy.overall)} of {audit.gold_rows:,} gold rows; least often on "
        f"{worst.name}: {percent(worst.recall)} of {worst.gold_true:,}."
    )


def _lean(audit: Audit, lean: Lean) -> str:
    back = audit.flow_name(lean.named, lean.truth)
    return (
        f"Errors lean {audit.flow_name(lean.truth, lean.named)}: {lean.more} against {lean.less} {back} on gold, "
        f"{percent(lean.share)} of the mistakes between the two ({chance(lean.p_value)})."
    )


def _calibration(one: Calibration) -> str:
    shown = f"calibration error {100 * one.error:.1f} points, {100 * one.expected:.1f} expected by chance alone"
    if not one.off:
        return f"The teacher's probabilities agree with how often it is right ({shown})."
    lean = "too sure of itself" if one.low > 0 else "less sure than it could be" if one.high < 0 else "not calibrated"
    return f"The teacher is {lean} ({shown}, {chance(one.p_value)}; probability minus accuracy {100 * one.gap:+.1f})."


def _telling(telling: Share) -> str:
    tells = "tells" if telling.low > 0.5 else "does not clearly tell"
    return f"Its confidence {tells} right answers from wrong ones (ROC-AUC {auc(telling)})."


def _sources(found: AuditedSources) -> str:
    harmful = [one.name for one in found.each if one.harms]
    known = (
        f"The majority of the votes is right on {percent(found.majority)} of gold rows; weighed by gold they are on "
        f"{percent(found.accuracy)}"
    )
    if not harmful:
        return f"{known}. {found.each[0].name} adds most of {len(found.each)} sources."
    listed = ", ".join(harmful[:5]) + (f" and {len(harmful) - 5} more" if len(harmful) > 5 else "")
    return f"{known}. {found.each[0].name} adds most of {len(found.each)} sources; labels are better without {listed}."


def _size(audit: Audit) -> str:
    size = audit.size
    known = f"The noise is known to about ±{100 * size.half_width:.1f} points"
    if not size.more:
        return f"{known}; gold is large enough for ±{100 * size.target:.0f}."
    return f"{known}; about {size.more:,} more gold rows would bring that to ±{100 * size.target:.0f}."


# Fewer wrong labels than this leave little to win: at most so many points.
CLEAN = 0.03
# From here on a student may learn more from gold alone than from these labels.
BAD = 0.3
# And from here on gold is no small part of what there is.
LARGE_GOLD = 0.1
# An area this far above chance, for sure, makes confidence worth using.
TELLS = 0.55
_TELLS = "confidence tells right from wrong (ROC-AUC {})"
Outlook = tuple[str, str]
"""Whether a method should beat vanilla, and why."""


def expectations_of(audit: Audit, record: Record) -> list[Expectation]:
    outlooks = {method: rule(audit) for method, rule in RULES.items()}
    gold, pool = record.gold.labels, None if record.pool is None else record.pool.labels
    if isinstance(gold, Votes) and isinstance(pool, Votes) and pool.by == "majority":
        truth = torch.from_numpy(record.truth)
        by_gold = Votes(gold.votes, gold.classes, by="gold").cross_fitted(
            truth, torch.ones_like(truth, dtype=torch.bool)
        )
        outlooks['us.Votes(by="gold")'] = _against_majority(by_gold, record)
        dawid_skene = Votes(gold.votes, gold.classes, by=pool.dawid_skene())
        outlooks['us.Votes(by="dawid_skene")'] = _against_majority(dawid_skene, record)
    return [Expectation(method, *outlook) for method, outlook in outlooks.items()]


def _vanilla(audit: Audit) -> Outlook:
    noise = audit.noise.pool
    if noise.high <= CLEAN:
        return "baseline", f"at most {noise.high:.1%} of the labels are wrong: corrections have little to win"
    if noise.low > CLEAN:
        return "baseline", f"it also learns the {_span(noise)} of labels that are wrong"
    return "baseline", f"gold leaves open whether {_span(noise)} are wrong"


def _gold_only(audit: Audit) -> Outlook:
    noise, rows = audit.noise.pool, audit.gold_rows
    if audit.pool_rows is None:
        return "possible", "no pool was given"
    share = rows / max(audit.pool_rows, 1)
    if noise.low >= BAD:
        return "possible", f"at least {noise.low:.1%} of the labels are wrong: {rows:,} true ones may teach more"
    if share >= LARGE_GOLD:
        return "possible", f"gold is as large as {share:.0%} of the pool"
    return "unlikely", f"gold has {share:.1%} of the pool's rows, and most labels there are right"


def _slam(audit: Audit) -> Outlook:
    if audit.noise.pool.high <= CLEAN:
        return "unlikely", f"at most {audit.noise.pool.high:.1%} wrong labels to correct"
    if not audit.size.enough:
        wanted = f"{audit.size.wanted} or more are steady"
        return "possible", f"its trust comes from {audit.gold_rows} gold rows; {wanted}"
    if _tells(audit.telling):
        return "likely", f"{_TELLS.format(auc(audit.telling))}, so its trust follows the row"
    spread = _precision_spread(audit)
    if audit.telling is None and spread is not None and spread.low > 0:
        differ = f"the teacher's answers differ by {100 * spread.estimate:.0f} points in how often they are right"
        return "likely", f"trust per class: {differ}"
    return "possible", "one trust for nearly all rows: nothing seen tells good labels from bad"


def _weighted(audit: Audit) -> Outlook:
    if audit.telling is None:
        return "possible", "no confidence to go by: only the student's own doubts weigh"
    if audit.noise.pool.high <= CLEAN:
        return "unlikely", "too few wrong labels to weigh down"
    if not _tells(audit.telling):
        return "unlikely", f"gold does not show that confidence tells right from wrong ({auc(audit.telling)})"
    calibrated = audit.calibration is not None and not audit.calibration.off
    sure = "and means what it says" if calibrated else "though it is not calibrated"
    return "likely", f"{_TELLS.format(auc(audit.telling))}, {sure}"


def _confident(audit: Audit) -> Outlook:
    if audit.telling is None:
        return "not possible", "these labels come without a confidence"
    if _tells(audit.telling) and audit.noise.pool.low > CLEAN:
        return "possible", "the labels it drops are more often wrong; it also drops good ones"
    return "unlikely", "the labels it drops are hardly worse than those it keeps"


def _forward(audit: Audit) -> Outlook:
    if audit.noise.pool.high <= CLEAN:
        return "unlikely", "too few wrong labels to correct"
    thin = sum(one.gold_true < 10 for one in audit.accuracy.per_class)
    if thin:
        return "unlikely", f"it needs the whole confusion matrix, and gold has fewer than 10 rows of {thin} classes"
    leaning = [lean for lean in audit.confusion.leans if lean.sure]
    if leaning:
        flow = audit.flow_name(leaning[0].truth, leaning[0].named)
        return "likely", f"mistakes depend on the class ({flow}), which is what it corrects"
    return "possible", "no direction of mistakes stands out for it to correct"


def _self_distillation(audit: Audit) -> Outlook:
    if not audit.size.enough:
        return "possible", f"it estimates nothing, and {audit.gold_rows} gold rows are few"
    if audit.noise.pool.low > CLEAN:
        return "possible", "it needs no gold at all; its own doubts replace labels"
    return "unlikely", "with so few wrong labels there is little to doubt"


def _against_majority(weighed: Votes, record: Record) -> Outlook:
    """Otherwise weighed votes on gold, counted where only one of them is right."""
    wrong = weighed.top1().numpy() != record.truth
    better, worse = int((record.wrong & ~wrong).sum()), int((wrong & ~record.wrong).sum())
    gain = f"on gold it is right {better} times where the majority is not, wrong {worse} times where it is"
    p_value = two_sided(better, better + worse)
    if p_value < 0.05:
        return "likely" if better > worse else "unlikely", gain
    return "possible", f"{gain} (p = {p_value:.2g})"


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
    """Between the classes that are right most and least often, where their intervals do not meet."""
    known = [one.precision for one in audit.accuracy.per_class if one.precision.known]
    if len(known) < 2:
        return None
    best, worst = max(known, key=lambda share: share.low), min(known, key=lambda share: share.high)
    return Share(best.estimate - worst.estimate, best.low - worst.high, best.high - worst.low, best.rows)


def _tells(telling: Share | None) -> bool:
    return telling is not None and telling.known and telling.low > TELLS


def _span(share: Share) -> str:
    return f"{100 * share.low:.1f} to {share.high:.1%}"
