"""Who should label what: a planned budget beside asking one source for everything at the same price.

    python -m experiments.label_budget --out docs/results/active_learning.md#label_budget  about 12 minutes of one core

Three sets, 100 gold rows each, three sources at 1, 10 and 100 an answer. *small* is a classifier of few rows
of its own, whose mistakes depend on class and place as those of models do; *big* is an LLM's real answers (movie
reviews), a classifier of 6,000 rows (Fashion-MNIST), or the truth with errors that depend on the class (TREC); *human*
is the truth, with 3% of the answers wrong by chance. TREC's rules have answered every row before, for nothing.

The plan (``us.plan_labels``) spends the budget in five equal parts; before each, a linear student that has not seen
the row, weighed with the answers on gold, says what is known. The others ask one source of rows drawn at random until
the budget or the pool ends. Then all ways do the same: the answers of a row, weighed by gold, are its soft label,
and a linear student is trained on these and on gold. *The same mix* gets from each source as many answers as the plan,
of rows drawn at random: what is left is the choice of rows. *Labels* are those of the whole pool by all that is known
in the end, students included. Sets, prices, budgets and parts were fixed before the first run; that labels are counted
too was added after seed 0 had been looked at.
"""

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np
import torch
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression
from torch import Tensor

import understudy as us
from experiments.alternatives_data import Source, linear_recipe, text
from experiments.data import images
from experiments.table import in_processes, markdown, publish
from understudy.active.label_plan import measure_source, probs_by
from understudy.comparison.interval import Interval
from understudy.inference.passes import predict
from understudy.maths.opinion_pool import fit_opinion_pool
from understudy.maths.source_confusion import cross_likelihood

SEEDS, PARTS, FOLDS, GOLD = 5, 5, 3, 100
PRICES = {"small": 1.0, "big": 10.0, "human": 100.0}
BUDGETS = (2, 10, 40)
"""For every row of the pool."""
PLAN, MIX = "plan", "the same mix"


@dataclass(frozen=True)
class World:
    """One seed of a set. ``answers``: the labels of every source, hidden until paid for."""

    x: Any
    y: Tensor
    answers: Tensor
    """``(n, A)`` of all rows; the last column is that of free sources, where there are any."""
    gold: Tensor
    pool: Tensor
    test: Tensor
    prices: dict[str, float | None]

    @property
    def classes(self) -> int:
        return int(self.y.max()) + 1

    def rows(self, index: Tensor) -> Any:
        return Source.rows(self, index)  # type: ignore[arg-type]


def classifier(x: Any, y: Tensor, own: Tensor, penalty: float = 1.0) -> Tensor:
    """What a classifier of the rows ``own`` says of all rows."""
    model = LogisticRegression(C=penalty, max_iter=300).fit(x[own.numpy()], y[own].numpy())
    return torch.from_numpy(model.predict(x))


def human(y: Tensor, draw: torch.Generator) -> Tensor:
    return wrong_by_chance(y, torch.full((len(y),), 0.03), draw)


def wrong_by_chance(y: Tensor, rate: Tensor, draw: torch.Generator) -> Tensor:
    classes = int(y.max()) + 1
    other = (y + torch.randint(1, classes, y.shape, generator=draw)) % classes
    return torch.where(torch.rand(len(y), generator=draw) < rate, other, y)


@cache
def fashion() -> tuple[Tensor, Tensor, Tensor, Tensor]:
    x, y, x_test, y_test = images("fashion_mnist")
    part = PCA(64, random_state=0).fit(x[:10_000])
    return *(torch.from_numpy(part.transform(one)).float() for one in (x[:20_000], x_test[:4_000])), y, y_test


def clothes(seed: int) -> World:
    x, x_test, y, y_test = fashion()
    draw = torch.Generator().manual_seed(seed)
    few, many, gold, pool = torch.randperm(len(x), generator=draw)[: 10_200 + GOLD].split([200, 6_000, GOLD, 4_000])
    every, truth = torch.cat([x, x_test]), torch.cat([y[: len(x)], y_test[: len(x_test)]])
    answers = [classifier(every.numpy(), truth, few), classifier(every.numpy(), truth, many, 0.1), human(truth, draw)]
    test = torch.arange(len(x), len(every))
    return World(every, truth, torch.stack(answers, 1), gold, pool, test, dict(PRICES))


