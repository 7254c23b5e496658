"""A label budget, split between more gold, better labels for uncertain rows, and more labelled rows.

    plan = us.plan_labels(
        {"small": 0.001, "big": 0.01, "human": 0.5}, 200.0, classes=3, trusted="human",
        answers=answers, gold_answers=on_gold, gold_y=y,          # (N, 3) and (n, 3), −1: no answer; (n,)
    )
    plan.asks["big"]                  # pool rows to be labelled by it, largest gain first
    plan.gold                         # rows drawn at random for the trusted source: new gold
    plan.sentences                    # why

Everything is counted in effective clean labels (``maths/label_value.py``). Gold measures the confusion matrix of each
source on the rows it labelled (``maths/source_confusion.py``); with a row's class probabilities that gives the expected
gain of an answer. The plan takes the answers with the largest gain for their price: of unlabelled rows (*more pool*)
and of rows whose label is uncertain (*better labels*) alike.

*More gold* pays twice. A gold row is a clean label of a row drawn at random. And it makes the confusion matrices more
precise: with g gold rows these are a draw from their posterior (Dirichlet, smoothed as ``fit_sources`` does). R, the
clean labels lost by reading the planned answers by another draw, falls with the variance, as 1/g, so that m rows more
save R·m / (g + m). The plan has the m for which new gold and the answers for the rest of the budget gain most together.

Sources without gold get a *trial* first: gold rows to label. A source no more accurate than chance is left out.
"""

import math
from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from understudy.data.checks import check_labels, check_probabilities, to_tensor
from understudy.errors import UnderstudyError
from understudy.labels.votes import Votes
from understudy.maths import label_value
from understudy.maths.proportions import Share, exact
from understudy.maths.source_confusion import SHARPNESS, cross_likelihood, fit_sources, fit_votes
from understudy.store.console import from_report
from understudy.store.option_fields import checked

#: Fewest gold rows that measure a source.
LEAST_GOLD = 10
# A trusted source errs too: no probability may become 0.
_FLOOR = 1e-6
#: Gold rows of a source's trial, and the most that all trials take of the budget.
TRIAL_ROWS, TRIAL_SHARE = 50, 0.2
DRAWS, REGRET_ROWS = 16, 2_000
SPLITS = 12
# Two sources label one row together up to so many classes; beyond, their joint answers are too many.
MOST_CLASSES = 16
#: Row numbers by source.
Rows = dict[str, Tensor]
Splits = tuple[tuple[int, float], ...]


class SourceValue(NamedTuple):
    """A source as measured on gold."""

    name: str
    #: Of an answer; None: it gives no new ones.
    price: float | None
    #: On the gold rows it labelled.
    accuracy: Share
    #: P(answer | truth), ``(C, C)``.
    confusion: Tensor
    #: The Dirichlet's ``(C, C)`` behind it; None where it is trusted, or unknown.
    weights: Tensor | None
    #: Why its answers do not count; empty where they do.
    left_out: str = ""

    @property
    def usable(self) -> bool:
        return not self.left_out

    @property
    def askable(self) -> bool:
        return self.usable and self.price is not None

    @property
    def cost(self) -> float:
        return self.price or 0.0

    @property
    def is_estimated(self) -> bool:
        """Whether more gold would measure it better."""
        return self.usable and self.weights is not None


def measure_source(
    name: str, price: float | None, answers: Tensor, y: Tensor, classes: int, *, trusted: bool = False
) -> SourceValue:
    """``answers (n,)`` to gold rows, −1: none. ``trusted``: treated as ground truth."""
    answered = answers >= 0
    rows, correct = int(answered.sum()), int((answers == y).sum())
    share = exact(correct, rows)
    if trusted:
        return SourceValue(name, price, share, torch.eye(classes, dtype=torch.float64), None)
    if rows < LEAST_GOLD:
        even = torch.full((classes, classes), 1 / classes, dtype=torch.float64)
        return SourceValue(name, price, share, even, None, f"labelled {rows} gold rows, too few to measure it")
    votes, truth = answers[answered].unsqueeze(1), y[answered]
    strength = fit_votes(votes, truth, classes).strength
    confusion = fit_sources(votes, truth, classes, strength=strength).confusion[0, :, :classes]
    weights = confusion * (torch.bincount(truth, minlength=classes).unsqueeze(1) + strength)
    if share.estimate > 1 / classes:
        return SourceValue(name, price, share, confusion, weights)
    why = f"correct on {correct} of {rows} gold rows, no more than by chance (1 in {classes})"
    swapped = "; are its two classes swapped?" if classes == 2 and share.high < 0.5 else ""
    return SourceValue(name, price, share, confusion, weights, why + swapped)


