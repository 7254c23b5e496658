"""Table 6: CIFAR-100, hard labels."""

from experiments.experiment import Experiment, Part, Published
from experiments.p001_slam.settings import CIFAR_LABELS, FEW_LABELS, FULL_METHODS, SELECT, above, few
from experiments.vision import full

PAPER = full("cifar100", CIFAR_LABELS, 500, FULL_METHODS, select=SELECT, hard=True)
REDUCED = few("cifar100", FEW_LABELS[:1], hard=True)
PUBLISHED = Published(
    "Table 6",
    [f"{count:,}" for count in CIFAR_LABELS],
    {
        "Teacher": ["35.97", "44.65", "49.62", "55.68", "59.19", "62.05"],
        "Vanilla": ["36.36 ± 0.04", "44.15 ± 0.10", "50.22 ± 0.07", "55.55 ± 0.24", "58.85 ± 0.1", "61.43 ± 0.19"],
        "Taylor-CE": ["39.12 ± 0.14", "46.87 ± 0.10", "52.64 ± 0.22", "57.19 ± 0.28", "59.95 ± 0.11", "62.36 ± 0.21"],
        "UPS": ["39.49 ± 0.13", "48.36 ± 0.44", "53.95 ± 0.10", "57.95 ± 0.10", "60.59 ± 0.29", "62.09 ± 0.28"],
        "VID": ["37.19 ± 0.09", "44.67 ± 0.16", "50.63 ± 0.35", "54.78 ± 0.07", "59.27 ± 0.14", "62.01 ± 0.05"],
        "Weighted": ["38.04 ± 0.29", "46.45 ± 0.22", "52.33 ± 0.18", "57.43 ± 0.13", "60.81 ± 0.09", "63.02 ± 0.06"],
        "SLaM": ["42.01 ± 0.29", "49.08 ± 0.14", "54.49 ± 0.17", "58.53 ± 0.04", "61.12 ± 0.15", "63.21 ± 0.18"],
    },
)

EXPERIMENT = Experiment(
    name="slam_table6",
    paper="001",
    shows="Table 6",
    what="CIFAR-100, hard labels: six distillation methods at six sizes of the labelled set",
    parts=[Part("CIFAR-100", PAPER, REDUCED, above(), PUBLISHED)],
    minutes=0.9,
)
