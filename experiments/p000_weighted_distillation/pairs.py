"""Figures 5 and 8 with the paper's 2,000 validation rows, which only estimate, soft and hard labels.

With 150 rows a weight is the mean of 7 neighbours, and most weights that should be a half are 1; with 2,000 it is the
mean of 23.
"""

from dataclasses import replace

from experiments.claims import Claim
from experiments.engines.distil import Distillation, Method
from experiments.experiment import Experiment, Part
from experiments.needs import useful_teacher, weighs
from experiments.p000_weighted_distillation import fig05, fig08
from experiments.p000_weighted_distillation.settings import BETTER, KEPT_OUT, ONE_SHOT, few
from experiments.vision import on_vectors

METHODS = (*ONE_SHOT, Method("Weighted every epoch", "weighted", (1,)))
EVERY_EPOCH = Claim(
    "Estimated every epoch, above Unweighted", ["Weighted every epoch"], ["Unweighted"],
    needs=(useful_teacher(10), weighs("Weighted every epoch")),
)  # fmt: skip
CLAIMS = [BETTER, EVERY_EPOCH]
IMAGES = few("cifar10", METHODS, labelled=(300,), validation=2_000, curve_rows=0)
VECTORS = on_vectors("cifar10_vectors", 500, 2_000, 8_000, METHODS, estimate_only=True)


def parts(title: str, ours: Distillation) -> list[Part]:
    soft, hard = fig05.EXPERIMENT.parts[0], fig08.EXPERIMENT.parts[1]
    return [
        Part(f"{title}, soft labels", soft.full, ours, CLAIMS, soft.published),
        Part(f"{title}, hard labels", hard.full, replace(ours, hard=True), CLAIMS, hard.published),
    ]


EXPERIMENT = Experiment(
    name="weighted_pairs",
    paper="000",
    shows="Figures 5 and 8, 2,000 validation rows",
    what="weights from 2,000 validation rows, estimated once or after every epoch",
    parts=[*parts("Fashion-MNIST, LeNet to MLP", IMAGES), *parts("CIFAR-10 as vectors, MLPs", VECTORS)],
    minutes=4,
    remarks=[KEPT_OUT],
)
