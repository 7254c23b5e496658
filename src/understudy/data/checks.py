"""Checks of the arrays users pass: as tensors, or an error that names the place and the cure.

Sizes are checked before memory is allocated, because a file may declare more than a machine can hold, and results too
large for the memory go to a file:

    check_memory(rows * width * 4, "pool.parquet: column 'x'")
"""

import contextlib
import math
import os
import re
import warnings
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from shutil import disk_usage
from typing import Any

import numpy as np
import torch
from torch import Tensor

from understudy.errors import UnderstudyError
from understudy.store.arrow import as_column

# Rows per look at a large array: keeps temporary memory near 100 MB at 100 classes.
CHUNK = 1 << 17
# Softmax outputs stored as float16 miss 1 by up to about 1e-3.
SUM_TOLERANCE = 2e-3
# Beyond this a column of labels is a column of something else, and a row of probabilities takes megabytes.
MAX_CLASSES = 1_000_000
# Bytes that any machine has: callers with many small pieces do not ask for these.
SMALL = 1 << 16
# What one column may take of the memory that is free; the rest is left to everything else.
SHARE = 0.9


def to_tensor(values: Any, where: str) -> Tensor:
    """A tensor that shares memory with ``values`` where it can (a read-only memory map included)."""
    if isinstance(values, Tensor):
        if values.layout != torch.strided or values.is_complex() or values.is_quantized or values.is_meta:
            kind = (
                "quantized" if values.is_quantized else "meta" if values.is_meta else f"{values.dtype} {values.layout}"
            )
            raise UnderstudyError(f"{where} is a {kind} tensor; pass a dense tensor of real numbers")
        return values.detach()
    try:
        array = np.asanyarray(values)
        if array.dtype == object or array.dtype.kind in "USOMmcV":
            raise TypeError(f"it holds {array.dtype} values")
        with warnings.catch_warnings():
            # Read-only maps are only ever read here.
            warnings.filterwarnings("ignore", message="The given NumPy array is not writable")
            native = array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))
            return torch.from_numpy(np.asarray(native))
    except (TypeError, ValueError) as error:
        raise UnderstudyError(f"{where} is not a numeric array: {error}; pass a tensor or ndarray") from error


def is_reserved(column: str) -> bool:
    """Whether a column's name has a meaning of its own, so that it is never a feature."""
    own = ("id", "label", "estimate_only", "suggestion_shown", "probability")
    if column in own or column.startswith(("teacher_", "reconciled_")):
        return True
    return column.startswith("source_") and column.endswith(("_label", "_probability"))


def looks_like(column: str) -> str | None:
    """The reserved name that a column with no meaning of its own differs from in capitals (or spaces) alone."""
    plain = column.strip().lower()
    if is_reserved(column) or not is_reserved(plain):
        return None
    # The rest of teacher_prob_CLASS is a name of the user's, whose capitals count.
    ours = len("teacher_prob_") if plain.startswith(("teacher_prob_", "teacher_vote_")) else len(plain)
    return plain[:ours] + column.strip()[ours:]


def is_index(column: str) -> bool:
    """Whether a column counts the rows: data frames write their index so."""
    return not column.strip() or re.fullmatch(r"__index_level_\d+__|Unnamed: \d+", column) is not None


def describe(column: np.ndarray[Any, Any]) -> str:
    """What a column holds, for messages."""
    kinds = {"b": "true or false", "i": "whole numbers", "u": "whole numbers", "f": "fractions", "M": "dates"}
    if column.dtype.names:
        return "records"
    is_text = column.dtype.kind in "UT" or (column.dtype == object and any(isinstance(v, str) for v in column.flat))
    kind = "texts" if is_text else "objects" if column.dtype == object else None
    if column.ndim > 1:
        return f"arrays of {kind or column.dtype}"
    return kind or kinds.get(column.dtype.kind, f"{column.dtype} values")


def check_class_count(classes: Any, where: str) -> int:
    if isinstance(classes, bool) or not isinstance(classes, int | np.integer) or not 2 <= classes <= MAX_CLASSES:
        raise UnderstudyError(f"{where}: classes={classes!r} must be a whole number, 2 to {MAX_CLASSES:,}")
    return int(classes)


def first_bad(bad: Tensor) -> int:
    return int(bad.nonzero()[0, 0])


def check_length(actual: int, expected: int, what: str, other: str) -> None:
    if actual != expected:
        raise UnderstudyError(f"{what} has {actual} rows but {other} has {expected}; they must match row by row")


