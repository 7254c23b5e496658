"""What the experiments on noisy labels of this paper share (3.4).

Reduced: 2,000 rows of Fashion-MNIST, an MLP with two layers of 256 and 60 epochs of Adam, in which plain training
repeats 95% of the labels it was given, wrong ones included; for CIFAR-10, 5,000 of its images as vectors of
EfficientNet-lite0, an MLP with one layer of 256 and 20 epochs, which repeats all of them. The paper's λ for the noise
level and data set.
"""

from typing import Any

from experiments.engines.noisy import NoisyLabels
from experiments.needs import REPEATED
from experiments.sweep import Training

NET = "shake_shake"
TRAINING = Training(
    epochs=600, lr=0.2, optimizer="sgd", weight_decay=1e-4, schedule="cosine", augment=("flip", "pad_crop")
)
# Its two-class net, trained with squared error (appendix B); the number of epochs is not given.
BINARY_TRAINING = Training(epochs=60, lr=0.1, optimizer="sgd", weight_decay=5e-4)
ABOVE = 0.02
"""How far a net must be above the larger class to have learned anything; equal to it passes for nothing."""
SHORT = Training(epochs=60, batch_size=100, schedule="cosine")
HARD, SOFT = "Self-distillation", "Self-distillation, T = 0.5"
METHODS = ("Baseline", "Co-teaching", "Co-teaching, rate guessed", "GCE", "GCE, truncated", HARD, SOFT)
REDUCED_METHODS = tuple(name for name in METHODS if name != "GCE")
"""No claim speaks of the untruncated loss."""
WORST, MEMORISED = "recall of the worst class", REPEATED


def paper(data: str, noise: tuple[float, ...], strengths: tuple[float, ...], methods: tuple[str, ...]) -> NoisyLabels:
    return NoisyLabels(data, NET, "symmetric", noise, methods, TRAINING, strengths=strengths, extras=(WORST,))


def reduced(
    data: str, noise: tuple[float, ...], strengths: tuple[float, ...], methods: tuple[str, ...], **more: Any
) -> NoisyLabels:
    settings: dict[str, Any] = {"student": "mlp:256,256", "training": SHORT, "rows": 2_000, "test_rows": 2_000}
    return NoisyLabels(
        data, flip="symmetric", noise=noise, methods=methods, strengths=strengths, extras=(WORST, MEMORISED),
        **settings | more,
    )  # fmt: skip


FASHION = reduced("fashion_mnist", (0.4, 0.6), (1.0, 1.4), REDUCED_METHODS)
"""Table 1's second half, whose trainings Figure 4 shows again."""
