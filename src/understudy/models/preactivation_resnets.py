"""Pre-activation bottleneck ResNets of depth 9n + 2; ResNet-11 is a student of two of the papers.

Weighted Distillation and SLaM train it on CelebA; neither draws it. Eleven is not 6n + 2; it is 9n + 2
with n = 1, the "version 2" of the Keras CIFAR example, whose Adam schedule (÷10 after 80, 120, 160
epochs, ÷2 after 180) and shifts by 10% both papers use as they stand. So this is that net: a 3×3 stem of
16 channels; three stages of n blocks 1×1, 3×3, 1×1, each convolution behind batch normalisation and
ReLU, with 64, 128 and 256 channels out; a 1×1 shortcut at the start of a stage. Unlike there,
convolutions have no bias and the final mean covers the whole image, whatever its size.
"""

from torch import Tensor, nn

from understudy.errors import UnderstudyError
from understudy.models.layers import AsImages, Shape, conv, image_shape, network, pooled_head
from understudy.models.registry import model


class PreBottleneck(nn.Module):
    """1×1, 3×3, 1×1, each after batch normalisation and ReLU; a `fresh` input has just had both."""

    def __init__(self, inputs: int, middle: int, outputs: int, *, stride: int, project: bool, fresh: bool) -> None:
        super().__init__()
        activation: list[nn.Module] = [] if fresh else [nn.BatchNorm2d(inputs), nn.ReLU()]
        self.residual = nn.Sequential(
            *activation,
            conv(inputs, middle, kernel=1, stride=stride),
            nn.BatchNorm2d(middle),
            nn.ReLU(),
            conv(middle, middle),
            nn.BatchNorm2d(middle),
            nn.ReLU(),
            conv(middle, outputs, kernel=1),
        )
        self.shortcut = conv(inputs, outputs, kernel=1, stride=stride) if project else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.shortcut(x) + self.residual(x)
        return out


@model
def cifar_resnet_v2(inputs: Shape = (3, 32, 32), classes: int = 10, depth: int = 11) -> nn.Module:
    """The pre-activation ResNet of the given depth, 9n + 2: 11, 20, 29 … 56, 110."""
    if depth < 11 or depth % 9 != 2:
        raise UnderstudyError(f"a version-2 CIFAR ResNet has depth 9n + 2 (11, 20, 56, 110), not {depth}")
    channels, _, _ = image_shape(inputs)
    stem = nn.Sequential(AsImages(), conv(channels, 16), nn.BatchNorm2d(16), nn.ReLU())
    blocks: list[nn.Module] = []
    width = 16
    for stage, (middle, outputs) in enumerate([(16, 64), (64, 128), (128, 256)]):
        for block in range((depth - 2) // 9):
            first = block == 0
            stride = 2 if first and stage else 1
            fresh = first and stage == 0
            blocks.append(PreBottleneck(width, middle, outputs, stride=stride, project=first, fresh=fresh))
            width = outputs
    blocks += [nn.BatchNorm2d(width), nn.ReLU()]
    return network(stem=stem, body=nn.Sequential(*blocks), head=pooled_head(width, classes))


@model
def resnet11(inputs: Shape = (3, 32, 32), classes: int = 10) -> nn.Module:
    """ResNet-11."""
    return cifar_resnet_v2(inputs, classes, depth=11)
