"""Damaged, dishonest and hostile files: one line that names the file, the column and the row."""

import json
import os
import random
import struct
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from understudy.data import checks as memory
from understudy.errors import UnderstudyError
from understudy.features.featuriser import FeatureOptions, Featuriser
from understudy.io.gold_pool import features_of
from understudy.io.table import read_table
from understudy.io.write import write_table


def read_all(path: Path) -> dict[str, Any]:
    return dict(read_table(path).columns)


def refused(path: Path, *said: str) -> None:
    with pytest.raises(UnderstudyError) as caught:
        read_all(path)
    message = str(caught.value)
    assert "\n" not in message and all(part in message for part in said), message


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("t.csv", b"", ["t.csv", "Empty CSV"]),
        ("t.csv", b"a,b\n", ["t.csv holds no rows"]),
        ("t.csv", b"a,b\n1,2\n3\n", ["t.csv", "Row #3", "Expected 2 columns, got 1"]),
        ("t.csv", b"a,b\n1,2,3\n", ["t.csv", "Row #2", "Expected 2 columns, got 3"]),
        ("t.csv", b"a,a\n1,2\n", ["two columns are named 'a'"]),
        ("t.csv", b"Report,,\na,b,c\n1,2,3\n", ["t.csv: the first row names only some of the columns; name all"]),
        ("t.csv", b"a,b\n1,\xff\n", ["t.csv: line 2 is not UTF-8"]),
        ("t.csv", b"id,b\n\xff,1\n", ["t.csv: line 2 is not UTF-8"]),
        ("t.csv", b"\xff\xfe,b\n1,2\n", ["t.csv", "utf-16"]),
        ("t.csv", b"id,label\n1,\n", []),
        ("t.jsonl", b"", ["t.jsonl holds no columns"]),
        ("t.jsonl", b"{}\n{}\n", ["t.jsonl holds no columns"]),
        ("t.jsonl", b'{"a": 1}\n{"a": \n', ["t.jsonl: line 2 is not valid JSON"]),
        ("t.jsonl", b'{"a": 1}\n[1, 2]\n', ["t.jsonl: line 2 holds a list"]),
        ("t.jsonl", b'{"a": NaN}\n', ["line 1", "NaN is not JSON"]),
        ("t.jsonl", b'{"a": 1, "a": 2}\n', ["line 1", "stands twice"]),
        ("t.jsonl", b'{"a": "\xff"}\n', ["line 1", "utf-8"]),
        ("t.jsonl", b'{"a": 1}\n{"a": "x"}\n', ["column 'a' row 1 holds text, the rows before numbers"]),
        ("t.jsonl", b'{"a": [1, 2]}\n{"a": 3}\n', ["column 'a' row 1 holds numbers, the rows before lists"]),
        ("t.jsonl", b'{"x": [1, 2]}\n{"x": [1]}\n', ["column 'x' row 1 holds 1 values, row 0 holds 2"]),
        ("t.jsonl", b'{"x": [[1], [2]]}\n{"x": [[1], [2, 3]]}\n', ["column 'x' row"]),
        ("t.jsonl", b'{"x": [1, null]}\n', ["column 'x' row 0 has an empty entry"]),
        ("t.jsonl", b'{"id": 1}\n{"f": 1}\n', ["column 'id' row 1 is empty"]),
        ("t.jsonl", b'{"a": 1' + b"0" * 5000 + b"}\n", ["line 1"]),
        ("t.jsonl", b'{"a": ' + b"[" * 100_000 + b"}\n", ["line 1"]),
        ("t.jsonl", b'{"a": {"b": "text"}}\n', ["column 'a'", "records hold numbers only"]),
        ("t.npy", b"\x93NUMPY\x01\x00\x10\x00{'descr': '<f8'}", ["t.npy"]),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named(name: str, content: bytes, said: list[str], tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(content)
    if said:
        refused(tmp_path / name, *said)
    else:
        assert read_table(tmp_path / name).columns["label"].tolist() == [""]


def test_shards_must_agree(tmp_path: Path) -> None:
    pq.write_table(pa.table({"x": [1.0], "id": [1]}), tmp_path / "a.parquet")
    for other, said in [
        ({"x": [1.0]}, "b.parquet: column 'id' is missing, in a.parquet int64"),
        ({"x": [1.0], "id": ["1"]}, "b.parquet: column 'id' is string, in a.parquet int64"),
        ({"x": [1.0], "id": [2], "y": [3]}, "b.parquet: column 'y' is int64, in a.parquet missing"),
    ]:
        pq.write_table(pa.table(other), tmp_path / "b.parquet")
        refused(tmp_path, said)
    (tmp_path / "b.parquet").unlink()
    (tmp_path / "c.csv").touch()
    refused(tmp_path, "holds .parquet shards and c.csv")


def test_an_archive_that_promises_more_than_it_holds(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.zeros((3, 2)))
    content = (tmp_path / "x.npy").read_bytes().replace(b"(3, 2)", b"(9, 9)")
    with zipfile.ZipFile(tmp_path / "t.npz", "w") as archive:
        archive.writestr("x.npy", content)
    refused(tmp_path / "t.npz", "column 'x' promises more values than the archive holds")


def test_a_zip_bomb_is_refused_before_it_is_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with zipfile.ZipFile(tmp_path / "t.npz", "w", zipfile.ZIP_DEFLATED) as archive, archive.open("x.npy", "w") as file:
        np.lib.format.write_array_header_1_0(file, {"descr": "|u1", "fortran_order": False, "shape": (64 << 20,)})
        for _ in range(64):
            file.write(bytes(1 << 20))
    assert (tmp_path / "t.npz").stat().st_size < 1 << 20
    monkeypatch.setattr(memory, "available_memory", lambda: 32 << 20)
    refused(tmp_path / "t.npz", "column 'x' would take 64.0 MB, 32.0 MB are free")


def test_members_that_are_no_columns_are_refused(tmp_path: Path) -> None:
    for name, said in [("../x.npy", "'../x', which is no column"), ("readme.txt", "'readme.txt', which is no array")]:
        with zipfile.ZipFile(tmp_path / "t.npz", "w") as archive:
            archive.writestr(name, b"hello")
        refused(tmp_path / "t.npz", said)


def test_absurd_sizes_are_refused_before_memory_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # A million equal rows are a few kilobytes of Parquet and 4 MB of memory.
    column = pa.FixedSizeListArray.from_arrays(pa.array(np.zeros(1 << 20, np.float32)), 8)
    pq.write_table(pa.table({"x": column, "text": ["y"] * (1 << 17)}), tmp_path / "t.parquet")
    assert (tmp_path / "t.parquet").stat().st_size < 1 << 16
    monkeypatch.setattr(memory, "available_memory", lambda: 1 << 20)
    with pytest.raises(UnderstudyError, match=r"column 'x' would take 4\.0 MB, 1\.0 MB are free"):
        read_table(tmp_path / "t.parquet").columns["x"]
    header = {"descr": "<f8", "fortran_order": False, "shape": (1 << 60, 8)}
    with (tmp_path / "t.npy").open("wb") as file:
        np.lib.format.write_array_header_1_0(file, header)
        file.write(bytes(64))
    refused(tmp_path / "t.npy", "t.npy")
    (tmp_path / "t.csv").write_text("a\n" * 1_000_000)
    refused(tmp_path / "t.csv", "would take 3.8 MB")


@pytest.mark.parametrize("path", ["../secret.png", "/etc/passwd", "in/../../secret.png", "link.png", "away/secret.png"])
def test_images_outside_their_folder_are_refused(path: str, tmp_path: Path) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    (tmp_path / "secret.png").write_bytes(b"secret")
    (folder / "link.png").symlink_to(tmp_path / "secret.png")
    (folder / "away").symlink_to(tmp_path)
    (folder / "rows.jsonl").write_text(json.dumps({"image": path, "teacher_label": 0}) + "\n")
    table = read_table(folder / "rows.jsonl")
    from understudy.io.gold_pool import fit_featuriser

    with pytest.raises(UnderstudyError, match=r"column 'image' row 0: .* leads out of"):
        fit_featuriser(FeatureOptions(image="image"), table, {})


def test_links_out_of_an_image_folder_are_refused(tmp_path: Path) -> None:
    (tmp_path / "secret.png").write_bytes(b"secret")
    folder = tmp_path / "images"
    folder.mkdir()
    (folder / "a.png").symlink_to(tmp_path / "secret.png")
    with pytest.raises(UnderstudyError, match=r"'a.png' is a link that leads out"):
        read_table(folder)
    (folder / "a.png").unlink()
    (folder / "class").symlink_to(tmp_path)
    with pytest.raises(UnderstudyError, match=r"'class' is a link, which is not followed"):
        read_table(folder)


def test_an_image_that_claims_to_be_huge_is_not_decoded(tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image")
    image.new("L", (4, 4)).save(tmp_path / "a.png")
    content = bytearray((tmp_path / "a.png").read_bytes())
    content[16:24] = struct.pack(">II", 60_000, 60_000)
    (tmp_path / "a.png").write_bytes(content)
    table = read_table(tmp_path)
    with pytest.raises(UnderstudyError, match=r"a\.png"):
        features_of(table, Featuriser.fit(table.columns, FeatureOptions(image="image"), where="here", folder=tmp_path))


def test_nothing_is_unpickled(tmp_path: Path) -> None:
    class Trap:
        def __reduce__(self) -> Any:
            return os.mkdir, (str(tmp_path / "sprung"),)

    np.save(tmp_path / "t.npy", np.array([Trap()], dtype=object))
    np.savez(tmp_path / "t.npz", x=np.array([Trap()], dtype=object))
    for name in ("t.npy", "t.npz"):
        refused(tmp_path / name, "never unpickled")
    assert not (tmp_path / "sprung").exists()


@pytest.mark.parametrize("suffix", [".parquet", ".csv", ".jsonl", ".npz", ".npy"])
def test_damaged_files_end_in_one_line_or_a_result(suffix: str, tmp_path: Path) -> None:
    draw = random.Random(suffix)
    n = 12
    columns = {
        "id": np.array([f"r{row}" for row in range(n)], dtype=object),
        "x": np.arange(2.0 * n).reshape(n, 2),
        "label": np.array(["a", "bé", "c"] * (n // 3), dtype=object),
        "p": np.zeros(n, dtype=[("a", "f8"), ("b", "f8")]),
    }
    if suffix == ".npy":
        np.save(tmp_path / "good.npy", columns["x"])
    else:
        write_table(tmp_path / f"good{suffix}", columns)
    good = (tmp_path / f"good{suffix}").read_bytes()
    path = tmp_path / f"bad{suffix}"
    for _ in range(80):
        content = bytearray(good)
        if draw.random() < 0.3:
            content = content[: draw.randrange(len(content))]
        else:
            for _ in range(draw.choice([1, 2, 8])):
                content[draw.randrange(len(content))] ^= 1 << draw.randrange(8)
        path.write_bytes(content)
        try:
            table = read_table(path)
            assert all(len(table.columns[name]) == len(table) for name in table.columns)
        except UnderstudyError as error:
            assert "\n" not in str(error) and str(path) in str(error)
