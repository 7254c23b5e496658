"""Arrow columns as NumPy arrays, batch by batch, so that a large column is in memory once.

Lists of one length become further axes; text becomes an object array of ``str`` whose repeated values are one object;
records (structs, maps) of numbers become a structured array. In ids and labels an empty cell is an error that names the
row, except where it means something: a label nobody gave. In other columns it is NaN or None, and what becomes of it is
for the features to say.
"""

from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from understudy.errors import UnderstudyError
from understudy.tables.limits import check_memory
from understudy.tables.readers.records import is_text, maps, records, refuse_empty, strings
from understudy.tables.readers.source import Array

# What an empty cell means in these columns: as a number, and as text.
EMPTY_NUMBER: dict[str, float] = {"teacher_label": -1, "teacher_confidence": float("nan"), "teacher_votes": -1}
EMPTY_TEXT = {"teacher_label": "", "teacher_votes": "", "teacher_topk_index": ""}
# Rows may list more or fewer classes; the shorter ones are filled up with these.
PADDING: dict[str, Any] = {"teacher_topk_index": -1, "teacher_topk_prob": 0.0}


def is_reserved(role: str) -> bool:
    """Whether a column's name has a meaning of its own, so that it is never a feature."""
    return role in ("id", "label") or role.startswith("teacher_")


def join_batches(batches: Iterable[Any], rows: int, *, role: str, where: str) -> Array:
    """One array of all batches, of which ``rows`` rows were announced."""
    role = "teacher_votes" if role.startswith("teacher_vote_") else role
    whole: Array | None = None
    pieces: list[Array] = []
    start = 0
    for batch in batches:
        # What the rows before took is taken already; lists and numbers have their room by now.
        check_memory(int(batch.nbytes), where)
        piece = to_array(batch, role=role, where=where, start=start)
        if start + len(piece) > rows:
            raise UnderstudyError(f"{where} holds more than the {rows} rows it announces; write the file again")
        if role in PADDING:
            pieces.append(piece)
        else:
            whole = _room(whole, piece, rows, start, where)
            whole[start : start + len(piece)] = piece
        start += len(piece)
    if start != rows:
        raise UnderstudyError(f"{where} holds {start} rows, {rows} are announced; write the file again")
    if pieces:
        return _padded(pieces, role)
    return np.empty(0) if whole is None else whole


def _room(whole: Array | None, piece: Array, rows: int, start: int, where: str) -> Array:
    """Where a piece goes: an array for all rows, of a type that holds this piece too."""
    if whole is None:
        check_memory(rows * piece[:1].nbytes, where)
        return np.empty((rows, *piece.shape[1:]), dtype=piece.dtype)
    if piece.shape[1:] != whole.shape[1:]:
        raise UnderstudyError(_uneven(where, start, piece.shape[1], whole.shape[1]))
    if piece.dtype == whole.dtype:
        return whole
    if (piece.dtype == object) != (whole.dtype == object) or piece.dtype.names or whole.dtype.names:
        raise UnderstudyError(f"{where} row {start} holds another kind of values than the rows before; use one kind")
    return whole.astype(np.promote_types(whole.dtype, piece.dtype))


def to_array(values: Any, *, role: str, where: str, start: int = 0) -> Array:
    """One Arrow array; ``start`` is the number of its first row, for messages."""
    if isinstance(values, pa.ExtensionArray):
        shape = getattr(values.type, "shape", None)
        plain = to_array(values.storage, role=role, where=where, start=start)
        return plain if shape is None else plain.reshape(len(plain), *shape)
    kind = values.type
    if pa.types.is_dictionary(kind):
        return _shared_text(values, role, where, start)
    if is_text(kind):
        return _text(values, role, where, start)
    if pa.types.is_map(kind):
        return maps(values, where, start)
    if pa.types.is_struct(kind):
        if not is_reserved(role) and any(pa.types.is_binary(field.type) for field in kind):
            return _objects(values)
        return records(values, where, start)
    if is_list(kind):
        return _lists(values, role, where, start)
    return _numbers(values, role, where, start)


def is_list(kind: Any) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


