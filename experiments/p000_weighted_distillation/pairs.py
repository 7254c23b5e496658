"""Figure 8's hard labels on Fashion-MNIST, and Figures 5 and 8 with two MLPs on vectors; 2,000 validation rows."""

from dataclasses import replace

from experiments.experiment import Experiment, Part
from experiments.p000_weighted_distillation.settings import BETTER, KEPT_OUT, ONE_SHOT, few
from experiments.p000_weighted_distillation.tables import EVERY, EVERY_EPOCH, PARTS
from experiments.vision import on_vectors

METHODS = (*ONE_SHOT, EVERY)
CLAIMS = [BETTER, EVERY_EPOCH]
SOFT, HARD = PARTS["cifar10"], PARTS["imagenet, hard"]
IMAGES = few("cifar10", METHODS, validation=2_000, curve_rows=0, hard=True)
VECTORS = on_vectors("cifar10_vectors", 500, 2_000, 8_000, METHODS, estimate_only=True)

EXPERIMENT = Experiment(
    name="weighted_pairs",
    paper="000",
    shows="Figures 5 and 8, other pairs",
    what="weights from 2,000 validation rows, estimated once or after every epoch",
    parts=[
        Part("Fashion-MNIST, LeNet to MLP, hard labels", HARD.full, IMAGES, CLAIMS, HARD.published),
        Part("CIFAR-10 as vectors, MLPs, soft labels", SOFT.full, VECTORS, CLAIMS, SOFT.published),
        Part("CIFAR-10 as vectors, MLPs, hard labels", HARD.full, replace(VECTORS, hard=True), CLAIMS, HARD.published),
    ],
    minutes=4,
    remarks=[KEPT_OUT],
)
