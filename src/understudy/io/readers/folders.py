"""Folders that are one table: images, or a set of Hugging Face ``datasets``, read without that package.

    animals/cat/001.png, animals/dog/017.jpg                                image; the subfolder is the label: cat, dog
    unlabelled/001.png                                                      image, no label
    FOLDER/state.json, dataset_info.json, data-00000-of-00001.arrow         # Dataset.save_to_disk
    FOLDER/README.md, data/train-00000-of-00001.parquet                     # what load_dataset("FOLDER") reads

Of images, ``id`` and ``image`` are the paths relative to the folder. Links that lead out of it are errors, and so are
folders that are links: their images would be missed. Other files are left out, and counted in a warning. Where a column
of ``datasets`` declares its classes (``ClassLabel``), its numbers are read as their names, in the declared order.
"""

import json
import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from understudy.errors import UnderstudyError, warn
from understudy.features.images import refuse_escapes
from understudy.io.readers import TableSource, damaged, reading
from understudy.io.readers.arrays import frame_source
from understudy.store.arrow import Array, Frame, object_column
from understudy.store.files import read_json

IMAGE_SUFFIXES = {".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm", ".pgm"}
STATE, SPLITS, CARD = "state.json", "dataset_dict.json", "README.md"


def image_folder_source(path: Path) -> TableSource:
    images, others = _walk(path)
    if others:
        warn(f"{path}: {len(others)} files are no images and left out ({others[0]} …)")
    refuse_escapes(images, path, f"{path}")
    columns: dict[str, Array] = {"id": object_column(images), "image": object_column(images)}
    labels = [name.partition("/")[0] if "/" in name else "" for name in images]
    if any(labels):
        if not all(labels):
            outside = images[labels.index("")]
            raise UnderstudyError(f"{path}: {outside!r} lies outside the class folders, others inside; move it")
        columns["label"] = object_column(labels)
    return TableSource(list(columns), len(images), lambda name, role: columns[name])


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
                (images if os.path.splitext(name)[1].lower() in IMAGE_SUFFIXES else others).append(relative)
    return sorted(images), others


def is_datasets_folder(path: Path) -> bool:
    return (path / STATE).is_file() or (path / SPLITS).is_file() or bool(_shards(path))


def datasets_source(path: Path) -> TableSource:
    table = read_datasets_folder(path)
    frame = Frame("datasets folder", table.column_names, table.num_rows, table.column, declared_names(table))
    return frame_source(frame, str(path))


def read_datasets_folder(path: Path) -> Any:
    """The one set in the folder, as an Arrow table; its schema says what ``datasets`` knows of the columns."""
    if (path / SPLITS).is_file():
        splits = [str(name) for name in read_json(path / SPLITS).get("splits", [])]
        raise UnderstudyError(f"{path} holds several sets ({', '.join(splits)}); name one, e.g. {path / splits[0]}")
    files = _arrow_files(path) if (path / STATE).is_file() else _one_split(path)
    tables = []
    for file in files:
        with reading(file):
            tables.append(pq.read_table(file) if file.suffix == ".parquet" else _read_stream(file))
            tables[-1].validate(full=True)
    try:
        return pa.concat_tables(tables)
    except pa.ArrowException as error:
        raise damaged(path, error) from error


def declared_names(table: Any) -> dict[str, tuple[str, ...]]:
    """The columns that declare their classes."""
    try:
        info = json.loads((table.schema.metadata or {}).get(b"huggingface", b"{}"))
        features = info.get("info", {}).get("features", {})
        return {name: tuple(each["names"]) for name, each in features.items() if each.get("_type") == "ClassLabel"}
    except (ValueError, AttributeError, KeyError, TypeError) as error:
        raise UnderstudyError(f"the types in the datasets folder are damaged ({error}); save it again") from error


def _read_stream(file: Path) -> Any:
    with pa.memory_map(str(file)) as opened, pa.ipc.open_stream(opened) as reader:
        return reader.read_all()


def _arrow_files(path: Path) -> list[Path]:
    state = read_json(path / STATE)
    if state.get("_indices_data_files") or state.get("_indices_files"):
        raise UnderstudyError(f"{path} holds a selection of rows; save it again after .flatten_indices()")
    names = [str(each.get("filename")) for each in state.get("_data_files", [])]
    for name in names:
        if Path(name).name != name:
            raise UnderstudyError(f"{path / STATE} names {name!r}, which is not in the folder; restore it")
    if not names:
        raise UnderstudyError(f"{path / STATE} names no data files; save the set again")
    return [path / name for name in names]


def _shards(path: Path) -> list[Path]:
    return sorted((path / "data").glob("*.parquet")) if (path / CARD).is_file() else []


def _one_split(path: Path) -> list[Path]:
    files = _shards(path)
    splits = sorted({file.name.partition("-")[0] for file in files})
    if len(splits) > 1:
        several = ", ".join(splits)
        raise UnderstudyError(f"{path} holds several sets ({several}); name the files of one in {path / 'data'}")
    return files
