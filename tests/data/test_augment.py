"""Batch augmentation against one-image-at-a-time loops, which repeat the draws and move pixels by hand."""

import math
from collections.abc import Callable
from functools import partial

import numpy as np
import pytest
import torch
from torch import Generator, Tensor

from understudy.data.augment import compose, crop_resize, flip, pad_crop, shift
from understudy.errors import UnderstudyError

ALL: list[Callable[[Tensor, Generator], Tensor]] = [flip, shift, pad_crop, crop_resize]


def seeded(seed: int = 0) -> Generator:
    return Generator().manual_seed(seed)


@pytest.fixture
def images() -> Tensor:
    """Taller than wide, so that swapping the axes shows; no zeros, so that fill shows."""
    return torch.rand(40, 2, 20, 10, generator=seeded(7)) + 1


@pytest.mark.parametrize("augment", ALL)
def test_contract(augment: Callable[[Tensor, Generator], Tensor], images: Tensor) -> None:
    before = images.clone()
    torch.manual_seed(0)
    first = augment(images, seeded(3))
    torch.manual_seed(1)
    second = augment(images, seeded(3))
    assert torch.equal(first, second), "only the generator passed in may matter"
    assert not torch.equal(first, augment(images, seeded(4)))
    assert torch.equal(images, before)
    assert first.shape == images.shape and first.dtype == images.dtype
    first.zero_()
    assert torch.equal(images, before), "the result must not share memory with the input"
    assert augment(images[:0], seeded()).shape == (0, 2, 20, 10)
    with pytest.raises(UnderstudyError, match="B, C, H, W"):
        augment(images[0], seeded())


def test_flip_by_loop(images: Tensor) -> None:
    out = flip(images, seeded(), p=0.3)
    draws = torch.rand(40, generator=seeded()).tolist()
    assert 5 < sum(draw < 0.3 for draw in draws) < 20
    for image, result, draw in zip(images, out, draws, strict=True):
        expected = image.clone()
        if draw < 0.3:
            for column in range(10):
                expected[:, :, column] = image[:, :, 9 - column]
        assert torch.equal(result, expected)


def moved(image: Tensor, down: int, right: int) -> Tensor:
    """The image moved, pixel by pixel, zeros coming in."""
    result = torch.zeros_like(image)
    _, height, width = image.shape
    for row in range(height):
        for column in range(width):
            if 0 <= row - down < height and 0 <= column - right < width:
                result[:, row, column] = image[:, row - down, column - right]
    return result


@pytest.mark.parametrize(
    ("augment", "reach"),
    [
        (shift, (2, 1)),
        (partial(shift, fraction=0.29), (5, 2)),
        (pad_crop, (4, 4)),
        (partial(pad_crop, padding=1), (1, 1)),
    ],
)
def test_moves_by_loop(augment: Callable[[Tensor, Generator], Tensor], reach: tuple[int, int], images: Tensor) -> None:
    out = augment(images, seeded())
    draws = seeded()
    downs = reach[0] - torch.randint(2 * reach[0] + 1, (40,), generator=draws)
    rights = reach[1] - torch.randint(2 * reach[1] + 1, (40,), generator=draws)
    for image, result, down, right in zip(images, out, downs.tolist(), rights.tolist(), strict=True):
        assert torch.equal(result, moved(image, down, right))


def test_shift_rounds_down_but_forgives_floating_point() -> None:
    """0.29 · 100 is 28.999…: row 0 still reaches 29 lines away; 0.1 · 28 is 2."""
    lit = torch.zeros(3000, 1, 100, 28)
    lit[:, :, 50, 14] = 1
    rows, columns = shift(lit, seeded(), fraction=0.29).nonzero()[:, 2:].T
    assert (rows.min(), rows.max()) == (21, 79)
    columns = shift(lit, seeded(), fraction=0.1).nonzero()[:, 3]
    assert (columns.min(), columns.max()) == (12, 16)


def test_pad_crop_reaches_every_place_equally_often() -> None:
    lit = torch.zeros(8100, 1, 9, 9)
    lit[:, :, 4, 4] = 1
    seen = pad_crop(lit, seeded(), padding=4).sum((0, 1))
    # 100 expected in each of 81 places, standard deviation 10
    assert seen.min() > 60 and seen.max() < 140


