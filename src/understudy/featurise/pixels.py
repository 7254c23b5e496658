"""One image, from a file or from bytes, to pixels of a fixed size. Image files may come from anyone.

Only common still-image formats are opened (no PostScript, which would start a program), the size is read and judged
before any pixel is, and a damaged or truncated file is an error that names it.
"""

import io
import os
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from understudy.errors import UnderstudyError, first_line
from understudy.store.arrow import Array

Source = Path | bytes
FORMATS = ("PNG", "JPEG", "WEBP", "GIF", "BMP", "TIFF", "PPM")
# 300 MB as RGB; larger is more often an attack than a photograph.
MAX_PIXELS = 100_000_000


def as_source(value: Any, folder: Path, where: str) -> Source:
    """What a cell of an image column means: bytes, a path inside ``folder``, or both in one (``bytes``, ``path``)."""
    if isinstance(value, dict):
        value = value.get("bytes") or value.get("path")
    if isinstance(value, bytes):
        return value
    if not isinstance(value, str) or not value:
        raise UnderstudyError(f"{where} holds no image; write the path of one, or the bytes of an image file")
    base = os.path.abspath(folder)
    path = Path(os.path.abspath(os.path.join(base, value)))
    if not path.is_relative_to(base):
        raise UnderstudyError(f"{where}: {value!r} leads out of {base}; name the folder that holds all images")
    if not _is_file(path):
        raise UnderstudyError(f"{where}: there is no file {path}; check the path")
    return path


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:  # a name that is too long for any file
        return False


def open_image(source: Source, where: str) -> Any:
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
                    raise UnderstudyError(
                        f"{named} is {image.width} × {image.height} pixels, more than {MAX_PIXELS:,}; make it smaller"
                    )
                if image.mode.startswith(("I", "F")):
                    raise UnderstudyError(f"{named} has more than 8 bits per pixel; store it with 8")
                upright = ImageOps.exif_transpose(image)
                return upright.convert("L" if upright.mode in ("1", "L", "LA") else "RGB")
    except UnderstudyError:
        raise
    except Exception as error:
        # Decoders of damaged files raise nearly everything: OSError, SyntaxError, struct.error, IndexError, …
        raise UnderstudyError(
            f"{named} cannot be read as an image: {first_line(error)}; restore it or remove the row"
        ) from error


def to_pixels(image: Any, *, size: tuple[int, int], mode: str) -> Array:
    """``(channels, height, width)`` as bytes; another size is stretched to this one."""
    height, width = size
    if image.mode != mode:
        image = image.convert(mode)
    if image.size != (width, height):
        image = image.resize((width, height), _pillow().Resampling.BILINEAR)
    pixels = np.asarray(image, dtype=np.uint8).reshape(height, width, -1)
    return np.ascontiguousarray(pixels.transpose(2, 0, 1))


def _pillow() -> Any:
    try:
        from PIL import Image
    except ImportError as error:
        raise UnderstudyError('images need Pillow; run: pip install "understudy[images]"') from error
    return Image
