"""Table 1: self-distillation under symmetric noise, CIFAR-10 and Fashion-MNIST."""

from experiments.claims import Claim
from experiments.experiment import Experiment, Part, Published
from experiments.p003_self_distillation.settings import paper, reduced

NOISE = (0.0, 0.2, 0.4, 0.6, 0.8)
METHODS = ("Baseline", "Co-teaching", "GCE", "Self-distillation")
COLUMNS = [f"{level:.0%}" for level in NOISE]
CIFAR10 = Published(
    "Table 1, CIFAR-10",
    COLUMNS,
    {
        "Co-teaching": ["90.12", "86.19", "80.87", "-", "-"],
        "D2L": ["91.29", "86.64", "73.12", "-", "-"],
        "WAT": ["91.88", "89.12", "84.55", "-", "-"],
        "GCE": ["-", "89.7", "87.62", "82.70", "67.92"],
        "Self-distillation": ["94.31", "93.75", "90.82", "86.72", "73.91"],
    },
)
FASHION = Published(
    "Table 1, Fashion-MNIST",
    COLUMNS,
    {
        "Co-teaching": ["94.28", "91.24", "86.83", "-", "-"],
        "D2L": ["94.47", "89.12", "78.98", "-", "-"],
        "WAT": ["94.70", "93.37", "90.41", "-", "-"],
        "GCE": ["-", "93.21", "92.60", "91.56", "88.33"],
        "Self-distillation": ["95.21", "94.58", "93.78", "92.63", "89.21"],
    },
)
CLAIMS = [
    Claim("Self-distillation is above Co-teaching at 40% noise", ["Self-distillation@40%"], ["Co-teaching@40%"]),
    Claim("Self-distillation is above GCE at 40% noise", ["Self-distillation@40%"], ["GCE@40%"]),
    Claim("Self-distillation is above GCE at 80% noise", ["Self-distillation@80%"], ["GCE@80%"]),
    Claim("Self-distillation is above plain training at 40% noise", ["Self-distillation@40%"], ["Baseline@40%"]),
]
OURS = (0.0, 0.4, 0.8)

EXPERIMENT = Experiment(
    name="air_table1",
    paper="003",
    shows="Table 1",
    what="test accuracy under symmetric noise, without early stopping and without clean rows",
    parts=[
        Part("CIFAR-10", paper("cifar10", NOISE, (1.0, 1.0, 1.0, 1.5, 1.5), METHODS),
             reduced("cifar10", OURS, (1.0, 1.0, 1.5), METHODS, side=16), CLAIMS, CIFAR10),
        Part("Fashion-MNIST", paper("fashion_mnist", NOISE, (0.6, 1.0, 1.0, 1.4, 1.6), METHODS),
             reduced("fashion_mnist", OURS, (0.6, 1.0, 1.6), METHODS), CLAIMS, FASHION),
    ],
    minutes=7,
    not_reproduced=["D2L (Ma et al. 2018)", "WAT (Damodaran et al. 2019)", "both rows are quoted by the paper"],
    remarks=["Plain training is added for comparison; the paper's table leaves it out."],
)  # fmt: skip
