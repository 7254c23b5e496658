"""Figure 8's hard labels on Fashion-MNIST, and Figures 5 and 8 with two MLPs on vectors; 2,000 validation rows."""

from dataclasses import replace

from experiments.engines.distil import Distillation
from experiments.experiment import Experiment, Part
from experiments.p000_weighted_distillation.settings import BETTER, KEPT_OUT, ONE_SHOT, as_printed, few
from experiments.p000_weighted_distillation.tables import EVERY, EVERY_EPOCH, PARTS
from experiments.vision import on_vectors

METHODS = (*ONE_SHOT, EVERY)
SOFT, HARD = PARTS["cifar10"], PARTS["imagenet, hard"]
IMAGES = few("cifar10", METHODS, curve_rows=0, hard=True)
VECTORS = on_vectors("cifar10_vectors", 500, 2_000, 8_000, METHODS, estimate_only=True)


def part(title: str, of: Part, ours: Distillation) -> Part:
    assert of.published is not None
    claims = [BETTER, as_printed(EVERY_EPOCH, of.published)]
    return Part(title, of.full, ours, claims, of.published)


EXPERIMENT = Experiment(
    name="weighted_pairs",
    paper="000",
    shows="Figures 5 and 8, other pairs",
    what="weights from 2,000 validation rows, estimated once or after every epoch",
    parts=[
        part("Fashion-MNIST, LeNet to MLP, hard labels", HARD, IMAGES),
        part("CIFAR-10 as vectors, MLPs, soft labels", SOFT, VECTORS),
        part("CIFAR-10 as vectors, MLPs, hard labels", HARD, replace(VECTORS, hard=True)),
    ],
    minutes=4,
    remarks=[KEPT_OUT],
)
