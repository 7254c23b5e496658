"""Who should label what: a budget split between more gold, better labels for doubtful rows, and more labelled rows.

    plan = us.plan_labels(
        {"small": 0.001, "big": 0.01, "human": 0.5}, 200.0, classes=3, trusted="human",
        answers=answers, gold_answers=on_gold, gold_y=y,          # (N, 3) and (n, 3), −1: not asked; (n,)
    )
    plan.asks["big"]                  # pool rows to ask it of, what adds most first
    plan.gold                         # rows drawn at random for the trusted source: new gold
    plan.words                        # why

Everything is counted in clean labels (``maths/label_value.py``). Gold says how often a source is right, class by class
(``active/measured_sources.py``); with what is known of a row that gives what its answer would add. The answers that add
most for their price are bought: of rows that nobody has labelled (*more pool*) and of rows whose label is in doubt
(*better labels*) alike.

*More gold* pays twice. A gold row is a clean label of a row drawn at random. And it tells the sources' confusions more
exactly: with g gold rows these are a draw from their posterior (Dirichlet, smoothed as ``fit_sources`` does). R, the
clean labels lost by reading the planned answers by another draw, falls with the variance, as 1/g, so that m rows more
save R·m / (g + m). The plan has the m for which new gold and what the rest of the budget buys are worth most together.

Sources without gold are given a *trial* first: gold rows they are asked about. A source that is right no more often
than by chance is left out.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np
import torch
from torch import Tensor

from understudy.active.measured_sources import LEAST_GOLD, SourceValue, chances_by, measured
from understudy.active.plan_result import LabelPlan, Rows
from understudy.arguments import checked
from understudy.data.checks import check_labels, to_tensor
from understudy.errors import UnderstudyError
from understudy.labels.votes import Votes
from understudy.maths.label_value import (
    Steps,
    answered_together,
    error_after,
    purity,
    purity_after,
    regret,
    steps_by_worth,
    taken,
)

TRIAL_ROWS, TRIAL_SHARE = 50, 0.2
"""Gold rows of a source's trial, and the most that all trials take of the budget."""
DRAWS, REGRET_ROWS = 16, 2_000
SPLITS = 12
# Two sources are asked of one row together up to so many classes; beyond, their joint answers are too many.
MOST_CLASSES = 16


@checked
def plan_labels(
    prices: Mapping[str, float | None],
    budget: float,
    *,
    classes: int,
    answers: Any = None,
    known: Any = None,
    gold_answers: Any = None,
    gold_y: Any = None,
    trusted: str | None = None,
    seed: int = 0,
) -> LabelPlan:
    """Which rows to have labelled by whom for ``budget``.

    ``prices``: of one answer, by source; None: it cannot be asked, and what it has said counts. ``answers (N, A)``:
    what the sources, in that order, have said of the pool's rows, −1 where they were not asked; ``gold_answers (n, A)``
    the same of rows whose truth is ``gold_y``. ``known (N, C)``: the truth's chances by all that is known (reconciled
    labels, a student's), the answers included; None: by the answers alone. ``trusted``: the source whose word is gold.
    """
    _check(prices, budget, trusted)
    votes, on_gold, y = _answers(answers, known, gold_answers, gold_y, classes, len(prices))
    sources = tuple(
        measured(name, price, on_gold[:, at], y, classes, trusted=name == trusted)
        for at, (name, price) in enumerate(prices.items())
    )
    chances = chances_by(votes, on_gold, y, sources) if known is None else _chances(known, len(votes), classes)
    draw = np.random.default_rng(seed)
    trials = _trials(sources, on_gold, budget, draw)
    if not trials and not any(one.askable for one in sources):
        why = "; ".join(f"{one.name}: {one.left_out}" for one in sources)
        raise UnderstudyError(f"no source can be asked ({why}); give gold rows with the sources' answers")
    spent = sum(len(trials[one.name]) * one.cost for one in sources if one.name in trials)
    market = _Market(sources, votes, chances)
    gold, splits = market.new_gold(budget - spent, trusted, len(y), draw)
    plan = market.plan(budget, spent, gold, trusted)
    return replace(plan, trials=trials, splits=splits)


def _check(prices: Mapping[str, float | None], budget: float, trusted: str | None) -> None:
    for name, price in prices.items():
        number = isinstance(price, int | float) and not isinstance(price, bool) and math.isfinite(price)
        if price is not None and not (number and price >= 0):
            raise UnderstudyError(f"the price of {name} is {price!r}; give a number, 0 or more")
    asked = {name: price for name, price in prices.items() if price is not None}
    if not asked:
        raise UnderstudyError("prices= names no source to ask; give the price of one answer for each, as human=0.5")
    if not (math.isfinite(budget) and budget >= 0):
        raise UnderstudyError(f"budget={budget} must be a number, 0 or more")
    if trusted is not None and trusted not in asked:
        raise UnderstudyError(f"trusted={trusted!r} has no price; use one of {', '.join(asked)}")
    cheapest = min(asked, key=lambda name: asked[name])
    if budget < asked[cheapest]:
        raise UnderstudyError(
            f"a budget of {budget:g} buys no answer: the cheapest source, {cheapest}, takes {asked[cheapest]:g}; "
            "raise the budget"
        )


