"""An audit's findings as sentences, the most important first; and what makes them doubtful."""

from understudy.auditing.accuracy import Lean
from understudy.auditing.record import Record
from understudy.auditing.result import Audit
from understudy.maths.proportions import Share


def verdict_of(audit: Audit) -> list[str]:
    sentences = [_noise(audit), _accuracy(audit)]
    sentences += [_lean(audit, lean) for lean in audit.confusion.leans[:3] if lean.sure]
    if audit.confusion.leans and not any(lean.sure for lean in audit.confusion.leans):
        sentences.append("No pair of classes is mistaken in one direction more than chance explains.")
    if audit.calibration is not None:
        sentences.append(_calibration(audit))
    if audit.telling is not None and audit.telling.known:
        sentences.append(_telling(audit.telling))
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
        sentences.append(
            f"Gold holds no row of {_listed(missing)}: nothing is known about how the teacher treats them."
        )
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


def _calibration(audit: Audit) -> str:
    assert audit.calibration is not None
    one = audit.calibration
    shown = f"calibration error {100 * one.error:.1f} points, {100 * one.expected:.1f} expected by chance alone"
    if not one.off:
        return f"The teacher's probabilities agree with how often it is right ({shown})."
    lean = "too sure of itself" if one.low > 0 else "less sure than it could be" if one.high < 0 else "not calibrated"
    return f"The teacher is {lean} ({shown}, {chance(one.p_value)}; probability minus accuracy {100 * one.gap:+.1f})."


def _telling(telling: Share) -> str:
    tells = "tells" if telling.low > 0.5 else "does not clearly tell"
    return f"Its confidence {tells} right answers from wrong ones (ROC-AUC {auc(telling)})."


def _size(audit: Audit) -> str:
    size = audit.size
    known = f"The noise is known to about ±{100 * size.half_width:.1f} points"
    if not size.more:
        return f"{known}; gold is large enough for ±{100 * size.target:.0f}."
    return f"{known}; about {size.more:,} more gold rows would bring that to ±{100 * size.target:.0f}."


def _listed(names: list[str]) -> str:
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
