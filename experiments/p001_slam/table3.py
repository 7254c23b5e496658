"""Table 3: CelebA, soft labels."""

from experiments.experiment import Experiment, Part, Published
from experiments.p001_slam.settings import CELEBA_LABELS, FEW_LABELS, FULL_METHODS, PERCENT, SELECT, above, few
from experiments.vision import full

PAPER = full("celeba", CELEBA_LABELS, 500, FULL_METHODS, select=SELECT)
REDUCED = few("celeba", FEW_LABELS[:1])
PUBLISHED = Published(
    "Table 3",
    PERCENT["celeba"],
    {
        "Teacher": ["86.19", "88.25", "88.95", "91.31", "92.09", "92.62"],
        "Vanilla": ["89.96 ± 0.08", "91.55 ± 0.14", "92.16 ± 0.10", "93.42 ± 0.06", "93.98 ± 0.04", "94.29 ± 0.03"],
        "Taylor-CE": ["90.80 ± 0.07", "92.23 ± 0.1", "92.56 ± 0.14", "93.80 ± 0.20", "94.17 ± 0.07", "94.47 ± 0.01"],
        "UPS": ["89.96 ± 0.11", "92.03 ± 0.09", "92.44 ± 0.04", "93.9 ± 0.05", "94.28 ± 0.07", "94.68 ± 0.03"],
        "VID": ["89.91 ± 0.10", "91.75 ± 0.21", "92.21 ± 0.10", "93.67 ± 0.21", "94.15 ± 0.07", "94.33 ± 0.16"],
        "Weighted": ["89.92 ± 0.12", "91.73 ± 0.09", "92.31 ± 0.22", "93.64 ± 0.10", "93.93 ± 0.14", "94.23 ± 0.11"],
        "SLaM": ["90.37 ± 0.17", "92.25 ± 0.11", "92.74 ± 0.17", "94.06 ± 0.07", "94.39 ± 0.10", "94.75 ± 0.08"],
    },
)

EXPERIMENT = Experiment(
    name="slam_table3",
    paper="001",
    shows="Table 3",
    what="CelebA, soft labels: six distillation methods at six sizes of the labelled set",
    parts=[Part("CelebA", PAPER, REDUCED, above("Vanilla", "UPS", "VID", "Weighted", classes=2), PUBLISHED)],
    minutes=1.0,
    remarks=["Taylor-CE is as good as SLaM here in the paper's own table, which is no claim to decide."],
)
