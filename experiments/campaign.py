"""Campaigns beside random labelling at the same budget, with an annotator who knows the truth.

    python -m experiments.campaign --out docs/results/active_learning.md#campaign  about 4 minutes of one core

What ``understudy campaign`` does (``us.active.Loop`` with its defaults: 50 rows at random, then rounds of 50 picked by
their margin) on TREC questions, YouTube comments and Fashion-MNIST, to 400 labels (YouTube: 250, of 1,706 rows). Random
labelling is the same campaign with rows drawn at random in every round, from the same first 50. Features are TF-IDF of
the 3,000 most frequent words and pairs, and 64 principal components of the images; students are linear, trained to
convergence (scikit-learn's C = 10). On the two rule sets a second pair of campaigns also trains on what the rules say
of all other rows, weighed by gold (``--method vanilla --votes gold``). Sets, sizes and strategy were fixed before the
first run.
"""

import argparse
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np
import torch

import understudy as us
from experiments.alternatives_data import C, Source, text
from experiments.label_budget import fashion
from experiments.table import in_processes, markdown, publish
from understudy.comparison.interval import Interval

SEEDS, START, BATCH, POOL = 5, 50, 50, 4_000
TERMS = 3_000
STRATEGIES = ("margin", "random")


@dataclass(frozen=True)
class Setting:
    deal: Callable[[], Source]
    budget: int
    rules: bool = False


@cache
def clothes() -> Source:
    x, x_test, y, y_test = fashion()
    every = torch.cat([x, x_test])
    truth = torch.cat([y[: len(x)], y_test[: len(x_test)]])
    return Source(every, truth, torch.arange(len(x)), torch.arange(len(x), len(every)), {})


@cache
def words(name: str) -> Source:
    source = text(name)
    frequent = np.sort(np.argsort(-source.x.getnnz(axis=0), kind="stable")[:TERMS])
    return replace(source, x=source.x[:, frequent])


SETTINGS = {
    "TREC": Setting(partial(words, "weak_trec"), 400),
    "YouTube": Setting(partial(words, "weak_youtube"), 250),
    "Fashion-MNIST": Setting(clothes, 400),
    "TREC, with its rules": Setting(partial(words, "weak_trec"), 400, rules=True),
    "YouTube, with its rules": Setting(partial(words, "weak_youtube"), 250, rules=True),
}


def campaign(job: tuple[str, str, int]) -> list[tuple[int, float]]:
    """(labels, test accuracy) after every round."""
    name, strategy, seed = job
    torch.set_num_threads(1)
    setting = SETTINGS[name]
    source = setting.deal()
    drawn = source.train[torch.randperm(len(source.train), generator=torch.Generator().manual_seed(seed))[:POOL]]
    labels: Any = None
    if setting.rules:
        votes = torch.from_numpy(source.columns["weak_labels"].astype(np.int64))[drawn]
        labels = us.Votes(votes, source.classes, by="gold")
    rows = len(drawn) if setting.rules else setting.budget
    with tempfile.TemporaryDirectory() as folder:
        result = us.active.Loop(
            us.models.linear(source.x.shape[1], source.classes), source.rows(drawn), source.y[drawn], strategy,
            out=Path(folder) / "loop", start=START, batch=BATCH, budget=setting.budget, seed=seed,
            test=us.Gold(source.rows(source.test), source.y[source.test]), teacher=labels, progress=False, epochs=20,
            optimizer="lbfgs", weight_decay=us.l2_of_c(C, rows, source.classes),
        ).run()  # fmt: skip
    return [(record["asked"], record["test"]["accuracy"]) for record in result.records]


def difference(one: Sequence[float], other: Sequence[float]) -> str:
    gap = Interval.of(100 * (mine - theirs) for mine, theirs in zip(one, other, strict=True))
    text = f"{gap.mean:+.1f} ({gap.low:+.1f} to {gap.high:+.1f})"
    return f"**{text}**" if gap.excludes_zero else text


def tables(names: Sequence[str], seeds: range, workers: int) -> str:
    jobs = [(name, strategy, seed) for name in names for seed in seeds for strategy in STRATEGIES]
    found = dict(zip(jobs, in_processes(campaign, jobs, workers), strict=True))
    rows = []
    for name in names:
        each = {strategy: [found[name, strategy, seed] for seed in seeds] for strategy in STRATEGIES}
        final = {strategy: [run[-1][1] for run in runs] for strategy, runs in each.items()}
        halfway = {strategy: [run[len(run) // 2][1] for run in runs] for strategy, runs in each.items()}
        shown = [f"{100 * mean(final[strategy]):.1f}" for strategy in STRATEGIES]
        budget = str(SETTINGS[name].budget)
        rows.append([name, budget, *shown, difference(*final.values()), difference(*halfway.values())])
    parts = [
        f"**Campaigns beside random labelling** (test accuracy in % with all labels, {len(seeds)} seeds; differences "
        "paired, in points, with 95% t-intervals, bold where they exclude 0)",
        markdown(["set", "labels", "campaign", "random", "campaign − random", "halfway"], rows),
    ]
    return "\n\n".join(part.rstrip() for part in parts) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", nargs="*", default=list(SETTINGS), choices=list(SETTINGS))
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--out", type=Path, help="write the tables to this Markdown file")
    options = parser.parse_args()
    publish(tables(options.sets, range(options.first, options.first + options.seeds), options.workers), options.out)


if __name__ == "__main__":
    main()
