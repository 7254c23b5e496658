"""Which option to take, as a decision: the best expected accuracy given the measurements, and its probability.

Options are all methods, training on gold only, and the teacher's own labels where its accuracy is known. One that is
not better than the majority-class baseline is no option, but it tells how far apart options lie: without it, what seems
above chance by luck alone would be expected there (of labels that tell nothing, 15 points too high). Expected
accuracies and every option's probability of being the best come from their joint uncertainty; p-values against the
reference are corrected for the number of methods (Holm). ``report/recommendation_text.py`` puts it into sentences.

    recommend(comparison).choice

Options share seeds and test rows. The measured means x have the covariance Σ = Σ_seeds + Σ_rows, which gives each
difference the variance that it has in ``interval.py``. How far the options really lie apart is not known before either:
their true accuracies are normal around a common mean μ with a spread τ of which only the order is known, 5 points.
Given τ and Σ,

    E[θ | x] = μ + τ² (τ² I + Σ)⁻¹ (x − μ)

so the best of several close options is expected slightly lower than measured, the more so on few rows. Few seeds do not
know their own variance: Σ_seeds is divided by χ²/ν in every draw, as in a t-interval, and it is drawn towards one
variance and one correlation for all options, the more so the fewer the seeds: of S seeds and O options the share O / (O
+ S − 1). (Without that it has directions of zero variance.)
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from understudy.comparison.candidates import TEACHER
from understudy.comparison.interval import Array
from understudy.comparison.outcome import Comparison, Correct, Outcome, Recommendation
from understudy.maths.proportions import holm

NOTHING = "nothing"
#: A student so far above the majority class is not at chance level, even where few rows leave it uncertain.
AT_CHANCE = 0.05
DRAWS = 4_000
#: The order of τ: half of all settings have options further apart than that, half closer.
SPREAD = 0.05
TAUS = np.geomspace(0.001, 0.5, 40)
#: What another start is taken to change where a single seed shows nothing of it.
ONE_START = 0.01


def recommend(comparison: Comparison) -> Recommendation:
    adjusted = adjusted_p(comparison)
    at_chance = [name for name in comparison.outcomes if _is_at_chance(comparison, name)]
    every = _well_measured(comparison)
    options = [name for name in every if name not in at_chance]
    if not options:
        return Recommendation(NOTHING, adjusted, at_chance=at_chance)
    estimates = estimate_options(comparison, every)
    draws = estimates.draws()[:, [every.index(name) for name in options]]
    best = np.bincount(draws.argmax(1), minlength=len(options)) / len(draws)
    expected = dict(zip(options, draws.mean(0).tolist(), strict=True))
    low, high = np.quantile(draws, (0.025, 0.975), axis=0).clip(comparison.least, 1).tolist()
    students = [name for name in options if name != TEACHER]
    return Recommendation(
        max(options, key=lambda name: expected[name]), adjusted,
        student=max(students, key=lambda name: expected[name], default=None), expected=expected,
        intervals=dict(zip(options, zip(low, high, strict=True), strict=True)),
        chances=dict(zip(options, best.tolist(), strict=True)), at_chance=at_chance, posterior=estimates,
    )  # fmt: skip


def adjusted_p(comparison: Comparison) -> dict[str, float]:
    """Every method's p-value against the reference, corrected for their number."""
    theirs = comparison.outcomes.get(comparison.reference, {})
    every = [name for name, mine in comparison.outcomes.items() if mine.keys() & theirs.keys()]
    rivals = [name for name in every if name not in (comparison.reference, TEACHER)]
    values = [comparison.difference(name, comparison.reference).p_value for name in rivals]
    return dict(zip(rivals, holm(values).tolist(), strict=True))


def _is_at_chance(comparison: Comparison, name: str) -> bool:
    above = comparison.above_majority(name)
    return above is not None and (above.mean <= 0 or (above.mean < AT_CHANCE and not above.low > 0))


