"""Table 1: CIFAR-10, soft labels."""

from experiments.experiment import Experiment, Part, Published
from experiments.p001_slam.settings import CIFAR_LABELS, FULL_METHODS, SELECT, above, few, lead
from experiments.vision import full

PAPER = full("cifar10", CIFAR_LABELS, 500, FULL_METHODS, select=SELECT)
REDUCED = few("cifar10")
PUBLISHED = Published(
    "Table 1",
    [f"{count:,}" for count in CIFAR_LABELS],
    {
        "Teacher": ["61.30", "68.98", "72.42", "73.92", "76.63", "78.63"],
        "Vanilla": ["63.53 ± 0.29", "70.39 ± 0.11", "73.23 ± 0.15", "74.29 ± 0.25", "76.64 ± 0.20", "78.63 ± 0.16"],
        "Taylor-CE": ["64.07 ± 0.26", "71.19 ± 0.17", "74.18 ± 0.25", "74.65 ± 0.24", "77.17 ± 0.04", "78.67 ± 0.13"],
        "UPS": ["64.56 ± 0.13", "71.10 ± 0.34", "74.17 ± 0.06", "75.05 ± 0.24", "77.64 ± 0.12", "79.21 ± 0.27"],
        "VID": ["63.76 ± 0.13", "70.58 ± 0.17", "73.77 ± 0.40", "74.95 ± 0.21", "77.25 ± 0.06", "78.23 ± 0.09"],
        "Weighted": ["63.85 ± 0.13", "71.04 ± 0.24", "73.64 ± 0.36", "75.00 ± 0.17", "77.40 ± 0.17", "78.93 ± 0.19"],
        "SLaM": ["66.82 ± 0.61", "72.61 ± 0.30", "75.01 ± 0.25", "75.72 ± 0.17", "78.04 ± 0.16", "79.22 ± 0.11"],
    },
)

EXPERIMENT = Experiment(
    name="slam_table1",
    paper="001",
    shows="Table 1",
    what="CIFAR-10, soft labels: six distillation methods at six sizes of the labelled set",
    parts=[Part("CIFAR-10", PAPER, REDUCED, [*above(), lead(PUBLISHED)], PUBLISHED)],
    minutes=2.2,
)
