"""A folder of images: ``id`` and ``image`` are the paths relative to it, ``label`` the subfolder, where there are such.

    animals/cat/001.png, animals/dog/017.jpg     label cat, dog
    unlabelled/001.png                           no label

Links that lead out of the folder are refused, and so are folders that are links: their images would be missed. Files
that are no images are left out, and counted in a warning.
"""

import os
from pathlib import Path

from understudy.errors import UnderstudyError, warn
from understudy.features.images import refuse_escapes
from understudy.io.readers.arrow_columns import object_column
from understudy.io.readers.source import Source
from understudy.store.arrow import Array

SUFFIXES = {".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm", ".pgm"}


def image_folder_source(path: Path) -> Source:
    images, others = _walk(path)
    if others:
        warn(f"{path}: {len(others)} files are no images and left out ({others[0]} …)")
    refuse_escapes(images, path, f"{path}")
    columns: dict[str, Array] = {"id": object_column(images), "image": object_column(images)}
    labels = [name.partition("/")[0] if "/" in name else "" for name in images]
    if any(labels):
        if not all(labels):
            raise UnderstudyError(
                f"{path}: {images[labels.index('')]!r} lies outside the class folders, others inside; move it"
            )
        columns["label"] = object_column(labels)
    return Source(list(columns), len(images), lambda name, role: columns[name])


def _walk(path: Path) -> tuple[list[str], list[str]]:
    """Relative names of the images, in order, and of everything else; hidden files are passed over."""
    images: list[str] = []
    others: list[str] = []
    for folder, inner, files in os.walk(path, followlinks=False):
        inner[:] = sorted(name for name in inner if not name.startswith("."))
        for name in inner:
            if os.path.islink(os.path.join(folder, name)):
                linked = os.path.relpath(os.path.join(folder, name), path)
                raise UnderstudyError(f"{path}: folder {linked!r} is a link, which is not followed; copy or remove it")
        for name in sorted(files):
            if not name.startswith("."):
                relative = os.path.relpath(os.path.join(folder, name), path).replace(os.sep, "/")
                (images if os.path.splitext(name)[1].lower() in SUFFIXES else others).append(relative)
    return sorted(images), others