def _answers(
    answers: Any, known: Any, gold_answers: Any, gold_y: Any, classes: int, sources: int
) -> tuple[Tensor, Tensor, Tensor]:
    """What was said of pool rows ``(N, A)`` and gold rows ``(n, A)``, and the truth ``(n,)``."""
    if answers is None and known is None:
        raise UnderstudyError("nothing says how many rows there are; give answers= (−1: not asked) or known=")
    if (gold_answers is None) != (gold_y is None):
        raise UnderstudyError("gold_answers= and gold_y= belong together; give both or neither")
    votes = torch.full((len(known), sources), -1) if answers is None else _votes(answers, classes, sources, "answers")
    if gold_y is None:
        return votes, torch.empty(0, sources, dtype=torch.long), torch.empty(0, dtype=torch.long)
    y = check_labels(gold_y, "gold_y")
    on_gold = _votes(gold_answers, classes, sources, "gold_answers")
    if len(y) != len(on_gold):
        raise UnderstudyError(f"gold_y has {len(y)} rows, gold_answers {len(on_gold)}; give one of each per gold row")
    if len(y) and int(y.max()) >= classes:
        raise UnderstudyError(f"gold_y holds class {int(y.max())}, but classes={classes}; correct one of them")
    return votes, on_gold, y


def _votes(given: Any, classes: int, sources: int, where: str) -> Tensor:
    votes = Votes(given, classes, where=where).votes.long()
    if votes.shape[1] != sources:
        raise UnderstudyError(f"{where} has {votes.shape[1]} columns, prices= names {sources} sources; give one each")
    return votes


def _chances(known: Any, rows: int, classes: int) -> Tensor:
    chances = to_tensor(known, "known").double()
    if chances.shape != (rows, classes):
        raise UnderstudyError(f"known has shape {tuple(chances.shape)}; {rows} rows need a chance for each class")
    if not bool(((chances >= 0).all(1) & ((chances.sum(1) - 1).abs() < 1e-3)).all()):
        raise UnderstudyError("known holds rows that are no chances; all must be at least 0, and a row sum to 1")
    return chances / chances.sum(1, keepdim=True)


def _trials(sources: Sequence[SourceValue], on_gold: Tensor, budget: float, draw: np.random.Generator) -> Rows:
    """Gold rows to ask unknown sources about."""
    trials, left = {}, TRIAL_SHARE * budget
    for at, one in enumerate(sources):
        fresh = (on_gold[:, at] < 0).nonzero().squeeze(1).numpy()
        answered = len(on_gold) - len(fresh)
        if one.price is None or one.usable or answered >= LEAST_GOLD:
            continue
        afford = TRIAL_ROWS if one.price == 0 else int(left / one.price + 1e-9)
        rows = draw.permutation(fresh)[: min(TRIAL_ROWS, afford)]
        if answered + len(rows) >= LEAST_GOLD:
            trials[one.name] = torch.from_numpy(np.sort(rows))
            left -= len(rows) * one.cost
    return trials


