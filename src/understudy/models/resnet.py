"""ResNet-18 and ResNet-50 (He et al. 2016, Table 1): the ImageNet student and teacher of both distillation papers.

`stem` says how an image enters: "imagenet" is the 7×7 convolution with stride 2 and max pooling, which
leave a quarter of the side; "small" is one 3×3 convolution that leaves it whole, for CIFAR (the S-Badge
paper's ResNet-18). By default images whose shorter side is below 64 get the small one. A bottleneck's
stride sits in its 3×3 convolution, as most current implementations have it: same parameters as the
original, a little more accurate.
"""

from typing import Literal

import torch.nn.functional as F
from torch import Tensor, nn

from understudy.errors import UnderstudyError
from understudy.models.layers import AsImages, Shape, conv, image_shape, network, pooled_head
from understudy.models.registry import model

Stem = Literal["imagenet", "small"]


class ResidualBlock(nn.Module):
    """ReLU(shortcut + residual); the shortcut is a 1×1 convolution where the shape changes."""

    def __init__(self, residual: nn.Module, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.residual = residual
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or inputs != outputs:
            self.shortcut = nn.Sequential(conv(inputs, outputs, kernel=1, stride=stride), nn.BatchNorm2d(outputs))

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(self.shortcut(x) + self.residual(x))


def basic(inputs: int, width: int, stride: int) -> nn.Sequential:
    return nn.Sequential(
        conv(inputs, width, stride=stride),
        nn.BatchNorm2d(width),
        nn.ReLU(),
        conv(width, width),
        nn.BatchNorm2d(width),
    )


def bottleneck(inputs: int, width: int, stride: int) -> nn.Sequential:
    return nn.Sequential(
        conv(inputs, width, kernel=1),
        nn.BatchNorm2d(width),
        nn.ReLU(),
        conv(width, width, stride=stride),
        nn.BatchNorm2d(width),
        nn.ReLU(),
        conv(width, 4 * width, kernel=1),
        nn.BatchNorm2d(4 * width),
    )


@model
def resnet18(inputs: Shape = (3, 224, 224), classes: int = 1000, stem: Stem | None = None) -> nn.Module:
    """ResNet-18, 11.7M parameters at 1000 classes."""
    channels, width = 64, 64
    blocks: list[nn.Module] = []
    for stage, count in enumerate((2, 2, 2, 2)):
        for block in range(count):
            stride = 2 if stage and block == 0 else 1
            blocks.append(ResidualBlock(basic(channels, width, stride), channels, width, stride))
            channels = width
        width *= 2
    head = pooled_head(channels, classes)
    return network(stem=entry(inputs, stem), body=nn.Sequential(*blocks), head=head)


@model
def resnet50(inputs: Shape = (3, 224, 224), classes: int = 1000, stem: Stem | None = None) -> nn.Module:
    """ResNet-50, 25.6M parameters at 1000 classes."""
    channels, width = 64, 64
    blocks: list[nn.Module] = []
    for stage, count in enumerate((3, 4, 6, 3)):
        for block in range(count):
            stride = 2 if stage and block == 0 else 1
            blocks.append(ResidualBlock(bottleneck(channels, width, stride), channels, 4 * width, stride))
            channels = 4 * width
        width *= 2
    head = pooled_head(channels, classes)
    return network(stem=entry(inputs, stem), body=nn.Sequential(*blocks), head=head)


def entry(inputs: Shape, stem: Stem | None) -> nn.Sequential:
    """The way in for images of this shape."""
    channels, _, _ = image_shape(inputs)
    if choose_stem(inputs, stem) == "small":
        return nn.Sequential(AsImages(), conv(channels, 64), nn.BatchNorm2d(64), nn.ReLU())
    return nn.Sequential(
        AsImages(),
        conv(channels, 64, kernel=7, stride=2),
        nn.BatchNorm2d(64),
        nn.ReLU(),
        nn.MaxPool2d(3, stride=2, padding=1),
    )


def choose_stem(inputs: Shape, stem: Stem | None) -> Stem:
    """The stem asked for, or the one that suits the image's size."""
    if stem not in (None, "imagenet", "small"):
        raise UnderstudyError(f'stem is "imagenet" or "small" (or left out: by the image\'s size), not {stem!r}')
    _, height, width = image_shape(inputs)
    return stem or ("small" if min(height, width) < 64 else "imagenet")
