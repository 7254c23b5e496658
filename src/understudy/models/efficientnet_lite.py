"""EfficientNet-lite0 (Tan and Le 2019; its lite form of 2020: no squeeze-and-excitation, ReLU6) without the last layer.

Names of parameters are those of the published weights, padding is TensorFlow's "same".
"""

import torch.nn.functional as F
from torch import Tensor, nn

#: Repeats, kernel, stride of the first, expansion, channels out.
STAGES = (
    (1, 3, 1, 1, 16), (2, 3, 2, 6, 24), (2, 5, 2, 6, 40), (3, 3, 2, 6, 80), (3, 5, 1, 6, 112), (4, 5, 2, 6, 192),
    (1, 3, 1, 6, 320),
)  # fmt: skip
STEM, HEAD = 32, 1280


class SameConv2d(nn.Conv2d):
    """Padded so that a stride of s leaves ⌈size / s⌉; where the padding is odd, one more at the right and below."""

    def __init__(self, inputs: int, outputs: int, kernel: int, stride: int = 1, groups: int = 1) -> None:
        super().__init__(inputs, outputs, kernel, stride, groups=groups, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        kernel, stride = self.kernel_size[0], self.stride[0]
        height, width = (max((-(-size // stride) - 1) * stride + kernel - size, 0) for size in x.shape[-2:])
        x = F.pad(x, (width // 2, width - width // 2, height // 2, height - height // 2))
        return F.conv2d(x, self.weight, stride=stride, groups=self.groups)


def _norm(channels: int) -> nn.BatchNorm2d:
    return nn.BatchNorm2d(channels, eps=1e-3)


class Block(nn.Module):
    """Wider, each channel apart, narrower again; and the input added where it has the same shape."""

    def __init__(self, inputs: int, outputs: int, kernel: int, stride: int, expansion: int) -> None:
        super().__init__()
        wide = inputs * expansion
        if expansion > 1:
            self._expand_conv, self._bn0 = SameConv2d(inputs, wide, 1), _norm(wide)
        self._depthwise_conv, self._bn1 = SameConv2d(wide, wide, kernel, stride, groups=wide), _norm(wide)
        self._project_conv, self._bn2 = SameConv2d(wide, outputs, 1), _norm(outputs)
        self.expands, self.adds = expansion > 1, stride == 1 and inputs == outputs

    def forward(self, x: Tensor) -> Tensor:
        wide = F.relu6(self._bn0(self._expand_conv(x))) if self.expands else x
        out: Tensor = self._bn2(self._project_conv(F.relu6(self._bn1(self._depthwise_conv(wide)))))
        return x + out if self.adds else out


class EfficientNetLite0(nn.Module):
    """Images ``(n, 3, h, w)`` in [0, 1]  ->  ``(n, 1280)``, the mean over places."""

    def __init__(self) -> None:
        super().__init__()
        self._conv_stem, self._bn0 = SameConv2d(3, STEM, 3, 2), _norm(STEM)
        blocks, inputs = [], STEM
        for repeats, kernel, stride, expansion, outputs in STAGES:
            for number in range(repeats):
                blocks.append(Block(inputs, outputs, kernel, 1 if number else stride, expansion))
                inputs = outputs
        self._blocks = nn.Sequential(*blocks)
        self._conv_head, self._bn1 = SameConv2d(inputs, HEAD, 1), _norm(HEAD)

    def forward(self, images: Tensor) -> Tensor:
        x = F.relu6(self._bn0(self._conv_stem((255 * images - 127) / 128)))
        return F.relu6(self._bn1(self._conv_head(self._blocks(x)))).mean((2, 3))