def probs_by(votes: Tensor, on_gold: Tensor, y: Tensor, sources: Sequence[SourceValue]) -> Tensor:
    """Class probabilities ``(N, C)`` of pool rows from the answers ``votes (N, A)``.

    Sources share mistakes, so their log-likelihoods are multiplied by one sharpness 0 < b ≤ 1, fitted on gold.
    """
    classes = sources[0].confusion.shape[0]
    prior = (torch.bincount(y, minlength=classes).double() + 1).log()
    total = torch.zeros(len(votes), classes, dtype=torch.float64)
    for at, one in enumerate(sources):
        if one.usable:
            # log P(answer | truth); 0 where there is none.
            log, answers = one.confusion.clamp_min(_FLOOR).log(), votes[:, at]
            total += torch.where((answers >= 0).unsqueeze(1), log.T[answers.clamp_min(0)], 0.0)
    # The b of least log-loss on gold rows, cross-fitted; 1 where there are no two sources to compare.
    sharpness, gold_total = 1.0, torch.zeros(len(y), classes, dtype=torch.float64)
    estimated = [at for at, one in enumerate(sources) if one.is_estimated]
    if len(estimated) > 1:
        for at in estimated:
            rows = (on_gold[:, at] >= 0).nonzero().squeeze(1)
            gold_total[rows] += cross_likelihood(on_gold[rows, at].unsqueeze(1), y[rows], classes)
        losses = [-(b * gold_total + prior).log_softmax(1).gather(1, y.unsqueeze(1)).sum() for b in SHARPNESS]
        sharpness = float(SHARPNESS[int(torch.stack(losses).argmin())])
    return (sharpness * total + prior).softmax(1)


class LabelPlan(NamedTuple):
    budget: float
    cost: float
    sources: tuple[SourceValue, ...]
    #: Pool rows by source, those whose answers add most first; new gold is not among them.
    asks: Rows
    #: Pool rows drawn at random, to be labelled by the trusted source.
    gold: Tensor
    #: Those of them that the other sources have yet to label too, so that gold measures these sources.
    gold_asks: Rows
    #: Gold rows by source, to measure its accuracy.
    trials: Rows
    #: Clean labels that the answers to each pool row are expected to add, ``(N,)``.
    gain: Tensor
    #: Class probabilities before, ``(N, C)``.
    known: Tensor
    #: Expected share of pool rows whose most likely class is wrong: now, and with the answers.
    errors: tuple[float, float]
    #: Effective clean labels of the pool: now, and with the answers.
    clean: tuple[float, float]
    #: Pairs compared: how many labels are new gold, and the clean labels gained with the rest of the budget.
    splits: Splits
    trusted: str | None = None

    @property
    def sentences(self) -> tuple[str, ...]:
        """The plan and its reasons (``report/label_budget.txt.jinja``)."""
        return tuple(from_report("templates").sentences("label_budget", "plan_sentences", self))


