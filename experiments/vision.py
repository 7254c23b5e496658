"""The image settings of the two distillation papers, and their reduced stand-ins.

Weighted Distillation, 3.1 and C, and SLaM, 4 and D.1: Adam 1e-3 with four drops in 200 epochs, flips and shifts by a
tenth; on ImageNet SGD 0.1 with a warm-up over 5 of 100 epochs. Neither gives a batch size; 128 is used (256 on
ImageNet). "MobileNet with depth multiplier 2" is read as Keras's argument of that name.

Reduced: a convolutional net teaches an MLP (LeNet, or on CIFAR-10 the better CNN of five layers); 8,000 unlabelled
rows, 150 validation rows where nothing else is said, 8 epochs without augmentation. Such a student cannot reach its
teacher, so every signal of it helps and what mutes some of them harms; the papers' pairs are mostly of one family and
end above their teachers. ``LENETS`` and ``on_vectors`` are such pairs. The stand-ins have teachers about as accurate as
the papers': MNIST with few labels for SVHN, Fashion-MNIST for CIFAR-10, CIFAR-10 at 16 × 16 for CIFAR-100 and, with as
many labels per class as 5% of ImageNet has, for ImageNet; its animals against its vehicles for CelebA.
"""

from dataclasses import replace
from typing import Any

from experiments.engines.distil import Distillation, Method
from experiments.sweep import Training

PAPERS_TRAINING = Training(epochs=200, schedule="papers-cifar", augment=("flip", "shift"))
IMAGENET_TRAINING = Training(
    epochs=100, batch_size=256, lr=0.1, optimizer="sgd", schedule="papers-imagenet", warmup_epochs=5, augment=("flip",)
)
SHORT = Training(epochs=8, schedule="cosine")
# Teachers and first students train long enough to fit their own rows where these are 1,000 or fewer.
PRETRAINING = Training(steps=500, schedule="cosine")

# As the papers' pairs: one family, augmented, and long enough for the student to reach its teacher.
AUGMENTED = Training(epochs=25, schedule="cosine", augment=("flip", "shift"))
LENETS = Distillation(
    "cifar10", "lenet", "lenet", (1_000,), 500, (), AUGMENTED, Training(steps=1_000, batch_size=64, schedule="cosine",
    augment=("flip", "shift")), Training(steps=500, schedule="cosine", augment=("flip", "shift")),
    unlabelled=8_000, drawn=True, curve_rows=0, side=16,
)  # fmt: skip

# data set -> teacher, student, how they are trained
FULL: dict[str, tuple[str, str, Training]] = {
    "svhn": ("mobilenet:depth_multiplier=2", "mobilenet", PAPERS_TRAINING),
    "cifar10": ("mobilenet:depth_multiplier=2", "mobilenet", PAPERS_TRAINING),
    "cifar100": ("resnet110", "resnet56", PAPERS_TRAINING),
    "celeba": ("mobilenet:depth_multiplier=2", "resnet11", PAPERS_TRAINING),
    "imagenet": ("resnet50", "resnet18", IMAGENET_TRAINING),
}
# data set -> what stands in for it, its teacher, how long that trains, the side its images are pooled to
LENET, CNN5 = ("lenet", 600, None), ("cnn5", 400, 16)
REDUCED: dict[str, tuple[str, tuple[str, int, int | None]]] = {
    "svhn": ("mnist", LENET),
    "cifar10": ("fashion_mnist", LENET),
    "cifar100": ("cifar10", CNN5),
    "celeba": ("cifar10_animals", CNN5),
    "imagenet": ("cifar10", CNN5),
}


def full(
    data: str, labelled: tuple[int, ...], validation: int, methods: tuple[Method, ...], **more: Any
) -> Distillation:
    teacher, student, training = FULL[data]
    training = more.pop("training", training)
    return Distillation(data, teacher, student, labelled, validation, methods, training, training, training, **more)


def reduced(data: str, labelled: tuple[int, ...], methods: tuple[Method, ...], **more: Any) -> Distillation:
    """The stand-in for a data set."""
    name, (teacher, steps, side) = REDUCED[data]
    learning = Training(steps=steps, batch_size=64, schedule="cosine")
    setting = Distillation(
        name, teacher, "mlp:128", labelled, 150, methods, SHORT, learning, PRETRAINING,
        unlabelled=8_000, drawn=True, passes=3, curve_rows=0, side=side,
    )  # fmt: skip
    return replace(setting, **more)


def on_vectors(
    data: str, labelled: int, validation: int, unlabelled: int, methods: tuple[Method, ...], **more: Any
) -> Distillation:
    """A wide MLP teaches a narrow one on the vectors of a frozen net."""
    setting = Distillation(
        data, "mlp:256", "mlp:64", (labelled,), validation, methods, replace(AUGMENTED, augment=()), PRETRAINING,
        PRETRAINING, unlabelled=unlabelled, drawn=True, curve_rows=0,
    )  # fmt: skip
    return replace(setting, **more)
