"""The result of every reader: the names of the columns, the number of rows, and a way to read one column.

Columns are read when they are first used, so that unused long texts cost nothing and a gap in an unused column is no
error. Numbers are NumPy arrays, lists of one length further axes of them, text
is an object array of ``str`` (a fixed width would make every row as long as the longest), records of numbers are
structured arrays.
"""

import struct
import tokenize
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from understudy.errors import UnderstudyError, first_line
from understudy.store.arrow import Array
from understudy.store.remote import READ_AT_ONCE, RemoteFile, reaching

File = Path | RemoteFile
"""A local file, or one that is read by ranges where it lies."""

# What pyarrow, zipfile and NumPy raise on damaged files. Anything else is a bug and must be seen.
DAMAGE = (
    *(OSError, ValueError, EOFError, MemoryError, OverflowError, RuntimeError, SyntaxError),
    *(pa.ArrowException, zipfile.BadZipFile, zlib.error, struct.error, tokenize.TokenError),
)


@dataclass(frozen=True)
class TableSource:
    names: Sequence[str]
    """In the file's order."""
    rows: int
    read: Callable[[str, str], Array]
    """``read(name, role)``: the column of this name; ``role`` is what it serves as, which decides on empty cells."""
    declared: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The classes of a column in their order, where the source itself says so (``datasets.ClassLabel``)."""
    stored: Callable[[str], Any] | None = None
    """``stored(name)``: the column as Arrow has it, to be written again as it was; None: ``read`` changes nothing."""
    letters: Callable[[str], Array] | None = None
    """``letters(name)``: the column as it is written, in files that do not say what type it has (CSV)."""


KINDS = {".parquet": "Parquet", ".csv": "CSV", ".jsonl": "JSON lines"}


def damaged(path: File, error: BaseException) -> UnderstudyError:
    """Whatever is wrong with a file, in one line that names it."""
    kind = "a folder" if path.is_dir() else KINDS.get(path.suffix.lower(), path.suffix)
    return UnderstudyError(f"cannot read {path} as {kind}: {first_line(error)}; write it again")


@contextmanager
def opened_parquet(file: File, **options: Any) -> Iterator[pq.ParquetFile]:
    """``options`` are those of ``pq.ParquetFile``. At an address, a few megabytes of a column are fetched at a time."""
    if isinstance(file, Path):
        with pq.ParquetFile(file, **options) as opened:
            yield opened
        return
    options |= {"memory_map": False, "pre_buffer": False, "buffer_size": READ_AT_ONCE}
    with reaching(file.address), file.open() as stream, pq.ParquetFile(stream, **options) as opened:
        yield opened
        if file.again() != file:
            raise UnderstudyError(f"{file} changed while it was read; try again when it is written")


@contextmanager
def reading(path: File) -> Iterator[None]:
    """For one file of several: the message names this one."""
    try:
        yield
    except DAMAGE as error:
        raise damaged(path, error) from error
