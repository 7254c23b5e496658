"""Table 2: CIFAR-100, soft labels."""

from experiments.experiment import Experiment, Part, Published
from experiments.p001_slam.settings import CIFAR_LABELS, FULL_METHODS, SELECT, above, few, lead
from experiments.vision import full

PAPER = full("cifar100", CIFAR_LABELS, 500, FULL_METHODS, select=SELECT)
REDUCED = few("cifar100")
PUBLISHED = Published(
    "Table 2",
    [f"{count:,}" for count in CIFAR_LABELS],
    {
        "Teacher": ["35.97", "44.65", "49.62", "55.68", "59.19", "62.05"],
        "Vanilla": ["37.94 ± 0.10", "46.42 ± 0.24", "52.17 ± 0.21", "57.72 ± 0.17", "60.91 ± 0.07", "63.47 ± 0.23"],
        "Taylor-CE": ["40.18 ± 0.07", "48.05 ± 0.29", "54.08 ± 0.24", "58.45 ± 0.17", "61.13 ± 0.10", "63.54 ± 0.26"],
        "UPS": ["39.62 ± 0.23", "48.48 ± 0.15", "54.43 ± 0.27", "58.17 ± 0.07", "60.74 ± 0.10", "62.13 ± 0.12"],
        "VID": ["38.93 ± 0.39", "46.76 ± 0.10", "52.56 ± 0.17", "57.94 ± 0.37", "61.14 ± 0.28", "63.56 ± 0.18"],
        "Weighted": ["38.63 ± 0.32", "47.11 ± 0.29", "53.16 ± 0.25", "58.20 ± 0.11", "61.29 ± 0.15", "63.58 ± 0.07"],
        "SLaM": ["42.72 ± 0.30", "49.89 ± 0.23", "54.73 ± 0.27", "58.78 ± 0.15", "61.30 ± 0.09", "63.98 ± 0.19"],
    },
)

EXPERIMENT = Experiment(
    name="slam_table2",
    paper="001",
    shows="Table 2",
    what="CIFAR-100, soft labels: six distillation methods at six sizes of the labelled set",
    parts=[Part("CIFAR-100", PAPER, REDUCED, [*above(), lead(PUBLISHED)], PUBLISHED)],
    minutes=2.2,
)
