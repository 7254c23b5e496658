"""Votes of rules, weighed four ways: by majority, by Dawid–Skene, by gold, and by EM anchored in gold.

    python -m experiments.votes_by_gold --out docs/results/auto.md#votes_by_gold          about a minute on one core

YouTube comments (10 rules, 2 classes), TREC questions (68 rules, 6 classes) and SMS (73 rules, 2 classes). A seed draws
50, 100 or 200 of the rows with a vote as gold; counted is how often the other rows' labels are right. EM anchored in
gold is Dawid–Skene's, started from the sources counted on gold, gold rows held at their truth. Neither it nor
Dawid–Skene knows which rules copy each other: both find the rules' agreement instead of the truth, and the more rows
without truth there are, the more they do.
"""

import argparse
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from statistics import mean

import numpy as np
import pyarrow.parquet as pq
import torch
from torch import Tensor

from experiments.data import data_file
from experiments.table import markdown, publish
from understudy.comparison.interval import Interval
from understudy.maths.annotators import DawidSkene, fit_dawid_skene, vote_shares
from understudy.maths.source_confusion import fit_sources, fit_votes

SETS = {"YouTube": ("weak_youtube", 2), "TREC": ("weak_trec", 6), "SMS": ("weak_sms", 2)}
SIZES = (50, 100, 200)
SEEDS = 5
BY_GOLD = "by gold"
Votes = tuple[Tensor, Tensor]
"""The rules' votes ``(n, A)``, and the truth ``(n,)``."""


@cache
def rules(name: str) -> Votes:
    """The rows with a vote."""
    table = pq.read_table(data_file(f"text/{name}.parquet"))
    votes = torch.from_numpy(np.array(table["weak_labels"].to_pylist()))
    truth = torch.from_numpy(table["label"].to_numpy().astype(np.int64))
    kept = torch.from_numpy(table["split"].to_numpy(zero_copy_only=False) != "test") & (votes >= 0).any(1)
    return votes[kept], truth[kept]


def anchored(gold: Votes, pool: Tensor, classes: int, *, steps: int = 20) -> Tensor:
    """The pool rows' posteriors by EM; gold rows stay at their truth."""
    first = fit_sources(*gold, classes)
    model = DawidSkene(first.prior, first.confusion, torch.empty(0), [], False)
    known = torch.nn.functional.one_hot(gold[1], classes).double()
    answers = torch.cat([gold[0], pool]).long()
    answers = torch.where(answers < 0, classes, answers)
    for _ in range(steps):
        posterior = torch.cat([known, model.posterior_of(pool)])
        counts = torch.zeros(answers.shape[1], classes + 1, classes, dtype=torch.float64)
        for source, given in enumerate(answers.unbind(1)):
            counts[source].index_add_(0, given, posterior)
        confusion = counts.transpose(1, 2) + 0.01
        prior = posterior.sum(0) / len(posterior)
        model = DawidSkene(prior, confusion / confusion.sum(2, keepdim=True), torch.empty(0), [], False)
    return model.posterior_of(pool)


WAYS: dict[str, Callable[[Votes, Tensor, int], Tensor]] = {
    "majority": lambda gold, pool, classes: vote_shares(pool, classes),
    "Dawid–Skene": lambda gold, pool, classes: fit_dawid_skene(pool, classes).posterior,
    "EM anchored in gold": anchored,
    BY_GOLD: lambda gold, pool, classes: fit_votes(*gold, classes).posterior_of(pool),
}


def cell(name: str, size: int, seed: int) -> dict[str, float]:
    """Per way: the share right in percent."""
    file, classes = SETS[name]
    votes, truth = rules(file)
    order = torch.randperm(len(votes), generator=torch.Generator().manual_seed(seed))
    gold, pool = order[:size], order[size:]
    found = {}
    for way, label in WAYS.items():
        posterior = label((votes[gold], truth[gold]), votes[pool], classes)
        found[way] = 100 * float((posterior.argmax(1) == truth[pool]).double().mean())
    return found


def gap(cells: Sequence[dict[str, float]], way: str) -> str:
    """By gold less another way, paired."""
    one = Interval.of(found[BY_GOLD] - found[way] for found in cells)
    return f"{one.mean:+.1f} ({one.low:+.1f} to {one.high:+.1f})"


def tables(seeds: int) -> str:
    found = {(name, size): [cell(name, size, seed) for seed in range(seeds)] for name in SETS for size in SIZES}
    others = [way for way in WAYS if way != BY_GOLD]

    right = [
        [name, str(size), *(f"{mean(one[way] for one in cells):.1f}" for way in WAYS)]
        + [gap(cells, way) for way in others]
        for (name, size), cells in found.items()
    ]
    header = ["rules", "gold rows", *WAYS]
    parts = [
        f"**Labels from rules, weighed four ways** (rows right in %, {seeds} draws of gold; differences paired, with "
        "95% t-intervals)",
        markdown([*header, *(f"by gold − {way}" for way in others)], right),
    ]
    return "\n\n".join(part.rstrip() for part in parts) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--out", type=Path, help="write the tables to this Markdown file")
    options = parser.parse_args()
    torch.set_num_threads(1)
    publish(tables(options.seeds), options.out)


if __name__ == "__main__":
    main()
