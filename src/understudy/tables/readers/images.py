"""A folder of images: ``id`` and ``image`` are the paths relative to it, ``label`` the subfolder, where there are such.

    animals/cat/001.png, animals/dog/017.jpg     label cat, dog
    unlabelled/001.png                           no label

Links that lead out of the folder are refused; files that are no images are left out, and counted in a warning.
"""

import os
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from understudy.errors import UnderstudyError, UnderstudyWarning
from understudy.store.arrow import Array
from understudy.tables.readers.source import Source

SUFFIXES = {".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm", ".pgm"}


def is_image(name: str) -> bool:
    return os.path.splitext(name)[1].lower() in SUFFIXES


def image_folder_source(path: Path) -> Source:
    images, others = _walk(path)
    if others:
        warnings.warn(
            f"{path}: {len(others)} files are no images and left out ({others[0]} …)", UnderstudyWarning, stacklevel=4
        )
    refuse_escapes(images, path, f"{path}")
    columns: dict[str, Array] = {"id": _texts(images), "image": _texts(images)}
    labels = [name.partition("/")[0] if "/" in name else "" for name in images]
    if any(labels):
        if not all(labels):
            raise UnderstudyError(
                f"{path}: {images[labels.index('')]!r} lies outside the class folders, others inside; move it"
            )
        columns["label"] = _texts(labels)
    return Source(list(columns), len(images), lambda name, role: columns[name])


def refuse_escapes(cells: Sequence[Any], folder: Path, where: str) -> None:
    """Every path must stay in ``folder``: not absolute, no way up, no link that leads out. Bytes are no paths."""
    root = os.path.realpath(folder)
    safe: dict[str, bool] = {}
    for row, cell in enumerate(cells):
        name = cell.get("path") if isinstance(cell, dict) and not cell.get("bytes") else cell
        if not isinstance(name, str):
            continue
        parent, last = os.path.split(name)
        if "\0" in name or not last:
            raise UnderstudyError(f"{where} row {row}: {name!r} is no path of a file; correct it")
        if os.path.isabs(name) or ".." in name.replace("\\", "/").split("/"):
            raise UnderstudyError(f"{where} row {row}: {name!r} leads out of {folder}; use paths inside it")
        if parent not in safe:
            safe[parent] = _is_inside(os.path.join(root, parent), root)
        whole = os.path.join(root, name)
        if not safe[parent] or (os.path.islink(whole) and not _is_inside(whole, root)):
            raise UnderstudyError(f"{where} row {row}: {name!r} is a link that leads out of {folder}; copy the file in")


def _is_inside(path: str, root: str) -> bool:
    return os.path.commonpath([os.path.realpath(path), root]) == root


def _walk(path: Path) -> tuple[list[str], list[str]]:
    """Relative names of the images, in order, and of everything else; hidden files are passed over."""
    images: list[str] = []
    others: list[str] = []
    for folder, inner, files in os.walk(path, followlinks=False):
        inner[:] = sorted(name for name in inner if not name.startswith("."))
        for name in sorted(files):
            if not name.startswith("."):
                place = os.path.relpath(os.path.join(folder, name), path).replace(os.sep, "/")
                (images if is_image(name) else others).append(place)
    return sorted(images), others


def _texts(values: list[str]) -> Array:
    column = np.empty(len(values), dtype=object)
    column[:] = values
    return column
