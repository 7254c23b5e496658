"""What to expect of each method: rules of thumb, each tied to a quantity the audit measured.

The limits are judgement, not law; ``docs/audit.md`` lists them. ``outlook`` says whether the method should
beat ``vanilla``, training on the labels as they are: "likely", "possible", "unlikely", or "not possible" because what
it needs is missing. A comparison on the data itself beats every line of this.
"""

from collections.abc import Callable
from dataclasses import dataclass

from understudy.auditing.record import Record
from understudy.auditing.result import Audit, Expectation
from understudy.auditing.words import auc
from understudy.labels.votes import Votes
from understudy.maths.proportions import Share, two_sided

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


@dataclass(frozen=True)
class VotesGain:
    """Dawid–Skene against the majority on gold, counted where only one of them is right."""

    better: int
    worse: int

    @property
    def p_value(self) -> float:
        return two_sided(self.better, self.better + self.worse)


def votes_gain(record: Record) -> VotesGain | None:
    """For votes counted by majority in a pool large enough to learn the annotators from."""
    gold, pool = record.gold.labels, None if record.pool is None else record.pool.labels
    if not (isinstance(gold, Votes) and isinstance(pool, Votes)) or pool.by != "majority":
        return None
    fit = pool.dawid_skene()
    learnt = Votes(gold.votes, gold.classes, by=fit).top1().numpy() == record.truth
    majority = ~record.wrong
    return VotesGain(better=int((learnt & ~majority).sum()), worse=int((majority & ~learnt).sum()))


def expectations_of(audit: Audit, votes: VotesGain | None) -> list[Expectation]:
    expected = [Expectation(method, *rule(audit)) for method, rule in RULES.items()]
    return expected if votes is None else [*expected, Expectation('us.Votes(by="dawid_skene")', *_dawid_skene(votes))]


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


def _dawid_skene(votes: VotesGain) -> Outlook:
    gain = f"on gold it is right {votes.better} times where the majority is not, wrong {votes.worse} times where it is"
    if votes.p_value < 0.05:
        return "likely" if votes.better > votes.worse else "unlikely", gain
    return "possible", f"{gain} (p = {votes.p_value:.2g})"


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