def _numbers(values: Any, role: str, where: str, start: int) -> Array:
    kind = values.type
    if pa.types.is_null(kind) and role in EMPTY_TEXT:
        return np.full(len(values), "", dtype=object)
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind):
        return _bytes(values, role, where)
    if values.null_count and is_reserved(role):
        whole = pa.types.is_integer(kind)
        if role not in EMPTY_NUMBER or not (whole or pa.types.is_floating(kind)):
            refuse_empty(values, where, start)
        values = pc.fill_null(values.cast(pa.int64() if whole else pa.float64()), EMPTY_NUMBER[role])
    elif role in EMPTY_NUMBER and pa.types.is_integer(kind):
        # Other batches of the same column may have gaps: one type for all of them.
        values = values.cast(pa.int64())
    elif pa.types.is_decimal(kind):
        values = values.cast(pa.float64())
    array: Array = values.to_numpy(zero_copy_only=False)
    return array


def _bytes(values: Any, role: str, where: str) -> Array:
    """The content of image files, say."""
    if is_reserved(role):
        raise UnderstudyError(f"{where} holds bytes; ids and labels are numbers or UTF-8 text")
    return _objects(values)


def _objects(values: Any) -> Array:
    array = np.empty(len(values), dtype=object)
    array[:] = values.to_pylist()
    return array


def _text(values: Any, role: str, where: str, start: int) -> Array:
    if values.null_count and is_reserved(role):
        if role not in EMPTY_TEXT:
            refuse_empty(values, where, start)
        values = pc.fill_null(values, EMPTY_TEXT[role])
    array = np.empty(len(values), dtype=object)
    array[:] = strings(values, where)
    return array


def _shared_text(values: Any, role: str, where: str, start: int) -> Array:
    """Few different texts in many rows: each is one object, however often it stands there."""
    if not is_text(values.type.value_type):
        return to_array(values.dictionary_decode(), role=role, where=where, start=start)
    if values.null_count and is_reserved(role) and role not in EMPTY_TEXT:
        refuse_empty(values, where, start)
    words = np.empty(len(values.dictionary) + 1, dtype=object)
    words[:-1], words[-1] = strings(values.dictionary, where), EMPTY_TEXT.get(role)
    places = pc.fill_null(values.indices.cast(pa.int64()), len(words) - 1).to_numpy(zero_copy_only=False)
    array: Array = words[places]
    return array


def _lists(values: Any, role: str, where: str, start: int) -> Array:
    """Lists of one length as ``(rows, length, …)``; top-k lists are filled up."""
    if values.null_count:
        refuse_empty(values, where, start)
    if not len(values):
        return np.empty((0, 0))
    lengths = pc.list_value_length(values).to_numpy(zero_copy_only=False)
    odd = np.flatnonzero(lengths != lengths[0])
    if len(odd) and role not in PADDING:
        raise UnderstudyError(_uneven(where, start + int(odd[0]), int(lengths[odd[0]]), int(lengths[0]), start))
    inner = values.flatten()
    if inner.null_count and role not in EMPTY_NUMBER and role not in EMPTY_TEXT:
        ends = np.cumsum(lengths)
        place = int(pc.index(pc.is_null(inner), True).as_py())
        row = start + int(np.searchsorted(ends, place, side="right"))
        raise UnderstudyError(f"{where} row {row} has an empty entry; fill it in or remove the row")
    flat = to_array(inner, role=role, where=where, start=start)
    if len(odd):
        return _filled_up(flat, lengths, role)
    return flat.reshape(len(values), int(lengths[0]), *flat.shape[1:])


def _filled_up(flat: Array, lengths: Array, role: str) -> Array:
    listed = np.arange(int(lengths.max()))[None, :] < lengths[:, None]
    full = np.full(listed.shape, "" if flat.dtype == object else PADDING[role], dtype=flat.dtype)
    full[listed] = flat
    return full


def _padded(pieces: list[Array], role: str) -> Array:
    """Pieces whose rows list different numbers of classes, side by side."""
    if any(piece.ndim != 2 for piece in pieces):
        return np.concatenate(pieces)
    widest = max(piece.shape[1] for piece in pieces)
    return np.concatenate(
        [
            np.pad(
                piece,
                ((0, 0), (0, widest - piece.shape[1])),
                constant_values="" if piece.dtype == object else PADDING[role],
            )
            for piece in pieces
        ]
    )


def _uneven(where: str, row: int, length: int, usual: int, first: int = 0) -> str:
    return f"{where} row {row} holds {length} values, row {first} holds {usual}; lists must all have one length"