def reviews(seed: int) -> World:
    source = text("mr_chatgpt")
    draw = torch.Generator().manual_seed(seed)
    order = source.train[torch.randperm(len(source.train), generator=draw)]
    own, gold, pool = order[: 4_400 + GOLD].split([400, GOLD, 4_000])
    llm = torch.from_numpy(source.columns["chatgpt_label"].astype(np.int64)).clamp_min(0)
    answers = [classifier(source.x, source.y, own, 10.0), llm, human(source.y, draw)]
    return World(source.x, source.y, torch.stack(answers, 1), gold, pool, source.test, dict(PRICES))


def questions(seed: int) -> World:
    source = text("weak_trec")
    draw = torch.Generator().manual_seed(seed)
    order = source.train[torch.randperm(len(source.train), generator=draw)]
    own, gold, pool = order[: 4_150 + GOLD].split([150, GOLD, 4_000])
    rules = torch.from_numpy(source.columns["weak_labels"].astype(np.int64))
    majority = us.Votes(rules, source.classes).top1()
    rate = torch.tensor([0.05, 0.25, 0.05, 0.15, 0.1, 0.05])[source.y]
    answers = [classifier(source.x, source.y, own, 10.0), wrong_by_chance(source.y, rate, draw), human(source.y, draw)]
    answers = torch.stack([*answers, torch.where((rules >= 0).any(1), majority, -1)], 1)
    return World(source.x, source.y, answers, gold, pool, source.test, {**PRICES, "rules": None})


SETS: dict[str, Callable[[int], World]] = {
    "Fashion-MNIST, models": clothes, "movie reviews, an LLM": reviews, "TREC, rules": questions,
}  # fmt: skip


@dataclass(frozen=True)
class Purchase:
    """What was paid for so far: answers to pool rows ``(N, A)``, −1: not requested; and pool rows that became gold."""

    votes: Tensor
    gold: Tensor
    cost: float = 0.0

    @classmethod
    def nothing(cls, world: World) -> "Purchase":
        votes = torch.full((len(world.pool), len(world.prices)), -1)
        for at, price in enumerate(world.prices.values()):
            if price is None:
                votes[:, at] = world.answers[world.pool, at]
        return cls(votes, torch.empty(0, dtype=torch.long))

    def ask(self, world: World, name: str, rows: Tensor) -> "Purchase":
        at, votes = list(world.prices).index(name), self.votes.clone()
        fresh = rows[votes[rows, at] < 0]
        votes[fresh, at] = world.answers[world.pool[fresh], at]
        return replace(self, votes=votes, cost=self.cost + len(fresh) * (world.prices[name] or 0.0))


def on_gold(world: World, purchase: Purchase) -> tuple[Tensor, Tensor, Tensor]:
    """Gold rows, the sources' answers to them, and their labels (the human's for new gold)."""
    rows = torch.cat([world.gold, world.pool[purchase.gold]])
    answers = torch.cat([world.answers[world.gold], purchase.votes[purchase.gold]])
    return (
        rows,
        answers,
        torch.cat([world.y[world.gold], purchase.votes[purchase.gold, list(world.prices).index("human")]]),
    )


def weighed(world: World, purchase: Purchase) -> Tensor:
    """The pool rows' chances by their answers, weighed by gold, ``(N, C)``."""
    _, answers, y = on_gold(world, purchase)
    sources = [
        measure_source(name, price, answers[:, at], y, world.classes, trusted=name == "human")
        for at, (name, price) in enumerate(world.prices.items())
    ]
    return probs_by(purchase.votes, answers, y, sources)


def student_of(world: World, gold: Tensor, y: Tensor, rows: Tensor, chances: Tensor, seed: int) -> torch.nn.Module:
    """Trained on gold rows ``gold`` with labels ``y`` and on other rows with soft labels; rows of the world."""
    pool = us.Pool(world.rows(rows), chances) if len(rows) else None
    build = us.models.linear(world.x.shape[1], world.classes)
    recipe = linear_recipe(len(gold) + len(rows), world.classes)
    given = us.Gold(world.rows(gold), y)
    return us.train(build, given, pool, us.vanilla(), epochs=20, seed=seed, progress=False, **recipe).student


