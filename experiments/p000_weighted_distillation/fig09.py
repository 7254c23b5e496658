"""Figure 9: estimating the weights once against again after every epoch."""

from experiments.claims import Claim
from experiments.engines.distil import Method
from experiments.experiment import Experiment, Part
from experiments.p000_weighted_distillation.settings import CELEBA_LABELS, CIFAR_LABELS
from experiments.vision import full, reduced

METHODS = (Method("Estimated once", "weighted"), Method("Every epoch", "weighted", (1,)))
SETS = {
    "SVHN": ("svhn", CIFAR_LABELS),
    "CIFAR-10": ("cifar10", CIFAR_LABELS),
    "CIFAR-100": ("cifar100", CIFAR_LABELS),
    "CelebA": ("celeba", CELEBA_LABELS),
}
CLAIM = Claim("Estimating every epoch is better", ["Every epoch"], ["Estimated once"])

EXPERIMENT = Experiment(
    name="weighted_fig09",
    paper="000",
    shows="Figure 9",
    what="weights from entropies on 500 validation rows, estimated once or again at the end of every epoch",
    parts=[
        Part(title, full(name, labelled, 500, METHODS), reduced(name, METHODS), [CLAIM])
        for title, (name, labelled) in SETS.items()
    ],
    minutes=2.6,
    remarks=["The paper sees no substantial benefit on CIFAR-100, and a significant one elsewhere."],
)
