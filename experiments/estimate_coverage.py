"""Whether the intervals of ``us.estimate`` hold the truth as often as they say, and how wide they are.

    python -m experiments.estimate_coverage                        about four minutes of one core
    python -m experiments.estimate_coverage --only real --repeats 200

*share*: two classes; the teacher is right on a part of the rows of either class. The truth is the share in the very
pool at hand. Gold is drawn at random, or *by probability*: half of the rows are hard (85% of the errors) and are drawn
three times as often, as active learning does; the pool's probabilities are known, or not. *accuracy*: 5 to 77 classes,
which the teacher gets right between 0 and 100% each (Beta(4, 1.3)). In brackets: the mean width over that of gold alone
(Wilson's interval; with probabilities, ours of the weighted rows). *real*: gold drawn from real data of known truth:
Banking77 and movie reviews labelled by LLMs, and Adult, whose teacher is a logistic regression with its probability.
PPI++ is ``ppi_mean_ci`` of the package ppi-python,
where $UNDERSTUDY_PEERS names a Python that has it (``experiments/peers.py``).
"""

import argparse
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from itertools import product
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from experiments import peers
from experiments.data import data_file
from understudy.auditing.pool_estimates import Measured, Question
from understudy.auditing.pool_strata import Proxy, Tally, measure_gold, measure_pool
from understudy.maths.proportions import wilson

POOL_ROWS = 20_000
SHARES, GOLD_ROWS, ACCURACIES = (0.01, 0.05, 0.1, 0.3, 0.5), (30, 100, 300, 1000), (0.6, 0.75, 0.9, 0.95)
DRAWS = ("at random", "by probability", "by probability, the pool's known")
CLASSES, ACCURACY_ROWS = (5, 20, 77), (50, 100, 300)

#: The question, the truth, and what PPI++ gets: y, prediction and weight of gold; pool rows named 1, and all of them.
Draw = tuple[Question, float, tuple[np.ndarray, ...]]


def share_draw(drawn: str, share: float, gold_rows: int, accuracy: float, rng: np.random.Generator) -> Draw:
    error = np.array([0.3, 1.7]) * (1 - accuracy)
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
    given = y[gold], f[gold], 1 / odds[gold], np.array([pool @ f, POOL_ROWS])
    return Question("share", 1, 1, None, data), float(pool @ y) / POOL_ROWS, given


def accuracy_draw(classes: int, gold_rows: int, rng: np.random.Generator) -> Draw:
    shares, right = rng.dirichlet(np.full(classes, 2.0)), rng.beta(4, 1.3, classes)
    named = rng.choice(classes, gold_rows, p=shares)
    truth = np.where(rng.random(gold_rows) < right[named], named, classes)
    labels, pool = (named, np.arange(classes)), rng.multinomial(POOL_ROWS, shares)
    proxies, hits = (Proxy(labels[0]), Proxy(labels[1])), rng.binomial(pool, right).sum()
    data = Measured(truth, labels, proxies, [""] * classes, None, pool.astype(np.float64))
    return Question("accuracy", None, None, None, data), float(hits) / POOL_ROWS, ()


@cache
def real_data(name: str) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """Truths, labels, and confidences."""
    file = {"Banking77": "text/banking77_llm", "reviews": "text/mr_chatgpt", "Adult": "tabular/adult"}[name]
    table = pq.read_table(data_file(f"{file}.parquet")).to_pandas()
    if name == "Adult":
        from sklearn.linear_model import LogisticRegression
        from sklearn.preprocessing import StandardScaler

        x = StandardScaler().fit_transform(table.select_dtypes("number").drop(columns="label", errors="ignore"))
        y, seen = np.unique(table["label"], return_inverse=True)[1], table["split"] == "test"
        probs = LogisticRegression().fit(x[seen][:1000], y[seen][:1000]).predict_proba(x[~seen])
        return y[~seen], probs.argmax(1), probs.max(1)
    labels = "llm_label" if name == "Banking77" else "chatgpt_label"
    table = table[~table[labels].isin(["", -1, -9])]
    names = {each: number for number, each in enumerate(np.unique(table["label"]))}
    return *(table[each].map(names).to_numpy() for each in ("label", labels)), None


