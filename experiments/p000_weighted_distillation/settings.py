"""What the figures of this paper share."""

from dataclasses import replace
from typing import Any

from experiments.claims import Claim, with_effect
from experiments.engines.distil import Distillation, Method
from experiments.experiment import Published
from experiments.needs import useful_teacher, weighs
from experiments.vision import full, reduced

ONE_SHOT = (Method("Weighted", "weighted_margin"), Method("Unweighted", "vanilla"))
CIFAR_LABELS = (7_500, 10_000, 12_500, 15_000, 17_500)
CELEBA_LABELS = (10_000, 15_000, 20_000, 25_000, 30_000)
# 5% and 10% of ImageNet.
IMAGENET_LABELS = (64_058, 128_116)
# data set -> the label counts of its stand-in
FEW_LABELS = {
    "svhn": (100, 300), "cifar10": (300,), "cifar100": (1_000, 3_000), "celeba": (1_000,), "imagenet": (640,),
}  # fmt: skip
FOLLOWED = 2_000

NEEDS = (useful_teacher(10), weighs("Weighted"))
BETTER = Claim("Weighted ends above Unweighted", ["Weighted"], ["Unweighted"], needs=NEEDS)
THROUGHOUT = Claim("Weighted is above Unweighted almost throughout training", ["Weighted"], ["Unweighted"],
                   measure="average", needs=NEEDS)  # fmt: skip
FASTER = Claim("Weighted converges faster", ["Weighted"], ["Unweighted"], measure="early", needs=NEEDS)
KEPT_OUT = (
    "The validation rows only estimate the weights, as in the paper's 3.1; gold only is the student "
    "trained on the labelled rows alone, for as many steps."
)
ABOVE_ITS_TEACHER = (
    "The paper's students end above their teachers (its footnote 1), weighted or not. Here teacher and student are "
    "nets of different kinds, so that this would compare kinds: the row of the teacher says how good its labels are."
)
LAST_DIFFERENCE = "The paper plots this; its effect is taken to be the difference of the last epochs that it prints."


def one_shot(data: str, labelled: tuple[int, ...], validation: int = 2_000, **more: Any) -> Distillation:
    """3.1: weights from margins, estimated once, on rows that do not train."""
    return full(data, labelled, validation, more.pop("methods", ONE_SHOT), estimate_only=True, **more)


def few(data: str, methods: tuple[Method, ...] = ONE_SHOT, **more: Any) -> Distillation:
    """The same on the stand-in, with as many validation rows as the paper has in its tables."""
    labelled = more.pop("labelled", FEW_LABELS[data])
    return reduced(data, labelled, methods, estimate_only=True, **{"validation": 2_000, "curve_rows": FOLLOWED} | more)


def as_printed(claim: Claim, table: Published, of: Claim = BETTER) -> Claim:
    """A claim about trajectories or another estimate with the effect that the table prints for the last epoch."""
    return replace(claim, effect=with_effect(of, table.rows).effect)
