"""LeNet-5, the "standard LeNet" of Ren et al. (2018), 4.1, imbalanced MNIST, with today's ReLU and max pooling.

The paper gives no sizes; these are LeCun et al. (1998): 6 and 16 maps of 5×5, then 120 and 84 units: 61,706
parameters for 28×28 and ten classes. The first convolution pads by 2, which turns 28×28 into the 32×32 of
the original.
"""

from torch import nn

from understudy.models.layers import AsImages, Shape, classifier, image_shape, network
from understudy.models.registry import model


@model
def lenet(inputs: Shape = (1, 28, 28), classes: int = 10) -> nn.Module:
    """Two convolutions, three fully connected layers. Images of 12×12 or more."""
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
