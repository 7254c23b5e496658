"""Whether the intervals of ``us.estimate`` hold the pool's class share as often as they say, and how wide they are.

    python -m experiments.estimate_coverage               about two minutes of one core
    python -m experiments.estimate_coverage --repeats 200

Two classes; the teacher is right on a share of the rows of either class. Beside it: Wilson's interval on gold alone,
and prediction-powered inference with its normal interval (PPI++, Angelopoulos, Duchi and Zrnic 2023; λ by least
squares, clipped to [0, 1]). The truth is the share in the very pool at hand. In brackets: the mean width over that of
gold alone. *By confidence*: half of the rows are hard (85% of the errors) and are drawn into gold three times as often,
as active learning does; they are weighted by 1/probability. Strata are merged as in ``us.estimate``.
"""

import argparse

import numpy as np
from scipy.special import ndtri

from understudy.maths.score_intervals import Floats, score_intervals

POOL_ROWS = 20_000
SHARES, GOLD_ROWS, ACCURACIES = (0.01, 0.05, 0.1, 0.3, 0.5), (30, 100, 300, 1000), (0.6, 0.75, 0.9, 0.95)
Z = float(ndtri(0.975))


def wilson_ends(hits: Floats, rows: float) -> tuple[Floats, Floats]:
    share, shrink = hits / rows, 1 + Z**2 / rows
    half = Z * np.sqrt(share * (1 - share) / rows + Z**2 / (4 * rows**2))
    return (share + Z**2 / (2 * rows) - half) / shrink, (share + Z**2 / (2 * rows) + half) / shrink


def ppi_ends(hits: Floats, rows: Floats, weights: Floats, pool_rows: int) -> tuple[Floats, Floats]:
    """Columns: the teacher says no, the teacher says yes."""
    n = rows.sum(1)
    y, f, pool_f = hits.sum(1) / n, rows[:, 1] / n, weights[:, 1]
    slope = (hits[:, 1] / n - y * f) / ((1 + n / pool_rows) * np.maximum(pool_f * (1 - pool_f), 1e-12))
    slope = np.clip(slope, 0, 1)
    centre = y - slope * f
    cells = (hits[:, 1], hits[:, 0], rows[:, 1] - hits[:, 1], rows[:, 0] - hits[:, 0])
    residuals = (1 - slope, 1.0, -slope, 0.0)
    variance = sum(cell / n * (value - centre) ** 2 for cell, value in zip(cells, residuals, strict=True))
    error = np.sqrt(variance / n + slope**2 * pool_f * (1 - pool_f) / pool_rows)
    return centre + slope * pool_f - Z * error, centre + slope * pool_f + Z * error


def draw(
    share: float, gold_rows: int, accuracy: float, repeats: int, by_confidence: bool, rng: np.random.Generator
) -> tuple[Floats, ...]:
    """Weighted hits and effective rows ``(R, 2)`` of gold, rows of the pool, and the pool's true share ``(R,)``."""
    error = np.array([0.3, 1.7]) * (1 - accuracy)
    hard = np.minimum(error, 0.5)
    hits, rows, pool = (np.zeros((repeats, 2)) for _ in range(3))
    truth, seen = np.zeros(repeats), np.zeros(repeats)
    for repeat in range(repeats):
        part = rng.integers(0, 2, POOL_ROWS)
        y = rng.random(POOL_ROWS) < share
        f = y ^ (rng.random(POOL_ROWS) < hard[part])
        truth[repeat], pool[repeat] = y.mean(), np.bincount(f, minlength=2)
        odds = np.where(rng.integers(0, 2, 8 * gold_rows) == 1, 1.0, 1 / 3) if by_confidence else np.ones(gold_rows)
        part = (odds == 1).astype(int) if by_confidence else rng.integers(0, 2, gold_rows)
        y = rng.random(len(odds)) < share
        f = y ^ (rng.random(len(odds)) < hard[part])
        kept = np.flatnonzero(rng.random(len(odds)) < odds)[:gold_rows]
        y, f, weight = y[kept], f[kept], 1 / odds[kept]
        seen[repeat] = y.sum()
        total, squares, hit = (np.bincount(f, each, 2) for each in (weight, weight**2, weight * y))
        rows[repeat] = total**2 / np.maximum(squares, 1e-12)
        hits[repeat] = rows[repeat] * hit / np.maximum(total, 1e-12)
    return hits, rows, pool, truth, seen


def cell(share: float, gold_rows: int, accuracy: float, repeats: int, by_confidence: bool, seed: int) -> list[str]:
    hits, rows, pool, truth, seen = draw(
        share, gold_rows, accuracy, repeats, by_confidence, np.random.default_rng(seed)
    )
    weights = pool / POOL_ROWS
    # As in us.estimate: a stratum with less than two rows joins the other.
    few = rows.min(1) < 2
    hits[few], rows[few], weights[few] = seen[few, None] / 2, gold_rows / 2, 0.5
    estimate = (weights * hits / rows).sum(1)
    found = {
        "estimate": score_intervals(hits, rows, pool, lambda theta: (weights[:, None], theta), estimate),
        "gold alone": wilson_ends(seen, gold_rows),
        "PPI++": ppi_ends(hits, rows, weights, POOL_ROWS),
    }
    alone = np.mean(np.subtract(*found["gold alone"][::-1]))
    texts = [f"{share:.0%}", str(gold_rows), f"{accuracy:.0%}"]
    for name, (low, high) in found.items():
        covered = 100 * np.mean((low <= truth) & (truth <= high))
        texts.append(f"{covered:.1f}" if name == "gold alone" else f"{covered:.1f} ({np.mean(high - low) / alone:.2f})")
    return texts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=500)
    repeats = parser.parse_args().repeats
    for by_confidence in (False, True):
        print(f"\n{'Gold drawn by confidence' if by_confidence else 'Gold drawn at random'}\n")
        print("| share | gold rows | teacher | estimate | gold alone | PPI++ |\n| --- | --- | --- | --- | --- | --- |")
        for number, (share, rows, accuracy) in enumerate(
            (share, rows, accuracy) for share in SHARES for rows in GOLD_ROWS for accuracy in ACCURACIES
        ):
            print("| " + " | ".join(cell(share, rows, accuracy, repeats, by_confidence, number)) + " |", flush=True)


if __name__ == "__main__":
    main()
