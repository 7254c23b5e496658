"""Table 5: CIFAR-10, hard labels."""

from experiments.experiment import Experiment, Part, Published
from experiments.p001_slam.settings import CIFAR_LABELS, FEW_LABELS, FULL_METHODS, SELECT, above, few
from experiments.vision import full

PAPER = full("cifar10", CIFAR_LABELS, 500, FULL_METHODS, select=SELECT, hard=True)
REDUCED = few("cifar10", FEW_LABELS[:1], hard=True)
PUBLISHED = Published(
    "Table 5",
    [f"{count:,}" for count in CIFAR_LABELS],
    {
        "Teacher": ["61.30", "68.98", "72.42", "73.92", "76.63", "78.63"],
        "Vanilla": ["62.26 ± 0.45", "69.07 ± 0.11", "72.09 ± 0.11", "73.43 ± 0.16", "75.93 ± 0.25", "77.43 ± 0.15"],
        "Taylor-CE": ["63.14 ± 0.07", "69.98 ± 0.11", "72.72 ± 0.36", "73.77 ± 0.28", "76.26 ± 0.29", "77.88 ± 0.20"],
        "UPS": ["64.27 ± 0.08", "70.93 ± 0.26", "73.78 ± 0.16", "74.66 ± 0.29", "77.38 ± 0.37", "78.95 ± 0.08"],
        "VID": ["61.95 ± 0.22", "66.91 ± 0.21", "69.59 ± 0.24", "72.16 ± 0.47", "74.83 ± 0.11", "75.55 ± 0.21"],
        "Weighted": ["63.22 ± 0.45", "71.04 ± 0.26", "72.84 ± 0.12", "74.20 ± 0.16", "76.56 ± 0.24", "78.23 ± 0.15"],
        "SLaM": ["66.40 ± 0.31", "72.44 ± 0.17", "74.77 ± 0.13", "75.64 ± 0.19", "77.99 ± 0.36", "79.26 ± 0.26"],
    },
)

EXPERIMENT = Experiment(
    name="slam_table5",
    paper="001",
    shows="Table 5",
    what="CIFAR-10, hard labels: six distillation methods at six sizes of the labelled set",
    parts=[Part("CIFAR-10", PAPER, REDUCED, above(), PUBLISHED)],
    minutes=0.9,
)
