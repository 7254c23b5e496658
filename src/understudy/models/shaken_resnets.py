"""Shake-shake 26 2×32d (Gastaldi 2017), the net of the main table of Dong et al. (2019), self-distillation.

A block has two residual branches. Training mixes those of every image with its own α ~ U(0, 1) forward and
another β ~ U(0, 1) backward ("Shake-Shake-Image", the paper's best); evaluation takes the mean. The draws
come from torch's global generator, as dropout's do.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from understudy.errors import UnderstudyError
from understudy.models.layers import AsImages, Shape, conv, conv_norm, image_shape, network, pooled_head, stages
from understudy.models.registry import model


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
        self.first = branch(inputs, outputs, stride)
        self.second = branch(inputs, outputs, stride)
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
        out: Tensor = self.shortcut(x) + mixed
        return out


def branch(inputs: int, outputs: int, stride: int) -> nn.Sequential:
    return nn.Sequential(nn.ReLU(), *conv_norm(inputs, outputs, stride=stride), nn.ReLU(), *conv_norm(outputs, outputs))


@model
def shake_shake(inputs: Shape = (3, 32, 32), classes: int = 10, depth: int = 26, width: int = 32) -> nn.Module:
    """Shake-shake of depth 6n + 2, two branches of `width` channels to start with; 2.9M parameters."""
    if depth < 8 or depth % 6 != 2 or width < 1:
        raise UnderstudyError(f"shake-shake has depth 6n + 2 (26) and width ≥ 1 (32, 64, 96), not {depth} and {width}")
    channels, _, _ = image_shape(inputs)
    blocks = stages(ShakeBlock, 16, (width, 2 * width, 4 * width), [(depth - 2) // 6] * 3)
    stem = nn.Sequential(AsImages(), *conv_norm(channels, 16))
    return network(stem=stem, body=nn.Sequential(*blocks, nn.ReLU()), head=pooled_head(4 * width, classes))
