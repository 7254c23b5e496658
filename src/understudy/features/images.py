"""A column of images as ``(channels, height, width)`` in [0, 1], all of one size. Image files may come from anyone.

Only common still-image formats are opened (no PostScript, which would start a program), the size is read and judged
before any pixel is, and a damaged or truncated file is an error that names it.

Images stay bytes until a batch is taken, a quarter of their floats. Where even that is more than 1 GB, they stay files
and every batch is decoded anew (``--workers`` then pays off).
"""

import io
import os
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from understudy.data.rows import Rows
from understudy.errors import UnderstudyError, first_line, optional
from understudy.features.raw_columns import RawColumns
from understudy.features.tabular import Part
from understudy.store.arrow import Array
from understudy.store.console import ProgressBar, complain

ImageFile = Path | bytes
CHANNELS = {"L": 1, "RGB": 3}
FORMATS = ("PNG", "JPEG", "WEBP", "GIF", "BMP", "TIFF", "PPM")
# 300 MB as RGB; larger is more often an attack than a photograph.
MAX_PIXELS = 100_000_000


def image_files(cells: Sequence[Any], folder: Path | None, where: str) -> list[ImageFile]:
    """What the cells of an image column mean: bytes, paths inside ``folder`` (None: anywhere), or both in one
    (``bytes``, ``path``)."""
    files: list[Any] = [cell.get("bytes") or cell.get("path") if isinstance(cell, dict) else cell for cell in cells]
    for row, cell in enumerate(files):
        if not isinstance(cell, bytes) and (not isinstance(cell, str) or not cell):
            raise UnderstudyError(f"{where} row {row} holds no image; write its path, or the bytes of its file")
    if folder is not None:
        refuse_escapes(files, folder, where)
    for row, cell in enumerate(files):
        if isinstance(cell, str):
            files[row] = path = Path(os.path.abspath(os.path.join(folder or "", cell)))
            if not os.path.isfile(path):  # nor one whose name is too long
                raise UnderstudyError(f"{where} row {row}: there is no file {path}; check the path")
    return files


def refuse_escapes(names: Sequence[Any], folder: Path, where: str) -> None:
    """Every path must stay in ``folder``: no other place, no way up, no link that leads out. Bytes are no paths."""
    root = os.path.realpath(folder)
    inside: dict[str, bool] = {}
    for row, name in enumerate(names):
        if not isinstance(name, str):
            continue
        parent, last = os.path.split(name)
        if "\0" in name or not last:
            raise UnderstudyError(f"{where} row {row}: {name!r} is no path of a file; correct it")
        if parent not in inside:
            inside[parent] = _is_inside(os.path.join(root, parent), root)
        if ".." in name.replace("\\", "/").split("/") or (os.path.isabs(name) and not inside[parent]):
            raise UnderstudyError(f"{where} row {row}: {name!r} leads out of {folder}; use paths inside it")
        path = os.path.join(root, name)
        if not inside[parent] or (os.path.islink(path) and not _is_inside(path, root)):
            raise UnderstudyError(f"{where} row {row}: {name!r} is a link that leads out of {folder}; copy the file in")


def _is_inside(path: str, root: str) -> bool:
    return os.path.commonpath([os.path.realpath(path), root]) == root


def open_image(source: ImageFile, where: str) -> Any:
    """The image with its orientation applied, in mode ``L`` or ``RGB``."""
    image_module = _pillow()
    from PIL import ImageOps

    named = f"{where} ({source})" if isinstance(source, Path) else where
    try:
        with warnings.catch_warnings():
            # Our own limit is judged below; remarks about odd metadata are of no use to anyone here.
            warnings.simplefilter("ignore")
            file = io.BytesIO(source) if isinstance(source, bytes) else source
            with image_module.open(file, formats=FORMATS) as image:
                if image.width * image.height > MAX_PIXELS:
                    size = f"{image.width} × {image.height} pixels"
                    raise UnderstudyError(f"{named} is {size}, more than {MAX_PIXELS:,}; make it smaller")
                if image.mode.startswith(("I", "F")):
                    raise UnderstudyError(f"{named} has more than 8 bits per pixel; store it with 8")
                upright = ImageOps.exif_transpose(image)
                return upright.convert("L" if upright.mode in ("1", "L", "LA") else "RGB")
    except UnderstudyError:
        raise
    except Exception as error:
        # Decoders of damaged files raise nearly everything: OSError, SyntaxError, struct.error, IndexError, …
        why = first_line(error)
        raise UnderstudyError(f"{named} cannot be read as an image: {why}; restore it or remove the row") from error


