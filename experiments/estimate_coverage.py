"""Whether the intervals of ``us.estimate`` hold the truth as often as they say, and how wide they are.

    python -m experiments.estimate_coverage                        about six minutes of one core
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

#: The question, the truth, and what PPI++ gets: y and its prediction on gold, the prediction on the pool, weights.
Draw = tuple[Question, float, tuple[np.ndarray, ...]]


def share_draw(drawn: str, share: float, gold_rows: int, accuracy: float, rng: np.random.Generator) -> Draw:
    error = np.minimum(np.array([0.3, 1.7]) * (1 - accuracy), 0.5)

    def rows(count: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        hard = rng.integers(0, 2, count)
        y = rng.random(count) < share
        return hard, y, y ^ (rng.random(count) < error[hard])

    odds_of = np.array([1.0, 1.0] if drawn == DRAWS[0] else [1 / 3, 1.0])
    hard, y, f = rows(gold_rows if drawn == DRAWS[0] else 8 * gold_rows)
    kept = np.flatnonzero(rng.random(len(y)) < odds_of[hard])[:gold_rows]
    (on_pool, pool_y, pool_f), odds = rows(POOL_ROWS), odds_of[hard[kept]]
    labels = f[kept].astype(np.int64), pool_f.astype(np.int64)
    weights = (1 / odds, 1 / odds_of[on_pool] if drawn == DRAWS[2] else None)
    proxies = Proxy(labels[0]), Proxy(labels[1])
    data = Measured(y[kept].astype(np.int64), labels, proxies, ["no", "yes"], None if drawn == DRAWS[0] else weights)
    return Question("share", 1, 1, None, data), float(pool_y.mean()), (y[kept], f[kept], pool_f, 1 / odds)


def accuracy_draw(classes: int, gold_rows: int, rng: np.random.Generator) -> Draw:
    shares, right = rng.dirichlet(np.full(classes, 2.0)), rng.beta(4, 1.3, classes)
    named = rng.choice(classes, gold_rows + POOL_ROWS, p=shares)
    hit = rng.random(len(named)) < right[named]
    truth = np.where(hit, named, (named + 1) % classes)
    labels = named[:gold_rows], named[gold_rows:]
    proxies = Proxy(labels[0]), Proxy(labels[1])
    data = Measured(truth[:gold_rows], labels, proxies, [str(each) for each in range(classes)])
    return Question("accuracy", None, None, None, data), float(hit[gold_rows:].mean()), ()


def ppi_ends(given: list[tuple[np.ndarray, ...]]) -> np.ndarray:
    """``(R, 2)``, by the package itself."""
    y, f, pool, weight = (np.stack(parts) for parts in zip(*given, strict=True))
    return peers.ask("ppi", y=y, f=f, pool_yes=pool.sum(1), pool_rows=POOL_ROWS, weight=weight)


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
