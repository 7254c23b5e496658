"""Figure 6: CIFAR-100, ResNet-110 teacher and ResNet-56 student, one estimate of the weights."""

from experiments.experiment import Experiment, Part, Published
from experiments.p000_weighted_distillation.settings import (
    ABOVE_ITS_TEACHER,
    BETTER,
    CIFAR_LABELS,
    KEPT_OUT,
    few,
    one_shot,
)

PAPER = one_shot("cifar100", CIFAR_LABELS)
REDUCED = few("cifar100")
PUBLISHED = Published(
    "Figure 6",
    [f"{count:,}" for count in CIFAR_LABELS],
    {
        "Teacher": ["44.1", "51.31", "55.54", "59.05", "62.17"],
        "Weighted": ["46.81 ± 0.34", "53.31 ± 0.66", "57.5 ± 0.3", "60.94 ± 0.32", "62.86 ± 0.41"],
        "Unweighted": ["46.29 ± 0.04", "52.83 ± 0.53", "56.89 ± 0.65", "60.73 ± 0.03", "62.79 ± 0.09"],
    },
)

EXPERIMENT = Experiment(
    name="weighted_fig06",
    paper="000",
    shows="Figure 6",
    what="CIFAR-100: weighted against unweighted distillation at five sizes of the labelled set",
    parts=[Part("CIFAR-100", PAPER, REDUCED, [BETTER], PUBLISHED)],
    minutes=0.7,
    remarks=[KEPT_OUT, ABOVE_ITS_TEACHER],
)