def labelled(purchase: Purchase) -> Tensor:
    """Pool rows with an answer that are not gold."""
    has = (purchase.votes >= 0).any(1)
    has[purchase.gold] = False
    return has.nonzero().squeeze(1)


def known(world: World, purchase: Purchase, seed: int) -> Tensor:
    """What is known of the pool's rows, ``(N, C)``: students that have not seen the row, and answers; by gold."""
    chances, rows = weighed(world, purchase), labelled(purchase)
    gold, answers, y = on_gold(world, purchase)
    draw = torch.Generator().manual_seed(seed)
    fold_of_gold = torch.randperm(len(gold), generator=draw) % FOLDS
    fold_of_pool = torch.randperm(len(world.pool), generator=draw) % FOLDS
    mine, of_gold = (torch.zeros(count, world.classes) for count in (len(world.pool), len(gold)))
    for fold in range(FOLDS):
        train, seen = fold_of_gold != fold, rows[fold_of_pool[rows] != fold]
        student = student_of(world, gold[train], y[train], world.pool[seen], chances[seen], seed)
        held_out = fold_of_pool == fold
        mine[held_out] = predict(student, world.rows(world.pool[held_out]))
        of_gold[~train] = predict(student, world.rows(gold[~train]))
    heard = torch.zeros(len(gold), world.classes, dtype=torch.float64)
    for at, name in enumerate(world.prices):
        # A human label of a gold row is its true label, and does not estimate the human.
        there = (answers[:, at] >= 0).nonzero().squeeze(1)
        if name != "human" and len(there) >= 20 and bool((purchase.votes[:, at] >= 0).any()):
            heard[there] += cross_likelihood(answers[there, at].unsqueeze(1), y[there], world.classes)
    scores = torch.stack([of_gold.double().clamp_min(1e-6).log(), heard.log_softmax(1)])
    pooled = fit_opinion_pool(scores, y, full=False)
    found = pooled(torch.stack([mine.double().clamp_min(1e-6).log(), chances.clamp_min(1e-6).log()])).exp()
    # Rows without an answer: the student alone; rows a human labelled are known.
    certain = purchase.votes[:, list(world.prices).index("human")] >= 0
    return torch.where(certain.unsqueeze(1), chances, found)


def planned(world: World, budget: float, seed: int) -> Purchase:
    purchase = Purchase.nothing(world)
    for part in range(PARTS):
        _, answers, y = on_gold(world, purchase)
        left = budget * (part + 1) / PARTS - purchase.cost
        if left < min(price for price in PRICES.values()):
            continue
        chances = known(world, purchase, seed * PARTS + part)
        rest = torch.ones(len(world.pool), dtype=torch.bool).index_fill_(0, purchase.gold, False).nonzero().squeeze(1)
        plan = us.plan_labels(
            world.prices, left, classes=world.classes, answers=purchase.votes[rest], known=chances[rest],
            gold_answers=answers, gold_y=y, trusted="human", seed=seed,
        )  # fmt: skip
        for name, rows in [*plan.asks.items(), *plan.gold_asks.items(), ("human", plan.gold)]:
            purchase = purchase.ask(world, name, rest[rows])
        purchase = replace(purchase, gold=torch.cat([purchase.gold, rest[plan.gold]]))
    return purchase


