"""Wide ResNet (Zagoruyko & Komodakis 2016): depth 6n + 4, widths 16k, 32k, 64k, dropout inside blocks.

Ren et al. (2018) train WRN-28-10 with dropout 0.3 under uniform flips (36.5M parameters), the defaults
here; Figure 1 of Dong et al. (2019) has a WRN-28 teacher.
"""

from torch import Tensor, nn

from understudy.errors import UnderstudyError
from understudy.models.layers import AsImages, Shape, conv, image_shape, network, pooled_head
from understudy.models.registry import model


class WideBlock(nn.Module):
    """BN, ReLU, 3×3, twice, with dropout between. A projected shortcut sees the activated input."""

    def __init__(self, inputs: int, outputs: int, stride: int, dropout: float) -> None:
        super().__init__()
        self.activation = nn.Sequential(nn.BatchNorm2d(inputs), nn.ReLU())
        self.residual = nn.Sequential(
            conv(inputs, outputs, stride=stride),
            nn.BatchNorm2d(outputs),
            nn.ReLU(),
            nn.Dropout(dropout),
            conv(outputs, outputs),
        )
        self.projection = conv(inputs, outputs, kernel=1, stride=stride) if inputs != outputs else None

    def forward(self, x: Tensor) -> Tensor:
        active = self.activation(x)
        shortcut = x if self.projection is None else self.projection(active)
        out: Tensor = shortcut + self.residual(active)
        return out


@model
def wide_resnet(
    inputs: Shape = (3, 32, 32), classes: int = 10, depth: int = 28, width: int = 10, dropout: float = 0.3
) -> nn.Module:
    """WRN-depth-width."""
    if depth < 10 or depth % 6 != 4 or width < 1:
        raise UnderstudyError(f"a wide ResNet has depth 6n + 4 (10, 16, 28, 40) and width ≥ 1, not {depth} and {width}")
    channels, _, _ = image_shape(inputs)
    blocks: list[nn.Module] = []
    size = 16
    for stage, outputs in enumerate((16 * width, 32 * width, 64 * width)):
        for block in range((depth - 4) // 6):
            stride = 2 if stage and block == 0 else 1
            blocks.append(WideBlock(size, outputs, stride, dropout))
            size = outputs
    blocks += [nn.BatchNorm2d(size), nn.ReLU()]
    stem = nn.Sequential(AsImages(), conv(channels, 16))
    return network(stem=stem, body=nn.Sequential(*blocks), head=pooled_head(size, classes))