def _well_measured(comparison: Comparison) -> list[str]:
    """The options with results for more than half of the seeds, students first.

    All are compared with each other, so they must share a seed: those with the most seeds come before the others.
    """
    enough, shared = len(comparison.seeds) / 2, set(comparison.seeds)
    names = []
    for name, by_seed in sorted(comparison.outcomes.items(), key=lambda item: -len(item[1])):
        if len(by_seed) > enough and shared & by_seed.keys():
            names.append(name)
            shared &= by_seed.keys()
    order = list(comparison.outcomes)
    return sorted(names, key=lambda name: (name == TEACHER, order.index(name)))


@dataclass(frozen=True)
class OptionEstimates:
    names: list[str]
    #: ``(O,)``.
    mean: Array
    #: ``(O, O)``: the covariance of the means that other seeds would show.
    of_seeds: Array
    #: ``(O, O)``: the same of other test rows, beyond what the seeds show of it.
    of_rows: Array
    seeds: int
    #: How many different test rows; 0 where it is not known which were right.
    rows: int
    #: Whether every seed had test rows of its own.
    folds: bool

    @property
    def freedom(self) -> int:
        return max(self.seeds - 1, 1)

    def draws(self, count: int = DRAWS) -> Array:
        """``(count, O)``: true accuracies that go with what was measured; the same ones each time."""
        rng = np.random.default_rng(0)
        weights = _tau_weights(self.mean, self.of_seeds + self.of_rows)
        taus = TAUS[rng.choice(len(TAUS), count, p=weights)]
        scales = self.freedom / rng.chisquare(self.freedom, count) if self.seeds > 1 else np.ones(count)
        covariances = self.of_seeds * scales[:, None, None] + self.of_rows
        centres, spreads = posterior(self.mean, covariances, taus)
        values, vectors = np.linalg.eigh(spreads)
        noise = rng.normal(size=(count, len(self.mean))) * np.sqrt(values.clip(0))
        drawn: Array = centres + (vectors @ noise[:, :, None])[:, :, 0]
        return drawn

    def gap(self, first: str, second: str) -> tuple[float, float, float]:
        """Of two options: the difference, and its variance by seeds and by rows."""
        contrast = np.array([(name == first) - float(name == second) for name in self.names])
        by_seeds, by_rows = (float(contrast @ part @ contrast) for part in (self.of_seeds, self.of_rows))
        return float(contrast @ self.mean), by_seeds, by_rows


def posterior(mean: Array, covariances: Array, taus: Array) -> tuple[Array, Array]:
    """Centres ``(n, O)`` and covariances ``(n, O, O)`` for each pair of a covariance and a τ."""
    unit = np.eye(len(mean))
    precision = np.linalg.inv(covariances + taus[:, None, None] ** 2 * unit)
    weights = precision.sum(2)
    common = (weights @ mean) / weights.sum(1)
    gain = taus[:, None, None] ** 2 * precision
    centres = common[:, None] + (gain @ (mean - common[:, None])[:, :, None])[:, :, 0]
    # The common mean is itself estimated, with variance 1 / Σ weights.
    left = 1.0 - gain.sum(2)
    of_common = left[:, :, None] * left[:, None] / weights.sum(1)[:, None, None]
    spreads = taus[:, None, None] ** 2 * (unit - gain) + of_common
    return centres, (spreads + spreads.transpose(0, 2, 1)) / 2


def _tau_weights(mean: Array, covariance: Array) -> Array:
    """How likely each τ is: its prior (half-Cauchy, over a grid that is even in log τ) times the chance of what was
    measured, with μ integrated out."""
    total = covariance + TAUS[:, None, None] ** 2 * np.eye(len(mean))
    precision = np.linalg.inv(total)
    weights = precision.sum(2)
    off = mean - ((weights @ mean) / weights.sum(1))[:, None]
    distance = (off[:, None] @ precision @ off[:, :, None])[:, 0, 0]
    logs = -0.5 * (np.linalg.slogdet(total)[1] + np.log(weights.sum(1)) + distance)
    logs += np.log(TAUS / (1 + (TAUS / SPREAD) ** 2))
    shares: Array = np.exp(logs - logs.max())
    shares /= shares.sum()
    return shares


