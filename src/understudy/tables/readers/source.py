"""What every reader gives: the names of the columns, how many rows there are, and a way to read one column.

Columns are read when they are asked for, so a file's long texts cost nothing to whoever only wants the ids, and a gap
in a column nobody uses is nobody's problem. Numbers are NumPy arrays, lists of one length further axes of them, text
is an object array of ``str`` (a fixed width would make every row as long as the longest), records of numbers are
structured arrays.
"""

import struct
import tokenize
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from understudy.errors import UnderstudyError, first_line
from understudy.store.arrow import Array

# What pyarrow, zipfile and NumPy raise on damaged files. Anything else is a bug and must be seen.
DAMAGE = (
    *(OSError, ValueError, EOFError, MemoryError, OverflowError, RuntimeError, SyntaxError),
    *(pa.ArrowException, zipfile.BadZipFile, zlib.error, struct.error, tokenize.TokenError),
)


@dataclass(frozen=True)
class Source:
    names: Sequence[str]
    """In the file's order."""
    rows: int
    read: Callable[[str, str], Array]
    """``read(name, role)``: the column of this name; ``role`` is what it serves as, which decides on empty cells."""


KINDS = {".parquet": "Parquet", ".csv": "CSV", ".jsonl": "JSON lines"}


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Whatever is wrong with the file becomes one line that names it."""
    try:
        yield
    except DAMAGE as error:
        kind = "a folder" if path.is_dir() else KINDS.get(path.suffix.lower(), path.suffix)
        raise UnderstudyError(f"cannot read {path} as {kind}: {first_line(error)}; write it again") from error


def refuse_repeated(names: Sequence[str], path: Path) -> None:
    """A table has one column of a name."""
    name, count = Counter(names).most_common(1)[0] if names else ("", 0)
    if count > 1:
        raise UnderstudyError(f"{path}: two columns are named {name!r}; rename one")
