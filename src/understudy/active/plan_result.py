"""A plan for labels: who is asked what, what that is worth, and in words why."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from torch import Tensor

from understudy.active.measured_sources import SourceValue

Rows = dict[str, Tensor]
"""Row numbers by source."""


@dataclass(frozen=True)
class LabelPlan:
    budget: float
    cost: float
    sources: tuple[SourceValue, ...]
    asks: Rows
    """Pool rows by source, those whose answers add most first; new gold is not among them."""
    gold: Tensor
    """Pool rows drawn at random, to be labelled by the trusted source."""
    gold_asks: Rows
    """Those of them that the other sources have yet to answer too, so that gold tells of these sources."""
    trials: Rows
    """Gold rows by source: what must be asked to know how good it is."""
    gain: Tensor
    """Clean labels that the answers to each pool row are expected to add, ``(N,)``."""
    known: Tensor
    """The truth's chances before, ``(N, C)``."""
    errors: tuple[float, float]
    """Expected share of pool rows whose most likely class is wrong: now, and with the answers."""
    clean: tuple[float, float]
    """Clean labels that the pool is worth: now, and with the answers."""
    splits: tuple[tuple[int, float], ...]
    """What was weighed: clean labels by how many labels are new gold, the rest spent on the best answers."""
    trusted: str | None = None

    @property
    def words(self) -> tuple[str, ...]:
        """The plan and its reasons, a sentence each."""
        return tuple(_words(self))


def _words(plan: LabelPlan) -> Iterator[str]:
    yield (
        f"{plan.cost:g} of {plan.budget:g} buy {_rows(sum(map(len, plan.asks.values())), 'answer')} about doubtful or "
        f"unlabelled rows and {_rows(len(plan.gold), 'new gold row')}."
    )
    yield (
        f"The pool is worth {plan.clean[0]:,.0f} clean labels now and about {plan.clean[1]:,.0f} then; "
        f"{plan.errors[0]:.1%} of its rows would be called wrongly now, about {plan.errors[1]:.1%} then."
    )
    for one in plan.sources:
        named = one.name if one.price is None else f"{one.name} ({one.price:g} an answer)"
        if one.name in plan.trials:
            yield f"{named}: first {_rows(len(plan.trials[one.name]), 'gold row')}, since it {one.left_out}."
        elif one.left_out:
            yield f"{named}: not asked and not heard, {one.left_out}."
        else:
            asked = "cannot be asked" if one.price is None else _rows(len(plan.asks[one.name]), "row")
            told = f"right on {one.right.estimate:.0%} of {one.right.rows:.0f} gold rows"
            told += f" ({one.right.low:.0%} to {one.right.high:.0%})"
            yield f"{named}: {asked}; {'its word is gold' if one.name == plan.trusted else told}."
    yield from _about_gold(plan)


def _about_gold(plan: LabelPlan) -> Iterator[str]:
    if plan.trusted is None:
        yield "No source is trusted, so that none of the budget goes to new gold."
        return
    none, best = plan.splits[0][1], max(value for _, value in plan.splits)
    if len(plan.gold):
        yield (
            f"New gold: {_rows(len(plan.gold), 'row')} drawn at random; with them the budget is worth {best:,.0f} "
            f"clean labels, without {none:,.0f}."
        )
    else:
        yield f"New gold: none; the best answers alone are worth {none:,.0f} clean labels, and gold would add less."


def why_asked(plan: LabelPlan, rows: Tensor, classes: Sequence[str]) -> list[str]:
    """For each row, what makes the answer worth its price."""
    two = plan.known[rows].topk(2, dim=1)
    return [
        f"{classes[first]} {chance:.0%} or {classes[second]} {other:.0%}: worth {gain:.2f} clean labels"
        for (first, second), (chance, other), gain in zip(
            two.indices.tolist(), two.values.tolist(), plan.gain[rows].tolist(), strict=True
        )
    ]


def _rows(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"
