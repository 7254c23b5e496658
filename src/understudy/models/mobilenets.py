"""MobileNet (Howard et al. 2017, Table 1): Weighted Distillation and SLaM use it on SVHN, CIFAR-10 and CelebA.

Those papers call theirs "MobileNet with depth multiplier 2" and 1. The words have two meanings, so both are
here: `width` is Howard's α, it scales every layer's channels (12.7M parameters at 2); `depth_multiplier` is
Keras's argument of that name, the filters each depthwise convolution applies to one channel (it widens only
what lies between a depthwise convolution and its 1×1; 6.4M at 2). The published net enters with stride 2,
for 224×224; images whose shorter side is below 64 enter with stride 1 ("small" stem), so that a 32×32 image
still has 2×2 cells at the end.
"""

from torch import nn

from understudy.errors import UnderstudyError
from understudy.models.layers import AsImages, Shape, conv, image_shape, network, pooled_head
from understudy.models.registry import model
from understudy.models.resnet import Stem, choose_stem

# (output channels at width 1, stride) of the thirteen separable convolutions
SEPARABLE = [(64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), *[(512, 1)] * 5, (1024, 2), (1024, 1)]


@model
def mobilenet(
    inputs: Shape = (3, 32, 32),
    classes: int = 10,
    width: float = 1.0,
    depth_multiplier: int = 1,
    stem: Stem | None = None,
) -> nn.Module:
    """MobileNet: a convolution, thirteen depthwise-separable ones, the classifier."""
    if not width > 0 or depth_multiplier < 1:
        raise UnderstudyError(f"mobilenet needs width > 0 and depth_multiplier ≥ 1, not {width} and {depth_multiplier}")
    colours, _, _ = image_shape(inputs)
    channels = max(1, int(32 * width))
    stride = 1 if choose_stem(inputs, stem) == "small" else 2
    way_in = nn.Sequential(AsImages(), conv(colours, channels, stride=stride), nn.BatchNorm2d(channels), nn.ReLU())
    blocks: list[nn.Module] = []
    for outputs, stride in SEPARABLE:
        scaled = max(1, int(outputs * width))
        blocks.append(separable(channels, scaled, stride=stride, depth_multiplier=depth_multiplier))
        channels = scaled
    return network(stem=way_in, body=nn.Sequential(*blocks), head=pooled_head(channels, classes))


def separable(inputs: int, outputs: int, *, stride: int, depth_multiplier: int) -> nn.Sequential:
    """3×3 on each channel alone, then 1×1 across channels, each with batch normalisation and ReLU."""
    middle = inputs * depth_multiplier
    return nn.Sequential(
        conv(inputs, middle, stride=stride, groups=inputs),
        nn.BatchNorm2d(middle),
        nn.ReLU(),
        conv(middle, outputs, kernel=1),
        nn.BatchNorm2d(outputs),
        nn.ReLU(),
    )