def real_draw(name: str, gold_rows: int, what: str, rng: np.random.Generator) -> Iterator[Draw]:
    """A random sample as gold, all other rows as the pool; of every class."""
    truth, named, confidence = real_data(name)
    order = rng.permutation(len(truth))
    gold, pool, classes = order[:gold_rows], order[gold_rows:], int(truth.max()) + 1
    labels, counts = (named[gold], named[pool]), None
    proxies = tuple(Proxy(named[rows], None if confidence is None else confidence[rows]) for rows in (gold, pool))
    if confidence is None:
        # Rows of one label are alike: how many there are is enough.
        counts, labels = (
            np.bincount(named[pool], minlength=classes).astype(np.float64),
            (named[gold], np.arange(classes)),
        )
        proxies = Proxy(labels[0]), Proxy(labels[1])
    data = Measured(truth[gold], labels, proxies, [""] * classes, None, counts)
    for label in range(classes) if what == "share" else (None,):
        hit = truth == (named if label is None else label)
        given = hit[gold], named[gold] == label, np.ones(gold_rows), np.array([(named[pool] == label).sum(), len(pool)])
        yield Question(what, label, label, None, data), float(hit[pool].mean()), given


def ppi_ends(given: list[tuple[np.ndarray, ...]]) -> np.ndarray:
    """``(R, 2)``, by the package itself."""
    y, f, weight, pool = (np.stack(parts) for parts in zip(*given, strict=True))
    return peers.ask("ppi", y=y, f=f, weight=weight, pool=pool)


def endless(tally: Tally) -> Tally:
    """Of an endless pool: Wilson's interval."""
    return tally._replace(pool=np.full_like(tally.rows, np.inf))


def cell(draws: list[Draw], *, beside_ppi: bool) -> list[str]:
    """Coverage of all intervals, and their width over that of gold alone."""
    questions, truths, given = zip(*draws, strict=True)
    truth = np.array(truths)
    what, estimated = questions[0].what, questions[0].data.estimated
    if questions[0].data.weights is None:
        counts = [(float(each.hit.sum()), len(each.hit)) for each in questions]
        alone = np.array([(one.low, one.high) for one in (wilson(*count) for count in counts)])
    else:
        alone = np.array(measure_gold(what, [endless(each.gold_tally()) for each in questions]))[:, 1:]
    tallies = [each.tally() for each in questions]
    found = {"estimate": np.array(measure_pool(what, tallies, estimated))[:, 1:], "gold alone": alone}
    if beside_ppi:
        found["PPI++"] = ppi_ends(list(given))
    width = np.mean(np.diff(alone))
    texts = []
    for name, (low, high) in ((name, ends.T) for name, ends in found.items()):
        covered = 100 * np.mean((low <= truth) & (truth <= high))
        texts.append(f"{covered:.1f}" if name == "gold alone" else f"{covered:.1f} ({np.mean(high - low) / width:.2f})")
    return texts


def print_table(
    headings: list[str], cases: Iterable[Any], draw: Callable[..., Draw | Iterator[Draw]], repeats: int
) -> None:
    """A line for each case: the arguments of ``draw``."""
    beside_ppi = "teacher" in headings and peers.available()
    names = [*headings, "estimate", "gold alone", *(["PPI++"] if beside_ppi else [])]
    print("\n| " + " | ".join(names) + " |\n|" + " --- |" * len(names))
    for number, case in enumerate(cases):
        rng = np.random.default_rng(number)
        given = [f"{value:.0%}" if isinstance(value, float) else str(value) for value in case]
        drawn = [draw(*case, rng) for _ in range(repeats)]
        every = [each for one in drawn for each in ([one] if isinstance(one, tuple) else one)]
        print("| " + " | ".join([*given, *cell(every, beside_ppi=beside_ppi)]) + " |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=500)
    parser.add_argument("--only", choices=["share", "accuracy", "real"])
    given = parser.parse_args()
    if given.only in (None, "share"):
        headings = ["gold drawn", "share", "gold rows", "teacher"]
        print_table(headings, product(DRAWS, SHARES, GOLD_ROWS, ACCURACIES), share_draw, given.repeats)
    if given.only in (None, "accuracy"):
        print_table(["classes", "gold rows"], product(CLASSES, ACCURACY_ROWS), accuracy_draw, given.repeats)
    if given.only in (None, "real"):
        cases = product(("Banking77", "reviews", "Adult"), (100, 300, 1000), ("share", "accuracy"))
        print_table(["data", "gold rows", "what"], cases, real_draw, given.repeats)


if __name__ == "__main__":
    main()
