"""Records in a column (Arrow's structs and maps, JSON's objects), which hold a number per class name.

They become structured arrays: ``column["positive"]`` is the column of that class. What both they and plain columns need
to read Arrow's text and empty cells is here too.
"""

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from understudy.errors import UnderstudyError
from understudy.tables.readers.source import Array


def records(values: Any, where: str, start: int) -> Array:
    """A struct of numbers; a field that a row lacks counts as 0 (whether the rest adds up is checked at its use)."""
    if values.null_count:
        refuse_empty(values, where, start)
    names = [field.name for field in values.type]
    if not names or len(set(names)) < len(names) or "" in names:
        raise UnderstudyError(f"{where} holds records with unnamed or repeated fields; give each field one name")
    record = np.zeros(len(values), dtype=[(name, np.float64) for name in names])
    for name, field in zip(names, values.flatten(), strict=True):
        if not (pa.types.is_integer(field.type) or pa.types.is_floating(field.type) or pa.types.is_null(field.type)):
            raise UnderstudyError(f"{where} holds records whose {name!r} is {field.type}; records hold numbers only")
        record[name] = pc.fill_null(field.cast(pa.float64()), 0.0).to_numpy(zero_copy_only=False)
    return record


def maps(values: Any, where: str, start: int) -> Array:
    """Maps from names to numbers, as records with every name that occurs."""
    if values.null_count:
        refuse_empty(values, where, start)
    sizes = np.diff(values.offsets.to_numpy(zero_copy_only=False))
    first, last = values.offsets[0].as_py(), values.offsets[-1].as_py()
    keys, items = values.keys.slice(first, last - first), values.items.slice(first, last - first)
    if not is_text(keys.type) or not (pa.types.is_floating(items.type) or pa.types.is_integer(items.type)):
        raise UnderstudyError(f"{where} maps {keys.type} to {items.type}; maps go from names to numbers")
    words = keys.dictionary_encode()
    names = strings(words.dictionary, where)
    if not names or "" in names:
        raise UnderstudyError(f"{where} holds maps without names; name every entry")
    table = np.zeros((len(values), len(names)))
    rows = np.repeat(np.arange(len(values)), sizes)
    places = words.indices.to_numpy(zero_copy_only=False)
    twice = np.flatnonzero(np.bincount(rows * len(names) + places, minlength=1) > 1)
    if len(twice):
        raise UnderstudyError(f"{where} row {start + twice[0] // len(names)} names an entry twice; merge them")
    table[rows, places] = pc.fill_null(items.cast(pa.float64()), 0.0).to_numpy(zero_copy_only=False)
    return table.view([(name, np.float64) for name in names])[:, 0]


def is_text(kind: Any) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def strings(values: Any, where: str) -> list[str]:
    try:
        found: list[str] = values.to_pylist()
    except UnicodeDecodeError as error:
        raise UnderstudyError(f"{where} holds bytes that are not UTF-8 text; save it as UTF-8") from error
    return found


def text_array(values: Array, where: str) -> Any:
    """A column of texts as Arrow has it."""
    try:
        return pa.array(values, pa.large_string())
    except UnicodeEncodeError as error:
        raise UnderstudyError(f"{where} holds half a character (a lone surrogate); mend the text") from error
    except pa.ArrowException as error:
        raise UnderstudyError(f"{where} holds other values than texts; use numbers or text alone") from error


def refuse_empty(values: Any, where: str, start: int) -> None:
    row = start + int(pc.index(pc.is_null(values), True).as_py())
    raise UnderstudyError(f"{where} row {row} is empty; fill it in or remove the row")
