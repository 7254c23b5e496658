"""How much of a label vector lies along the kernel's top eigenvectors (Dong et al. 2019, 2.3 and 3.5).

The net is trained on two classes with squared error; then the empirical kernel of a batch is computed.
``InformationRatio``: the ratio of test labels as more of them are flipped (Figure 2). ``InformationGain``: along a
self-distillation run, the ratio of the self-distilled labels minus that of the noisy labels they replace (Figure 5).
"""

from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, nn

import understudy as us
from experiments.datasets import LOADERS, Data, load
from experiments.sweep import Cell, Training, known, net
from understudy.maths.kernel import empirical_kernel, information_gain, information_ratio


def squared_error(log_prediction: Tensor, target: Tensor) -> Tensor:
    """The papers' MSE, on the predicted probabilities."""
    return (log_prediction.exp() - target).square().sum(-1)


def signs(labels: Tensor) -> Tensor:
    return 2.0 * labels - 1


def kernel_of(student: nn.Module, x: Tensor) -> Tensor:
    """With the difference of the two logits as the output; BatchNorm and dropout as in use."""
    return empirical_kernel(student, x, output=lambda z: z[1] - z[0], chunk=len(x))


def _some(data: Data, rows: int | None, seed: int) -> Tensor:
    return torch.randperm(len(data.y), generator=torch.Generator().manual_seed(seed))[: rows or len(data.y)]


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
        return ("top-5 eigenspace",)

    def measure(self, column: str, seed: int) -> list[Cell]:
        data = load(self.data, side=self.side)
        kept = _some(data, self.rows, seed)
        pool = us.Pool(data.x[kept], us.Hard(data.y[kept], classes=2))
        build = net(self.student, data.shape, 2)
        options = self.training.options(len(kept))
        run = us.train(build, None, pool, us.vanilla(loss=squared_error), seed=seed, **options)
        tested = torch.randperm(len(data.y_test), generator=torch.Generator().manual_seed(seed))[: self.batch]
        kernel = kernel_of(run.student, data.x_test[tested])
        cells = []
        for level in self.noise:
            flipped, _ = us.noise.uniform_flip(data.y_test[tested], level, 2, seed=seed)
            ratio = float(information_ratio(kernel, signs(flipped), self.eigenvectors))
            cells.append(Cell(f"{level:.0%} flipped", column, seed, ratio))
        return cells

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
        kept = _some(data, self.rows, seed)
        noisy, _ = us.noise.uniform_flip(data.y[kept], self.noise, 2, seed=seed)
        # A constant learning rate, and batches that depend on the seed and the epoch: fewer epochs begin the same way.
        options = self.training.options(len(kept)) | {"epochs": self.looks[self.columns.index(column)]}
        objective = us.self_distillation(self.strength, loss=squared_error)
        pool = us.Pool(data.x[kept], us.Hard(noisy, classes=2))
        run = us.train(net(self.student, data.shape, 2), None, pool, objective, seed=seed, **options)
        x, given, truth = data.x[kept[: self.batch]], noisy[: self.batch], data.y[kept[: self.batch]]
        kernel = kernel_of(run.student, x)
        own = run.predict(x).argmax(1)
        trust = min(1.0, self.strength * float((own == given).double().mean()))
        refined = (1 - trust) * signs(given) + trust * signs(own)
        ratio = partial(information_ratio, kernel, r=self.eigenvectors)
        gain = information_gain(kernel, refined=refined, given=signs(given), r=self.eigenvectors)
        values = {
            "true labels": ratio(signs(truth)),
            "noisy labels": ratio(signs(given)),
            "self-distilled labels": ratio(refined),
            "gain": gain,
        }
        return [Cell(name, column, seed, float(value)) for name, value in values.items()]

    def check(self) -> None:
        known(LOADERS, self.data)
