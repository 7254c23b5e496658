"""Deep nets for images. For 32×32: ResNets of depth 6n + 2. And made for ImageNet, but fit for small images by their
stem: ResNet-18, ResNet-50 and MobileNet.

`stem` says how an image enters. "imagenet" is what was published, for 224×224; "small" leaves the image its size. By
default images whose shorter side is below 64 get the small one.
"""

from collections.abc import Sequence

import torch.nn.functional as F
from torch import Tensor, nn

from understudy.errors import UnderstudyError
from understudy.models.registry import (
    Block,
    Shape,
    Stem,
    basic,
    conv_norm,
    model,
    network,
    pooled,
    stages,
    stem_for,
    way_in,
)


class PlainBlock(nn.Module):
    """Two 3×3 convolutions around a shortcut without parameters."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.stride = stride
        self.pad = outputs - inputs
        self.residual = basic(inputs, outputs, stride)

    def forward(self, x: Tensor) -> Tensor:
        shortcut = x
        if self.pad:
            before = self.pad // 2
            shortcut = F.pad(x[:, :, :: self.stride, :: self.stride], (0, 0, 0, 0, before, self.pad - before))
        return F.relu(shortcut + self.residual(x))


def small_stem(inputs: Shape) -> nn.Sequential:
    return nn.Sequential(*way_in(inputs, 16), nn.ReLU())


@model
def cifar_resnet(inputs: Shape = (3, 32, 32), classes: int = 10, depth: int = 20) -> nn.Module:
    """The ResNet (He et al. 2016, Section 4.2) of the given depth, 6n + 2: 8, 14, 20, 26, 32 …; widths 16, 32, 64.

    Weighted Distillation and SLaM teach a ResNet-56 by a ResNet-110 on CIFAR-100; Dong et al. (2019) measure their
    kernel on a ResNet-56; Ren et al. (2018) train a ResNet-32. Where the image shrinks the shortcut drops every other
    pixel and pads channels with zeros, so it has no parameters (the original's option A). The two distillation papers
    used TensorFlow and say no more; the Keras example they share their learning-rate schedule with puts a 1×1
    convolution there, under 1% more parameters at depth 56.
    """
    if depth < 8 or depth % 6 != 2:
        raise UnderstudyError(f"a CIFAR ResNet has depth 6n + 2 (20, 32, 44, 56, 110), not {depth}")
    blocks = stages(PlainBlock, 16, (16, 32, 64), [(depth - 2) // 6] * 3)
    return network(stem=small_stem(inputs), body=nn.Sequential(*blocks), head=pooled(64, classes))


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
    residual: Block, widths: Sequence[int], counts: Sequence[int], inputs: Shape, classes: int, stem: Stem | None
) -> nn.Module:
    blocks = stages(lambda *sizes: ResidualBlock(residual(*sizes), *sizes), 64, widths, counts)
    return network(stem=image_stem(inputs, stem), body=nn.Sequential(*blocks), head=pooled(widths[-1], classes))


@model
def resnet18(inputs: Shape = (3, 224, 224), classes: int = 1000, stem: Stem | None = None) -> nn.Module:
    """ResNet-18 (He et al. 2016, Table 1), 11.7M parameters at 1000 classes.

    The ImageNet student of both distillation papers; with the small stem, the S-Badge paper's net for CIFAR.
    """
    return _resnet(basic, (64, 128, 256, 512), (2, 2, 2, 2), inputs, classes, stem)


@model
def resnet50(inputs: Shape = (3, 224, 224), classes: int = 1000, stem: Stem | None = None) -> nn.Module:
    """ResNet-50 (He et al. 2016, Table 1), 25.6M parameters at 1000 classes: both papers' ImageNet teacher."""
    return _resnet(bottleneck, (256, 512, 1024, 2048), (3, 4, 6, 3), inputs, classes, stem)


def image_stem(inputs: Shape, stem: Stem | None) -> nn.Sequential:
    """One 3×3 convolution; or 7×7 with stride 2 and max pooling, which leave a quarter of the side."""
    if stem_for(inputs, stem) == "small":
        return nn.Sequential(*way_in(inputs, 64), nn.ReLU())
    return nn.Sequential(*way_in(inputs, 64, kernel=7, stride=2), nn.ReLU(), nn.MaxPool2d(3, stride=2, padding=1))


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
    channels = max(1, int(32 * width))
    stride = 1 if stem_for(inputs, stem) == "small" else 2
    stem_layers = nn.Sequential(*way_in(inputs, channels, stride=stride), nn.ReLU())
    blocks: list[nn.Module] = []
    for outputs, stride in SEPARABLE:
        scaled = max(1, int(outputs * width))
        blocks.append(separable(channels, scaled, stride=stride, depth_multiplier=depth_multiplier))
        channels = scaled
    return network(stem=stem_layers, body=nn.Sequential(*blocks), head=pooled(channels, classes))


def separable(inputs: int, outputs: int, *, stride: int, depth_multiplier: int) -> nn.Sequential:
    """3×3 on each channel alone, then 1×1 across channels, each with batch normalisation and ReLU."""
    middle = inputs * depth_multiplier
    depthwise = conv_norm(inputs, middle, stride=stride, groups=inputs)
    return nn.Sequential(*depthwise, nn.ReLU(), *conv_norm(middle, outputs, kernel=1), nn.ReLU())
