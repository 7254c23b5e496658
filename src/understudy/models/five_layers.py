"""The 5-layer CNN that is the student in Section 2.1 of Dong et al. (2019), self-distillation (its Table 2).

Three 3×3 convolutions of 32, 64 and 128 channels, each with batch normalisation, ReLU and 2×2 max pooling;
a fully connected layer of 512 with batch normalisation; the classifier behind dropout. Left open by the
table and decided here: convolutions keep the image size, ReLU also follows the 512, and the dropout rate is
0.5.
"""

from torch import nn

from understudy.models.layers import AsImages, Shape, classifier, conv, image_shape, network
from understudy.models.registry import model


@model
def cnn5(inputs: Shape = (3, 32, 32), classes: int = 10, dropout: float = 0.5) -> nn.Module:
    """Three convolutions, two fully connected layers. Images of 8×8 or more."""
    channels, height, width = image_shape(inputs, smallest=8)
    maps: list[nn.Module] = [AsImages()]
    for outputs in (32, 64, 128):
        maps += [conv(channels, outputs), nn.BatchNorm2d(outputs), nn.ReLU(), nn.MaxPool2d(2)]
        channels = outputs
    size = channels * (height // 8) * (width // 8)
    body = nn.Sequential(nn.Linear(size, 512, bias=False), nn.BatchNorm1d(512), nn.ReLU())
    head = nn.Sequential(nn.Dropout(dropout), classifier(512, classes))
    return network(maps=nn.Sequential(*maps, nn.Flatten()), body=body, head=head)
