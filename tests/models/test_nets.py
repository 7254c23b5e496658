"""Every net: published size, shapes, determinism in eval mode, gradients everywhere, initial weights."""

from collections.abc import Callable

import pytest
import torch
from torch import nn

from understudy import models

ROWS = {"linear": (20,), "mlp": (20,), "lenet": (1, 28, 28)}
# images as small as each net can use, so that the tests stay quick
SIDE = {"mobilenet": 16}


def make(name: str, classes: int = 5) -> tuple[nn.Module, torch.Tensor]:
    torch.manual_seed(0)
    side = SIDE.get(name, 8)
    shape = ROWS.get(name, (3, side, side))
    net = models.MODELS[name](inputs=shape, classes=classes)
    return net, torch.randn(4, *shape)


def count(net: nn.Module) -> int:
    return sum(parameter.numel() for parameter in net.parameters())


@pytest.mark.parametrize("name", sorted(models.MODELS.keys() & set(models.__all__)))
def test_contract(name: str) -> None:
    net, x = make(name)
    logits = net.train()(x)
    assert logits.shape == (4, 5)
    logits.square().sum().backward()
    for key, parameter in net.named_parameters():
        assert parameter.grad is not None and parameter.grad.abs().sum() > 0, key
    with torch.no_grad():
        first, second = net.eval()(x), net(x)
        alone = net(x[:1])
    assert torch.equal(first, second)
    assert torch.isfinite(first).all()
    # in eval mode a row's logits do not depend on its neighbours
    torch.testing.assert_close(alone, first[:1], rtol=1e-3, atol=1e-4)
    last = [layer for layer in net.modules() if isinstance(layer, nn.Linear)][-1]
    assert last.out_features == 5
    assert list(net.modules())[-1] is last


PUBLISHED: list[tuple[str, Callable[[], nn.Module], int]] = [
    ("LeNet-5 on MNIST", lambda: models.lenet(), 61_706),
    ("MLP 784-512-10", lambda: models.mlp(784, 10, hidden=(512,)), 784 * 512 + 512 + 512 * 10 + 10),
    ("ResNet-20, 0.27M", lambda: models.cifar_resnet(depth=20), 269_722),
    ("ResNet-32, 0.46M", lambda: models.cifar_resnet(depth=32), 464_154),
    ("ResNet-56, 0.85M", lambda: models.cifar_resnet(depth=56), 853_018),
    ("ResNet-110, 1.7M", lambda: models.cifar_resnet(depth=110), 1_727_962),
    ("ResNet-18", lambda: models.resnet18(), 11_689_512),
    ("ResNet-50", lambda: models.resnet50(), 25_557_032),
    ("MobileNet, 4.2M", lambda: models.mobilenet((3, 224, 224), 1000), 4_231_976),
    ("MobileNet 0.75, 2.6M", lambda: models.mobilenet((3, 224, 224), 1000, width=0.75), 2_585_560),
    ("MobileNet 0.5, 1.3M", lambda: models.mobilenet((3, 224, 224), 1000, width=0.5), 1_331_592),
    ("MobileNet 0.25, 0.5M", lambda: models.mobilenet((3, 224, 224), 1000, width=0.25), 470_072),
]


@pytest.mark.parametrize(("label", "factory", "parameters"), PUBLISHED, ids=[row[0] for row in PUBLISHED])
def test_published_size(label: str, factory: Callable[[], nn.Module], parameters: int) -> None:
    with torch.device("meta"):
        assert count(factory()) == parameters


def test_cnn5_has_the_sizes_of_its_table() -> None:
    convolutions = 9 * (3 * 32 + 32 * 64 + 64 * 128)
    norms = 2 * (32 + 64 + 128 + 512)
    dense = (128 * 4 * 4) * 512 + 512 * 10 + 10
    assert count(models.cnn5()) == convolutions + norms + dense


@pytest.mark.parametrize(
    ("factory", "layers"), [(models.cifar_resnet, 20), (models.resnet18, 18), (models.resnet50, 50), (models.cnn5, 5)]
)
def test_depth_is_the_number_of_weighted_layers(factory: Callable[[], nn.Module], layers: int) -> None:
    with torch.device("meta"):
        net = factory()
    weighted = [
        key for key, layer in net.named_modules() if isinstance(layer, nn.Conv2d | nn.Linear) and "shortcut" not in key
    ]
    assert len(weighted) == layers


