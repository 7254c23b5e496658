"""Nets made for ImageNet, and fit for small images by their stem: ResNet-18, ResNet-50 and MobileNet.

`stem` says how an image enters. "imagenet" is what was published, for 224×224; "small" leaves the image its size. By
default images whose shorter side is below 64 get the small one.
"""

from collections.abc import Callable
from typing import Literal

import torch.nn.functional as F
from torch import Tensor, nn

from understudy.errors import UnderstudyError
from understudy.models.base import (
    AsImages,
    Shape,
    conv_norm,
    image_shape,
    model,
    network,
    pooled_head,
    stages,
    two_convs,
)

Stem = Literal["imagenet", "small"]


class ResidualBlock(nn.Module):
    """ReLU(shortcut + residual); the shortcut is a 1×1 convolution where the shape changes."""

    def __init__(self, residual: nn.Module, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.residual = residual
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or inputs != outputs:
            self.shortcut = nn.Sequential(*conv_norm(inputs, outputs, kernel=1, stride=stride))

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(self.shortcut(x) + self.residual(x))


def bottleneck(inputs: int, outputs: int, stride: int) -> nn.Sequential:
    """Its stride sits in the 3×3 convolution: same parameters as the original, a little more accurate."""
    width = outputs // 4
    around, inside = conv_norm(inputs, width, kernel=1), conv_norm(width, width, stride=stride)
    return nn.Sequential(*around, nn.ReLU(), *inside, nn.ReLU(), *conv_norm(width, outputs, kernel=1))


def _resnet(
    residual: Callable[[int, int, int], nn.Module],
    widths: tuple[int, ...],
    counts: tuple[int, ...],
    inputs: Shape,
    classes: int,
    stem: Stem | None,
) -> nn.Module:
    blocks = stages(lambda *sizes: ResidualBlock(residual(*sizes), *sizes), 64, widths, counts)
    return network(stem=entry(inputs, stem), body=nn.Sequential(*blocks), head=pooled_head(widths[-1], classes))


@model
def resnet18(inputs: Shape = (3, 224, 224), classes: int = 1000, stem: Stem | None = None) -> nn.Module:
    """ResNet-18 (He et al. 2016, Table 1), 11.7M parameters at 1000 classes.

    The ImageNet student of both distillation papers; with the small stem, the S-Badge paper's net for CIFAR.
    """
    return _resnet(two_convs, (64, 128, 256, 512), (2, 2, 2, 2), inputs, classes, stem)


@model
def resnet50(inputs: Shape = (3, 224, 224), classes: int = 1000, stem: Stem | None = None) -> nn.Module:
    """ResNet-50 (He et al. 2016, Table 1), 25.6M parameters at 1000 classes: both papers' ImageNet teacher."""
    return _resnet(bottleneck, (256, 512, 1024, 2048), (3, 4, 6, 3), inputs, classes, stem)


def entry(inputs: Shape, stem: Stem | None) -> nn.Sequential:
    """One 3×3 convolution; or 7×7 with stride 2 and max pooling, which leave a quarter of the side."""
    channels, _, _ = image_shape(inputs)
    if choose_stem(inputs, stem) == "small":
        return nn.Sequential(AsImages(), *conv_norm(channels, 64), nn.ReLU())
    way_in = conv_norm(channels, 64, kernel=7, stride=2)
    return nn.Sequential(AsImages(), *way_in, nn.ReLU(), nn.MaxPool2d(3, stride=2, padding=1))


def choose_stem(inputs: Shape, stem: Stem | None) -> Stem:
    """The stem asked for, or the one that suits the image's size."""
    if stem not in (None, "imagenet", "small"):
        raise UnderstudyError(f'stem is "imagenet" or "small" (or left out: by the image\'s size), not {stem!r}')
    _, height, width = image_shape(inputs)
    return stem or ("small" if min(height, width) < 64 else "imagenet")


# (output channels at width 1, stride) of MobileNet's thirteen separable convolutions
SEPARABLE = [(64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), *[(512, 1)] * 5, (1024, 2), (1024, 1)]


@model
def mobilenet(
    inputs: Shape = (3, 32, 32),
    classes: int = 10,
    width: float = 1.0,
    depth_multiplier: int = 1,
    stem: Stem | None = None,
) -> nn.Module:
    """MobileNet (Howard et al. 2017, Table 1): a convolution, thirteen depthwise-separable ones, the classifier.

    Weighted Distillation and SLaM use it on SVHN, CIFAR-10 and CelebA, "with depth multiplier 2" and 1. The words have
    two meanings, so both are here: `width` is Howard's α, it scales every layer's channels (12.7M parameters at 2);
    `depth_multiplier` is Keras's argument of that name, the filters each depthwise convolution applies to one channel
    (it widens only what lies between a depthwise convolution and its 1×1; 6.4M at 2). The published net enters with
    stride 2; with the small stem, stride 1, a 32×32 image still has 2×2 cells at the end.
    """
    if not width > 0 or depth_multiplier < 1:
        raise UnderstudyError(f"mobilenet needs width > 0 and depth_multiplier ≥ 1, not {width} and {depth_multiplier}")
    colours, _, _ = image_shape(inputs)
    channels = max(1, int(32 * width))
    stride = 1 if choose_stem(inputs, stem) == "small" else 2
    way_in = nn.Sequential(AsImages(), *conv_norm(colours, channels, stride=stride), nn.ReLU())
    blocks: list[nn.Module] = []
    for outputs, stride in SEPARABLE:
        scaled = max(1, int(outputs * width))
        blocks.append(separable(channels, scaled, stride=stride, depth_multiplier=depth_multiplier))
        channels = scaled
    return network(stem=way_in, body=nn.Sequential(*blocks), head=pooled_head(channels, classes))


def separable(inputs: int, outputs: int, *, stride: int, depth_multiplier: int) -> nn.Sequential:
    """3×3 on each channel alone, then 1×1 across channels, each with batch normalisation and ReLU."""
    middle = inputs * depth_multiplier
    depthwise = conv_norm(inputs, middle, stride=stride, groups=inputs)
    return nn.Sequential(*depthwise, nn.ReLU(), *conv_norm(middle, outputs, kernel=1), nn.ReLU())
