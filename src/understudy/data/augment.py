"""Random changes to images (B, C, H, W): whole batches at once, drawn from the generator passed in.

Each function takes `(images, generator)` and its options by keyword, leaves its input as it was and returns a
new batch of the same shape. Every image gets its own draw. Paper by paper:

- Weighted Distillation and SLaM: `flip` and `shift` by up to 10% of the side. Shifts are by whole
  pixels, so nothing is blurred.
- Dong et al. (2019), self-distillation: `flip` and `pad_crop` with 4 pixels of padding.
- SLaM's augmentation variance (D.4): `crop_resize`.

    augment = compose(flip, partial(shift, fraction=0.1))
    batch = augment(batch, torch.Generator().manual_seed(0))

`flip`, `shift` and `pad_crop` only move pixels and take any dtype; `crop_resize` interpolates and takes
floats.
"""

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Generator, Tensor

from understudy.errors import UnderstudyError

Augment = Callable[[Tensor, Generator], Tensor]


def compose(*augments: Augment) -> Augment:
    """One after the other, all drawing from the same generator."""

    def composed(images: Tensor, generator: Generator) -> Tensor:
        for augment in augments:
            images = augment(images, generator)
        return images

    return composed


def flip(images: Tensor, generator: Generator, *, p: float = 0.5) -> Tensor:
    """Mirrors an image left to right with probability p."""
    _check_batch(images)
    if not 0 <= p <= 1:
        raise UnderstudyError(f"flip: p is a probability, not {p}")
    mirrored = _uniform(images, generator) < p
    return torch.where(mirrored[:, None, None, None], images.flip(-1), images)


def shift(images: Tensor, generator: Generator, *, fraction: float = 0.1) -> Tensor:
    """Moves an image by whole pixels, up to `fraction` of its height and of its width, zeros coming in."""
    _check_batch(images)
    if not 0 <= fraction <= 1:
        raise UnderstudyError(f"shift: fraction is a share of the side, 0 to 1, not {fraction}")
    # 0.29 · 100 is 28.999… in floating point and means 29
    reach_down, reach_right = (math.floor(fraction * size + 1e-9) for size in images.shape[-2:])
    return _windows(images, generator, reach_down, reach_right)


def pad_crop(images: Tensor, generator: Generator, *, padding: int = 4) -> Tensor:
    """Pads each side with zeros and cuts an image of the old size out of it, anywhere."""
    _check_batch(images)
    if padding < 0:
        raise UnderstudyError(f"pad_crop: padding is 0 or more pixels, not {padding}")
    return _windows(images, generator, padding, padding)


def crop_resize(
    images: Tensor,
    generator: Generator,
    *,
    area: tuple[float, float] = (0.5, 1.0),
    ratio: tuple[float, float] = (3 / 4, 4 / 3),
) -> Tensor:
    """Cuts out a random rectangle and stretches it to the old size, bilinearly.

    The rectangle covers a share of the image uniform in `area`, at a width-to-height ratio (relative to the
    image's own) log-uniform in `ratio`, placed uniformly inside. A side that would exceed the image is cut
    to it.
    """
    _check_batch(images)
    if not images.is_floating_point():
        raise UnderstudyError(f"crop_resize interpolates: make {images.dtype} images floats (x / 255) first")
    if not 0 < area[0] <= area[1] <= 1 or not 0 < ratio[0] <= ratio[1]:
        raise UnderstudyError(f"crop_resize: 0 < area ≤ 1, 0 < ratio, smaller first, not {area}, {ratio}")
    if len(images) == 0:
        return images.clone()
    share = _uniform(images, generator, *area)
    aspect = _uniform(images, generator, math.log(ratio[0]), math.log(ratio[1])).exp()
    width = (share * aspect).sqrt().clamp(max=1)
    height = (share / aspect).sqrt().clamp(max=1)
    # The image spans [−1, 1]; a centre at ±(1 − size) puts the rectangle's edge on the image's.
    centre_x = _uniform(images, generator, -1, 1) * (1 - width)
    centre_y = _uniform(images, generator, -1, 1) * (1 - height)
    zero = torch.zeros_like(width)
    rows = [torch.stack([width, zero, centre_x], -1), torch.stack([zero, height, centre_y], -1)]
    theta = torch.stack(rows, 1).to(images.dtype)
    grid = F.affine_grid(theta, list(images.shape), align_corners=False)
    return F.grid_sample(images, grid, mode="bilinear", padding_mode="border", align_corners=False)


def _windows(images: Tensor, generator: Generator, reach_down: int, reach_right: int) -> Tensor:
    """Pads with zeros by the reach on each side and cuts one window of the old size per image."""
    count, _, height, width = images.shape
    top = _below(2 * reach_down + 1, count, generator).to(images.device)
    left = _below(2 * reach_right + 1, count, generator).to(images.device)
    padded = F.pad(images, (reach_right, reach_right, reach_down, reach_down))
    # A view of every possible window, (B, C, tops, lefts, H, W): only the chosen ones are copied.
    windows = padded.unfold(2, height, 1).unfold(3, width, 1)
    return windows[torch.arange(count, device=images.device), :, top, left]


def _uniform(images: Tensor, generator: Generator, low: float = 0.0, high: float = 1.0) -> Tensor:
    """One number per image, drawn where the generator lives, used where the images do."""
    draw = torch.rand(len(images), generator=generator, device=generator.device)
    return (low + (high - low) * draw).to(images.device)


def _below(bound: int, count: int, generator: Generator) -> Tensor:
    return torch.randint(bound, (count,), generator=generator, device=generator.device)


def _check_batch(images: Tensor) -> None:
    if images.dim() != 4:
        shape = tuple(images.shape)
        raise UnderstudyError(f"augmentation takes images (B, C, H, W), not {shape}; reshape them first")