@pytest.mark.parametrize(
    ("net", "side", "cells"),
    [
        (lambda s: models.resnet18((3, s, s)), 224, 7),
        (lambda s: models.resnet18((3, s, s)), 32, 4),
        (lambda s: models.resnet18((3, s, s), stem="imagenet"), 32, 1),
        (lambda s: models.resnet50((3, s, s), stem="small"), 64, 8),
        (lambda s: models.mobilenet((3, s, s)), 32, 2),
        (lambda s: models.mobilenet((3, s, s)), 224, 7),
        (lambda s: models.cifar_resnet((3, s, s)), 32, 8),
    ],
)
def test_cells_left_before_the_mean(net: Callable[[int], nn.Module], side: int, cells: int) -> None:
    with torch.device("meta"):
        built = net(side)
        assert isinstance(built, nn.Sequential)
        left = built[:-1](torch.empty(2, 3, side, side))
    assert left.shape[-2:] == (cells, cells)


def test_multipliers_of_mobilenet() -> None:
    with torch.device("meta"):
        wide = models.mobilenet(width=2)
        deep = models.mobilenet(depth_multiplier=2)
    channels = [layer.out_channels for layer in wide.modules() if isinstance(layer, nn.Conv2d)]
    assert (channels[0], channels[-1]) == (64, 2048)
    first_depthwise = [layer for layer in deep.modules() if isinstance(layer, nn.Conv2d)][1]
    assert (first_depthwise.in_channels, first_depthwise.out_channels, first_depthwise.groups) == (32, 64, 32)


@pytest.mark.parametrize("factory", [models.mobilenet, models.cifar_resnet, models.cnn5])
def test_weights_have_the_variance_of_he(factory: Callable[[], nn.Module]) -> None:
    torch.manual_seed(0)
    weighted = [layer for layer in factory().modules() if isinstance(layer, nn.Conv2d | nn.Linear)]
    for layer in weighted:
        if layer.weight.numel() >= 2_000:
            fan_in = layer.weight.numel() / layer.weight.shape[0]
            expected = 1.0 if layer is weighted[-1] else 2.0
            assert layer.weight.var().item() * fan_in == pytest.approx(expected, rel=0.2)


def test_plain_block_by_hand() -> None:
    """With the residual branch silent, a strided block keeps every other pixel and pads channels evenly."""
    block = models.cifar_resnet(depth=8)[1][1]  # type: ignore[index]
    nn.init.zeros_(block.residual[-1].weight)
    x = torch.rand(2, 16, 6, 6)
    out = block.eval()(x)
    assert out.shape == (2, 32, 3, 3)
    assert torch.equal(out[:, 8:24], x[:, :, ::2, ::2])
    assert out[:, :8].abs().sum() == out[:, 24:].abs().sum() == 0


def test_dropout_acts_only_in_training() -> None:
    for net in (models.cnn5(), models.mlp(48, 3, dropout=0.5)):
        x = torch.randn(3, 48) if isinstance(net[0], nn.Flatten) else torch.randn(3, 3, 32, 32)  # type: ignore[index]
        net.train()
        assert not torch.equal(net(x), net(x))
        net.eval()
        assert torch.equal(net(x), net(x))


TRAINABLE = ["lenet", "cnn5", "cifar_resnet", "mobilenet:width=0.25"]


@pytest.mark.slow
@pytest.mark.parametrize("text", TRAINABLE)
def test_fits_which_half_is_brighter(text: str) -> None:
    """Fitted in training mode, still right in eval mode on the same rows: statistics and means are in step."""
    torch.manual_seed(0)
    y = torch.arange(192) % 2
    side = 16 if text.startswith(("lenet", "mobilenet")) else 8
    x = torch.randn(192, 3, side, side)
    x[y == 1, :, : side // 2] += 1
    x[y == 0, :, side // 2 :] += 1
    net = models.from_text(text, shape=(3, side, side), classes=2)
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
    for step in range(60):
        batch = slice(64 * (step % 3), 64 * (step % 3) + 64)
        optimizer.zero_grad()
        nn.functional.cross_entropy(net(x[batch]), y[batch]).backward()
        optimizer.step()
    with torch.no_grad():
        right = (net.eval()(x).argmax(1) == y).float().mean()
    assert right >= 0.9
