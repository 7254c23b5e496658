"""Pictures as browsers show them: image files as they are, other formats and arrays of numbers as PNG.

Files may come from anyone. They are opened from inside their folder alone (``features/images.py``), and sent under the
type that their first bytes have: a browser never takes one for a page. Drawings with scripts in them (SVG) are none.
"""

import io
import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from understudy.errors import UnderstudyError
from understudy.features.images import image_files, open_image
from understudy.store.arrow import Array

Picture = tuple[bytes, str]
"""Bytes, and their type."""

_TYPES = {
    b"\x89PNG\r\n\x1a\n": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF87a": "image/gif",
    b"GIF89a": "image/gif",
    b"BM": "image/bmp",
}


def picture(cell: Any, folder: Path, where: str) -> Picture:
    """``cell``: a path inside ``folder``, the bytes of a file, or an array."""
    if isinstance(cell, np.ndarray) and cell.dtype.kind in "biuf":
        return png(_pixels(cell, where)), "image/png"
    (file,) = image_files([cell], folder, where)
    content = file if isinstance(file, bytes) else file.read_bytes()
    kind = next((kind for start, kind in _TYPES.items() if content.startswith(start)), None)
    if content[:4] == b"RIFF" and content[8:12] == b"WEBP":
        kind = "image/webp"
    if kind is not None:
        return content, kind
    out = io.BytesIO()
    open_image(file, where).save(out, format="PNG")
    return out.getvalue(), "image/png"


def _pixels(values: Array, where: str) -> Array:
    """``(height, width)`` or ``(height, width, 3)`` as bytes, of channels first or last, [0, 1] or [0, 255]."""
    if values.ndim == 1 and (side := round(len(values) ** 0.5)) ** 2 == len(values):
        values = values.reshape(side, side)
    if values.ndim == 3 and values.shape[0] in (1, 3):
        values = values.transpose(1, 2, 0)
    if values.ndim == 3 and values.shape[2] == 1:
        values = values[:, :, 0]
    if values.ndim not in (2, 3) or (values.ndim == 3 and values.shape[2] != 3):
        raise UnderstudyError(f"{where} has shape {values.shape}; a picture is (height, width), with 1 or 3 channels")
    if values.dtype == np.uint8:
        return values
    numbers = np.nan_to_num(values.astype(np.float64))
    low, high = float(numbers.min()), float(numbers.max())
    if low >= 0 and high <= 255:
        return (numbers * (255 if high <= 1 else 1)).astype(np.uint8)
    # Standardised numbers: from the darkest to the brightest.
    return ((numbers - low) * (255 / max(high - low, 1e-12))).astype(np.uint8)


def png(pixels: Array) -> bytes:
    height, width = pixels.shape[:2]
    colour = 2 if pixels.ndim == 3 else 0
    lines = np.concatenate([np.zeros((height, 1), np.uint8), pixels.reshape(height, -1)], axis=1)  # 0: no filter
    header = struct.pack(">IIBBBBB", width, height, 8, colour, 0, 0, 0)
    parts = ((b"IHDR", header), (b"IDAT", zlib.compress(lines.tobytes())), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(*part) for part in parts)


def _chunk(name: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))
