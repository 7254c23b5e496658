"""What to expect of each method: rules of thumb, each tied to a quantity the audit measured.

The limits are judgement, not law; ``docs/audit.md`` lists them. ``outlook`` says whether the method should
beat ``vanilla``, training on the labels as they are: "likely", "possible", "unlikely", or "not possible" because what
it needs is missing. A comparison on the data itself beats every line of this.
"""

from dataclasses import dataclass

from understudy.auditing.record import Record
from understudy.auditing.result import Audit, Expectation
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
    if record.pool is None or not isinstance(record.pool.labels, Votes) or record.pool.labels.by != "majority":
        return None
    gold = record.gold.labels
    assert isinstance(gold, Votes)
    fit = record.pool.labels.dawid_skene()
    learnt = Votes(gold.votes, gold.classes, by=fit).top1().numpy() == record.truth
    majority = ~record.wrong
    return VotesGain(better=int((learnt & ~majority).sum()), worse=int((majority & ~learnt).sum()))


def expectations_of(found: Audit, votes: VotesGain | None) -> list[Expectation]:
    rules = [
        _vanilla(found),
        _gold_only(found),
        _slam(found),
        _weighted(found),
        _confident(found),
        _forward(found),
        _self_distillation(found),
    ]
    return rules if votes is None else [*rules, _dawid_skene(votes)]


def _vanilla(found: Audit) -> Expectation:
    noise = found.noise.pool
    if noise.high <= CLEAN:
        return Expectation(
            "vanilla", "baseline",
            f"at most {_percent(noise.high)} of the labels are wrong: corrections have little to win",
        )  # fmt: skip
    if noise.low > CLEAN:
        return Expectation("vanilla", "baseline", f"it also learns the {_span(noise)} of labels that are wrong")
    return Expectation("vanilla", "baseline", f"gold leaves open whether {_span(noise)} are wrong")


def _gold_only(found: Audit) -> Expectation:
    noise = found.noise.pool
    if found.pool_rows is None:
        return Expectation("gold only", "possible", "no pool was given")
    share = found.gold_rows / max(found.pool_rows, 1)
    if noise.low >= BAD:
        return Expectation(
            "gold only", "possible",
            f"at least {_percent(noise.low)} of the labels are wrong: {found.gold_rows:,} true ones may teach more",
        )  # fmt: skip
    if share >= LARGE_GOLD:
        return Expectation("gold only", "possible", f"gold is as large as {share:.0%} of the pool")
    return Expectation(
        "gold only", "unlikely", f"gold has {share:.1%} of the pool's rows, and most labels there are right"
    )


def _slam(found: Audit) -> Expectation:
    if found.noise.pool.high <= CLEAN:
        return Expectation("slam", "unlikely", f"at most {_percent(found.noise.pool.high)} wrong labels to correct")
    if not found.size.enough:
        return Expectation(
            "slam", "possible",
            f"its trust comes from {found.gold_rows} gold rows; {found.size.wanted} or more are steady",
        )  # fmt: skip
    if _tells(found.telling):
        return Expectation(
            "slam", "likely",
            f"confidence tells right from wrong (ROC-AUC {_of(found.telling)}), so its trust follows the row",
        )  # fmt: skip
    spread = _precision_spread(found)
    if found.telling is None and spread is not None and spread.low > 0:
        return Expectation(
            "slam", "likely",
            f"trust per class: the teacher's answers differ by {_points(spread.estimate)} in how often they are right",
        )  # fmt: skip
    return Expectation("slam", "possible", "one trust for nearly all rows: nothing seen tells good labels from bad")


def _weighted(found: Audit) -> Expectation:
    if found.telling is None:
        return Expectation("weighted", "possible", "no confidence to go by: only the student's own doubts weigh")
    if found.noise.pool.high <= CLEAN:
        return Expectation("weighted", "unlikely", "too few wrong labels to weigh down")
    if not _tells(found.telling):
        return Expectation(
            "weighted", "unlikely", f"gold does not show that confidence tells right from wrong ({_of(found.telling)})"
        )
    calibrated = found.calibration is not None and not found.calibration.off
    sure = "and means what it says" if calibrated else "though it is not calibrated"
    return Expectation(
        "weighted", "likely", f"confidence tells right from wrong (ROC-AUC {_of(found.telling)}), {sure}"
    )


def _confident(found: Audit) -> Expectation:
    if found.telling is None:
        return Expectation("confident", "not possible", "these labels come without a confidence")
    if _tells(found.telling) and found.noise.pool.low > CLEAN:
        return Expectation("confident", "possible", "the labels it drops are more often wrong; it also drops good ones")
    return Expectation("confident", "unlikely", "the labels it drops are hardly worse than those it keeps")


def _forward(found: Audit) -> Expectation:
    if found.noise.pool.high <= CLEAN:
        return Expectation("forward", "unlikely", "too few wrong labels to correct")
    leaning = [lean for lean in found.confusion.leans if lean.sure]
    thin = [one.name for one in found.accuracy.per_class if one.gold_true < 10]
    if thin:
        return Expectation(
            "forward", "unlikely",
            f"it needs the whole confusion matrix, and gold has fewer than 10 rows of {len(thin)} classes",
        )  # fmt: skip
    if leaning:
        flow = found.flow_name(leaning[0].truth, leaning[0].named)
        return Expectation("forward", "likely", f"mistakes depend on the class ({flow}), which is what it corrects")
    return Expectation("forward", "possible", "no direction of mistakes stands out for it to correct")


def _self_distillation(found: Audit) -> Expectation:
    if not found.size.enough:
        return Expectation(
            "self_distillation", "possible", f"it estimates nothing, and {found.gold_rows} gold rows are few"
        )
    if found.noise.pool.low > CLEAN:
        return Expectation("self_distillation", "possible", "it needs no gold at all; its own doubts replace labels")
    return Expectation("self_distillation", "unlikely", "with so few wrong labels there is little to doubt")


def _dawid_skene(votes: VotesGain) -> Expectation:
    name = 'us.Votes(by="dawid_skene")'
    said = f"on gold it is right {votes.better} times where the majority is not, wrong {votes.worse} times where it is"
    if votes.p_value < 0.05:
        return Expectation(name, "likely" if votes.better > votes.worse else "unlikely", said)
    return Expectation(name, "possible", f"{said} (p = {votes.p_value:.2g})")


def _precision_spread(found: Audit) -> Share | None:
    """Between the classes that are right most and least often, where their intervals do not meet."""
    known = [one.precision for one in found.accuracy.per_class if one.precision.known]
    if len(known) < 2:
        return None
    best, worst = max(known, key=lambda share: share.low), min(known, key=lambda share: share.high)
    return Share(best.estimate - worst.estimate, best.low - worst.high, best.high - worst.low, best.rows)


def _tells(telling: Share | None) -> bool:
    return telling is not None and telling.known and telling.low > TELLS


def _of(share: Share | None) -> str:
    if share is None or not share.known:
        return "no mistake seen"
    return f"{share.estimate:.2f}, {share.low:.2f} to {share.high:.2f}"


def _percent(share: float) -> str:
    return f"{share:.1%}"


def _points(share: float) -> str:
    return f"{100 * share:.0f} points"


def _span(share: Share) -> str:
    return f"{100 * share.low:.1f} to {share.high:.1%}"
