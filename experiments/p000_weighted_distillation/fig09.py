"""Figure 9: estimating the weights once against again after every epoch."""

from experiments.claims import Claim
from experiments.engines.distil import Method
from experiments.experiment import Experiment, Part
from experiments.needs import weighs
from experiments.p000_weighted_distillation.settings import CELEBA_LABELS, CIFAR_LABELS, FEW_LABELS, few, one_shot

METHODS = (Method("Estimated once", "weighted"), Method("Every epoch", "weighted", (1,)))
SETS = {
    "SVHN": ("svhn", CIFAR_LABELS),
    "CIFAR-10": ("cifar10", CIFAR_LABELS),
    "CIFAR-100": ("cifar100", CIFAR_LABELS),
    "CelebA": ("celeba", CELEBA_LABELS),
}
CLAIM = Claim("Estimating every epoch is better", ["Every epoch"], ["Estimated once"], delta=0.25,
              needs=[weighs("Every epoch"), weighs("Estimated once")])  # fmt: skip

EXPERIMENT = Experiment(
    name="weighted_fig09",
    paper="000",
    shows="Figure 9",
    what="weights from entropies, estimated once or again at the end of every epoch",
    parts=[
        Part(
            title,
            one_shot(name, labelled, 500, methods=METHODS),
            few(name, METHODS, labelled=FEW_LABELS[name][:1], validation=150, curve_rows=0),
            [CLAIM],
        )
        for title, (name, labelled) in SETS.items()
    ],
    minutes=0.9,
    remarks=[
        "The paper sees no substantial benefit on CIFAR-100, and a significant one elsewhere; it only plots them. "
        "Less than a quarter of a point, half of what weighting itself gains in Figures 4 to 7, is taken as none.",
        "The validation rows, 150 here and 500 in the paper, do not train, so that what the student says of them stays "
        "as honest as on the pool.",
    ],
)