def estimate_options(comparison: Comparison, names: Sequence[str]) -> OptionEstimates:
    """Means and covariances over the seeds that all options share."""
    outcomes = [comparison.outcomes[name] for name in names]
    seeds = sorted(set.intersection(*(set(by_seed) for by_seed in outcomes)))
    table = [[by_seed[seed] for seed in seeds] for by_seed in outcomes]
    values = np.array([[one.last for one in cells] for cells in table])
    if len(seeds) > 1:
        effects = np.sqrt([comparison.fold_effect(name) for name in names])
        of_seeds = _by_seeds(values) * effects[:, None] * effects
    else:
        of_seeds = np.diag([0.0 if name == TEACHER else ONE_START**2 for name in names])
    of_rows, rows, folds = _by_rows(table, values.mean(1))
    return OptionEstimates(list(names), values.mean(1), of_seeds, of_rows, len(seeds), rows, folds)


def _by_seeds(values: Array) -> Array:
    covariance: Array = np.atleast_2d(np.cov(values)) / values.shape[1]
    moved = (values != values[:, :1]).any(1)  # the teacher has no seed
    options = int(moved.sum())
    if options > 1:
        mine = covariance[np.ix_(moved, moved)]
        variance = mine.trace() / options
        shared = (mine.sum() - mine.trace()) / (options * (options - 1))
        alike = np.full_like(mine, shared) + np.eye(options) * (variance - shared)
        share = options / (options + values.shape[1] - 1)
        covariance[np.ix_(moved, moved)] = (1 - share) * mine + share * alike
    return covariance


def _by_rows(table: list[list[Outcome]], mean: Array) -> tuple[Array, int, bool]:
    """What rows add to what seeds show, how many there are, and whether each is tested once."""
    options = len(table)
    judged = [[one.judged for one in cells] for cells in table]
    if any(one is None for cells in judged for one in cells):
        return np.zeros((options, options)), 0, False
    known: list[list[Correct]] = [[one for one in cells if one is not None] for cells in judged]
    every = np.unique(np.concatenate([one.rows for cells in known for one in cells]))
    total, of_cells = np.zeros((options, len(every))), np.zeros((options, options))
    repeated = np.array([_is_repeated(cells) for cells in known])
    for seed in range(len(known[0])):
        shares = np.zeros_like(total)
        for option, cells in enumerate(known):
            one = cells[seed]
            shares[option, np.searchsorted(every, one.rows)] = (one.right - mean[option]) / (len(cells) * len(one.rows))
        total += shares
        shares[repeated] = 0.0
        of_cells += shares @ shares.T
    count = (total != 0).sum(1).clip(2)
    total *= np.sqrt(count / (count - 1))[:, None]
    # Rows that add nothing to what seeds show must not take away from it either.
    values, vectors = np.linalg.eigh(total @ total.T - (of_cells if len(known[0]) > 1 else 0.0))
    beyond = (vectors * values.clip(0)) @ vectors.T
    # Two more rows for each option, one right and one wrong, as in its interval: all of 24 right is no certainty.
    beyond += np.diag((mean**2 + (1 - mean) ** 2) / (len(every) + 2) ** 2)
    return beyond, len(every), any(_is_folds(cells) for cells in known)


def _is_repeated(cells: list[Correct]) -> bool:
    """One judgement under every seed: no seed had a hand in it (the teacher), and only the rows were drawn."""
    first = cells[0]
    return all(np.array_equal(one.rows, first.rows) and np.array_equal(one.right, first.right) for one in cells)


def _is_folds(cells: list[Correct]) -> bool:
    tested = np.concatenate([one.rows for one in cells])
    return len(cells) > 1 and len(np.unique(tested)) == len(tested)
