"""Nets of the papers, under names that ``us.models.from_text`` knows once this module is imported.

For 32×32 images: CIFAR ResNets by their published names, pre-activation ones (depth 9n + 2), Wide ResNets, Shake-shake.
"""

from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from understudy.errors import UnderstudyError
from understudy.models.image_nets import cifar_resnet, small_stem
from understudy.models.registry import Shape, basic, conv, conv_norm, model, network, pooled, stages, way_in


@model
def resnet20(inputs: Shape = (3, 32, 32), classes: int = 10) -> nn.Module:
    """CIFAR ResNet-20, 0.27M parameters."""
    return cifar_resnet(inputs, classes, depth=20)


@model
def resnet32(inputs: Shape = (3, 32, 32), classes: int = 10) -> nn.Module:
    """CIFAR ResNet-32, 0.46M parameters."""
    return cifar_resnet(inputs, classes, depth=32)


@model
def resnet56(inputs: Shape = (3, 32, 32), classes: int = 10) -> nn.Module:
    """CIFAR ResNet-56, 0.85M parameters."""
    return cifar_resnet(inputs, classes, depth=56)


@model
def resnet110(inputs: Shape = (3, 32, 32), classes: int = 10) -> nn.Module:
    """CIFAR ResNet-110, 1.7M parameters."""
    return cifar_resnet(inputs, classes, depth=110)


# Channels that leave a block of version 2 -> those of its 3×3 convolution.
MIDDLE = {64: 16, 128: 64, 256: 128}


