"""Small nets: softmax regression and the multilayer perceptron for rows of any shape, and two early kinds of CNN."""

from collections.abc import Sequence

import torch
from torch import nn

from understudy.errors import UnderstudyError
from understudy.models.registry import AsImages, Shape, classifier, conv_norm, image_shape, model, network, row_size
from understudy.models.sparse import SparseLinear

# A convex loss has one minimum, so that a start only decides what directions say of which the rows say nothing: little.
# Not nothing: two nets that teach each other must differ.
SMALL = 1e-3
WIDEST = 10_000_000


@model
def linear(inputs: Shape, classes: int) -> nn.Module:
    """Softmax regression. Its penultimate features are the row itself; a batch may be sparse."""
    head = classifier(row_size(inputs), classes, SparseLinear)
    net = network(flatten=nn.Flatten(), head=head)
    with torch.no_grad():
        head.weight.mul_(SMALL)
    return net


@model
def mlp(inputs: Shape, classes: int, hidden: Sequence[int] = (128, 128), dropout: float = 0.0) -> nn.Module:
    """Fully connected layers with ReLU, and optional dropout after each. The S-Badge paper has one layer of 512."""
    layers: list[nn.Module] = []
    size = row_size(inputs)
    for width in hidden:
        if not 1 <= width <= WIDEST:
            raise UnderstudyError(f"mlp(hidden={list(hidden)}): a layer has 1 to {WIDEST:,} units; leave out others")
        layers += [nn.Linear(size, width), nn.ReLU()]
        if dropout:
            layers.append(nn.Dropout(dropout))
        size = width
    return network(flatten=nn.Flatten(), body=nn.Sequential(*layers), head=classifier(size, classes))


@model
def lenet(inputs: Shape = (1, 28, 28), classes: int = 10) -> nn.Module:
    """LeNet-5, the "standard LeNet" of Ren et al. (2018), 4.1, imbalanced MNIST, with today's ReLU and max pooling.

    The paper gives no sizes; these are LeCun et al. (1998): 6 and 16 maps of 5×5, then 120 and 84 units: 61,706
    parameters for 28×28 and ten classes. The first convolution pads by 2, which turns 28×28 into the 32×32 of the
    original. Images of 12×12 or more.
    """
    channels, height, width = image_shape(inputs, smallest=12)
    maps = nn.Sequential(
        AsImages(),
        nn.Conv2d(channels, 6, 5, padding=2),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(6, 16, 5),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
    )
    left = ((height // 2 - 4) // 2) * ((width // 2 - 4) // 2)
    body = nn.Sequential(nn.Linear(16 * left, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU())
    return network(maps=maps, body=body, head=classifier(84, classes))


@model
def cnn5(inputs: Shape = (3, 32, 32), classes: int = 10, dropout: float = 0.5) -> nn.Module:
    """The 5-layer CNN that is the student in Section 2.1 of Dong et al. (2019), self-distillation (its Table 2).

    Three 3×3 convolutions of 32, 64 and 128 channels, each with batch normalisation, ReLU and 2×2 max pooling; a fully
    connected layer of 512 with batch normalisation; the classifier behind dropout. Left open by the table and decided
    here: convolutions keep the image size, ReLU also follows the 512, and the dropout rate is 0.5. Images of 8×8 or
    more.
    """
    channels, height, width = image_shape(inputs, smallest=8)
    maps: list[nn.Module] = [AsImages()]
    for outputs in (32, 64, 128):
        maps += [*conv_norm(channels, outputs), nn.ReLU(), nn.MaxPool2d(2)]
        channels = outputs
    size = channels * (height // 8) * (width // 8)
    body = nn.Sequential(nn.Linear(size, 512, bias=False), nn.BatchNorm1d(512), nn.ReLU())
    head = nn.Sequential(nn.Dropout(dropout), classifier(512, classes))
    return network(maps=nn.Sequential(*maps, nn.Flatten()), body=body, head=head)
