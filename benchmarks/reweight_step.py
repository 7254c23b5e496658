"""What a learning-to-reweight step costs: over a plain step, and over the same step by double backward.

    OMP_NUM_THREADS=1 python benchmarks/reweight_step.py

About a minute on one thread. A step is whole: gold pass, weights, backward pass, SGD with momentum; 100 pool and 20
gold rows. The double-backward form differentiates through one virtual SGD step and reuses its own forward pass for the
weighted update. The contestants take turns and rows compare medians of wall-clock time. Use an idle machine:
with two cores, LeNet's ratio over a plain step read 1.54 at a load below 2 and up to 1.82 at a load of 4.
"""

import statistics
import time
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn import functional as F

from benchmarks.figures import Figure, main
from understudy import models
from understudy.maths.alignment.aligner import Aligner

POOL, GOLD = 100, 20
Step = Callable[[], None]
NETS: dict[str, Callable[[], tuple[nn.Module, tuple[int, ...]]]] = {
    "LeNet": lambda: (models.lenet(inputs=(1, 28, 28), classes=10), (1, 28, 28)),
    "MLP 784-512-512-10": lambda: (models.mlp(inputs=(784,), classes=10, hidden=(512, 512)), (784,)),
    "ResNet-20": lambda: (models.cifar_resnet(inputs=(3, 32, 32), classes=10, depth=20), (3, 32, 32)),
}


def figures(scale: float = 1.0) -> list[Figure]:
    """One per net and peer. `scale` multiplies the repetitions."""
    torch.set_num_threads(1)
    found = []
    for name, net, shape, repetitions, over_plain, over_double in (
        ("LeNet", models.lenet(inputs=(1, 28, 28), classes=10), (1, 28, 28), 60, "≤ 1.8", "≤ 0.65"),
        ("MLP 784-512-512-10", models.mlp(inputs=(784,), classes=10, hidden=(512, 512)), (784,), 150, "≤ 1.9", ""),
        (
            "ResNet-20",
            models.cifar_resnet(inputs=(3, 32, 32), classes=10, depth=20),
            (3, 32, 32),
            25,
            "≤ 2.4",
            "≤ 0.65",
        ),
    ):
        ms = medians(contestants(net, shape), max(3, round(repetitions * scale)))
        for peer, target in (("plain step", over_plain), ("double backward", over_double)):
            ratio = ms["reweighted"] / ms[peer]
            found.append(Figure(f"a reweighted step, {name}", "ms", ms["reweighted"], peer, ms[peer], ratio, target))
    return found


def contestants(net: nn.Module, shape: tuple[int, ...]) -> dict[str, Step]:
    make = torch.Generator().manual_seed(0)
    x, gold_x = (torch.randn(rows, *shape, generator=make) for rows in (POOL, GOLD))
    y, gold_y = (torch.randint(0, 10, (rows,), generator=make) for rows in (POOL, GOLD))
    optimizer = torch.optim.SGD(net.parameters(), lr=1e-3, momentum=0.9)
    aligner = Aligner(net)

    def plain() -> None:
        optimizer.zero_grad()
        F.cross_entropy(net(x), y).backward()
        optimizer.step()

    def reweighted() -> None:
        optimizer.zero_grad()
        direction = aligner.direction(lambda: F.cross_entropy(net(gold_x), gold_y))
        losses, u = aligner.along(direction, lambda: F.cross_entropy(net(x), y, reduction="none"))
        (normalised(u) * losses).sum().backward()
        optimizer.step()

    def double_backward() -> None:
        optimizer.zero_grad()
        theta = dict(net.named_parameters())
        epsilon = torch.zeros(POOL, requires_grad=True)
        losses = F.cross_entropy(net(x), y, reduction="none")
        gradients = torch.autograd.grad((epsilon * losses).sum(), list(theta.values()), create_graph=True)
        stepped = {key: p - 1e-3 * g for (key, p), g in zip(theta.items(), gradients, strict=True)}
        gold_loss = F.cross_entropy(functional_call(net, stepped, (gold_x,)), gold_y)
        u = -torch.autograd.grad(gold_loss, epsilon, retain_graph=True)[0]
        (normalised(u) * losses).sum().backward()
        optimizer.step()

    return {"plain step": plain, "reweighted": reweighted, "double backward": double_backward}


def normalised(u: Tensor) -> Tensor:
    w = u.clamp(min=0)
    return w / w.sum().clamp(min=torch.finfo(w.dtype).tiny)


def medians(steps: dict[str, Step], repetitions: int) -> dict[str, float]:
    """Milliseconds of each step; three rounds to warm up do not count."""
    times: dict[str, list[float]] = {name: [] for name in steps}
    for _ in range(repetitions + 3):
        for name, step in steps.items():
            start = time.perf_counter()
            step()
            times[name].append(1e3 * (time.perf_counter() - start))
    return {name: statistics.median(values[3:]) for name, values in times.items()}


if __name__ == "__main__":
    main(figures)
