"""Small files that claim to be huge, or become so when unpacked, and files that would run a program when read."""

import io
import pickle
import random
import struct
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from fuzz.good import check_examples
from understudy.data import checks as memory
from understudy.features.featuriser import FeatureOptions
from understudy.io.read import read_examples
from understudy.io.readers import parquet
from understudy.io.table import read_table

FREE = 2 << 20
"""What the machine is said to have left, so that 10 MB are as absurd as 100 GB."""


@contextmanager
def little_memory() -> Iterator[None]:
    before = memory.available_memory
    memory.available_memory = parquet.available_memory = lambda: FREE  # type: ignore[attr-defined]
    try:
        yield
    finally:
        memory.available_memory = parquet.available_memory = before  # type: ignore[attr-defined]


def read_all(path: Path) -> None:
    table = read_table(path)
    for name in table.columns:
        # A map takes no memory of ours.
        column = table.columns[name]
        assert isinstance(column, np.memmap) or column.nbytes <= FREE, (
            f"{name} takes {table.columns[name].nbytes} bytes"
        )
    check_examples(read_examples(pool=path))


def _header(draw: random.Random, content: int) -> bytes:
    huge = draw.choice([2**20, 2**31, 2**40, 2**62, 2**63, 2**64, -1, 10**30])
    shape = draw.choice(
        [(huge,), (huge, 8), (2, huge), (huge, huge), (0, huge), (1,) * 40, (huge, 0), (3, 2), (True, 2)]
    )
    kind = draw.choice(["<f8", "|u1", "<U1000000000", "<U536870911", "|V2147483647", "|O", "<f16", "|S0", "<U0", ">i4"])
    shown: Any = {"descr": kind, "fortran_order": draw.choice([False, True, 7]), "shape": shape}
    if draw.random() < 0.2:
        shown = draw.choice([{**shown, "extra": 1}, {"shape": shape}, [shape], {**shown, "shape": huge}])
    text = draw.choice([repr(shown), repr(shown), repr(shown), "(" * 300 + ")" * 300, "0" * 9_000, repr(shown)[:-1]])
    encoded = text.encode().ljust(64) + b"\n"
    version = draw.choice([b"\x01\x00", b"\x02\x00", b"\x03\x00", b"\x04\x00"])
    length = draw.choice([len(encoded), len(encoded), len(encoded), 0, 65535])
    size = struct.pack("<H", length) if version == b"\x01\x00" else struct.pack("<I", length)
    return b"\x93NUMPY" + version + size + encoded + bytes(content)


def absurd_array(draw: random.Random, given: Path, made: Path) -> None:
    path = given / draw.choice(["x.npy", "rows.npz"])
    content = _header(draw, draw.choice([0, 48, 4096]))
    if draw.random() < 0.2:
        np.save(right := io.BytesIO(), np.zeros((3, 2)))
        content = right.getvalue() + draw.choice([b"", b"more than was announced"])
    if path.suffix == ".npz":
        with zipfile.ZipFile(path, "w", draw.choice([zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])) as archive:
            archive.writestr(
                draw.choice(["x.npy", "x.npy", "x.npy", "../x.npy", "/x.npy", "x", ".npy", "a/b.npy"]), content
            )
    else:
        path.write_bytes(content)
    with little_memory():
        read_all(path)


