"""What the experiments on noisy labels of this paper share (3.4)."""

from experiments.engines.noisy import NoisyLabels
from experiments.sweep import Training

NET = "shake_shake"
TRAINING = Training(
    epochs=600, lr=0.2, optimizer="sgd", weight_decay=1e-4, schedule="cosine", augment=("flip", "pad_crop")
)
# Its two-class net, trained with squared error (appendix B); the number of epochs is not given.
BINARY_TRAINING = Training(epochs=60, lr=0.1, optimizer="sgd", weight_decay=5e-4)
SHORT = Training(epochs=25, schedule="cosine")


def paper(data: str, noise: tuple[float, ...], strengths: tuple[float, ...], methods: tuple[str, ...]) -> NoisyLabels:
    return NoisyLabels(data, NET, "symmetric", noise, methods, TRAINING, strengths=strengths)


def reduced(
    data: str, noise: tuple[float, ...], strengths: tuple[float, ...], methods: tuple[str, ...], side: int | None = None
) -> NoisyLabels:
    return NoisyLabels(
        data, "mlp:256,256", "symmetric", noise, methods, SHORT,
        strengths=strengths, rows=4_000, test_rows=3_000, side=side,
    )  # fmt: skip
