"""Figure 8: ImageNet, ResNet-50 teacher and ResNet-18 student, soft and hard labels."""

from dataclasses import replace

from experiments.experiment import Experiment, Part, Published
from experiments.p000_weighted_distillation.settings import BETTER, IMAGENET_LABELS, KEPT_OUT, few, one_shot

# Ten trials in the paper.
PAPER = one_shot("imagenet", IMAGENET_LABELS, 10_000, seeds=10)
REDUCED = few("imagenet", validation=100)
COLUMNS = ["5% of ImageNet", "10% of ImageNet"]
SOFT = Published(
    "Figure 8, left",
    COLUMNS,
    {
        "Teacher": ["36.74", "51.88"],
        "Weighted": ["38.60 ± 0.07", "53.59 ± 0.09"],
        "Unweighted": ["38.44 ± 0.06", "53.43 ± 0.08"],
    },
)
HARD = Published(
    "Figure 8, right",
    COLUMNS,
    {
        "Teacher": ["36.74", "51.88"],
        "Weighted": ["38.56 ± 0.07", "53.34 ± 0.11"],
        "Unweighted": ["38.42 ± 0.06", "53.18 ± 0.07"],
    },
)

EXPERIMENT = Experiment(
    name="weighted_fig08",
    paper="000",
    shows="Figure 8",
    what="ImageNet at 5% and 10% labels: weighted against unweighted, soft and hard labels",
    parts=[
        Part("Soft labels", PAPER, REDUCED, [BETTER], SOFT),
        Part("Hard labels", replace(PAPER, hard=True), replace(REDUCED, hard=True), [BETTER], HARD),
    ],
    minutes=0.5,
    remarks=[KEPT_OUT],
)
