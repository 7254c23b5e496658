"""Arrays as tables: NumPy's own files, never unpickled (``.npz``, ``.npy``, folders of ``.npy``), and data in memory.

    np.savez("gold.npz", id=ids, x=x, label=y)     # columns by name
    np.save("pool/x.npy", x)                       # a folder: one file per column, opened as memory maps
    np.save("rows.npy", x)                         # one array: the column x (a structured array: its fields)

An archive's members are looked at before they are unpacked: a header that promises more than there is, or more than the
memory holds, is refused. In memory: frames of any kind (``store/arrow.py``), mappings of arrays by column name, and
rows in a list.

    read_examples(gold=pandas_frame, pool=polars_frame)
    read_examples(gold=[{"age": 31, "label": "neg"}, {"age": 47, "label": "pos"}])
    read_examples(gold={"x": x, "label": ["neg", "pos"]}, pool={"x": x_pool, "teacher_probs": probs})
"""

import math
import warnings
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from understudy.data.arrow_columns import join_batches
from understudy.data.checks import check_memory, to_tensor
from understudy.errors import UnderstudyError, first_line
from understudy.features.images import png_bytes
from understudy.io.readers import TableSource, reading
from understudy.store.arrow import Array, Frame, as_column


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
    return _array_source({name: array[name] for name in array.dtype.names} if array.dtype.names else {"x": array}, path)


def npy_folder_source(path: Path, files: Sequence[Path]) -> TableSource:
    columns = {}
    for file in files:
        with reading(file):
            columns[file.stem] = _mapped(file)
    return _array_source(columns, path)


def _array_source(columns: Mapping[str, Array], path: Path) -> TableSource:
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
        raise UnderstudyError(f"{where} holds Python objects of mixed types, never unpickled; store numbers or text")
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


def frame_source(frame: Frame, where: str) -> TableSource:
    def read(name: str, role: str) -> Array:
        return _from_arrow(frame.column(name), role, f"{where}: column {name!r}")

    return TableSource(frame.names, frame.rows, read, frame.classes)


def mapping_source(columns: Mapping[Any, Any], where: str) -> TableSource:
    """Arrays, tensors, lists and frames' columns by name, one entry per row each."""
    for name, values in columns.items():
        if not isinstance(name, str):
            raise UnderstudyError(f"{where} has a column named {name!r}; names are text")
        try:
            if isinstance(values, str) or len(values) < 0:
                raise TypeError
        except TypeError as error:
            cure = "pass an array, a list or a frame's column (sparse features: us.Gold and us.Pool); one row: [row]"
            raise UnderstudyError(f"{where}: column {name!r} is a {type(values).__name__}; {cure}") from error
    rows = one_length({name: (len(values),) for name, values in columns.items()}, where)

    def read(name: str, role: str) -> Array:
        return _array(columns[name], role, f"{where}: column {name!r}")

    return TableSource(list(columns), rows, read)


def holds_numbers(rows: Any) -> bool:
    """Whether it is an array or a tensor of numbers."""
    return isinstance(rows, Tensor) or (isinstance(rows, np.ndarray) and rows.dtype.kind in "biuf")


def is_texts(rows: Any) -> bool:
    """Whether it is a list, an array or a frame's column of texts."""
    if isinstance(rows, list | tuple | np.ndarray):
        return len(rows) > 0 and isinstance(rows[0], str)
    column = None if hasattr(type(rows), "columns") or not hasattr(rows, "__len__") else as_column(rows)
    return column is not None and len(column) > 0 and isinstance(column[0].as_py(), str)


def columns_of_rows(rows: Any, single: str, where: str) -> Mapping[str, Any] | None:
    """Rows in memory as columns: mappings by name (a key that a row lacks is an empty cell), arrays as ``x``, and
    texts, paths, images and a frame's column as the column ``single``; None for anything else."""
    if as_column(rows) is not None:
        return {single: rows}
    if holds_numbers(rows):
        return {"x": rows}
    values = rows.tolist() if isinstance(rows, np.ndarray) else rows
    if not isinstance(values, list | tuple) or not values:
        return None
    if isinstance(values[0], Mapping):
        if odd := [number for number, row in enumerate(values) if not isinstance(row, Mapping)]:
            kind = type(values[odd[0]]).__name__
            raise UnderstudyError(f"{where} row {odd[0]} is a {kind}, row 0 a mapping; use one")
        return {name: [row.get(name) for row in values] for name in dict.fromkeys(key for row in values for key in row)}
    if isinstance(values[0], str | bytes | Path | None) or _is_picture(values[0]):
        return {single: [_cell(value) for value in values]}
    return None


def _is_picture(value: Any) -> bool:
    """Whether it is an image of Pillow's."""
    return type(value).__module__.startswith("PIL.") and hasattr(value, "save")


def _cell(value: Any) -> Any:
    if _is_picture(value):
        return png_bytes(value)
    return str(value) if isinstance(value, Path) else value


def _array(values: Any, role: str, where: str) -> Array:
    if isinstance(values, Tensor):
        dense = to_tensor(values, where).cpu()
        return (dense.float() if dense.dtype == torch.bfloat16 else dense).numpy()
    if isinstance(values, np.ndarray) and values.dtype != object:
        return plain_column(values, where)
    try:
        column = as_column(values)
        column = pa.chunked_array([pa.array(list(values))]) if column is None else column
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        some = values if isinstance(values, Iterable) else [values]
        kinds = sorted({type(value).__name__ for value in some if value is not None})
        held = f"values of several types ({', '.join(kinds)})" if len(kinds) > 1 else first_line(error)
        raise UnderstudyError(f"{where} holds {held}; pass one kind of values") from error
    return _from_arrow(column, role, where)


def _from_arrow(values: Any, role: str, where: str) -> Array:
    chunks = [chunk for chunk in values.chunks if len(chunk)]
    # Every chunk may name other keys: all of them together.
    if len(chunks) > 1 and pa.types.is_map(values.type):
        chunks = [pa.concat_arrays(chunks)]
    return join_batches(chunks, len(values), role=role, where=where)
