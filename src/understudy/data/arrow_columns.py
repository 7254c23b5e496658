"""Columns of Arrow as arrays: numbers, texts, lists of one length, records by name.

    to_array(pa.array([[1, 2], [3, 4]]), role="x", where="pool.parquet: column 'x'")        # (2, 2)
    join_batches(batches, rows, role="teacher_label", where="…")                           # all batches of a column

Numbers are NumPy arrays, lists of one length further axes of them. Text is an object array of ``str`` (a fixed width
would make every row as long as the longest) whose repeated values are one object. Records (structs, maps) of numbers,
as class probabilities by name are, are a structured array: ``column["positive"]`` is the column of that class.

``role`` is what a column serves as. In ids and labels an empty cell is an error that names the row, except where it
means something: a missing label. In other columns it is NaN or None, which the features handle.
"""

from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from understudy.data.checks import SMALL, check_memory, is_reserved
from understudy.errors import UnderstudyError
from understudy.labels.class_names import EMPTY
from understudy.labels.forms import COLUMNS, column_of
from understudy.store.arrow import LISTS, TEXTS, Array, object_column

# What an empty cell means in these columns: as a number, and as text.
NO_NUMBER = {column.name: EMPTY if column.holds == "class" else column.missing for column in COLUMNS.values()}
EMPTY_NUMBER = {column.name: NO_NUMBER[column.name] for column in COLUMNS.values() if column.may_be_empty}
EMPTY_NUMBER["probability"] = float("nan")
EMPTY_TEXT = {column.name: "" for column in COLUMNS.values() if column.holds == "class"}
# Rows may list more or fewer classes; the shorter ones are filled up with these.
PADDING = {column.name: NO_NUMBER[column.name] for column in COLUMNS.values() if column.uneven}


def join_batches(batches: Iterable[Any], rows: int, *, role: str, where: str) -> Array:
    """One array of all batches, of which ``rows`` rows were announced."""
    # One column of ours may be spread over several: teacher_vote_ann, teacher_vote_bob …
    if role.startswith("teacher_") and (column := column_of(role)) is not None:
        role = column.name
    pieces: list[Array] = []
    start = 0
    for batch in batches:
        if batch.nbytes > SMALL:
            check_memory(int(batch.nbytes), where)
        piece = to_array(batch, role=role, where=where, start=start)
        if start + len(piece) > rows:
            raise UnderstudyError(f"{where} holds more than the {rows} rows it announces; write the file again")
        if pieces and role not in PADDING:
            check_alike(pieces[0], piece, start, where)
        pieces.append(piece)
        start += len(piece)
    if start != rows:
        raise UnderstudyError(f"{where} holds {start} rows, {rows} are announced; write the file again")
    if len(pieces) < 2:
        return pieces[0] if pieces else np.empty(0)
    return np.concatenate(_padded(pieces, role) if role in PADDING else pieces)


def check_alike(first: Array, piece: Array, start: int, where: str) -> None:
    """Refuses pieces of a column with lists of another length, or another kind of values, than the first."""
    if piece.shape[1:] != first.shape[1:]:
        raise UnderstudyError(_uneven(where, start, piece.shape[1], first.shape[1]))
    records = piece.dtype.names or first.dtype.names
    if piece.dtype != first.dtype and (records or (piece.dtype == object) != (first.dtype == object)):
        raise UnderstudyError(f"{where} row {start} holds another kind of values than the rows before; use one kind")


def to_array(values: Any, *, role: str, where: str, start: int = 0) -> Array:
    """One Arrow array; ``start`` is the number of its first row, for messages."""
    if isinstance(values, pa.ExtensionArray):
        shape = getattr(values.type, "shape", None)
        plain = to_array(values.storage, role=role, where=where, start=start)
        return plain if shape is None else plain.reshape(len(plain), *shape)
    kind = values.type
    if pa.types.is_dictionary(kind) and kind.value_type not in TEXTS:
        return to_array(values.dictionary_decode(), role=role, where=where, start=start)
    if pa.types.is_dictionary(kind) or kind in TEXTS:
        return _texts(values, role, where, start)
    if pa.types.is_map(kind):
        return _maps(values, where, start)
    if pa.types.is_struct(kind):
        # Image files with their paths, say.
        if not is_reserved(role) and any(pa.types.is_binary(field.type) for field in kind):
            return object_column(values.to_pylist())
        return _records(values, where, start)
    if isinstance(kind, LISTS):
        return _lists(values, role, where, start)
    return _numbers(values, role, where, start)


