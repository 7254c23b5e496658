"""Whether the intervals of ``us.estimate`` hold the truth as often as they say, and how wide they are.

    python -m experiments.estimate_coverage                        about four minutes of one core
    python -m experiments.estimate_coverage --only accuracy --repeats 200

*share*: two classes; the teacher is right on a part of the rows of either class. The truth is the share in the very
pool at hand. Gold is drawn at random, or *by probability*: half of the rows are hard (85% of the errors) and are drawn
three times as often, as active learning does; the pool's probabilities are known, or not. *accuracy*: 5 to 77 classes,
which the teacher gets right between 0 and 100% each (Beta(4, 1.3)). In brackets: the mean width over that of gold alone
(Wilson's interval; with probabilities, its like for weighted rows). PPI++ is ``ppi_mean_ci`` of the package ppi-python,
where $UNDERSTUDY_PEERS names a Python that has it (``experiments/peers.py``).
"""

import argparse
from collections.abc import Callable, Iterable, Iterator
from itertools import product
from typing import Any

import numpy as np

from experiments import peers
from understudy.auditing.pool_estimates import Measured, Question, measure_gold, measure_pool
from understudy.auditing.pool_strata import Proxy

POOL_ROWS = 20_000
SHARES, GOLD_ROWS, ACCURACIES = (0.01, 0.05, 0.1, 0.3, 0.5), (30, 100, 300, 1000), (0.6, 0.75, 0.9, 0.95)
DRAWS = ("at random", "by probability", "by probability, the pool's known")
CLASSES, ACCURACY_ROWS = (5, 20, 77), (50, 100, 300)

#: The question, the truth, and what PPI++ gets: of gold y, prediction and weight; and how many pool rows are named 1.
Draw = tuple[Question, float, tuple[np.ndarray, ...]]


def share_draw(drawn: str, share: float, gold_rows: int, accuracy: float, rng: np.random.Generator) -> Draw:
    error = np.minimum(np.array([0.3, 1.7]) * (1 - accuracy), 0.5)
    # Rows are hard or not, y, and right or not: the pool is how many of each there are.
    kinds = [(hard, y, right) for hard in (0, 1) for y in (0, 1) for right in (0, 1)]
    chance = np.array([0.5 * (share if y else 1 - share) * abs(right - error[hard]) for hard, y, right in kinds])
    hard, y, right = np.array(kinds).T
    f, odds = np.where(right == 1, y, 1 - y), np.where((hard == 1) | (drawn == DRAWS[0]), 1.0, 1 / 3)
    pool = rng.multinomial(POOL_ROWS, chance).astype(np.float64)
    gold = rng.choice(len(kinds), gold_rows, p=chance * odds / (chance @ odds))
    weights = None
    if drawn != DRAWS[0]:
        weights = 1 / odds[gold], 1 / odds if drawn == DRAWS[2] else None
    data = Measured(y[gold], (f[gold], f), (Proxy(f[gold]), Proxy(f)), ["no", "yes"], weights, pool)
    given = y[gold], f[gold], np.array(pool @ f), 1 / odds[gold]
    return Question("share", 1, 1, None, data), float(pool @ y) / POOL_ROWS, given


def accuracy_draw(classes: int, gold_rows: int, rng: np.random.Generator) -> Draw:
    shares, right = rng.dirichlet(np.full(classes, 2.0)), rng.beta(4, 1.3, classes)
    named = rng.choice(classes, gold_rows, p=shares)
    truth = np.where(rng.random(gold_rows) < right[named], named, classes)
    labels, pool = (named, np.arange(classes)), rng.multinomial(POOL_ROWS, shares)
    proxies, hits = (Proxy(labels[0]), Proxy(labels[1])), rng.binomial(pool, right).sum()
    data = Measured(truth, labels, proxies, [""] * classes, None, pool.astype(np.float64))
    return Question("accuracy", None, None, None, data), float(hits) / POOL_ROWS, ()


def ppi_ends(given: list[tuple[np.ndarray, ...]]) -> np.ndarray:
    """``(R, 2)``, by the package itself."""
    y, f, pool_yes, weight = (np.stack(parts) for parts in zip(*given, strict=True))
    return peers.ask("ppi", y=y, f=f, pool_yes=pool_yes, pool_rows=POOL_ROWS, weight=weight)


def cell(draws: Iterator[Draw], *, beside_ppi: bool) -> list[str]:
    """Coverage of all intervals, and their width over that of gold alone."""
    questions, truths, given = zip(*draws, strict=True)
    truth = np.array(truths)
    what, estimated = questions[0].what, questions[0].data.estimated
    found = {
        "estimate": np.array(measure_pool(what, [each.tally() for each in questions], estimated))[:, 1:],
        "gold alone": np.array(measure_gold(what, [each.gold_tally() for each in questions]))[:, 1:],
    }
    if beside_ppi:
        found["PPI++"] = ppi_ends(list(given))
    alone = np.mean(np.diff(found["gold alone"]))
    texts = []
    for name, (low, high) in ((name, ends.T) for name, ends in found.items()):
        covered = 100 * np.mean((low <= truth) & (truth <= high))
        texts.append(f"{covered:.1f}" if name == "gold alone" else f"{covered:.1f} ({np.mean(high - low) / alone:.2f})")
    return texts


def print_table(headings: list[str], cases: Iterable[Any], draw: Callable[..., Draw], repeats: int) -> None:
    """A line for each case: the arguments of ``draw``."""
    beside_ppi = "share" in headings and peers.available()
    names = [*headings, "estimate", "gold alone", *(["PPI++"] if beside_ppi else [])]
    print("\n| " + " | ".join(names) + " |\n|" + " --- |" * len(names))
    for number, case in enumerate(cases):
        rng = np.random.default_rng(number)
        given = [f"{value:.0%}" if isinstance(value, float) else str(value) for value in case]
        covered = cell((draw(*case, rng) for _ in range(repeats)), beside_ppi=beside_ppi)
        print("| " + " | ".join([*given, *covered]) + " |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=500)
    parser.add_argument("--only", choices=["share", "accuracy"])
    given = parser.parse_args()
    if given.only != "accuracy":
        headings = ["gold drawn", "share", "gold rows", "teacher"]
        print_table(headings, product(DRAWS, SHARES, GOLD_ROWS, ACCURACIES), share_draw, given.repeats)
    if given.only != "share":
        print_table(["classes", "gold rows"], product(CLASSES, ACCURACY_ROWS), accuracy_draw, given.repeats)


if __name__ == "__main__":
    main()
