"""Figure 4: SVHN, MobileNet teacher and student, one estimate of the weights."""

from experiments.experiment import Experiment, Part, Published
from experiments.p000_weighted_distillation.settings import (
    ABOVE_ITS_TEACHER,
    BETTER,
    CIFAR_LABELS,
    KEPT_OUT,
    few,
    one_shot,
)

COST = "The weights take 0.2% of a training of 200 epochs ([benchmarks](../../benchmarks.md)); the paper: under 1%."
PAPER = one_shot("svhn", CIFAR_LABELS)
REDUCED = few("svhn")
PUBLISHED = Published(
    "Figure 4",
    [f"{count:,}" for count in CIFAR_LABELS],
    {
        "Teacher": ["87.31", "88.5", "88.45", "91.38", "91.32"],
        "Weighted": ["90.41 ± 0.12", "91.21 ± 0.09", "92.4 ± 0.12", "92.64 ± 0.14", "92.85 ± 0.1"],
        "Unweighted": ["89.89 ± 0.09", "90.86 ± 0.11", "91.99 ± 0.1", "92.51 ± 0.07", "92.45 ± 0.07"],
    },
)

EXPERIMENT = Experiment(
    name="weighted_fig04",
    paper="000",
    shows="Figure 4",
    what="SVHN: weighted against unweighted distillation at five sizes of the labelled set",
    parts=[Part("SVHN", PAPER, REDUCED, [BETTER], PUBLISHED)],
    minutes=0.6,
    remarks=[KEPT_OUT, ABOVE_ITS_TEACHER, COST],
)
