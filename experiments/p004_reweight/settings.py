"""What the CIFAR experiments of this paper share (4.2). The weight decay is not given; 1e-4 is used.

Reduced: 2,000 noisy rows, an MLP with two layers of 256 and 50 epochs of Adam, in which the baseline repeats nine in
ten of the labels it was given, wrong ones included: where nothing is memorised there is nothing to be robust against.
For CIFAR-100 5,000 rows of CIFAR-10 as vectors of EfficientNet-lite0, an MLP with one layer of 256 and 20 epochs: the
baseline is about as accurate as the paper's (50.7% and 37.8%) and repeats all of its labels. Fine-tuning takes 100
steps at a tenth of the learning rate; the paper's 5,000 steps begin from its decayed rate.
"""

from dataclasses import replace
from typing import Any

from experiments.engines.noisy import NoisyLabels
from experiments.needs import REPEATED
from experiments.sweep import Training

OURS = "Learning to reweight"
WIDE = "wide_resnet:dropout=0.3"
"""WRN-28-10 with dropout 0.3, 60K steps."""
WIDE_TRAINING = Training(steps=60_000, batch_size=100, lr=0.1, optimizer="sgd", weight_decay=1e-4,
                         schedule=((40 / 60, 0.1), (50 / 60, 0.01)), augment=("flip", "pad_crop"))  # fmt: skip
RESNET = "resnet32"
RESNET_TRAINING = Training(steps=80_000, batch_size=100, lr=0.1, optimizer="sgd", weight_decay=1e-4,
                           schedule=((0.5, 0.1), (0.75, 0.01)), augment=("flip", "pad_crop"))  # fmt: skip
HYPER_VALIDATION, FINETUNE_STEPS, TRIALS = 5_000, 5_000, 5
DECAYED = 0.1 * 0.01
"""Both schedules end there, and fine-tuning goes on with it."""
BACKGROUNDS = {"cifar10": (0, 1, 3, 5, 7), "cifar100": (7, 12, 41, 62, 85)}
LONG = Training(epochs=50, batch_size=100, schedule="cosine")
# data set -> stand-in, net, noisy rows, training
STAND_INS: dict[str, tuple[str, str, int, Training]] = {
    "cifar10": ("fashion_mnist", "mlp:256,256", 2_000, LONG),
    "cifar100": ("cifar10_vectors", "mlp:256", 5_000, replace(LONG, epochs=20)),
}
TAKEN, MEMORISED = "others taken for the background", REPEATED

# Table 2, whose trainings Figures 5 to 7 show again.
TABLE2 = {
    "Baseline": ("59.54 ± 2.16", "37.82 ± 0.69"),
    "Baseline +ES": ("64.96 ± 1.19", "39.08 ± 0.65"),
    "Random": ("69.51 ± 1.36", "36.56 ± 0.44"),
    "Weighted": ("79.17 ± 1.36", "36.56 ± 0.44"),
    "Reed soft +ES": ("63.47 ± 1.05", "38.44 ± 0.90"),
    "Reed hard +ES": ("65.22 ± 1.06", "39.03 ± 0.55"),
    "S-Model": ("58.60 ± 2.33", "37.02 ± 0.34"),
    "S-Model +Conf": ("68.93 ± 1.09", "46.72 ± 1.87"),
    "S-Model +Conf +ES": ("79.24 ± 0.56", "54.50 ± 2.51"),
    "Clean only": ("15.90 ± 3.32", "8.06 ± 0.76"),
    "Baseline +FT": ("82.82 ± 0.93", "54.23 ± 1.75"),
    "Baseline +ES +FT": ("85.19 ± 0.46", "55.22 ± 1.40"),
    "Weighted +FT": ("85.98 ± 0.47", "53.99 ± 1.62"),
    "S-Model +Conf +FT": ("81.90 ± 0.85", "53.11 ± 1.33"),
    "S-Model +Conf +ES +FT": ("85.86 ± 0.63", "55.75 ± 1.26"),
    OURS: ("86.73 ± 0.48", "59.30 ± 0.60"),
}
CURVES = (OURS, "Baseline", "Baseline +ES", "Baseline +ES +FT")
"""What Figure 5 plots."""
FLIP_REMARKS = (
    "Gold rows steer and fine-tune, they are not in the reweighted pool: as in the paper's released code; its 3.1 "
    "counts them among the training rows (`us.l2rw(gold_in_pool=True)`).",
    "S-Model +Conf starts from the confusion of the pre-trained baseline's predictions with the given labels, counted "
    "on the held-out noisy rows: its training rows are memorised.",
)


def background(data: str, noise: tuple[float, ...], methods: tuple[str, ...], **more: Any) -> NoisyLabels:
    """BackgroundFlip with a ResNet-32 and 10 clean rows per class."""
    settings: dict[str, Any] = {"gold": (10,), "watched": HYPER_VALIDATION, "finetune": FINETUNE_STEPS,
                                "finetune_lr": DECAYED, "backgrounds": BACKGROUNDS[data],
                                "seeds": TRIALS}  # fmt: skip
    return NoisyLabels(data, RESNET, "background", noise, methods, RESNET_TRAINING, **settings | more)


def uniform(data: str, per_class: int, methods: tuple[str, ...], **more: Any) -> NoisyLabels:
    """UniformFlip at 40% with a WRN-28-10 and 1,000 clean rows."""
    settings: dict[str, Any] = {"gold": (per_class,), "watched": HYPER_VALIDATION, "finetune": FINETUNE_STEPS,
                                "finetune_lr": DECAYED, "seeds": TRIALS}  # fmt: skip
    return NoisyLabels(data, WIDE, "uniform", (0.4,), methods, WIDE_TRAINING, **settings | more)


def reduced(data: str, flip: str, noise: tuple[float, ...], methods: tuple[str, ...], **more: Any) -> NoisyLabels:
    name, net, rows, training = STAND_INS[data]
    training = more.pop("training", training)
    settings: dict[str, Any] = {"gold": (10,), "watched": 400, "finetune": 100, "backgrounds": (0, 1, 3, 5, 7),
                                "rows": rows, "test_rows": 3_000, "curves": False}  # fmt: skip
    return NoisyLabels(name, net, flip, noise, methods, training, **settings | more)


def reduced_table1(data: str, methods: tuple[str, ...]) -> NoisyLabels:
    return reduced(data, "uniform", (0.4,), methods, backgrounds=(0,), extras=(MEMORISED,))


def reduced_table2(data: str) -> NoisyLabels:
    """With what Figures 5 to 7 show of it: the column without noise, curves, what is taken for the background."""
    more: dict[str, Any] = {"curves": True, "test_rows": 2_000} if data == "cifar10" else {}
    return reduced(
        data, "background", (0.0, 0.4), tuple(TABLE2), without_noise=CURVES, extras=(TAKEN, MEMORISED), **more
    )