@checked
def plan_labels(
    prices: Mapping[str, float | None], budget: float, *, classes: int, answers: Any = None, known: Any = None,
    gold_answers: Any = None, gold_y: Any = None, trusted: str | None = None, seed: int = 0,
) -> LabelPlan:  # fmt: skip
    """Which rows each source should label for ``budget``.

    ``prices``: of one answer, by source; None: it gives no new answers, and its old ones count. ``answers (N, A)``: the
    sources' labels, in that order, of the pool's rows, −1 where there is none; ``gold_answers (n, A)`` the same of rows
    whose true class is ``gold_y``. ``known (N, C)``: class probabilities of the rows (reconciled labels, a student's),
    the answers included; None: from the answers alone. ``trusted``: the source treated as ground truth.
    """
    _check(prices, budget, trusted)
    votes, on_gold, y = _answers(answers, known, gold_answers, gold_y, classes, len(prices))
    sources = tuple(
        measure_source(name, price, answered, y, classes, trusted=name == trusted)
        for (name, price), answered in zip(prices.items(), on_gold.T, strict=True)
    )
    if known is None:
        probs = probs_by(votes, on_gold, y, sources)
    else:
        probs = to_tensor(known, "known").double()
        check_probabilities(probs, "known")
        if probs.shape != (len(votes), classes):
            raise UnderstudyError(f"known has shape {tuple(probs.shape)}; give {len(votes)} rows of {classes} classes")
        probs = probs / probs.sum(1, keepdim=True)
    draw = np.random.default_rng(seed)
    trials = _trials(sources, on_gold, budget, draw)
    if not trials and not any(one.askable for one in sources):
        why = "; ".join(f"{one.name}: {one.left_out}" for one in sources)
        raise UnderstudyError(f"no source can label ({why}); give gold rows with the sources' answers")
    spent = sum(len(trials[one.name]) * one.cost for one in sources if one.name in trials)
    offers = _Offers(sources, votes, probs)
    gold, splits = offers.new_gold(budget - spent, trusted, len(y), draw)
    return offers.plan(budget, spent, gold, trials, splits, trusted)


def _check(prices: Mapping[str, float | None], budget: float, trusted: str | None) -> None:
    for name, price in prices.items():
        if price is not None and not (isinstance(price, int | float) and 0 <= price < math.inf):
            raise UnderstudyError(f"the price of {name} is {price!r}; give a number, 0 or more")
    priced = {name: price for name, price in prices.items() if price is not None}
    if not priced:
        raise UnderstudyError("prices= names no source that can label; give the price of one label, as human=0.5")
    if not 0 <= budget < math.inf:
        raise UnderstudyError(f"budget={budget} must be a number, 0 or more")
    if trusted is not None and trusted not in priced:
        raise UnderstudyError(f"trusted={trusted!r} has no price; use one of {', '.join(priced)}")
    cheapest = min(priced, key=lambda name: priced[name])
    if budget < priced[cheapest]:
        least = f"the cheapest source, {cheapest}, takes {priced[cheapest]:g}"
        raise UnderstudyError(f"a budget of {budget:g} is too small for one label: {least}; raise the budget")