def stretched(image: np.ndarray, top: float, left: float, height: float, width: float) -> np.ndarray:
    """Bilinear samples at the centres of the cells of a rectangle given in pixels."""
    channels, rows, columns = image.shape
    result = np.zeros_like(image)
    for row in range(rows):
        for column in range(columns):
            y = min(max(top + (row + 0.5) * height / rows - 0.5, 0), rows - 1)
            x = min(max(left + (column + 0.5) * width / columns - 0.5, 0), columns - 1)
            up, west = min(int(y), rows - 2), min(int(x), columns - 2)
            dy, dx = y - up, x - west
            for channel in range(channels):
                corner = image[channel, up : up + 2, west : west + 2]
                result[channel, row, column] = np.array([1 - dy, dy]) @ corner @ np.array([1 - dx, dx])
    return result


def test_crop_resize_by_loop(images: Tensor) -> None:
    few = images[:12].double()
    out = crop_resize(few, seeded(), area=(0.2, 0.9), ratio=(0.5, 2.0))
    draws = seeded()
    share, aspect, x, y = (torch.rand(12, generator=draws).double().numpy() for _ in range(4))
    for index, image in enumerate(few.numpy()):
        area = 0.2 + 0.7 * share[index]
        ratio = math.exp(math.log(0.5) + math.log(4) * aspect[index])
        width, height = min(1, math.sqrt(area * ratio)), min(1, math.sqrt(area / ratio))
        # uniform between flush left (top) and flush right (bottom)
        left, top = x[index] * (1 - width), y[index] * (1 - height)
        expected = stretched(image, top * 20, left * 10, height * 20, width * 10)
        np.testing.assert_allclose(out[index].numpy(), expected, atol=1e-4)


def test_crop_resize_of_everything_is_the_image(images: Tensor) -> None:
    out = crop_resize(images, seeded(), area=(1.0, 1.0), ratio=(1.0, 1.0))
    torch.testing.assert_close(out, images, atol=1e-5, rtol=0)


def test_crop_resize_by_hand() -> None:
    """A ramp stays a ramp: half its slope when a quarter of the area fills the image."""
    ramp = torch.arange(16.0).expand(1, 1, 16, 16).contiguous()
    out = crop_resize(ramp, seeded(), area=(0.25, 0.25), ratio=(1.0, 1.0))[0, 0]
    inner = out[:, 1:-1].diff(dim=1)
    torch.testing.assert_close(inner, torch.full_like(inner, 0.5), atol=1e-4, rtol=0)
    assert out.diff(dim=0).abs().max() < 1e-4


@pytest.mark.parametrize("augment", [flip, shift, pad_crop])
def test_bytes_move_like_floats(augment: Callable[[Tensor, Generator], Tensor], images: Tensor) -> None:
    pixels = (images * 100).to(torch.uint8)
    moved_pixels = augment(pixels, seeded())
    assert moved_pixels.dtype == torch.uint8
    assert torch.equal(moved_pixels.float(), augment(pixels.float(), seeded()))


def test_clear_errors(images: Tensor) -> None:
    for wrong, message in [
        (lambda: crop_resize(images.to(torch.uint8), seeded()), "uint8.*255"),
        (lambda: crop_resize(images, seeded(), area=(0.9, 0.5)), "area"),
        (lambda: crop_resize(images, seeded(), ratio=(0.0, 1.0)), "ratio"),
        (lambda: flip(images, seeded(), p=1.5), "probability"),
        (lambda: shift(images, seeded(), fraction=3), "share"),
        (lambda: pad_crop(images, seeded(), padding=-1), "padding"),
    ]:
        with pytest.raises(UnderstudyError, match=message):
            wrong()


def test_compose_runs_in_order_on_one_generator(images: Tensor) -> None:
    both = compose(flip, partial(shift, fraction=0.2))
    draws = seeded(5)
    expected = shift(flip(images, draws), draws, fraction=0.2)
    assert torch.equal(both(images, seeded(5)), expected)
    assert compose()(images, seeded()) is images
