"""Margin: the rows whose two most likely classes are closest."""

from collections.abc import Sequence

from torch import Tensor

from understudy.acquisition.strategy import Arrays, Ranked, Reasons
from understudy.maths.confidence import margin as margin_of


class Margin(Ranked):
    def score(self, arrays: Arrays) -> Tensor:
        return margin_of(arrays["probs"])

    def explain(self, picks: Tensor, arrays: Arrays, *, labelled: Tensor, names: Sequence[str]) -> Reasons:
        probs = arrays["probs"][picks]
        top = probs.topk(min(2, probs.shape[1]), dim=1)
        phrases = [
            f"class {names[c[0]]} at {p[0]:.1%}, class {names[c[-1]]} at {p[-1]:.1%}"
            for p, c in zip(top.values.tolist(), top.indices.tolist(), strict=True)
        ]
        return (top.values[:, 0] - top.values[:, -1]).tolist(), phrases


margin = Margin()
