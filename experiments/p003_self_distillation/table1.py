"""Table 1: self-distillation under symmetric noise, CIFAR-10 and Fashion-MNIST; Figure 4: its epochs at 40%.

At full scale Fashion-MNIST is padded to 32 × 32 and both have their mean subtracted, as the paper says.
"""

from dataclasses import replace

from experiments.claims import Claim
from experiments.experiment import Experiment, Part, Published
from experiments.needs import memorised
from experiments.p003_self_distillation.settings import (
    FASHION,
    HARD,
    METHODS,
    REDUCED_METHODS,
    SHORT,
    SOFT,
    paper,
    reduced,
)

NOISE = (0.0, 0.2, 0.4, 0.6, 0.8)
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
FASHION_MNIST = Published(
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
OURS, GCE, GUESSED = "Self-distillation", "GCE, truncated", "Co-teaching, rate guessed"
TARGETS = (("low temperature", SOFT), ("best class as target", HARD))


def above(rival: str, row: str, at: str, effect: float) -> list[Claim]:
    """Of either target: the paper does not say which its table used."""
    return [
        Claim(f"{OURS}, {how}, is above {rival} at {at} noise", [f"{mine}@{at}"], [f"{row}@{at}"], effect=effect,
              needs=[memorised(at)])
        for how, mine in TARGETS
    ]  # fmt: skip


def guessed(at: str) -> Claim:
    text = f"{OURS}, low temperature, is above Co-teaching at a guessed noise rate, at {at}"
    return Claim(text, [f"{SOFT}@{at}"], [f"{GUESSED}@{at}"], aside="the paper's knows it")


def plain(at: str) -> list[Claim]:
    """The table leaves plain training out; Figure 4 has it, without figures."""
    return [
        Claim(f"{OURS}, {how}, is above plain training at {at} noise", [f"{row}@{at}"], [f"Baseline@{at}"], delta=2,
              needs=[memorised(at)])
        for how, row in TARGETS
    ]  # fmt: skip


ONE = Experiment(
    name="air_table1",
    paper="003",
    shows="Table 1",
    what="test accuracy under symmetric noise, without early stopping and without clean rows",
    parts=[
        Part("CIFAR-10", paper("cifar10_centred", NOISE, (1.0, 1.0, 1.0, 1.5, 1.5), METHODS),
             reduced("cifar10_vectors", (0.4,), (1.0,), tuple(name for name in REDUCED_METHODS if name != GUESSED),
                     curves=False, student="mlp:256", rows=5_000, training=replace(SHORT, epochs=20)),
             [*above("Co-teaching", "Co-teaching", "40%", 9.95), *above("GCE", GCE, "40%", 3.2), *plain("40%")],
             CIFAR10),
        Part("Fashion-MNIST", paper("fashion_mnist_32", NOISE, (0.6, 1.0, 1.0, 1.4, 1.6), METHODS), FASHION,
             [*above("Co-teaching", "Co-teaching", "40%", 6.95), *above("GCE", GCE, "40%", 1.18),
              *above("GCE", GCE, "60%", 1.07), guessed("40%"), guessed("60%"), *plain("60%")], FASHION_MNIST),
    ],
    minutes=3.1,
    not_reproduced=["D2L (Ma et al. 2018)", "WAT (Damodaran et al. 2019)", "both rows are quoted by the paper"],
    remarks=[
        "Plain training is added for comparison; the paper's table leaves it out.",
        "The paper's labels come from the student's best class or from a softmax of low temperature; it does not say "
        "which the table used, so both are here. With λ above 1 the student soon hears only itself, and the best class "
        "as target can lose whole classes: `air_table1.json` has the recall of the worst one.",
        "The paper's GCE figures are those that Zhang & Sabuncu (2018) print for the truncated loss, which is what is "
        "compared; the plain one stands beside it at full scale.",
        "The paper's Shake-Shake net, its augmentation and its 600 epochs were not run: the verdicts on GCE and "
        "Co-teaching hold for MLPs that repeat nine in ten of their labels within 60 epochs.",
        "CIFAR-10 at 16 × 16, tried first, is no setting: an MLP repeats half of its labels in 40 epochs, so that "
        "there is nothing to resist; two layers of 512 repeat 92% after 80. As vectors it repeats all.",
        "ELR and SOP (Liu et al. 2020, 2022) are later than the paper: [noisy labels](../noisy_labels.md).",
        "Its 0 and 20% are left out, since there is little to resist, and 80%, at which nets of this size end tens of "
        "points apart from seed to seed.",
        "Theorems 1 and 2 are tests (`tests/experiments/theory/test_two_layer.py`). On 64 and 256 rows of two "
        "clusters, a quarter of the labels flipped, four seeds, self-distillation's squared error on fresh rows is "
        "0.013 and 0.008, as 1/√n bounds it; plain training's is 0.44 and 0.28.",
    ],
)  # fmt: skip

FOUR = Experiment(
    name="air_fig04",
    paper="003",
    shows="Figure 4",
    what="test accuracy along training under 40% symmetric noise",
    parts=[
        Part(
            "CIFAR-10",
            paper("cifar10_centred", (0.4,), (1.0,), ("Baseline", HARD, SOFT)),
            FASHION,
            # Plotted: two points are less than the figure's line width shows.
            [
                *(Claim(f"Plain training falls more from its best epochs to its last than self-distillation, {how}",
                        ["Baseline@40%"], [f"{row}@40%"], measure="drop", delta=2, needs=[memorised("40%")])
                  for how, row in (("low temperature", SOFT), ("best class as target", HARD))),
                *(Claim(f"Self-distillation, {how}, ends above plain training", [f"{row}@40%"], ["Baseline@40%"],
                        delta=2, needs=[memorised("40%")])
                  for how, row in (("low temperature", SOFT), ("best class as target", HARD))),
            ],
        )
    ],
    minutes=0,
    remarks=[
        "The trainings are those of Table 1, Fashion-MNIST.",
        "A fall is taken between means of three epochs: single ones go up and down by as much as the effect.",
    ],
)  # fmt: skip

EXPERIMENTS = [ONE, FOUR]
