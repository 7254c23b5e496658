"""Data that comes with the package's dependencies: scikit-learn's handwritten digits."""

import torch
from torch import Tensor


def digits() -> tuple[Tensor, Tensor]:
    """1,797 images of 8×8 in 10 classes: ``x (1797, 64)`` scaled to [0, 1], ``y (1797,)``."""
    # Imported here: it would add most of a second to every start.
    from sklearn.datasets import load_digits

    bunch = load_digits()
    return torch.from_numpy(bunch.data / 16.0).float(), torch.from_numpy(bunch.target).long()
