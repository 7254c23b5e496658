"""Table 7: CelebA, hard labels."""

from experiments.experiment import Experiment, Part, Published
from experiments.p001_slam.settings import CELEBA_LABELS, FEW_LABELS, FULL_METHODS, PERCENT, SELECT, above, few
from experiments.vision import full

PAPER = full("celeba", CELEBA_LABELS, 500, FULL_METHODS, select=SELECT, hard=True)
REDUCED = few("celeba", FEW_LABELS[:1], hard=True)
PUBLISHED = Published(
    "Table 7",
    PERCENT["celeba"],
    {
        "Teacher": ["86.19", "88.25", "88.95", "91.31", "92.09", "92.62"],
        "Vanilla": ["89.73 ± 0.08", "91.61 ± 0.09", "92.05 ± 0.11", "93.41 ± 0.13", "94.02 ± 0.15", "94.05 ± 0.04"],
        "Taylor-CE": ["90.62 ± 0.05", "92.19 ± 0.02", "92.66 ± 0.11", "93.60 ± 0.14", "94.00 ± 0.04", "94.38 ± 0.10"],
        "UPS": ["89.35 ± 0.04", "91.30 ± 0.04", "91.95 ± 0.12", "93.18 ± 0.07", "93.71 ± 0.04", "94.18 ± 0.03"],
        "VID": ["89.92 ± 0.21", "91.60 ± 0.11", "92.20 ± 0.12", "93.51 ± 0.15", "94.08 ± 0.15", "94.27 ± 0.10"],
        "Weighted": ["90.06 ± 0.06", "91.97 ± 0.13", "92.45 ± 0.10", "93.60 ± 0.07", "93.94 ± 0.12", "94.25 ± 0.16"],
        "SLaM": ["90.43 ± 0.05", "92.25 ± 0.11", "92.71 ± 0.08", "93.96 ± 0.17", "94.39 ± 0.21", "94.52 ± 0.12"],
    },
)

EXPERIMENT = Experiment(
    name="slam_table7",
    paper="001",
    shows="Table 7",
    what="CelebA, hard labels: six distillation methods at six sizes of the labelled set",
    parts=[Part("CelebA", PAPER, REDUCED, above("Vanilla", "UPS", "VID", "Weighted", classes=2), PUBLISHED)],
    minutes=0.9,
    remarks=["Taylor-CE is as good as SLaM here in the paper's own table, which is no claim to decide."],
)
