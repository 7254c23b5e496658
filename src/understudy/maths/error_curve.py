"""The chance that a label is wrong as a function of how suspect it is, from few gold rows of which that is known.

    curve = ErrorCurve.fit(on_gold, wrong, on_pool)     # scores (n,), truth (n,), scores (N,)
    curve(on_pool)                                      # (N,)
    curve.errors_among(on_pool[first])                  # the share of these rows that is wrong, with its 95% interval

With z the normal score of a row's rank in the pool, so that no outlier leads far beyond what gold has seen,

    P(wrong | z) = c · expit(a + b z)

The first rows of a large pool are more suspect than any gold row. What a logistic curve says there is extrapolated and
too high (90% stated, 50% true on CIFAR-10), because beyond some point scores tell nothing more: c is that ceiling. All
three are averaged over their posterior on a grid, b with a half-normal prior (0: every label has the base rate), c with
a uniform one. Where gold has few errors, the ceiling is unknown, the interval wide, and the mean nearer to the base
rate than the truth (by 36 points of 24 rows with a strong signal): reports print the interval alone.
"""

from dataclasses import dataclass

import numpy as np

from understudy.maths.proportions import LEVEL, UNKNOWN, Bools, Floats, Ints, Share

# Everything is counted at these z; 5 is one row in three million.
STEP = 1 / 16
KNOTS = np.arange(-5, 5 + STEP / 2, STEP)
A, B, C = np.arange(-9, 5.1, 0.25), np.arange(0, 6.1, 0.25), np.linspace(0.3, 1, 8)
# Of b: at 3, a wrong label scores higher than a correct one in 98% of pairs.
SCALE = 3.0
DRAWS = 4000


@dataclass(frozen=True, eq=False)
class ErrorCurve:
    #: The pool's scores, ascending.
    scores: Floats
    #: Of each (a, b, c) on the grid: its posterior, ``(G,)``, and the chances at the knots, ``(G, K)``.
    weight: Floats
    chance: Floats

    @classmethod
    def fit(cls, scores: Floats, wrong: Bools, pool: Floats) -> "ErrorCurve":
        """``scores``: of gold; where they are unknown (NaN), the error rate alone is fitted."""
        from scipy.special import expit, ndtri

        a, b, c = (each.reshape(-1, 1) for each in np.meshgrid(A, B, C, indexing="ij"))
        chance = np.clip(c * expit(a + b * KNOTS), 1e-12, 1 - 1e-12)
        ranks = np.sort(pool)
        log_weight = -((b[:, 0] / SCALE) ** 2) / 2
        if np.isfinite(scores).all():
            knots = _nearest(_normal_scores(scores, ranks))
            hits, rows = np.bincount(knots, wrong, len(KNOTS)), np.bincount(knots, minlength=len(KNOTS))
            some = np.flatnonzero(rows)
            log_weight += np.log(chance[:, some]) @ hits[some] + np.log1p(-chance[:, some]) @ (rows - hits)[some]
        else:
            # Of the pool, whose z are normal.
            middle = chance[:, _nearest(ndtri((np.arange(200) + 0.5) / 200))].mean(1)
            log_weight += np.log(middle) * wrong.sum() + np.log1p(-middle) * (~wrong).sum()
        weight = np.exp(log_weight - log_weight.max())
        kept = weight > 1e-8
        return cls(ranks, weight[kept] / weight[kept].sum(), chance[kept])

    def __call__(self, scores: Floats) -> Floats:
        """The chance of each row; never falls with the score."""
        return np.interp(_normal_scores(scores, self.scores), KNOTS, self.weight @ self.chance)

    def errors_among(self, scores: Floats) -> Share:
        """The share of wrong labels among these rows: its mean, and where it lies with this probability."""
        if not len(scores):
            return UNKNOWN
        rng = np.random.default_rng(0)
        rows = np.bincount(_nearest(_normal_scores(scores, self.scores)), minlength=len(KNOTS))
        some = np.flatnonzero(rows)
        drawn = self.chance[rng.choice(len(self.weight), DRAWS, p=self.weight)][:, some]
        hits = rng.binomial(rows[some], drawn).sum(1) / len(scores)
        low, high = np.quantile(hits, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
        return Share(float(self(scores).mean()), float(low), float(high), len(scores))


def _normal_scores(scores: Floats, pool: Floats) -> Floats:
    """z of each score, by its middle rank among the pool's, which are ascending."""
    from scipy.special import ndtri

    below, up_to = np.searchsorted(pool, scores, "left"), np.searchsorted(pool, scores, "right")
    return np.asarray(ndtri((below + up_to + 1) / 2 / (len(pool) + 1)))


def _nearest(z: Floats) -> Ints:
    return np.asarray(np.clip(np.rint((z - KNOTS[0]) / STEP), 0, len(KNOTS) - 1), dtype=np.int64)
