"""Readers: one module per kind of file; ``io/table.py`` picks one. Here is what every reader returns.

A ``TableSource`` has the names of the columns, the number of rows, and a way to read one column.

Columns are read when they are first used, so that unused long texts cost nothing and a gap in an unused column is no
error. What they hold is as ``data/arrow_columns.py`` has it.
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

#: A local file, or one that is read by ranges where it lies.
File = Path | RemoteFile

# What pyarrow, zipfile and NumPy raise on damaged files. Anything else is a bug and must be seen.
DAMAGE = (
    *(OSError, ValueError, EOFError, MemoryError, OverflowError, RuntimeError, SyntaxError),
    *(pa.ArrowException, zipfile.BadZipFile, zlib.error, struct.error, tokenize.TokenError),
)


@dataclass(frozen=True)
class TableSource:
    #: In the file's order.
    names: Sequence[str]
    rows: int
    #: ``read(name, role)``: the column of this name; ``role`` is what it serves as, which decides on empty cells.
    read: Callable[[str, str], Array]
    #: The classes of a column in their order, where the source itself says so (``datasets.ClassLabel``).
    declared: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    #: ``stored(name)``: the column as Arrow has it, to be written again as it was; None: ``read`` changes nothing.
    stored: Callable[[str], Any] | None = None
    #: ``letters(name)``: the column as it is written, in files that do not say what type it has (CSV).
    letters: Callable[[str], Array] | None = None
    #: What was found out about the file, for the user to know.
    notes: Sequence[str] = ()
    #: ``line(row)``: the line of the file where a row begins, as an editor counts.
    line: Callable[[int], int] | None = None


KINDS = {".parquet": "Parquet", ".csv": "CSV", ".tsv": "TSV", ".jsonl": "JSON lines", ".gz": "gzip"}


def damaged(path: File, error: BaseException) -> UnderstudyError:
    """Whatever is wrong with a file, in one line that names it."""
    if isinstance(error, FileNotFoundError):
        return UnderstudyError(f"{path} is not there; check the path")
    kind = "a folder" if path.is_dir() else KINDS.get(path.suffix.lower(), path.suffix)
    return UnderstudyError(f"cannot read {path} as {kind}: {first_line(error)}; write it again")


@contextmanager
def opened_parquet(file: File, **options: Any) -> Iterator[pq.ParquetFile]:
    """``options`` are those of ``pq.ParquetFile``. A few megabytes of a column are fetched at a time: row groups may be
    gigabytes."""
    options |= {"pre_buffer": False, "buffer_size": READ_AT_ONCE}
    if isinstance(file, Path):
        with pq.ParquetFile(file, **options) as opened:
            yield opened
        return
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


def file_state(file: File, *, again: bool = False) -> tuple[str, int, int | str]:
    """What changes where a file does: name, size, time of change; nothing is read. ``again``: as it is now, also where
    that takes a request."""
    if isinstance(file, RemoteFile):
        seen = file.again() if again else file
        return seen.name, seen.size, seen.tag
    stat = file.stat()
    return file.name, stat.st_size, stat.st_mtime_ns
