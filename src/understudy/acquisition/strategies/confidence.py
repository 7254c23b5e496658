"""Least confidence: the rows whose largest class probability is smallest."""

from collections.abc import Sequence

from torch import Tensor

from understudy.acquisition.strategy import Arrays, Ranked, Reasons


class Confidence(Ranked):
    def score(self, arrays: Arrays) -> Tensor:
        return arrays["probs"].amax(1)

    def explain(self, picks: Tensor, arrays: Arrays, *, labelled: Tensor, names: Sequence[str]) -> Reasons:
        top = arrays["probs"][picks].max(1)
        numbers = top.values.tolist()
        classes = [names[index] for index in top.indices.tolist()]
        return numbers, [f"only {p:.1%} for its top class {c}" for p, c in zip(numbers, classes, strict=True)]


confidence = Confidence()
