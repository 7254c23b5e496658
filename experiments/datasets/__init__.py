"""Data sets by name, from a local folder in its official format or a pinned download.

    data = load("cifar10")                       # x (50000, 3, 32, 32) in [0, 1], y, x_test, y_test, classes
    data = load("cifar10", side=16)              # images pooled to 16 × 16
    rows(data.x, index)                          # some of them, for us.Gold and us.Pool

The folder is $UNDERSTUDY_DATA, else ../shared/data beside the checkout. Nothing is ever unpickled: CIFAR comes as its
binary version. A set that is not there is a one-line error that says how to get it.
"""

from collections.abc import Callable, Sequence
from functools import cache, partial

import numpy as np
import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits
from torch import Tensor

from experiments.datasets.celeba import celeba
from experiments.datasets.cifar import cifar10, cifar100
from experiments.datasets.form import Data, as_images, as_labels, rows
from experiments.datasets.imagenet import imagenet
from experiments.datasets.mnist import fashion_mnist, mnist
from experiments.datasets.svhn import svhn
from experiments.datasets.vectors import cifar10_vectors, text_vectors
from understudy.errors import UnderstudyError

__all__ = ["LOADERS", "Data", "load", "rows"]


def digits() -> Data:
    """scikit-learn's 1,797 digits of 8 × 8, in a fixed random order; the last 400 are the test rows."""
    found = load_digits()
    order = np.random.default_rng(0).permutation(len(found.target))
    x, y = as_images(found.images[order] / 16), as_labels(found.target[order])
    return Data(x[:-400], y[:-400], x[-400:], y[-400:], 10)


def _binary(source: Callable[[], Data], positive: Sequence[int]) -> Callable[[], Data]:
    """The same images with two classes: 1 where the label is one of ``positive``."""

    def build() -> Data:
        data = source()
        y, y_test = (torch.isin(labels, torch.tensor(positive)).long() for labels in (data.y, data.y_test))
        return Data(data.x, y, data.x_test, y_test, 2)

    return build


def _centred(source: Callable[[], Data], pad: int = 0) -> Callable[[], Data]:
    """The same images with a black border of ``pad`` pixels, then the training images' mean colour subtracted."""

    def build() -> Data:
        data = source()
        x, x_test = (F.pad(images, 4 * (pad,)) for images in (data.x, data.x_test))
        mean = x.mean((0, 2, 3), keepdim=True)
        return Data(x - mean, data.y, x_test - mean, data.y_test, data.classes)

    return build


LOADERS: dict[str, Callable[[], Data]] = {
    "digits": digits,
    "mnist": mnist,
    "fashion_mnist": fashion_mnist,
    "cifar10": cifar10,
    "cifar100": cifar100,
    "svhn": svhn,
    "celeba": celeba,
    "imagenet": imagenet,
    # Dong et al. (2019), 3.4: images of 32 × 32 with the mean subtracted.
    "cifar10_centred": _centred(cifar10),
    "fashion_mnist_32": _centred(fashion_mnist, pad=2),
    # Appendix B there: classes 2 and 7 (birds and horses) against the rest.
    "cifar10_binary": _binary(cifar10, (2, 7)),
    "fashion_mnist_binary": _binary(fashion_mnist, (2, 7)),
    # Even halves: where two classes of ten stand against the rest, noise drives a net to the rest.
    "fashion_mnist_odd": _binary(fashion_mnist, (1, 3, 5, 7, 9)),
    "cifar10_animals": _binary(cifar10, (2, 3, 4, 5, 6, 7)),
    "digits_binary": _binary(digits, (2, 7)),
    # Of EfficientNet-lite0 and of MiniLM.
    "cifar10_vectors": cifar10_vectors,
    "sst2_vectors": partial(text_vectors, "sst2"),
    "trec_vectors": partial(text_vectors, "weak_trec"),
}


@cache
def load(name: str, *, side: int | None = None) -> Data:
    """``side`` pools tensors of images to side × side."""
    if name not in LOADERS:
        raise UnderstudyError(f"there is no data set {name!r}; there are {', '.join(LOADERS)}")
    data = LOADERS[name]()
    if side is None:
        return data
    if not isinstance(data.x, Tensor) or not isinstance(data.x_test, Tensor):
        raise UnderstudyError(f"{name} is read image by image and cannot be pooled; leave side out")
    x, x_test = (F.adaptive_avg_pool2d(x, side) for x in (data.x, data.x_test))
    return Data(x, data.y, x_test, data.y_test, data.classes)
