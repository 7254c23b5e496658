"""Figure 5: CIFAR-10, MobileNet teacher and student, one estimate of the weights."""

from experiments.engines.distil import Method
from experiments.experiment import Experiment, Part, Published
from experiments.p000_weighted_distillation.settings import (
    ABOVE_ITS_TEACHER,
    BETTER,
    CIFAR_LABELS,
    KEPT_OUT,
    ONE_SHOT,
    few,
    one_shot,
)

# Figure 1 asks for the third one; it is no method, since it knows the truth.
METHODS = (*ONE_SHOT, Method("Correct labels only", "oracle"))

PAPER = one_shot("cifar10", CIFAR_LABELS, methods=METHODS)
REDUCED = few("cifar10", METHODS)
PUBLISHED = Published(
    "Figure 5",
    [f"{count:,}" for count in CIFAR_LABELS],
    {
        "Teacher": ["67.17", "71.39", "74.69", "77", "78.46"],
        "Weighted": ["69.01 ± 0.25", "72.96 ± 0.1", "75.33 ± 0.43", "77.69 ± 0.35", "78.34 ± 0.16"],
        "Unweighted": ["68.27 ± 0.22", "72.48 ± 0.26", "74.95 ± 0.2", "76.85 ± 0.32", "77.92 ± 0.06"],
    },
)

EXPERIMENT = Experiment(
    name="weighted_fig05",
    paper="000",
    shows="Figure 5",
    what="CIFAR-10: weighted against unweighted distillation at five sizes of the labelled set",
    parts=[Part("CIFAR-10", PAPER, REDUCED, [BETTER], PUBLISHED)],
    minutes=0.8,
    remarks=[KEPT_OUT, ABOVE_ITS_TEACHER],
)