def _answers(
    answers: Any, known: Any, gold_answers: Any, gold_y: Any, classes: int, sources: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Answers to pool rows ``(N, A)`` and gold rows ``(n, A)``, and the true classes ``(n,)``."""
    if answers is None and known is None:
        raise UnderstudyError("the number of rows is unknown; give answers= (−1: no answer) or known=")
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


class _Offers:
    """The labels that each source could give, with their gains and prices."""

    def __init__(self, sources: Sequence[SourceValue], votes: Tensor, probs: Tensor) -> None:
        self.sources, self.votes, self.probs = tuple(sources), votes, probs
        usable = [at for at, one in enumerate(sources) if one.askable]
        estimated = [at for at in usable if sources[at].is_estimated]
        pairs = combinations(estimated, 2) if probs.shape[1] <= MOST_CLASSES else ()
        #: Sources that label one row; two together only where both are estimated.
        self.options: list[tuple[int, ...]] = [*((at,) for at in usable), *pairs]
        self.confusions = [self._joint([one.confusion for one in sources], option) for option in self.options]
        gains = [self._gain(*each) for each in zip(self.options, self.confusions, strict=True)]
        self.gains = torch.stack(gains or [torch.full((len(votes),), -math.inf, dtype=torch.float64)], 1)
        prices = [sum(sources[at].cost for at in option) for option in self.options]
        self.steps = label_value.steps_by_worth(self.gains, torch.tensor(prices or [0.0], dtype=torch.float64))

    @staticmethod
    def _joint(confusions: Sequence[Tensor], option: tuple[int, ...]) -> Tensor:
        first, *second = (confusions[at] for at in option)
        return label_value.answered_together(first, second[0]) if second else first

    def _gain(self, option: tuple[int, ...], confusion: Tensor) -> Tensor:
        """Clean labels gained, ``(N,)``; −inf where a source has answered already, or would add nothing."""
        answered = (self.votes[:, list(option)] >= 0).any(1)
        more = label_value.purity_after(self.probs, confusion) - label_value.purity(self.probs)
        return torch.where(answered | (more < 1e-9), -math.inf, more)  # no rounding errors

    def best(self, budget: float, without: Tensor) -> Tensor:
        """The option of each row, ``(N,)``, −1: none, within a budget; ``without``: rows to leave out."""
        others = ~torch.isin(self.steps.row, without)
        return label_value.taken(label_value.Steps(*(values[others] for values in self.steps)), len(self.votes), budget)

    def worth(self, budget: float, without: Tensor) -> float:
        """Clean labels that these answers add."""
        choice = self.best(budget, without)
        rows = (choice >= 0).nonzero().squeeze(1)
        return float(self.gains[rows, choice[rows]].sum())

    def new_gold(
        self, budget: float, trusted: str | None, have: int, draw: np.random.Generator
    ) -> tuple[Tensor, Splits]:
        """Rows drawn at random, as many as gain most together with the rest of the budget; and the splits compared."""
        nothing = torch.empty(0, dtype=torch.long)
        if trusted is None:
            return nothing, ((0, self.worth(budget, nothing)),)
        at = [one.name for one in self.sources].index(trusted)
        own = self._gain((at,), self.sources[at].confusion)
        # Certain rows too: gold must be a random sample.
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
        rows = torch.from_numpy(draw.permutation(len(self.probs))[:REGRET_ROWS])
        total = 0.0
        for _ in range(DRAWS):
            drawn = [_draw(one, draw) for one in self.sources]
            for number, (option, estimated) in enumerate(zip(self.options, self.confusions, strict=True)):
                mine = self.probs[rows[choice[rows] == number]]
                total += float(label_value.regret(mine, estimated, self._joint(drawn, option)).sum())
        return total / DRAWS * len(self.probs) / max(len(rows), 1)

    def plan(
        self, budget: float, spent: float, gold: Tensor, trials: Rows, splits: Splits, trusted: str | None
    ) -> LabelPlan:
        """The best answers for the budget that is left after new gold."""
        probs, gold_asks = self.probs, {}
        for at, one in enumerate(self.sources):
            fresh = gold[self.votes[gold, at] < 0]
            if one.name == trusted:
                spent += one.cost * len(gold)
            elif one.is_estimated and one.askable and len(fresh):
                gold_asks[one.name] = fresh
                spent += one.cost * len(fresh)
        choice = self.best(budget - spent, gold)
        gain, wrong = torch.zeros(len(probs), dtype=torch.float64), 1 - probs.amax(1)
        now = float(wrong.mean()), float(label_value.purity(probs).sum())
        asks: dict[str, list[Tensor]] = {one.name: [gold[:0]] for one in self.sources if one.price is not None}
        for number, option in enumerate(self.options):
            rows = (choice == number).nonzero().squeeze(1)
            gain[rows] = self.gains[rows, number]
            wrong[rows] = label_value.error_after(probs[rows], self.confusions[number])
            for at in option:
                asks[self.sources[at].name].append(rows)
                spent += len(rows) * self.sources[at].cost
        gain[gold], wrong[gold] = 1 - label_value.purity(probs[gold]), 0.0
        ranked = {name: torch.cat(parts) for name, parts in asks.items()}
        ranked = {name: rows[gain[rows].argsort(descending=True, stable=True)] for name, rows in ranked.items()}
        return LabelPlan(
            budget, spent, self.sources, ranked, gold, gold_asks, trials, gain, probs, (now[0], float(wrong.mean())),
            (now[1], now[1] + float(gain.sum())), splits, trusted,
        )  # fmt: skip


def _draw(source: SourceValue, draw: np.random.Generator) -> Tensor:
    """A confusion matrix drawn from its posterior."""
    if source.weights is None:
        return source.confusion
    gamma = torch.from_numpy(draw.standard_gamma(source.weights.numpy())).clamp_min(1e-12)
    return gamma / gamma.sum(1, keepdim=True)
