"""Pools that are part original, part noise: the benchmark of "Catastrophic Failures of Neural Active Learning on
Heteroskedastic Distributions" (section 2), over any set of images.

    data = us.active.heteroskedastic("noisy_diverse", x, y, seed=0)      # x (N, C, H, W) in [0, 1], y (N,)
    data.x, data.y, data.original                                        # original: the mask of untouched rows

| kind | what is added, until it is `noisy_share` of the whole |
| --- | --- |
| clean | nothing |
| noisy_blank | all-black images, each with a label drawn uniformly |
| noisy_diverse | images of 100 solid colours; every colour has 3 labels of its own, each image draws one of them |
| noisy_class | the images of one class with uniform labels, repeated; no row with that class's true label remains |

Labels of the noise are drawn once per row: asking twice gives the same answer. In noisy_class every copy of an image
draws its own, and the original rows are those of the other classes. Rows are shuffled. Whether a row is noise can be
seen from its features, never from its label, which is what tells this from noise spread evenly over a set.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from understudy.errors import UnderstudyError

KINDS = ("clean", "noisy_blank", "noisy_diverse", "noisy_class")


class Heteroskedastic(NamedTuple):
    x: Tensor
    y: Tensor
    original: Tensor
    """(N,) bool: rows of the given set with their own label."""


def heteroskedastic(
    kind: str,
    x: Tensor,
    y: Tensor,
    *,
    noisy_share: float = 0.8,
    seed: int = 0,
    classes: int | None = None,
    colours: int = 100,
    labels_per_colour: int = 3,
    noisy_class: int = 1,
) -> Heteroskedastic:
    """``classes``: how many there are, where y does not show all."""
    if kind not in KINDS:
        raise UnderstudyError(f"unknown kind {kind!r}: use one of {', '.join(KINDS)}")
    if x.ndim != 4 or len(x) != len(y):
        raise UnderstudyError(
            f"x has shape {tuple(x.shape)}, y {tuple(y.shape)}: pass images (N, C, H, W), labels (N,)"
        )
    if not 0 <= noisy_share < 1:
        raise UnderstudyError(f"noisy_share = {noisy_share}: use a share from 0 to below 1")
    classes = int(y.max()) + 1 if classes is None else classes
    generator = torch.Generator().manual_seed(seed)
    if kind == "noisy_class":
        from_class = y == noisy_class
        if not 0 < int(from_class.sum()) < len(y):
            raise UnderstudyError(
                f"noisy_class = {noisy_class}: {int(from_class.sum())} of {len(y)} rows have this label"
            )
        kept_x, kept_y = x[~from_class], y[~from_class]
    else:
        kept_x, kept_y = x, y
    # noise / (noise + kept) = noisy_share
    count = 0 if kind == "clean" else round(len(kept_y) * noisy_share / (1 - noisy_share))
    if kind == "noisy_class":
        source = from_class.nonzero().squeeze(1)
        # Every image about equally often: whole copies, then a random part of one more.
        order = torch.cat(
            [source[torch.randperm(len(source), generator=generator)] for _ in range(count // len(source) + 1)]
        )
        noise_x = x[order[:count]]
        noise_y = torch.randint(classes, (count,), generator=generator)
    elif kind == "noisy_diverse":
        noise_x, noise_y = _solid_colours(count, x, classes, colours, labels_per_colour, generator)
    else:
        noise_x = x.new_zeros(count, *x.shape[1:])
        noise_y = torch.randint(classes, (count,), generator=generator)
    shuffled = torch.randperm(len(kept_y) + count, generator=generator)
    return Heteroskedastic(
        torch.cat([kept_x, noise_x])[shuffled],
        torch.cat([kept_y, noise_y.to(kept_y.dtype)])[shuffled],
        shuffled < len(kept_y),
    )


def _solid_colours(
    count: int, x: Tensor, classes: int, colours: int, labels_per_colour: int, generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    """Images of a random colour each (within the images' own range), and one of that colour's labels."""
    if not 1 <= labels_per_colour <= classes:
        raise UnderstudyError(f"labels_per_colour = {labels_per_colour}: use 1 to {classes}, the number of classes")
    low, high = x.amin(), x.amax()
    palette = low + (high - low) * torch.rand(colours, x.shape[1], generator=generator, dtype=torch.float32)
    labels = torch.rand(colours, classes, generator=generator).argsort(1)[:, :labels_per_colour]
    colour = torch.randint(colours, (count,), generator=generator)
    choice = torch.randint(labels_per_colour, (count,), generator=generator)
    images = palette.to(x.dtype)[colour, :, None, None].expand(count, *x.shape[1:])
    return images, labels[colour, choice]
