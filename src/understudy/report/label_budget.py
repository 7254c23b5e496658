"""The plan of a label budget in sentences: which source labels how many rows, and why."""

from collections.abc import Iterator, Sequence

from torch import Tensor

from understudy.active.label_plan import LabelPlan


def plan_sentences(plan: LabelPlan) -> Iterator[str]:
    yield (
        f"{plan.cost:g} of {plan.budget:g} gets {_count(sum(map(len, plan.asks.values())), 'label')} of uncertain or "
        f"unlabelled rows and {_count(len(plan.gold), 'new gold row')}."
    )
    yield (
        f"Effective clean labels in the pool: {plan.clean[0]:,.0f} now, about {plan.clean[1]:,.0f} then; expected "
        f"label errors: {plan.errors[0]:.1%} now, about {plan.errors[1]:.1%} then."
    )
    for one in plan.sources:
        named = one.name if one.price is None else f"{one.name} ({one.price:g} a label)"
        if one.name in plan.trials:
            yield f"{named}: first {_count(len(plan.trials[one.name]), 'gold row')}, since it {one.left_out}."
        elif one.left_out:
            yield f"{named}: not used, {one.left_out}."
        else:
            rows = "no new labels" if one.price is None else _count(len(plan.asks[one.name]), "row")
            share = one.accuracy
            interval = f"95% CI {share.low:.0%}–{share.high:.0%}"
            measured = f"accuracy {share.estimate:.0%} ({interval}) on {share.rows:.0f} gold rows"
            yield f"{named}: {rows}; {'treated as ground truth' if one.name == plan.trusted else measured}."
    yield _about_gold(plan)


def _about_gold(plan: LabelPlan) -> str:
    if plan.trusted is None:
        return "No source is trusted, so none of the budget goes to new gold."
    none, best = plan.splits[0][1], max(value for _, value in plan.splits)
    if not len(plan.gold):
        return f"New gold: none; the best labels alone gain {none:,.0f} clean labels, and gold would add less."
    return (
        f"New gold: {_count(len(plan.gold), 'row')} drawn at random; with them the budget gains {best:,.0f} clean "
        f"labels, without {none:,.0f}."
    )


def row_reasons(plan: LabelPlan, rows: Tensor, classes: Sequence[str]) -> list[str]:
    """For each row, its two most probable classes and the gain of a label."""
    two = plan.known[rows].topk(2, dim=1)
    return [
        f"{classes[first]} {chance:.0%} or {classes[second]} {other:.0%}: gains {gain:.2f} clean labels"
        for (first, second), (chance, other), gain in zip(
            two.indices.tolist(), two.values.tolist(), plan.gain[rows].tolist(), strict=True
        )
    ]


def _count(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"
