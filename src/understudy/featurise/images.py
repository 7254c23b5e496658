"""A column of images as ``(channels, height, width)`` in [0, 1], all of one size.

They stay bytes until a batch is taken, a quarter of their floats. Where even that is more than 1 GB, they stay files
and every batch is decoded anew (``--workers`` then pays off).
"""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from understudy.data.rows import Rows
from understudy.errors import UnderstudyError
from understudy.featurise.part import Part, RawColumns
from understudy.featurise.pixels import ImageFile, image_files, open_image, to_pixels
from understudy.store.arrow import Array

DECODED_BYTES = 1 << 30
# A batch of 128 such images is 400 MB; what is larger must be asked for.
MAX_SIDE = 512


class ImageRows(Rows):
    def __init__(self, files: list[ImageFile], where: str, *, size: tuple[int, int], mode: str) -> None:
        self.files, self.where, self.size, self.mode = files, where, size, mode
        shape = (len(files), _channels(mode), *size)
        self.pixels: Array | None = None
        self.per_row = bool(np.prod(shape, dtype=np.float64) > DECODED_BYTES)
        if not self.per_row:
            self.pixels = np.empty(shape, dtype=np.uint8)
            for row in range(len(files)):
                self.pixels[row] = self._decode(row)

    def __len__(self) -> int:
        return len(self.files)

    def take(self, index: Tensor) -> Tensor:
        rows = index.cpu().numpy()
        pixels = np.stack([self._decode(row) for row in rows]) if self.pixels is None else self.pixels[rows]
        return torch.from_numpy(pixels).to(torch.get_default_dtype()).div_(255)

    def _decode(self, row: int) -> Array:
        return to_pixels(open_image(self.files[row], f"{self.where} row {row}"), size=self.size, mode=self.mode)


@dataclass(eq=False)
class Images(Part):
    kind = "image"
    name: str
    size: tuple[int, int]
    """Height and width."""
    mode: str

    def __post_init__(self) -> None:
        height, width = self.size
        self.names, self.size = (self.name,), (height, width)
        self.shape = (_channels(self.mode), height, width)

    @classmethod
    def fit(cls, raw: RawColumns, name: str, *, size: tuple[int, int] | None, mode: str | None) -> Self:
        """Size and mode as asked for, else those of the first image."""
        if size is None or mode is None:
            where = raw.at(name, 0)
            first = open_image(image_files(_cells(raw, name), raw.folder, raw.at(name))[0], where)
            mode = mode or first.mode
            if size is None:
                size = (first.height, first.width)
                if max(size) > MAX_SIDE:
                    raise UnderstudyError(
                        f"{where} is {first.width} × {first.height} pixels; say which size the student takes "
                        "(--image-size 224)"
                    )
        return cls(name, size, mode)

    def __call__(self, raw: RawColumns) -> ImageRows:
        files = image_files(_cells(raw, self.name), raw.folder, raw.at(self.name))
        return ImageRows(files, raw.at(self.name), size=self.size, mode=self.mode)


def _cells(raw: RawColumns, name: str) -> list[Any]:
    column = raw[name]
    if column.ndim != 1 or column.dtype.kind not in "UTOS" or not len(column):
        raise UnderstudyError(f"{raw.at(name)} holds no paths and no bytes; images are one of them per row")
    cells: list[Any] = column.tolist()
    return cells


def _channels(mode: str) -> int:
    return {"L": 1, "RGB": 3}[mode]
