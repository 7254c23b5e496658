"""Entropy: the rows whose predicted distribution has the largest −Σ p log p."""

import math
from collections.abc import Sequence

from torch import Tensor

from understudy.acquisition.strategy import Arrays, Ranked, Reasons
from understudy.maths.confidence import entropy as entropy_of


class Entropy(Ranked):
    def score(self, arrays: Arrays) -> Tensor:
        return -entropy_of(arrays["probs"])

    def explain(self, picks: Tensor, arrays: Arrays, *, labelled: Tensor, names: Sequence[str]) -> Reasons:
        numbers = entropy_of(arrays["probs"][picks]).tolist()
        largest = math.log(arrays["probs"].shape[1])
        return numbers, [f"entropy {number:.2f} of at most {largest:.2f}" for number in numbers]


entropy = Entropy()
