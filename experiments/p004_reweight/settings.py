"""What the CIFAR experiments of this paper share (4.2). The weight decay is not given; 1e-4 is used."""

from typing import Any

from experiments.engines.noisy import NoisyLabels
from experiments.sweep import Training

WIDE = "wide_resnet:dropout=0.3"
"""WRN-28-10 with dropout 0.3, 60K steps."""
WIDE_TRAINING = Training(steps=60_000, batch_size=100, lr=0.1, optimizer="sgd", weight_decay=1e-4,
                         schedule=((40 / 60, 0.1), (50 / 60, 0.01)), augment=("flip", "pad_crop"))  # fmt: skip
RESNET = "resnet32"
RESNET_TRAINING = Training(steps=80_000, batch_size=100, lr=0.1, optimizer="sgd", weight_decay=1e-4,
                           schedule=((0.5, 0.1), (0.75, 0.01)), augment=("flip", "pad_crop"))  # fmt: skip
HYPER_VALIDATION, FINETUNE_STEPS, TRIALS = 5_000, 5_000, 5
BACKGROUNDS = {"cifar10": (0, 1, 3, 5, 7), "cifar100": (7, 12, 41, 62, 85)}
STAND_INS: dict[str, tuple[str, int | None]] = {"cifar10": ("fashion_mnist", None), "cifar100": ("cifar10", 16)}
SHORT = Training(epochs=20, batch_size=100, schedule="cosine")


def background(data: str, noise: tuple[float, ...], methods: tuple[str, ...], **more: Any) -> NoisyLabels:
    """BackgroundFlip with a ResNet-32 and 10 clean rows per class."""
    settings: dict[str, Any] = {"gold": (10,), "watched": HYPER_VALIDATION, "finetune": FINETUNE_STEPS,
                                "backgrounds": BACKGROUNDS[data], "seeds": TRIALS}  # fmt: skip
    return NoisyLabels(data, RESNET, "background", noise, methods, RESNET_TRAINING, **settings | more)


def reduced(data: str, flip: str, noise: tuple[float, ...], methods: tuple[str, ...], **more: Any) -> NoisyLabels:
    name, side = STAND_INS[data]
    settings: dict[str, Any] = {"gold": (10,), "watched": 400, "finetune": 100, "backgrounds": (0, 1, 3, 5, 7),
                                "rows": 4_000, "test_rows": 3_000, "side": side}  # fmt: skip
    return NoisyLabels(name, "mlp:256,256", flip, noise, methods, SHORT, **settings | more)