def check_probabilities(probs: Tensor, where: str, rows: Tensor | None = None) -> None:
    """Every row finite, non-negative, summing to 1. Nothing is renormalised behind the user's back.

    ``rows``: the numbers the user knows these rows by, for the message.
    """
    if probs.dim() != 2 or probs.shape[1] < 2:
        raise UnderstudyError(f"{where} has shape {tuple(probs.shape)}; probabilities are (rows, 2 classes or more)")
    if not probs.is_floating_point():
        raise UnderstudyError(f"{where} holds {probs.dtype}; probabilities are floating-point (hard labels: 1-d ints)")
    for start in range(0, len(probs), CHUNK):
        chunk = probs[start : start + CHUNK].float()
        # NaN and infinity make the sum NaN or infinite, so one pass finds them all.
        bad = ~((chunk.sum(-1) - 1).abs() <= SUM_TOLERANCE)
        if bool(bad.any()) or (len(chunk) and float(chunk.min()) < 0):
            row = first_bad(bad | (chunk < 0).any(-1))
            number = start + row if rows is None else int(rows[start + row])
            raise UnderstudyError(_describe_bad_row(chunk[row], number, where))


def _describe_bad_row(row: Tensor, number: int, where: str) -> str:
    if not bool(row.isfinite().all()):
        return f"{where} row {number} holds NaN or infinity; remove the row or have it labelled again"
    if bool((row < 0).any()):
        return (
            f"{where} row {number} holds a negative entry ({row.min():.3g}); pass probabilities, e.g. softmax(logits)"
        )
    return f"{where} row {number} sums to {row.sum():.4g}, not 1; pass probabilities, e.g. softmax(logits)"


def check_labels(labels: Any, where: str, *, missing_allowed: bool = False) -> Tensor:
    """Class numbers ``(n,)`` as int64. −1 means "no label" where that is allowed."""
    tensor = to_tensor(labels, where)
    if tensor.dim() != 1:
        raise UnderstudyError(f"{where} has shape {tuple(tensor.shape)}; class labels are one integer per row")
    if tensor.is_floating_point():
        bad = (tensor != tensor.round()) | tensor.isinf()
        if bool(bad.any()):
            row = first_bad(bad)
            raise UnderstudyError(f"{where} row {row} is {tensor[row].item()}; class labels are whole numbers")
    tensor = tensor.long()
    bad = (tensor < (-1 if missing_allowed else 0)) | (tensor >= MAX_CLASSES)
    if bool(bad.any()):
        row = first_bad(bad)
        end = f" and end below {MAX_CLASSES:,}" if tensor[row] > 0 else ""
        raise UnderstudyError(f"{where} row {row} is {tensor[row].item()}; class labels count from 0{end}")
    return tensor


