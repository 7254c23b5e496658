"""Nets for rows of any shape, which they flatten: softmax regression and the multilayer perceptron."""

from collections.abc import Sequence

from torch import nn

from understudy.models.layers import Shape, classifier, network, row_size
from understudy.models.registry import model


@model
def linear(inputs: Shape, classes: int) -> nn.Module:
    """Softmax regression. Its penultimate features are the row itself."""
    return network(flatten=nn.Flatten(), head=classifier(row_size(inputs), classes))


@model
def mlp(inputs: Shape, classes: int, hidden: Sequence[int] = (128, 128), dropout: float = 0.0) -> nn.Module:
    """Fully connected layers with ReLU, and dropout after each if asked. The S-Badge paper has one layer of 512."""
    layers: list[nn.Module] = []
    size = row_size(inputs)
    for width in hidden:
        layers += [nn.Linear(size, width), nn.ReLU()]
        if dropout:
            layers.append(nn.Dropout(dropout))
        size = width
    return network(flatten=nn.Flatten(), body=nn.Sequential(*layers), head=classifier(size, classes))
