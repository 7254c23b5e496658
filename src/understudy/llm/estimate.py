"""What asking would take: rows, tokens and a price. Tokens are guessed from letters, since no tokenizer is asked."""

from dataclasses import dataclass

from understudy.llm.asking import Asking
from understudy.llm.tokens import at_most, guessed
from understudy.llm.voter import schema


@dataclass(frozen=True)
class Estimate:
    """Of one model; ``most_``: what it cannot exceed without repetitions."""

    model: str
    rows: int
    requests: int
    tokens_in: int
    tokens_out: int
    cost: float
    most_cost: float


def estimate(asking: Asking) -> list[Estimate]:
    plan, found = asking.plan, []
    answer = 4 + max(len(name.encode()) for name in plan.classes) // 3 + (4 if plan.wished.structured else 0)
    beside = len(str(schema(list(plan.classes)))) if plan.wished.structured else 0
    todo = list(asking.todo())
    for number, source in enumerate(plan.sources):
        mine = [asked for each, asked in todo if each == number]
        features = asking.folder.features(source) or plan.wished
        # A server that does not take n is sent the prompt once for every vote.
        times = [1 if features.several else asked.wanted for asked in mine]
        messages = [plan.prompt.messages(asked.row, structured=features.structured) for asked in mine]
        tokens_in = sum(guessed(each) * count for each, count in zip(messages, times, strict=True))
        most_in = sum(at_most(each, beside=beside) * count for each, count in zip(messages, times, strict=True))
        wanted = sum(asked.wanted for asked in mine)
        most = source.price.of(most_in, wanted * plan.manner.max_tokens)
        tokens_out = wanted * min(answer, plan.manner.max_tokens)
        cost = source.price.of(tokens_in, tokens_out)
        found.append(Estimate(source.model, len(mine), sum(times), tokens_in, tokens_out, cost, most))
    return found