class PreBottleneck(nn.Module):
    """1×1, 3×3, 1×1, each after batch normalisation and ReLU; the stem's 16 channels have just had both."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        middle = MIDDLE[outputs]
        activation: list[nn.Module] = [] if inputs == 16 else [nn.BatchNorm2d(inputs), nn.ReLU()]
        self.residual = nn.Sequential(
            *activation,
            *conv_norm(inputs, middle, kernel=1, stride=stride),
            nn.ReLU(),
            *conv_norm(middle, middle),
            nn.ReLU(),
            conv(middle, outputs, kernel=1),
        )
        starts_stage = inputs != outputs
        self.shortcut = conv(inputs, outputs, kernel=1, stride=stride) if starts_stage else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        return torch.add(self.shortcut(x), self.residual(x))


@model
def cifar_resnet_v2(inputs: Shape = (3, 32, 32), classes: int = 10, depth: int = 11) -> nn.Module:
    """The pre-activation bottleneck ResNet of the given depth, 9n + 2: 11, 20, 29 … 56, 110.

    ResNet-11 is a student of Weighted Distillation and SLaM on CelebA; neither draws it. Eleven is not 6n + 2; it is
    9n + 2 with n = 1, the "version 2" of the Keras CIFAR example, whose Adam schedule (÷10 after 80, 120, 160 epochs,
    ÷2 after 180) and shifts by 10% both papers use as they stand. So this is that net: a 3×3 stem of 16 channels; three
    stages of n blocks 1×1, 3×3, 1×1, each convolution behind batch normalisation and ReLU, with 64, 128 and 256
    channels out; a 1×1 shortcut at the start of a stage. Unlike there, convolutions have no bias and the final mean
    covers the whole image, whatever its size.
    """
    if depth < 11 or depth % 9 != 2:
        raise UnderstudyError(f"a version-2 CIFAR ResNet has depth 9n + 2 (11, 20, 56, 110), not {depth}")
    blocks = stages(PreBottleneck, 16, tuple(MIDDLE), [(depth - 2) // 9] * 3)
    body = nn.Sequential(*blocks, nn.BatchNorm2d(256), nn.ReLU())
    return network(stem=small_stem(inputs), body=body, head=pooled(256, classes))


@model
def resnet11(inputs: Shape = (3, 32, 32), classes: int = 10) -> nn.Module:
    """ResNet-11."""
    return cifar_resnet_v2(inputs, classes, depth=11)


class WideBlock(nn.Module):
    """BN, ReLU, 3×3, twice, with dropout between. A projected shortcut sees the activated input."""

    def __init__(self, inputs: int, outputs: int, stride: int, dropout: float) -> None:
        super().__init__()
        self.activation = nn.Sequential(nn.BatchNorm2d(inputs), nn.ReLU())
        self.residual = nn.Sequential(
            *conv_norm(inputs, outputs, stride=stride), nn.ReLU(), nn.Dropout(dropout), conv(outputs, outputs)
        )
        self.projection = conv(inputs, outputs, kernel=1, stride=stride) if inputs != outputs else None

    def forward(self, x: Tensor) -> Tensor:
        active = self.activation(x)
        shortcut = x if self.projection is None else self.projection(active)
        return torch.add(shortcut, self.residual(active))


@model
def wide_resnet(
    inputs: Shape = (3, 32, 32), classes: int = 10, depth: int = 28, width: int = 10, dropout: float = 0.3
) -> nn.Module:
    """WRN-depth-width (Zagoruyko & Komodakis 2016): depth 6n + 4, widths 16k, 32k, 64k, dropout inside blocks.

    Ren et al. (2018) train WRN-28-10 with dropout 0.3 under uniform flips (36.5M parameters), the defaults here; Figure
    1 of Dong et al. (2019) has a WRN-28 teacher.
    """
    if depth < 10 or depth % 6 != 4 or width < 1:
        raise UnderstudyError(f"a wide ResNet has depth 6n + 4 (10, 16, 28, 40) and width ≥ 1, not {depth} and {width}")
    widths, counts = (16 * width, 32 * width, 64 * width), [(depth - 4) // 6] * 3
    blocks = stages(partial(WideBlock, dropout=dropout), 16, widths, counts)
    stem = nn.Sequential(*way_in(inputs, 16)[:-1])  # every block begins with a batch normalisation
    body = nn.Sequential(*blocks, nn.BatchNorm2d(widths[-1]), nn.ReLU())
    return network(stem=stem, body=body, head=pooled(widths[-1], classes))


def shake(first: Tensor, second: Tensor, alpha: Tensor, beta: Tensor) -> Tensor:
    """Value α·first + (1 − α)·second, derivative as if α were β.

    The detached part carries the difference, so reverse and forward mode both see β, without a custom
    function.
    """
    seen = second + beta * (first - second)
    return seen + ((alpha - beta) * (first - second)).detach()


class HalvedShortcut(nn.Module):
    """Half the channels from the even pixels, half from the pixels one up and left of them, each by a 1×1."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.even = conv(inputs, outputs // 2, kernel=1)
        self.odd = conv(inputs, outputs - outputs // 2, kernel=1)
        self.norm = nn.BatchNorm2d(outputs)

    def forward(self, x: Tensor) -> Tensor:
        moved = F.pad(x, (1, -1, 1, -1))
        halves = [self.even(x[:, :, ::2, ::2]), self.odd(moved[:, :, ::2, ::2])]
        out: Tensor = self.norm(torch.cat(halves, dim=1))
        return out


class ShakeBlock(nn.Module):
    """Shortcut + shaken mix of two branches, each ReLU, 3×3, BN, ReLU, 3×3, BN."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.first, self.second = (nn.Sequential(nn.ReLU(), *basic(inputs, outputs, stride)) for _ in range(2))
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1:
            self.shortcut = nn.Sequential(nn.ReLU(), HalvedShortcut(inputs, outputs))
        elif inputs != outputs:
            self.shortcut = nn.Sequential(nn.ReLU(), *conv_norm(inputs, outputs, kernel=1))

    def forward(self, x: Tensor) -> Tensor:
        first, second = self.first(x), self.second(x)
        if self.training:
            alpha, beta = torch.rand(2, len(x), 1, 1, 1, device=x.device, dtype=x.dtype)
            mixed = shake(first, second, alpha, beta)
        else:
            mixed = 0.5 * (first + second)
        return torch.add(self.shortcut(x), mixed)


@model
def shake_shake(inputs: Shape = (3, 32, 32), classes: int = 10, depth: int = 26, width: int = 32) -> nn.Module:
    """Shake-shake (Gastaldi 2017) of depth 6n + 2, two branches of `width` channels to start with; 2.9M parameters.

    Shake-shake 26 2×32d is the net of the main table of Dong et al. (2019), self-distillation. A block has two residual
    branches. Training mixes those of every image with its own α ~ U(0, 1) forward and another β ~ U(0, 1) backward
    ("Shake-Shake-Image", the paper's best); evaluation takes the mean. The draws come from torch's global generator, as
    dropout's do.
    """
    if depth < 8 or depth % 6 != 2 or width < 1:
        raise UnderstudyError(f"shake-shake has depth 6n + 2 (26) and width ≥ 1 (32, 64, 96), not {depth} and {width}")
    blocks = stages(ShakeBlock, 16, (width, 2 * width, 4 * width), [(depth - 2) // 6] * 3)
    stem = nn.Sequential(*way_in(inputs, 16))
    return network(stem=stem, body=nn.Sequential(*blocks, nn.ReLU()), head=pooled(4 * width, classes))