def _numbers(values: Any, role: str, where: str, start: int) -> Array:
    kind = values.type
    if pa.types.is_null(kind) and role in EMPTY_TEXT:
        return np.full(len(values), "", dtype=object)
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind):
        if is_reserved(role):
            raise UnderstudyError(f"{where} holds bytes; ids and labels are numbers or UTF-8 text")
        return object_column(values.to_pylist())
    if values.null_count and is_reserved(role):
        if role not in EMPTY_NUMBER or not (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
            refuse_empty(values, where, start)
        is_class = pa.types.is_integer(kind) and role in EMPTY_TEXT
        kind, empty = (pa.int64(), EMPTY) if is_class else (pa.float64(), float(EMPTY_NUMBER[role]))
        values = pc.fill_null(values.cast(kind), empty)
    elif role in {*EMPTY_NUMBER, *EMPTY_TEXT} and pa.types.is_integer(kind):
        # Other batches of the same column may have gaps or shorter lists: one type for all of them.
        values = values.cast(pa.int64())
    elif pa.types.is_decimal(kind):
        values = values.cast(pa.float64())
    return np.asarray(values.to_numpy(zero_copy_only=False))


def _texts(values: Any, role: str, where: str, start: int) -> Array:
    """Each different text is one object, however often it stands there."""
    if values.null_count and is_reserved(role) and role not in EMPTY_TEXT:
        refuse_empty(values, where, start)
    shared = values if pa.types.is_dictionary(values.type) else values.dictionary_encode()
    texts = object_column([*_strings(shared.dictionary, where), EMPTY_TEXT.get(role)])
    index = pc.fill_null(shared.indices.cast(pa.int64()), len(texts) - 1).to_numpy(zero_copy_only=False)
    return np.asarray(texts[index])


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
        first = pc.index(pc.is_null(inner), True).as_py()
        row = start + int(np.searchsorted(np.cumsum(lengths), first, side="right"))
        raise UnderstudyError(f"{where} row {row} has an empty entry; fill it in or remove the row")
    flat = to_array(inner, role=role, where=where, start=start)
    if not len(odd):
        return flat.reshape(len(values), int(lengths[0]), *flat.shape[1:])
    listed = np.arange(int(lengths.max()))[None, :] < lengths[:, None]
    full = np.full(listed.shape, "" if flat.dtype == object else PADDING[role], dtype=flat.dtype)
    full[listed] = flat
    return full


def _padded(pieces: list[Array], role: str) -> list[Array]:
    """Pieces whose rows list different numbers of classes, filled up to the same width."""
    if any(piece.ndim != 2 for piece in pieces):
        return pieces
    widest = max(piece.shape[1] for piece in pieces)
    fill = "" if pieces[0].dtype == object else PADDING[role]
    return [np.pad(piece, ((0, 0), (0, widest - piece.shape[1])), constant_values=fill) for piece in pieces]


def _uneven(where: str, row: int, length: int, usual: int, first: int = 0) -> str:
    return f"{where} row {row} holds {length} values, row {first} holds {usual}; lists must all have one length"


def _records(values: Any, where: str, start: int) -> Array:
    """A struct of numbers; a field that a row lacks counts as 0 (whether the rest adds up is checked at its use)."""
    if values.null_count:
        refuse_empty(values, where, start)
    names = [field.name for field in values.type]
    if not names or len(set(names)) < len(names) or "" in names:
        raise UnderstudyError(f"{where} holds records with unnamed or repeated fields; give each field one name")
    record = np.zeros(len(values), dtype=[(name, np.float64) for name in names])
    for name, part in zip(names, values.flatten(), strict=True):
        if not (pa.types.is_integer(part.type) or pa.types.is_floating(part.type) or pa.types.is_null(part.type)):
            raise UnderstudyError(f"{where} holds records whose {name!r} is {part.type}; records hold numbers only")
        record[name] = pc.fill_null(part.cast(pa.float64()), 0.0).to_numpy(zero_copy_only=False)
    return record


def _maps(values: Any, where: str, start: int) -> Array:
    """Maps from names to numbers, as records with every name that occurs."""
    if values.null_count:
        refuse_empty(values, where, start)
    sizes = np.diff(values.offsets.to_numpy(zero_copy_only=False))
    first, last = values.offsets[0].as_py(), values.offsets[-1].as_py()
    keys, items = values.keys.slice(first, last - first), values.items.slice(first, last - first)
    if keys.type not in TEXTS or not (pa.types.is_floating(items.type) or pa.types.is_integer(items.type)):
        raise UnderstudyError(f"{where} maps {keys.type} to {items.type}; maps go from names to numbers")
    words = keys.dictionary_encode()
    names = _strings(words.dictionary, where)
    if not names or "" in names:
        raise UnderstudyError(f"{where} holds maps without names; name every entry")
    table = np.zeros((len(values), len(names)))
    rows = np.repeat(np.arange(len(values)), sizes)
    fields = words.indices.to_numpy(zero_copy_only=False)
    twice = np.flatnonzero(np.bincount(rows * len(names) + fields, minlength=1) > 1)
    if len(twice):
        raise UnderstudyError(f"{where} row {start + twice[0] // len(names)} names an entry twice; merge them")
    table[rows, fields] = pc.fill_null(items.cast(pa.float64()), 0.0).to_numpy(zero_copy_only=False)
    return table.view([(name, np.float64) for name in names])[:, 0]


def _strings(values: Any, where: str) -> list[str]:
    try:
        texts: list[str] = values.to_pylist()
    except UnicodeDecodeError as error:
        raise UnderstudyError(f"{where} holds bytes that are not UTF-8 text; save it as UTF-8") from error
    return texts


def refuse_empty(values: Any, where: str, start: int) -> None:
    row = start + int(pc.index(pc.is_null(values), True).as_py())
    raise UnderstudyError(f"{where} row {row} is empty; fill it in or remove the row")