def to_pixels(image: Any, *, size: tuple[int, int], mode: str) -> Array:
    """``(channels, height, width)`` as bytes; another size is stretched to this one."""
    height, width = size
    if image.mode != mode:
        image = image.convert(mode)
    if image.size != (width, height):
        image = image.resize((width, height), _pillow().Resampling.BILINEAR)
    pixels = np.asarray(image, dtype=np.uint8).reshape(height, width, -1)
    return np.ascontiguousarray(pixels.transpose(2, 0, 1))


def png_bytes(image: Any) -> bytes:
    """Without loss."""
    content = io.BytesIO()
    image.save(content, "PNG")
    return content.getvalue()


def _pillow() -> Any:
    optional("PIL", "images need Pillow", "images")
    from PIL import Image

    return Image


DECODED_BYTES = 1 << 30
# The default size of larger images: a net on photographs at their own size trains for minutes and memorises them.
SIDE = 64
# Images between two signs of life: some seconds, for photographs.
STEP_IMAGES = 100


class ImageRows(Rows):
    def __init__(self, files: list[ImageFile], where: str, *, size: tuple[int, int], mode: str) -> None:
        self.files, self.count, self.where, self.size, self.mode = files, len(files), where, size, mode
        shape = (len(files), CHANNELS[mode], *size)
        self.pixels: Array | None = None
        self.per_row = bool(np.prod(shape, dtype=np.float64) > DECODED_BYTES)
        if not self.per_row:
            self.pixels = np.empty(shape, dtype=np.uint8)
            steps = range(0, len(files), STEP_IMAGES)
            with ProgressBar("reading images", len(files), shown=len(steps) > 1) as bar:
                for start in steps:
                    bar.done = start
                    bar.show("")
                    for row in range(start, min(start + STEP_IMAGES, len(files))):
                        self.pixels[row] = self._decode(row)

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
    #: Height and width.
    size: tuple[int, int]
    mode: str

    def __post_init__(self) -> None:
        height, width = self.size
        self.names, self.size = (self.name,), (height, width)
        self.shape = (CHANNELS[self.mode], height, width)

    @classmethod
    def fit(cls, raw: RawColumns, name: str, *, size: tuple[int, int] | None, mode: str | None) -> Self:
        """Size and mode as given, else those of the first image, at most ``SIDE`` × ``SIDE``."""
        if size is None or mode is None:
            first = open_image(image_files(image_cells(raw, name), raw.folder, raw.at(name))[0], raw.at(name, 0))
            mode = mode or first.mode
            if size is None:
                size = (first.height, first.width)
                if max(size) > SIDE:
                    size = (SIDE, SIDE)
                    resized = f"Images: resized from {first.width} × {first.height} to {SIDE} × {SIDE} pixels"
                    complain(f"{resized}; --image-size 224 takes another size")
        return cls(name, size, mode)

    def __call__(self, raw: RawColumns) -> ImageRows:
        files = image_files(image_cells(raw, self.name), raw.folder, raw.at(self.name))
        return ImageRows(files, raw.at(self.name), size=self.size, mode=self.mode)


def image_cells(raw: RawColumns, name: str) -> list[Any]:
    column = raw[name]
    if column.ndim != 1 or column.dtype.kind not in "UTOS" or not len(column):
        raise UnderstudyError(f"{raw.at(name)} holds no paths and no bytes; images are one of them per row")
    return list(column.tolist())
