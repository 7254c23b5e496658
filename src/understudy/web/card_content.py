"""What a card shows of a row: its text with highlighted passages, and its picture as browsers show it.

    marked("It was good.", words=["good"])            # [["It was ", False], ["good", True], [".", False]]

A file's column ``highlights`` holds, for each row, words or phrases (a list, or one text with ``|`` between them), or
spans of the text (``[[7, 11]]``: from the first character to before the second, counted from 0).

Image files are sent as they are, other formats and arrays of numbers as PNG. Files may come from anyone: they are
opened inside their folder alone (``features/images.py``), and sent under the type that their first bytes have, so that
a browser never takes one for a page. Drawings with scripts in them (SVG) are refused.
"""

import io
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from understudy.errors import UnderstudyError
from understudy.features.images import image_files, open_image
from understudy.store.arrow import Array

Marked = list[tuple[str, bool]]
"""A text in pieces, and whether each is highlighted."""
Picture = tuple[bytes, str]
"""Bytes, and their media type."""

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
        return _as_png(Image.fromarray(_pixels(cell, where)))
    (file,) = image_files([cell], folder, where)
    content = file if isinstance(file, bytes) else file.read_bytes()
    kind = next((kind for start, kind in _TYPES.items() if content.startswith(start)), None)
    if content[:4] == b"RIFF" and content[8:12] == b"WEBP":
        kind = "image/webp"
    if kind is not None:
        return content, kind
    return _as_png(open_image(file, where))


def _as_png(image: Any) -> Picture:
    out = io.BytesIO()
    image.save(out, format="PNG")
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


def marked(text: str, words: Sequence[str] = (), given: Any = None, where: str = "highlights") -> Marked:
    """The text in pieces, with those to highlight marked."""
    phrases, spans = _read(given, len(text), where)
    wanted = sorted({*words, *phrases} - {""}, key=len, reverse=True)
    if wanted:
        # Whole words: "art" is not in "start". Phrases that begin or end in punctuation have no word border there.
        pattern = "|".join(rf"{_edge(phrase[0])}{re.escape(phrase)}{_edge(phrase[-1])}" for phrase in wanted)
        spans += [found.span() for found in re.finditer(pattern, text, re.IGNORECASE)]
    pieces: Marked = []
    end = 0
    for start, stop in _merged(spans):
        pieces += [(text[end:start], False), (text[start:stop], True)]
        end = stop
    pieces.append((text[end:], False))
    return [piece for piece in pieces if piece[0]] or [("", False)]


def _edge(sign: str) -> str:
    return r"\b" if re.match(r"\w", sign) else ""


def _read(given: Any, length: int, where: str) -> tuple[list[str], list[tuple[int, int]]]:
    if given is None or isinstance(given, float):  # an empty cell
        return [], []
    if isinstance(given, str):
        return [phrase.strip() for phrase in given.split("|")], []
    items = given.tolist() if hasattr(given, "tolist") else list(given)
    if all(isinstance(item, str) for item in items):
        return items, []
    spans: list[tuple[int, int]] = []
    for item in items:
        pair = item.tolist() if hasattr(item, "tolist") else item
        if not (isinstance(pair, list | tuple) and len(pair) == 2 and all(isinstance(end, int) for end in pair)):
            raise UnderstudyError(f"{where} holds {item!r}; write words, or spans like [7, 11]")
        if not 0 <= pair[0] <= pair[1] <= length:
            raise UnderstudyError(f"{where} marks {pair[0]} to {pair[1]} of a text of {length} characters; correct it")
        spans.append((pair[0], pair[1]))
    return [], spans


def _merged(spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    merged: list[tuple[int, int]] = []
    for start, stop in sorted(span for span in spans if span[0] < span[1]):
        if merged and start <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(stop, merged[-1][1])
        else:
            merged.append((start, stop))
    return merged


def guideline_html(path: Path | None) -> str:
    """The Markdown file as HTML, read anew for each page; markup in it is shown as text, links are http(s) and mail."""
    if path is None:
        return ""
    from markdown_it import MarkdownIt

    # This preset accepts no HTML, and refuses javascript:, file: and the like in links.
    html: str = MarkdownIt("js-default", {"html": False, "linkify": False}).render(read_guideline(path))
    return html.replace("<a href=", '<a target="_blank" rel="noopener noreferrer" href=')


def read_guideline(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise UnderstudyError(f"cannot read the guideline {path}: {error}; write Markdown in UTF-8") from error