def bomb(draw: random.Random, given: Path, made: Path) -> None:
    """Kilobytes that unpack to more than is free, and some that do not."""
    size = draw.choice([1 << 10, 1 << 16, 8 << 20])
    kind = draw.choice(["npz", "parquet list", "parquet text", "parquet numbers", "csv", "jsonl", "members"])
    path = given / f"rows.{kind.split()[0]}"
    if kind in ("npz", "members"):
        path = given / "rows.npz"
        many = draw.choice([3, 60]) if kind == "members" else 1
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            for number in range(many):
                with archive.open("x.npy" if many == 1 else f"x{number}.npy", "w") as file:
                    header = {"descr": "|u1", "fortran_order": False, "shape": (size // many, 1)}
                    np.lib.format.write_array_header_1_0(file, header)
                    file.write(bytes(size // many))
    elif kind == "parquet list":
        column = pa.FixedSizeListArray.from_arrays(pa.array(np.zeros(size // 8)), size // 16)
        pq.write_table(pa.table({"x": column}), path, compression="zstd")
    elif kind == "parquet text":
        pq.write_table(pa.table({"text": ["y" * (size // 8)] * 4 + ["good film"] * 4}), path, compression="zstd")
    elif kind == "parquet numbers":
        pq.write_table(pa.table({"width": np.zeros(size // 8), "teacher_label": np.zeros(size // 8, int)}), path)
    elif kind == "csv":
        path.write_bytes(b"width,text\n" + b"1," + b"y" * size + b"\n")
    else:
        path.write_bytes(b'{"width": 1, "text": "' + b"y" * size + b'"}\n')
    with little_memory():
        read_all(path)


def false_counts(draw: random.Random, given: Path, made: Path) -> None:
    """Parquet whose footer is well-formed and whose numbers are lies."""
    path = given / "rows.parquet"
    sink = io.BytesIO()
    rows = draw.choice([33, 65, 129])
    x = pa.FixedSizeListArray.from_arrays(pa.array(np.arange(2.0 * rows)), 2)
    pq.write_table(pa.table({"id": np.arange(rows), "x": x, "teacher_label": np.zeros(rows, int)}), sink)
    content = bytearray(sink.getvalue())
    (footer,) = struct.unpack("<I", content[-8:-4])
    # Counts are variable-length numbers of seven bits a byte, doubled: 33 is 66.
    said = bytes([2 * rows & 0x7F]) if 2 * rows < 128 else bytes([2 * rows & 0x7F | 0x80, 2 * rows >> 7])
    places = [
        place
        for place in range(len(content) - 8 - footer, len(content) - 8)
        if content[place : place + len(said)] == said
    ]
    for place in draw.sample(places, min(len(places), draw.choice([1, 1, 2, 5, 20]))):
        other = draw.choice([0, 1, 2, 4, 64, 126, 127])
        content[place : place + len(said)] = bytes([other | 0x80] * (len(said) - 1) + [other])
    path.write_bytes(content)
    with little_memory():
        read_all(path)


class Trap:
    def __init__(self, target: str) -> None:
        self.target = target

    def __reduce__(self) -> Any:
        import os

        return os.mkdir, (self.target,)


def pickled(draw: random.Random, given: Path, made: Path) -> None:
    """Whatever the name says, nothing is unpickled."""
    sprung = given / "sprung"
    trap = np.array([Trap(str(sprung))] * 4, dtype=object)
    path = given / f"rows{draw.choice(['.npy', '.npz', '.parquet', '.csv', '.jsonl', '.pkl', '.pt'])}"
    if path.suffix == ".npy" and draw.random() < 0.7:
        np.save(path, trap)
    elif path.suffix == ".npz" and draw.random() < 0.7:
        np.savez(path, id=np.arange(4), **{draw.choice(["x", "label", "teacher_label"]): trap})
    else:
        content = pickle.dumps(trap, protocol=draw.choice([0, 2, 5]))
        path.write_bytes(draw.choice([content, zlib.compress(content)]))
    try:
        read_all(path)
    finally:
        assert not sprung.exists(), "unpickled"
    raise AssertionError("accepted a pickle")


def text_request(draw: random.Random, given: Path, made: Path) -> None:
    """Columns asked for that are not what they are asked for as."""
    path = given / "rows.parquet"
    good = ["good film", "bad film"] * 2
    texts = draw.choice([good, good, ["a b"] * 4, [""] * 4, [None, "good", "bad", "film"], ["\0\0"] * 4])
    table = {"text": texts, "width": [1.0, 2.0, 3.0, 4.0], "teacher_label": [0, 1, 0, 1], "photo": [b"\xff"] * 4}
    pq.write_table(pa.table(table), path)
    name = draw.choice(["text", "text", "text", "width", "photo", "nothing", "teacher_label", "", "id"])
    beside = draw.choice([None, None, (), ("width",), ("text",), ("teacher_label",), ("nothing",), ("photo",)])
    role = draw.choice(["text", "text", "text", "image"])
    missing = draw.choice(["error", "mean"])
    request = FeatureOptions(**{role: name}, columns=beside, missing=missing)  # type: ignore[arg-type]
    check_examples(
        read_examples(pool=path, features=request, classes=draw.choice([None, None, 2, 3, ["a", "b"], ["a", "a"]]))
    )
