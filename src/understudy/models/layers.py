"""What several of the nets share: the shape of a row, convolution without bias, initialisation."""

import math
from collections import OrderedDict
from collections.abc import Callable, Sequence

from torch import Tensor, nn

from understudy.errors import UnderstudyError

Shape = int | Sequence[int]


def row_size(inputs: Shape) -> int:
    """How many numbers a row holds."""
    return math.prod(_sizes(inputs))


def image_shape(inputs: Shape, *, smallest: int = 1) -> tuple[int, int, int]:
    """(channels, height, width) of a row; (height, width) is an image of one channel."""
    sizes = _sizes(inputs)
    if len(sizes) == 2:
        sizes = (1, *sizes)
    if len(sizes) != 3:
        raise UnderstudyError(
            f"an image net needs rows (channels, height, width), not {sizes}; reshape them or use mlp"
        )
    channels, height, width = sizes
    if min(height, width) < smallest:
        raise UnderstudyError(f"this net needs images of at least {smallest}×{smallest}, not {height}×{width}")
    return channels, height, width


def _sizes(inputs: Shape) -> tuple[int, ...]:
    sizes = (inputs,) if isinstance(inputs, int) else tuple(int(size) for size in inputs)
    if not sizes or min(sizes) < 1:
        raise UnderstudyError(f"the shape of a row is one or more positive sizes, not {sizes}")
    return sizes


class AsImages(nn.Module):
    """Gives batches of (height, width) rows their one channel; leaves (B, C, H, W) alone."""

    def forward(self, x: Tensor) -> Tensor:
        return x.unsqueeze(1) if x.dim() == 3 else x


def conv(inputs: int, outputs: int, *, kernel: int = 3, stride: int = 1, groups: int = 1) -> nn.Conv2d:
    """A convolution that keeps the image size (up to its stride). No bias: batch normalisation brings one."""
    return nn.Conv2d(inputs, outputs, kernel, stride=stride, padding=kernel // 2, groups=groups, bias=False)


def conv_norm(inputs: int, outputs: int, *, kernel: int = 3, stride: int = 1, groups: int = 1) -> list[nn.Module]:
    """A convolution and its batch normalisation."""
    return [conv(inputs, outputs, kernel=kernel, stride=stride, groups=groups), nn.BatchNorm2d(outputs)]


def stages(
    block: Callable[[int, int, int], nn.Module], channels: int, widths: Sequence[int], counts: Sequence[int]
) -> list[nn.Module]:
    """Blocks (channels in, channels out, stride), so many of each width; each stage but the first halves the image."""
    blocks = []
    for stage, (outputs, count) in enumerate(zip(widths, counts, strict=True)):
        for number in range(count):
            blocks.append(block(channels, outputs, 2 if stage and number == 0 else 1))
            channels = outputs
    return blocks


def classifier(features: int, classes: int) -> nn.Linear:
    """The last layer."""
    if classes < 1:
        raise UnderstudyError(f"a net needs at least one class, not {classes}")
    return nn.Linear(features, classes)


def pooled_head(features: int, classes: int) -> nn.Sequential:
    """Mean over the image, then the classifier."""
    return nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), classifier(features, classes))


def network(**parts: nn.Module) -> nn.Sequential:
    """The parts in order, under their names, freshly initialised."""
    net = nn.Sequential(OrderedDict(parts))
    initialise(net)
    return net


def initialise(net: nn.Module) -> None:
    """He et al. (2015): variance 2 / fan-in for weights followed by a ReLU; the classifier, last, 1 / fan-in.

    Fan-in and not fan-out: for a depthwise convolution PyTorch's fan-out counts all channels and shrinks
    the weights by their square root (32-fold at 1024 channels).
    """
    weighted = [layer for layer in net.modules() if isinstance(layer, nn.Conv2d | nn.Linear)]
    for layer in weighted:
        gain = 1.0 if layer is weighted[-1] else 2.0
        fan_in = layer.weight[0].numel()
        nn.init.normal_(layer.weight, std=math.sqrt(gain / fan_in))
        if layer.bias is not None:
            nn.init.zeros_(layer.bias)
