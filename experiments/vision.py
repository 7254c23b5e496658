"""The image settings of the two distillation papers, and their reduced stand-ins.

Weighted Distillation, 3.1 and C, and SLaM, 4 and D.1: Adam 1e-3 with four drops in 200 epochs, flips and shifts by a
tenth; on ImageNet SGD 0.1 with a warm-up over 5 of 100 epochs. Neither gives a batch size; 128 is used (256 on
ImageNet). "MobileNet with depth multiplier 2" is read as Keras's argument of that name.

Reduced: MLPs on 4,000 unlabelled rows for 15 epochs. The stand-ins have teachers about as accurate as the papers':
MNIST with few labels for SVHN, Fashion-MNIST for CIFAR-10, CIFAR-10 at 16 × 16 for CIFAR-100 and ImageNet (35 to
45%), its animals against its vehicles for CelebA.
"""

from dataclasses import replace
from typing import Any

from experiments.engines.distil import Distillation, Method
from experiments.sweep import Training

PAPERS_TRAINING = Training(epochs=200, schedule="papers-cifar", augment=("flip", "shift"))
IMAGENET_TRAINING = Training(
    epochs=100, batch_size=256, lr=0.1, optimizer="sgd", schedule="papers-imagenet", warmup_epochs=5, augment=("flip",)
)
SHORT, FEW = Training(epochs=15, schedule="cosine"), Training(epochs=60, schedule="cosine")

# data set -> teacher, student, how they are trained
FULL: dict[str, tuple[str, str, Training]] = {
    "svhn": ("mobilenet:depth_multiplier=2", "mobilenet", PAPERS_TRAINING),
    "cifar10": ("mobilenet:depth_multiplier=2", "mobilenet", PAPERS_TRAINING),
    "cifar100": ("resnet110", "resnet56", PAPERS_TRAINING),
    "celeba": ("mobilenet:depth_multiplier=2", "resnet11", PAPERS_TRAINING),
    "imagenet": ("resnet50", "resnet18", IMAGENET_TRAINING),
}
# data set -> what stands in for it, the side its images are pooled to, the label counts
REDUCED: dict[str, tuple[str, int | None, tuple[int, ...]]] = {
    "svhn": ("mnist", None, (100, 300)),
    "cifar10": ("fashion_mnist", None, (100, 300)),
    "cifar100": ("cifar10", 16, (500, 1500)),
    "celeba": ("cifar10_animals", 16, (150, 500)),
    "imagenet": ("cifar10", 16, (400, 1000)),
}


def full(
    data: str, labelled: tuple[int, ...], validation: int, methods: tuple[Method, ...], **more: Any
) -> Distillation:
    teacher, student, training = FULL[data]
    training = more.pop("training", training)
    return Distillation(data, teacher, student, labelled, validation, methods, training, training, training, **more)


def reduced(data: str, methods: tuple[Method, ...], **more: Any) -> Distillation:
    """The stand-in for a data set."""
    name, side, labelled = REDUCED[data]
    setting = Distillation(
        name, "mlp:256,256", "mlp:128,128", labelled, 300, methods, SHORT, FEW, FEW,
        unlabelled=4_000, drawn=True, test_rows=3_000, side=side,
    )  # fmt: skip
    return replace(setting, **more)


def columns(data: str) -> tuple[str, str]:
    """The fewest and the most labels of a stand-in, as its table's columns name them."""
    labelled = REDUCED[data][2]
    return f"{labelled[0]:,}", f"{labelled[-1]:,}"