def check_finite(x: Tensor, where: str, first: int = 0) -> None:
    """As float32, which is what students take: 1e300 is infinity to them. ``first``: the number of the first row."""
    at_once = max(1, min(CHUNK, (CHUNK << 10) // max(1, x[:1].nbytes)))  # rows may be images
    for start in range(0, x.shape[0], at_once):
        some = x[start : start + at_once].float()
        # One pass shows that no entry is infinite or NaN; a sum that overflows shows nothing.
        if not math.isfinite(float(some.sum())) and not bool((finite := some.isfinite()).all()):
            row = start + first_bad(~finite.reshape(len(finite), -1).all(-1))
            large = "a number too large for float32" if bool(x[row].isfinite().all()) else "NaN or infinity"
            raise UnderstudyError(f"{where} row {first + row} holds {large}; remove the row or fill it in")


def check_ids(ids: Iterable[Any] | None, rows: int, where: str) -> np.ndarray[Any, Any] | None:
    """Unique row ids, kept as given (integers or strings)."""
    if ids is None:
        return None
    column = as_column(ids)
    ids = ids if column is None else column.to_pylist()
    try:
        array = np.asarray(ids if isinstance(ids, Sequence | np.ndarray | Tensor) else list(ids))
    except (TypeError, ValueError) as error:
        raise UnderstudyError(f"{where}.ids cannot be read as names of rows: {error}; use integers or text") from error
    if array.ndim != 1 or array.dtype.kind in "cV":
        raise UnderstudyError(f"{where}.ids is {array.dtype} of shape {array.shape}; ids are one integer or text a row")
    check_length(len(array), rows, f"{where}.ids", f"{where}.x")
    if array.dtype == object:
        odd = next((value for value in array.tolist() if not isinstance(value, str | int)), None)
        if odd is not None or None in array:
            raise UnderstudyError(f"{where}.ids holds {odd!r}; ids are integers or text")
        repeated = [value for value, count in Counter(array.tolist()).items() if count > 1]
    else:  # of 3 million numbers in a fifth of the time
        unique, counts = np.unique(array, return_counts=True)
        repeated = unique[counts > 1].tolist()
    if repeated:
        raise UnderstudyError(f"{where}.ids holds {repeated[0]!r} more than once; ids must be unique")
    return array


def total_memory() -> int:
    """Bytes this process may use: the machine's memory, or its container's limit."""
    limits = [os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")]
    for limit in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        with contextlib.suppress(OSError, ValueError):  # not there, or "max"
            limits.append(int(Path(limit).read_text()))
    return min(limits)


def available_memory() -> int | None:
    """Bytes that are free: of the machine, or of the container where that is less; None where it is unknown."""
    free = []
    with contextlib.suppress(OSError, ValueError, StopIteration):
        lines = Path("/proc/meminfo").read_text().splitlines()
        free.append(1024 * int(next(line for line in lines if line.startswith("MemAvailable:")).split()[1]))
    group = Path("/sys/fs/cgroup")
    with contextlib.suppress(OSError, ValueError):
        limit, used = (int((group / name).read_text()) for name in ("memory.max", "memory.current"))
        kinds = dict(line.split() for line in (group / "memory.stat").read_text().splitlines())
        # The file cache counts as used, but the kernel gives it up on demand.
        free.append(max(0, limit - used + int(kinds.get("file", 0))))
    return min(free, default=None)


def check_memory(wanted: int, where: str, *, cure: str = "split the file, or use a machine with more memory") -> None:
    """Refuses what would not fit into the free memory."""
    free = available_memory()
    if free is not None and wanted > SHARE * free:
        raise UnderstudyError(f"{where} would take {format_bytes(wanted)}, {format_bytes(free)} are free; {cure}")


def format_bytes(size: int) -> str:
    for unit, scale in (("TB", 40), ("GB", 30), ("MB", 20)):
        if size >= 1 << scale:
            return f"{size / (1 << scale):,.1f} {unit}"
    return f"{size / 1024:,.1f} kB"


def check_space(folder: Path, needed: int, what: str) -> None:
    """Refuses what would not fit onto the disk of ``folder``."""
    free = disk_usage(folder).free
    if free < needed:
        held = f"{needed / 1e9:.2f} GB in {folder}, which has {free / 1e9:.2f} GB left"
        raise UnderstudyError(f"{what} needs {held}; free some space, or set UNDERSTUDY_CACHE to a larger disk")


def check_texts(texts: Sequence[Any], where: str) -> None:
    """Refuses a row that is no text."""
    if not {str, np.str_}.issuperset(map(type, texts)):
        row = next(row for row, text in enumerate(texts) if not isinstance(text, str))
        held = "nothing" if texts[row] is None else f"a {type(texts[row]).__name__}"
        raise UnderstudyError(f"{where} row {row} holds {held}, not a text; write '' or remove the row")


def encoded(texts: Sequence[str], where: str) -> list[bytes]:
    """Texts as UTF-8, which has no half characters."""
    try:
        return [text.encode() for text in texts]
    except UnicodeEncodeError as error:
        row = next(row for row, text in enumerate(texts) if any("\ud800" <= sign <= "\udfff" for sign in text))
        raise UnderstudyError(f"{where} row {row} holds half a character (a lone surrogate); mend the text") from error


def check_flags(given: Any, rows: int, where: str) -> Tensor:
    """``(rows,)`` bool, from one value for all rows or one for each."""
    if isinstance(given, bool):
        return torch.full((rows,), given)
    which = to_tensor(given, where)
    if which.dim() != 1:
        raise UnderstudyError(f"{where} has shape {tuple(which.shape)}; it is True, False, or one of them per row")
    check_length(len(which), rows, where, "gold.x")
    return which.bool()


def check_probability(given: Any, rows: int, where: str) -> Tensor:
    """Probabilities of being drawn, ``(rows,)`` float64: above 0 and up to 1, or NaN."""
    values = to_tensor(given, where).double()
    if values.dim() != 1:
        raise UnderstudyError(f"{where} has shape {tuple(values.shape)}; it is one number per row")
    check_length(len(values), rows, where, "gold.x")
    if bool((bad := ~(((values > 0) & (values <= 1)) | values.isnan())).any()):
        row = int(bad.nonzero()[0])
        raise UnderstudyError(f"{where} row {row} is {float(values[row]):g}; a probability is above 0 and at most 1")
    return values
