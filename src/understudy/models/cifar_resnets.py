"""ResNets for 32×32 images (He et al. 2016, Section 4.2): depth 6n + 2, widths 16, 32, 64.

Weighted Distillation and SLaM teach a ResNet-56 by a ResNet-110 on CIFAR-100; Dong et al. (2019) measure
their kernel on a ResNet-56; Ren et al. (2018) train a ResNet-32. Where the image shrinks the shortcut drops
every other pixel and pads channels with zeros, so it has no parameters (the original's option A). The two
distillation papers used TensorFlow and say no more; the Keras example they share their learning-rate
schedule with puts a 1×1 convolution there, under 1% more parameters at depth 56.
"""

import torch.nn.functional as F
from torch import Tensor, nn

from understudy.errors import UnderstudyError
from understudy.models.layers import AsImages, Shape, conv, image_shape, network, pooled_head
from understudy.models.registry import model


class PlainBlock(nn.Module):
    """Two 3×3 convolutions around a shortcut without parameters."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.stride = stride
        self.pad = outputs - inputs
        self.residual = nn.Sequential(
            conv(inputs, outputs, stride=stride),
            nn.BatchNorm2d(outputs),
            nn.ReLU(),
            conv(outputs, outputs),
            nn.BatchNorm2d(outputs),
        )

    def forward(self, x: Tensor) -> Tensor:
        shortcut = x
        if self.pad:
            before = self.pad // 2
            shortcut = F.pad(x[:, :, :: self.stride, :: self.stride], (0, 0, 0, 0, before, self.pad - before))
        return F.relu(shortcut + self.residual(x))


@model
def cifar_resnet(inputs: Shape = (3, 32, 32), classes: int = 10, depth: int = 20) -> nn.Module:
    """The ResNet of the given depth, 6n + 2: 8, 14, 20, 26, 32 …"""
    if depth < 8 or depth % 6 != 2:
        raise UnderstudyError(f"a CIFAR ResNet has depth 6n + 2 (20, 32, 44, 56, 110), not {depth}")
    channels, _, _ = image_shape(inputs)
    stem = nn.Sequential(AsImages(), conv(channels, 16), nn.BatchNorm2d(16), nn.ReLU())
    blocks: list[nn.Module] = []
    width = 16
    for outputs in (16, 32, 64):
        for _ in range((depth - 2) // 6):
            blocks.append(PlainBlock(width, outputs, stride=1 if width == outputs else 2))
            width = outputs
    return network(stem=stem, body=nn.Sequential(*blocks), head=pooled_head(width, classes))


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
