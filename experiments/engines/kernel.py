"""How much of a label vector lies along the kernel's top eigenvectors (Dong et al. 2019, 2.3 and 3.5).

The net has one output f and is trained with the squared error ½ (f − y)², y = ±1, as printed; then the empirical
kernel of a batch is computed. ``InformationRatio``: the ratio of test labels as more of them are flipped (Figure 2).
``InformationGain``: along a self-distillation run, the ratio of the self-distilled labels minus that of the noisy
labels they replace (Figure 5).

A ratio alone proves little. With eight of ten rows in one class most of a ±1 vector is its mean, which any kernel of
images with an offset spans, so that always answering the larger class "gains information"; labels are therefore
centred first, and the ratios of uncentred ones stand beside. And flips shrink the ratio of *any* subspace: the same
is measured with an untrained net, with raw pixels and with five random directions. Whether the net has learned
anything is its accuracy beside the larger class's share.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

import understudy as us
from experiments.datasets import LOADERS, Data, load
from experiments.sweep import Cell, Training, known, net
from experiments.theory.neural_tangent_kernel import empirical_kernel, information_ratio
from understudy.data.noise import uniform_flip

TRAINED, UNTRAINED, PIXELS, RANDOM = "trained net", "untrained net", "raw pixels", "five random directions"
KERNELS = (TRAINED, UNTRAINED, PIXELS, RANDOM)
ACCURACY, MAJORITY, NOT_CENTRED = "accuracy", "share of the larger class", "not centred"
NO_NET = "gain along an untrained net's eigenvectors"


class Scalar(nn.Module):
    """A net with one output f as one with two logits, 0 and f: their difference, and that of their logs, is f."""

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net

    def forward(self, x: Tensor) -> Tensor:
        f = self.net(x)
        return torch.cat([torch.zeros_like(f), f], dim=1)


def squared_error(log_prediction: Tensor, target: Tensor) -> Tensor:
    """½ (f − y)² with y = +1 for class 1, −1 for class 0, and in between for a blend of the two."""
    f, y = (two[:, 1] - two[:, 0] for two in (log_prediction, target))
    return (f - y).square() / 2


def signs(labels: Tensor) -> Tensor:
    return 2.0 * labels - 1


def centred(labels: Tensor) -> Tensor:
    return labels - labels.mean()


def scalar(text: str, data: Data) -> Callable[[], nn.Module]:
    build = net(text, data.shape, 1)
    return lambda: Scalar(build())


def kernel_of(student: nn.Module, x: Tensor) -> Tensor:
    """With f as the output; BatchNorm and dropout as in use."""
    return empirical_kernel(student, x, output=lambda z: z[1] - z[0], chunk=len(x))


def pixel_kernel(x: Tensor) -> Tensor:
    return x.flatten(1) @ x.flatten(1).T


def fresh(build: Callable[[], nn.Module], seed: int) -> nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return build()


def some(count: int, rows: int | None, seed: int) -> Tensor:
    return torch.randperm(count, generator=torch.Generator().manual_seed(seed))[: rows or count]


def score(student: nn.Module, x: Tensor, y: Tensor) -> dict[str, float]:
    """How often the sign of f is right, and how often the larger class would be."""
    right = us.evaluate(student, us.Gold(x, y))["accuracy"]
    share = float(y.double().mean())
    return {ACCURACY: right, MAJORITY: max(share, 1 - share)}


@dataclass(frozen=True)
class InformationRatio:
    data: str
    student: str
    noise: tuple[float, ...]
    training: Training
    batch: int = 128
    eigenvectors: int = 5
    rows: int | None = None
    side: int | None = None
    seeds: int = 3

    @property
    def columns(self) -> tuple[str, ...]:
        return KERNELS

    def measure(self, column: str, seed: int) -> list[Cell]:
        data = load(self.data, side=self.side)
        build = scalar(self.student, data)
        tested = some(len(data.y_test), self.batch, seed)
        x, y = data.x_test[tested], data.y_test[tested]
        values: dict[str, float] = {}
        if column == TRAINED:
            kept = some(len(data.y), self.rows, seed)
            pool = us.Pool(data.x[kept], us.Hard(data.y[kept], classes=2))
            options = self.training.options(len(kept))
            student = us.train(build, None, pool, us.vanilla(loss=squared_error), seed=seed, **options).student
            values = score(student, data.x_test, data.y_test)
            kernel = kernel_of(student, x)
        elif column == UNTRAINED:
            kernel = kernel_of(fresh(build, seed), x)
        elif column == PIXELS:
            kernel = pixel_kernel(x)
        else:
            directions = torch.randn(len(x), self.eigenvectors, generator=torch.Generator().manual_seed(seed))
            kernel = directions @ directions.T
        for how, end in ((centred, ""), (torch.clone, f", {NOT_CENTRED}")):
            for level in self.noise:
                flipped, _ = uniform_flip(y, level, 2, seed=seed)
                ratio = information_ratio(kernel, how(signs(flipped)), self.eigenvectors)
                values[f"{level:.0%} flipped{end}"] = float(ratio)
        return [Cell(row, column, seed, value) for row, value in values.items()]

    def check(self) -> None:
        known(LOADERS, self.data)


@dataclass(frozen=True)
class InformationGain:
    data: str
    student: str
    noise: float
    looks: tuple[int, ...]
    """After how many epochs the kernel is computed."""
    training: Training
    strength: float = 1.0
    batch: int = 128
    eigenvectors: int = 5
    rows: int | None = None
    side: int | None = None
    seeds: int = 3

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(f"epoch {epochs}" for epochs in self.looks)

    def measure(self, column: str, seed: int) -> list[Cell]:
        data = load(self.data, side=self.side)
        build = scalar(self.student, data)
        kept = some(len(data.y), self.rows, seed)
        noisy, _ = uniform_flip(data.y[kept], self.noise, 2, seed=seed)
        # A constant learning rate, and batches that depend on the seed and the epoch: fewer epochs begin the same way.
        options = self.training.options(len(kept)) | {"epochs": self.looks[self.columns.index(column)]}
        objective = us.self_distillation(self.strength, loss=squared_error)
        pool = us.Pool(data.x[kept], us.Hard(noisy, classes=2))
        run = us.train(build, None, pool, objective, seed=seed, **options)
        x, given, truth = data.x[kept[: self.batch]], noisy[: self.batch], data.y[kept[: self.batch]]
        own = run.predict(x).argmax(1)
        # What a student that learned nothing but the larger given class would say.
        constant = torch.full_like(own, int(noisy.double().mean() > 0.5))
        kernel = kernel_of(run.student, x)
        values = score(run.student, data.x_test, data.y_test)
        values |= {
            "true labels": self._ratio(kernel, centred(signs(truth))),
            "noisy labels": self._ratio(kernel, centred(signs(given))),
            "self-distilled labels": self._ratio(kernel, centred(self._refined(given, own))),
            "gain": self._gain(kernel, given, own),
            NO_NET: self._gain(kernel_of(fresh(build, seed), x), given, own),
            "gain along raw pixels": self._gain(pixel_kernel(x), given, own),
            f"gain, {NOT_CENTRED}": self._gain(kernel, given, own, torch.clone),
            f"gain of always one class, {NOT_CENTRED}": self._gain(kernel, given, constant, torch.clone),
        }
        return [Cell(name, column, seed, value) for name, value in values.items()]

    def _refined(self, given: Tensor, own: Tensor) -> Tensor:
        """α y + (1 − α) h(f) with 1 − α = λ · accuracy on this batch."""
        trust = min(1.0, self.strength * float((own == given).double().mean()))
        return (1 - trust) * signs(given) + trust * signs(own)

    def _gain(self, kernel: Tensor, given: Tensor, own: Tensor, how: Callable[[Tensor], Tensor] = centred) -> float:
        return self._ratio(kernel, how(self._refined(given, own))) - self._ratio(kernel, how(signs(given)))

    def _ratio(self, kernel: Tensor, labels: Tensor) -> float:
        return float(information_ratio(kernel, labels, self.eigenvectors))

    def check(self) -> None:
        known(LOADERS, self.data)
