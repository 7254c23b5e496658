"""NumPy's own files, never unpickled: ``.npz`` archives, ``.npy`` arrays, and folders of ``.npy`` files.

    np.savez("gold.npz", id=ids, x=x, label=y)     # columns by name
    np.save("pool/x.npy", x)                       # a folder: one file per column, opened as memory maps
    np.save("rows.npy", x)                         # one array: the column x (a structured array: its fields)

An archive's members are looked at before they are unpacked: a header that promises more than there is, or more than the
memory holds, is refused.
"""

import math
import warnings
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from understudy.data.memory import check_memory
from understudy.errors import UnderstudyError
from understudy.io.readers.source import TableSource, reading
from understudy.store.arrow import Array


def npz_source(path: Path) -> TableSource:
    with path.open("rb") as file:
        if file.read(6) == b"\x93NUMPY":
            raise UnderstudyError(f"{path} is a single array, not an .npz archive; write it with np.savez, or as .npy")
    with zipfile.ZipFile(path) as archive:
        names = [member.filename.removesuffix(".npy") for member in archive.infolist()]
        shapes = {name: _member_header(archive, path, name)[0] for name in names}
    rows = one_length(shapes, path)

    def read(name: str, role: str) -> Array:
        with zipfile.ZipFile(path) as archive:
            shape, dtype = _member_header(archive, path, name)
            size = _size(shape, dtype)
            # Text is unpacked once more, into Python strings.
            check_memory(2 * size if dtype.kind == "U" else size, f"{path}: column {name!r}")
            with archive.open(f"{name}.npy") as member:
                return plain_column(np.lib.format.read_array(member, allow_pickle=False), f"{path}: column {name!r}")

    return TableSource(names, rows, read)


def npy_source(path: Path) -> TableSource:
    array = _mapped(path)
    if array.ndim == 0:
        raise UnderstudyError(f"{path} holds a single value; it holds one entry per row")
    if array.dtype.names:
        return TableSource(
            array.dtype.names, len(array), lambda name, role: plain_column(array[name], f"{path}: column {name!r}")
        )
    return TableSource(["x"], len(array), lambda name, role: plain_column(array, f"{path}"))


def npy_folder_source(path: Path, files: Sequence[Path]) -> TableSource:
    columns = {}
    for file in files:
        with reading(file):
            columns[file.stem] = _mapped(file)
    rows = one_length({name: column.shape for name, column in columns.items()}, path)
    return TableSource(list(columns), rows, lambda name, role: plain_column(columns[name], f"{path}: column {name!r}"))


def _mapped(path: Path) -> Array:
    """The array as a read-only map of its file, which must be as long as it says."""
    with path.open("rb") as file:
        shape, dtype = _header(file, f"{path}")
        if file.tell() + _size(shape, dtype) > path.stat().st_size:
            raise UnderstudyError(f"{path} promises more values than it holds; write it again")
    if 0 in shape:
        return np.empty(shape, dtype=dtype)
    return np.lib.format.open_memmap(path, mode="r")


def _member_header(archive: zipfile.ZipFile, path: Path, name: str) -> tuple[tuple[int, ...], Any]:
    """Shape and type of a member, held against its size in the archive's directory (which unpacking cannot exceed)."""
    where = f"{path}: column {name!r}"
    if not name or name.startswith(("/", "\\")) or ".." in name.replace("\\", "/").split("/"):
        raise UnderstudyError(f"{path} holds a member named {name!r}, which is no column; write it with np.savez")
    if f"{name}.npy" not in archive.namelist():
        raise UnderstudyError(f"{path} holds {name!r}, which is no array; write it with np.savez")
    with archive.open(f"{name}.npy") as member:
        shape, dtype = _header(member, where)
        if _size(shape, dtype) > archive.getinfo(f"{name}.npy").file_size:
            raise UnderstudyError(f"{where} promises more values than the archive holds; write it again with np.savez")
    return shape, dtype


def _header(file: Any, where: str) -> tuple[tuple[int, ...], Any]:
    version = np.lib.format.read_magic(file)
    read: Any = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    with warnings.catch_warnings():
        # NumPy remarks on headers of odd form, which it can read.
        warnings.simplefilter("ignore", UserWarning)
        shape, _, dtype = read(file)
    if dtype.hasobject:
        raise UnderstudyError(
            f"{where} holds Python objects of mixed types, which are never unpickled; store numbers or text only, "
            "e.g. np.asarray(values, dtype=str)"
        )
    if any(isinstance(side, bool) or side < 0 for side in shape) or not dtype.itemsize:
        raise UnderstudyError(f"{where} announces {dtype} values of shape {shape}, which is none; write it again")
    return shape, dtype


def _size(shape: tuple[int, ...], dtype: Any) -> int:
    """Bytes; in Python's numbers, which do not overflow."""
    return math.prod(shape) * int(dtype.itemsize)


def one_length(shapes: dict[str, tuple[int, ...]], path: Path | str) -> int:
    for name, shape in shapes.items():
        if not shape:
            raise UnderstudyError(f"{path}: column {name!r} is a single value; columns hold one entry per row")
    lengths = {name: shape[0] for name, shape in shapes.items()}
    if len(set(lengths.values())) > 1:
        listed = ", ".join(f"{name} {length}" for name, length in lengths.items())
        raise UnderstudyError(f"{path}: columns differ in length ({listed}); every column holds one entry per row")
    return next(iter(lengths.values()), 0)


def plain_column(array: Array, where: str) -> Array:
    """Text as Python strings, whatever its width was; everything else as it is."""
    if array.dtype.kind == "U":
        try:
            return array.astype(object)
        except (ValueError, SystemError) as error:
            raise UnderstudyError(f"{where} holds numbers that are no letters; write it again") from error
    if not array.dtype.isnative and array.dtype.kind in "biuf":
        return array.astype(array.dtype.newbyteorder("="))
    if array.dtype.kind == "S":
        raise UnderstudyError(f"{where} holds bytes; store text, e.g. np.asarray(values, dtype=str)")
    return array