class _Market:
    """What can be bought of which row, and what it is worth."""

    def __init__(self, sources: Sequence[SourceValue], votes: Tensor, chances: Tensor) -> None:
        self.sources, self.votes, self.chances = tuple(sources), votes, chances
        usable = [at for at, one in enumerate(sources) if one.askable]
        estimated = [at for at in usable if sources[at].is_estimated]
        pairs = combinations(estimated, 2) if chances.shape[1] <= MOST_CLASSES else ()
        self.options: list[tuple[int, ...]] = [*((at,) for at in usable), *pairs]
        """Sources that are asked of one row; together only where none is sure by itself."""
        self.confusions = [self._joint([one.confusion for one in sources], option) for option in self.options]
        self.gains = torch.stack([self._gain(*each) for each in zip(self.options, self.confusions, strict=True)] or
                                 [torch.full((len(votes),), -math.inf, dtype=torch.float64)], 1)  # fmt: skip
        prices = [sum(sources[at].cost for at in option) for option in self.options]
        self.steps = steps_by_worth(self.gains, torch.tensor(prices or [0.0], dtype=torch.float64))

    @staticmethod
    def _joint(confusions: Sequence[Tensor], option: tuple[int, ...]) -> Tensor:
        first, *second = (confusions[at] for at in option)
        return answered_together(first, second[0]) if second else first

    def _gain(self, option: tuple[int, ...], confusion: Tensor) -> Tensor:
        """Clean labels that it adds, ``(N,)``; −inf where a source was asked already, or would say nothing."""
        asked = (self.votes[:, list(option)] >= 0).any(1)
        more = purity_after(self.chances, confusion) - purity(self.chances)
        return torch.where(asked | (more < 1e-9), -math.inf, more)  # rounding must not sell anything

    def best(self, budget: float, without: Tensor) -> Tensor:
        """The option of each row, ``(N,)``, −1: none, for so much; ``without``: rows that are not asked about."""
        others = ~torch.isin(self.steps.row, without)
        return taken(Steps(*(values[others] for values in self.steps)), len(self.votes), budget)

    def worth(self, budget: float, without: Tensor) -> float:
        """Clean labels that these answers add."""
        choice = self.best(budget, without)
        rows = (choice >= 0).nonzero().squeeze(1)
        return float(self.gains[rows, choice[rows]].sum())

    def new_gold(
        self, budget: float, trusted: str | None, have: int, draw: np.random.Generator
    ) -> tuple[Tensor, tuple[tuple[int, float], ...]]:
        """Rows drawn at random, as many as are worth most together with what the rest buys; and what was weighed."""
        nothing = torch.empty(0, dtype=torch.long)
        if trusted is None:
            return nothing, ((0, self.worth(budget, nothing)),)
        at = [one.name for one in self.sources].index(trusted)
        own = self._gain((at,), self.sources[at].confusion)
        # Rows that seem certain too: what is drawn from doubtful ones alone is no random sample.
        fresh = (self.votes[:, at] < 0).nonzero().squeeze(1)
        drawn = torch.from_numpy(draw.permutation(fresh.numpy()))
        price = torch.full((len(drawn),), self.sources[at].cost, dtype=torch.float64)
        for other, one in enumerate(self.sources):
            if one.is_estimated:
                price += one.cost * (self.votes[drawn, other] < 0)
        paid = torch.cat([torch.zeros(1, dtype=torch.float64), price.cumsum(0)])
        most = int((paid <= budget + 1e-9 * max(budget, 1.0)).sum()) - 1
        lost = self._lost(self.best(budget, nothing), draw)
        mean = float(own[drawn].clamp_min(0).mean()) if len(drawn) else 0.0
        amounts = sorted({round(most * (step / SPLITS) ** 2) for step in range(SPLITS + 1)})
        splits = tuple(
            (m, m * mean + (lost * m / (have + m) if m else 0.0) + self.worth(budget - float(paid[m]), drawn[:m]))
            for m in amounts
        )
        return drawn[: max(splits, key=lambda one: one[1])[0]].sort().values, splits

    def _lost(self, choice: Tensor, draw: np.random.Generator) -> float:
        """R: clean labels lost because the sources' confusions are only estimated."""
        rows = torch.from_numpy(draw.permutation(len(self.chances))[:REGRET_ROWS])
        total = 0.0
        for _ in range(DRAWS):
            drawn = [_draw(one, draw) for one in self.sources]
            for number, (option, believed) in enumerate(zip(self.options, self.confusions, strict=True)):
                mine = self.chances[rows[choice[rows] == number]]
                total += float(regret(mine, believed, self._joint(drawn, option)).sum())
        return total / DRAWS * len(self.chances) / max(len(rows), 1)

    def plan(self, budget: float, spent: float, gold: Tensor, trusted: str | None) -> LabelPlan:
        """The best answers for what gold leaves of the budget."""
        chances, gold_asks = self.chances, {}
        for at, one in enumerate(self.sources):
            fresh = gold[self.votes[gold, at] < 0]
            if one.name == trusted:
                spent += one.cost * len(gold)
            elif one.is_estimated and one.askable and len(fresh):
                gold_asks[one.name] = fresh
                spent += one.cost * len(fresh)
        choice = self.best(budget - spent, gold)
        gain, wrong = torch.zeros(len(chances), dtype=torch.float64), 1 - chances.amax(1)
        now = float(wrong.mean()), float(purity(chances).sum())
        asks: dict[str, list[Tensor]] = {one.name: [gold[:0]] for one in self.sources if one.price is not None}
        for number, option in enumerate(self.options):
            rows = (choice == number).nonzero().squeeze(1)
            gain[rows], wrong[rows] = self.gains[rows, number], error_after(chances[rows], self.confusions[number])
            for at in option:
                asks[self.sources[at].name].append(rows)
                spent += len(rows) * self.sources[at].cost
        gain[gold], wrong[gold] = 1 - purity(chances[gold]), 0.0
        ranked = {name: torch.cat(parts) for name, parts in asks.items()}
        ranked = {name: rows[gain[rows].argsort(descending=True, stable=True)] for name, rows in ranked.items()}
        return LabelPlan(
            budget, spent, self.sources, ranked, gold, gold_asks, {}, gain, chances, (now[0], float(wrong.mean())),
            (now[1], now[1] + float(gain.sum())), (), trusted,
        )  # fmt: skip


def _draw(source: SourceValue, draw: np.random.Generator) -> Tensor:
    """A confusion that gold would leave possible."""
    if source.weights is None:
        return source.confusion
    gamma = torch.from_numpy(draw.standard_gamma(source.weights.numpy())).clamp_min(1e-12)
    return gamma / gamma.sum(1, keepdim=True)
