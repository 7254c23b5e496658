"""The experiment of ``understudy demo``: ``us.auto`` beside what one would do instead, on scikit-learn's digits.

1,797 images of 8×8. Per seed, rows are split anew: 70 train a teacher and nothing else (users of a third party's model
never see its training data), 60 others are gold, 1,100 are the pool, labelled by the teacher only, and the remaining
567 are the test set. Compared are the teacher itself, logistic regression on gold, logistic regression on gold and the
teacher's labels as they are, and ``us.auto`` with a linear student, which is a logistic regression too.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from understudy.comparison.auto import auto
from understudy.comparison.candidates import TEACHER
from understudy.comparison.outcome import Comparison, Outcome, run_cells
from understudy.data.examples import Gold, Pool
from understudy.inference.passes import metrics
from understudy.inference.teacher import teach
from understudy.methods import METHODS
from understudy.models import mlp
from understudy.samples import digits
from understudy.store.console import collected_warnings
from understudy.training.run import Run
from understudy.training.train import train

ON_GOLD, ON_BOTH, AUTO = "regression on gold", "regression on all labels", "auto"


@dataclass(frozen=True)
class DemoSetting:
    seeds: int = 5
    teacher_rows: int = 70
    gold_rows: int = 60
    pool_rows: int = 1100


class DemoData(NamedTuple):
    """The rows of one seed."""

    gold: Gold
    pool: Pool
    test: Gold
    teacher_accuracy: float


class DemoResult(NamedTuple):
    setting: DemoSetting
    comparison: Comparison
    first: DemoData
    warnings: list[str]


def run_demo(
    setting: DemoSetting, *, on_done: Callable[[str, int, Outcome], None] = lambda method, seed, outcome: None
) -> DemoResult:
    """Train everything under every seed."""
    data: list[DemoData] = []

    def trainings(seed: int) -> Mapping[str, Callable[[], Run | float]]:
        data.append(split_digits(seed, setting))
        return demo_methods(data[-1], seed)

    with collected_warnings() as warnings:
        comparison = run_cells(trainings, range(setting.seeds), reference=ON_BOTH, on_done=on_done)
    return DemoResult(setting, comparison, data[0], warnings)


def split_digits(seed: int, setting: DemoSetting) -> DemoData:
    """Split the digits for this seed, train its teacher on rows of its own, and let it label the rest."""
    x, y = digits()
    order = torch.randperm(len(x), generator=torch.Generator().manual_seed(seed))
    sizes = [setting.teacher_rows, setting.gold_rows, setting.pool_rows]
    private, gold, pool, test = order.split([*sizes, len(x) - sum(sizes)])
    teacher = train(
        lambda: mlp(inputs=64, classes=10, hidden=(256, 256)), Gold(x[private], y[private]), None, METHODS["vanilla"](),
        epochs=60, lr=1e-3, batch_size=64, seed=seed, progress=False,
    )  # fmt: skip
    probs = teach(teacher.student, x)
    accuracy = metrics(probs[test], y[test])["accuracy"]
    gold_set = Gold(x[gold], y[gold], teacher=probs[gold])
    return DemoData(gold_set, Pool(x[pool], probs[pool]), Gold(x[test], y[test]), accuracy)


def demo_methods(data: DemoData, seed: int) -> dict[str, Callable[[], Run | float]]:
    """What is compared, in the order of the table."""
    gold, pool, test = data.gold, data.pool, data.test
    assert pool.teacher is not None
    both = torch.cat([gold.x, pool.x]), torch.cat([gold.y, pool.teacher.top1()])
    return {
        TEACHER: lambda: data.teacher_accuracy,
        ON_GOLD: lambda: regression(gold.x, gold.y, test),
        ON_BOTH: lambda: regression(*both, test),
        AUTO: lambda: auto("linear", gold, pool, test=test, seed=seed, workers=1, progress=False),
    }


def regression(x: Tensor, y: Tensor, test: Gold) -> float:
    """The test accuracy of scikit-learn's logistic regression with its defaults."""
    from sklearn.linear_model import LogisticRegression

    model = LogisticRegression(max_iter=1000).fit(x.numpy(), y.numpy())
    return float(model.score(test.x.numpy(), test.y.numpy()))