def one_source(world: World, name: str, budget: float, draw: torch.Generator) -> Purchase:
    count = min(int(budget // PRICES[name]), len(world.pool))
    return Purchase.nothing(world).ask(world, name, torch.randperm(len(world.pool), generator=draw)[:count])


def same_mix(world: World, plan: Purchase, draw: torch.Generator) -> Purchase:
    """As many answers of each source, and as much gold, of rows drawn at random."""
    purchase = Purchase.nothing(world)
    gold = torch.randperm(len(world.pool), generator=draw)[: len(plan.gold)]
    for name, price in world.prices.items():
        if price is not None:
            at = list(world.prices).index(name)
            count = int((plan.votes[:, at] >= 0).sum())
            order = torch.randperm(len(world.pool), generator=draw)
            first = gold if name == "human" else gold[:0]
            rows = torch.cat([first, order[~torch.isin(order, first)][: count - len(first)]])
            purchase = purchase.ask(world, name, rows)
    return replace(purchase, gold=gold)


def score(world: World, purchase: Purchase, seed: int) -> dict[str, Any]:
    chances, rows = weighed(world, purchase), labelled(purchase)
    gold, _, y = on_gold(world, purchase)
    student = student_of(world, gold, y, world.pool[rows], chances[rows], seed)
    right = predict(student, world.rows(world.test)).argmax(1) == world.y[world.test]
    requests = {
        name: int((purchase.votes[:, at] >= 0).sum()) for at, name in enumerate(world.prices) if world.prices[name]
    }
    labels = known(world, purchase, seed).argmax(1) == world.y[world.pool]
    found = {"accuracy": float(right.double().mean()), "labels": float(labels.double().mean())}
    return {**found, "cost": purchase.cost, "requests": requests, "gold": len(purchase.gold)}


def cell(job: tuple[str, int, int]) -> dict[str, dict[str, Any]]:
    name, per_row, seed = job
    torch.set_num_threads(1)
    world, draw = SETS[name](seed), torch.Generator().manual_seed(seed)
    budget = float(per_row * len(world.pool))
    plan = planned(world, budget, seed)
    ways = {PLAN: plan, MIX: same_mix(world, plan, draw)}
    ways |= {f"{source} alone": one_source(world, source, budget, draw) for source in PRICES}
    return {way: score(world, purchase, seed) for way, purchase in ways.items()}


def difference(cells: Sequence[dict[str, dict[str, Any]]], way: str, what: str) -> str:
    one = Interval.of(100 * (found[PLAN][what] - found[way][what]) for found in cells)
    text = f"{one.mean:+.1f} ({one.low:+.1f} to {one.high:+.1f})"
    return f"**{text}**" if one.excludes_zero else text


def tables(names: Sequence[str], budgets: Sequence[int], seeds: int, workers: int) -> str:
    jobs = [(name, budget, seed) for name in names for budget in budgets for seed in range(seeds)]
    found = dict(zip(jobs, in_processes(cell, jobs, workers), strict=True))
    settings = {
        (name, budget): [found[name, budget, seed] for seed in range(seeds)] for name in names for budget in budgets
    }
    alone = [f"{source} alone" for source in PRICES]
    parts = [
        f"**A planned budget, and one source for everything at the same price** (test accuracy in %, {seeds} seeds; "
        "the budget is per row of the pool, an answer costs 1, 10 or 100)",
        *both("accuracy", settings, alone),
        "**Right labels in the pool** (in %, the same seeds):",
        both("labels", settings, alone)[0],
    ]
    return "\n\n".join(part.rstrip() for part in parts) + "\n"


def both(what: str, settings: dict[tuple[str, int], Any], alone: Sequence[str]) -> list[str]:
    """The figures, and the plan less the others."""
    ways = (PLAN, MIX, *alone)
    rows = [
        [*map(str, key), *(f"{100 * mean(one[way][what] for one in cells):.1f}" for way in ways)]
        for key, cells in settings.items()
    ]
    gaps = [
        [*map(str, key), *(difference(cells, way, what) for way in (*alone, MIX))] for key, cells in settings.items()
    ]
    return [
        markdown(["set", "budget", *ways], rows),
        "The plan less the others, in points, paired over seeds, with 95% t-intervals; bold where they exclude 0:",
        markdown(["set", "budget", *(f"− {way}" for way in (*alone, MIX))], gaps),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", nargs="*", default=list(SETS), choices=list(SETS))
    parser.add_argument("--budgets", nargs="*", type=int, default=list(BUDGETS))
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--out", type=Path, help="write the tables to this Markdown file")
    options = parser.parse_args()
    publish(tables(options.sets, options.budgets, options.seeds, options.workers), options.out)


if __name__ == "__main__":
    main()
