"""Every kind of file, written by other means than our own, comes back as it was."""

import csv
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from understudy.errors import UnderstudyError, UnderstudyWarning
from understudy.io.readers import csv_jsonl, parquet
from understudy.io.table import read_table
from understudy.io.write import write_table
from understudy.labels.class_names import EMPTY

ROWS = [
    {"id": "a", "text": 'one, two\n"three"', "f": 1.5, "n": 3, "x": [1.0, 2.0], "label": "neg"},
    {"id": "bé", "text": "", "f": -2.0, "n": 4, "x": [3.0, 4.5], "label": "pos"},
    {"id": "007", "text": "x" * 50, "f": 0.0, "n": 5, "x": [5.0, 6.0], "label": "neg"},
]


def columns_of(path: Path, **keywords: Any) -> dict[str, list[Any]]:
    return {name: column.tolist() for name, column in read_table(path, **keywords).columns.items()}


def expected(*leave_out: str) -> dict[str, list[Any]]:
    return {name: [row[name] for row in ROWS] for name in ROWS[0] if name not in leave_out}


@pytest.mark.parametrize("row_group", [1, 2, 100])
def test_parquet(row_group: int, tmp_path: Path) -> None:
    pq.write_table(pa.Table.from_pylist(ROWS), tmp_path / "t.parquet", row_group_size=row_group)
    assert columns_of(tmp_path / "t.parquet") == expected()
    assert len(read_table(tmp_path / "t.parquet")) == 3


def test_shards_in_the_order_of_their_names(tmp_path: Path) -> None:
    for number, row in ((2, ROWS[2]), (0, ROWS[0]), (1, ROWS[1])):
        pq.write_table(pa.Table.from_pylist([row]), tmp_path / f"part-{number}.parquet")
    (tmp_path / "_SUCCESS").touch()
    (tmp_path / ".part-0.parquet.crc").touch()
    assert columns_of(tmp_path) == expected()


def test_csv_with_and_without_byte_order_mark(tmp_path: Path) -> None:
    text = io.StringIO()
    writer = csv.DictWriter(text, [name for name in ROWS[0] if name != "x"], extrasaction="ignore")
    writer.writeheader()
    writer.writerows(ROWS)
    for start in ("", "\ufeff"):
        (tmp_path / "t.csv").write_bytes((start + text.getvalue()).encode())
        assert columns_of(tmp_path / "t.csv") == expected("x")


def test_jsonl_with_blank_lines_and_keys_in_any_order(tmp_path: Path) -> None:
    lines = [json.dumps(dict(sorted(row.items(), reverse=number % 2 == 0))) for number, row in enumerate(ROWS)]
    (tmp_path / "t.jsonl").write_text("\ufeff" + "\n\n".join(lines), encoding="utf-8")
    found = columns_of(tmp_path / "t.jsonl")
    assert {name: found[name] for name in ROWS[0]} == expected()


def test_jsonl_in_small_batches_keeps_types_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(csv_jsonl, "BATCH", 2)
    rows: list[dict[str, Any]] = [
        {"f": 1}, {"f": 2}, {"f": 2.5, "late": "here"}, {"f": None, "late": "too"},
        {"f": 3, "late": "a", "teacher_probs": {"a": 1}}, {"f": 4, "late": "b", "teacher_probs": {"b": 1.0}},
    ]  # fmt: skip
    (tmp_path / "t.jsonl").write_text("\n".join(map(json.dumps, rows)))
    table = read_table(tmp_path / "t.jsonl")
    np.testing.assert_array_equal(table.columns["f"], [1, 2, 2.5, np.nan, 3, 4])
    assert table.columns["late"].tolist() == [None, None, "here", "too", "a", "b"]


def test_npz_npy_and_a_folder_of_npy(tmp_path: Path) -> None:
    x, ids = np.arange(6, dtype=np.float16).reshape(3, 2), np.array(["a", "bb", "c"])
    np.savez_compressed(tmp_path / "t.npz", x=x, id=ids)
    assert columns_of(tmp_path / "t.npz") == {"x": x.tolist(), "id": ids.tolist()}
    np.save(tmp_path / "one.npy", x)
    one = read_table(tmp_path / "one.npy").columns["x"]
    assert isinstance(one, np.memmap) and one.dtype == np.float16 and one.tolist() == x.tolist()
    record = np.zeros(3, dtype=[("label", np.int64), ("height", np.float32)])
    np.save(tmp_path / "record.npy", record)
    assert list(read_table(tmp_path / "record.npy").columns) == ["label", "height"]
    folder = tmp_path / "pool"
    folder.mkdir()
    np.save(folder / "x.npy", x)
    np.save(folder / "id.npy", ids)
    table = read_table(folder)
    assert table.columns["id"].tolist() == ids.tolist() and isinstance(table.columns["x"], np.memmap)


def test_a_folder_of_images(tmp_path: Path) -> None:
    for name in ("dog/2.PNG", "cat/1.jpg", "cat/deep/3.webp", ".hidden/4.png", "cat/.DS_Store"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    table = columns_of(tmp_path)
    assert table["id"] == table["image"] == ["cat/1.jpg", "cat/deep/3.webp", "dog/2.PNG"]
    assert table["label"] == ["cat", "cat", "dog"]
    (tmp_path / "cat" / "notes.txt").touch()
    with pytest.warns(UnderstudyWarning, match="1 files are no images"):
        read_table(tmp_path)
    flat = tmp_path / "cat" / "deep"
    assert list(read_table(flat).columns) == ["id", "image"]


def test_text_takes_no_more_than_its_length(tmp_path: Path) -> None:
    """One long text among short ones: a fixed width would be 400 MB."""
    texts = ["short"] * 1000 + ["long" * 25_000]
    pq.write_table(pa.table({"text": texts}), tmp_path / "t.parquet")
    column = read_table(tmp_path / "t.parquet").columns["text"]
    assert column.dtype == object and column.nbytes < 10_000 and column.tolist() == texts
    assert column[0] is column[999], "repeated texts are one object"


def test_a_column_that_nobody_asks_for_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pq.write_table(pa.table({"id": [1, 2], "label": pa.array([None, 1])}), tmp_path / "t.parquet")
    asked: list[str] = []
    real = parquet._batches
    monkeypatch.setattr(parquet, "_batches", lambda files, name, *rest: asked.append(name) or real(files, name, *rest))
    table = read_table(tmp_path / "t.parquet")
    assert (
        "label" in table.names and table.columns["id"].tolist() == [1, 2] and table.columns["id"] is table.columns["id"]
    )
    assert asked == ["id"]


def test_columns_by_the_names_they_have(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("uid,label,human,extra\n007,cat,dog,1\n008,cat,cat,2\n")
    table = read_table(tmp_path / "t.csv", columns={"id": "uid", "teacher_label": "label", "label": "human", "x": "no"})
    assert {name: column.tolist() for name, column in table.columns.items()} == {
        "id": ["007", "008"], "teacher_label": ["cat", "cat"], "label": ["dog", "cat"], "extra": [1, 2],
    }  # fmt: skip
    assert table.where("id") == f"{tmp_path / 't.csv'}: column 'uid'"


@pytest.mark.parametrize("header", ["label,human", "human,label"])
def test_a_mapped_column_takes_the_place_of_one_of_that_name(header: str, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(f"{header}\n" + ("0,1\n" if header == "label,human" else "1,0\n"))
    assert columns_of(tmp_path / "t.csv", columns={"label": "human"}) == {"label": [1]}


def test_uneven_lists_are_found_across_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet, "BATCH_ROWS", 1)
    pq.write_table(pa.table({"x": [[1.0, 2.0], [3.0]]}), tmp_path / "t.parquet")
    with pytest.raises(UnderstudyError, match="column 'x' row 1 holds 1 values, row 0 holds 2"):
        read_table(tmp_path / "t.parquet").columns["x"]


@pytest.mark.parametrize(
    ("column", "cells", "values"),
    [
        ("id", ["1", "2"], [1, 2]),
        ("id", ["01", "2"], ["01", "2"]),
        ("id", ["1.0", "2"], ["1.0", "2"]),
        ("id", ["2020-01-01", "2020-01-02"], ["2020-01-01", "2020-01-02"]),
        ("id", ["123456789012345678901", "2"], ["123456789012345678901", "2"]),
        ("label", ["true", "false"], ["true", "false"]),
        ("label", ["NA", "null"], ["NA", "null"]),
        ("label", ["1.0", "0"], ["1.0", "0"]),
        ("label", ["1", "x"], ["1", "x"]),
        ("teacher_label", ["", "1"], [EMPTY, 1]),
        ("teacher_label", ["", "pos"], ["", "pos"]),
        ("teacher_confidence", ["", "0.5"], [None, 0.5]),
        ("teacher_vote_ann", ["", "1"], [EMPTY, 1]),
        ("teacher_vote_ann", ["007", "1"], ["007", "1"]),
        ("age", ["", "7"], [None, 7.0]),
    ],
)
def test_csv_takes_ids_and_labels_by_the_letter(
    column: str, cells: list[str], values: list[Any], tmp_path: Path
) -> None:
    (tmp_path / "t.csv").write_text("\n".join([f"{column},z", *(f"{cell},0" for cell in cells)]))
    found = [None if value != value else value for value in columns_of(tmp_path / "t.csv")[column]]
    assert found == values and [type(value) for value in found] == [type(value) for value in values]


def test_records_and_maps_become_columns_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pairs = [[("neg", 0.25), ("pos", 0.75)], [("pos", 1.0)], [("odd", 1.0)]]
    kinds = {"map": pa.array(pairs, pa.map_(pa.string(), pa.float64())), "struct": pa.array([dict(p) for p in pairs])}
    monkeypatch.setattr(parquet, "BATCH_ROWS", 1)
    for kind, column in kinds.items():
        pq.write_table(pa.table({"teacher_probs": column}), tmp_path / f"{kind}.parquet")
        found = read_table(tmp_path / f"{kind}.parquet").columns["teacher_probs"]
        assert set(found.dtype.names or ()) == {"neg", "pos", "odd"}
        assert found["neg"].tolist() == [0.25, 0, 0] and found["pos"].tolist() == [0.75, 1, 0]


def test_top_k_lists_are_filled_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet, "BATCH_ROWS", 2)
    index, prob = [[3], [1, 2], [0, 1, 2]], [[0.9], [0.6, 0.2], [0.5, 0.3, 0.1]]
    pq.write_table(pa.table({"teacher_topk_index": index, "teacher_topk_prob": prob}), tmp_path / "t.parquet")
    found = columns_of(tmp_path / "t.parquet")
    assert found["teacher_topk_index"] == [[3, EMPTY, EMPTY], [1, 2, EMPTY], [0, 1, 2]]
    assert found["teacher_topk_prob"] == [[0.9, 0, 0], [0.6, 0.2, 0], [0.5, 0.3, 0.1]]


def test_large_lists_are_mapped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNDERSTUDY_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(parquet, "MAPPED_BEYOND", 100)
    x = np.arange(60, dtype=np.float32).reshape(20, 3)
    for kind in (pa.list_(pa.float32(), 3), pa.list_(pa.float32())):
        pq.write_table(pa.table({"x": pa.array(x.tolist(), kind), "n": range(20)}), tmp_path / "t.parquet")
        table = read_table(tmp_path / "t.parquet")
        assert isinstance(table.columns["x"], np.memmap) and not isinstance(table.columns["n"], np.memmap)
        np.testing.assert_array_equal(table.columns["x"], x)


CELLS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=8)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(CELLS.filter(bool), st.floats(allow_nan=False, allow_infinity=False)), min_size=1))
@pytest.mark.parametrize("suffix", [".csv", ".jsonl"])
def test_any_text_and_number_comes_back(suffix: str, tmp_path: Path, rows: list[tuple[str, float]]) -> None:
    path = tmp_path / f"t{suffix}"
    path.unlink(missing_ok=True)
    # Beside a column that keeps blank lines apart from rows; "x" keeps the text from being a number.
    texts = [f"x{text}" for text, _ in rows]
    numbers = np.array([number for _, number in rows])
    write_table(path, {"id": np.array(texts, dtype=object), "f": numbers, "p": np.stack([numbers, numbers], axis=1)})
    table = read_table(path).columns
    # CSV readers take \r\n and \r inside quotes as they are; so must we.
    assert table["id"].tolist() == texts
    np.testing.assert_array_equal(table["f"].astype(float), numbers)
    found = table["p"] if suffix == ".jsonl" else np.stack([table["p_0"], table["p_1"]], axis=1)
    np.testing.assert_array_equal(found.astype(float), np.stack([numbers, numbers], axis=1))


@pytest.mark.parametrize("suffix", [".parquet", ".jsonl", ".npz"])
def test_records_and_lists_come_back_as_they_were_written(suffix: str, tmp_path: Path) -> None:
    record = np.array([(0.25, 0.75), (1.0, 0.0)], dtype=[("né", np.float64), ("pos", np.float64)])
    write_table(tmp_path / f"t{suffix}", {"teacher_probs": record, "x": np.arange(8.0).reshape(2, 2, 2)})
    table = read_table(tmp_path / f"t{suffix}").columns
    np.testing.assert_array_equal(table["teacher_probs"], record)
    np.testing.assert_array_equal(table["x"], np.arange(8.0).reshape(2, 2, 2))


def test_a_formula_in_csv_is_told_and_left_as_it_is(tmp_path: Path) -> None:
    with pytest.warns(UnderstudyWarning, match="takes for a formula"):
        write_table(tmp_path / "t.csv", {"id": np.array(["=1+1", "b"], dtype=object), "f": np.array([-1.0, 2.0])})
    assert read_table(tmp_path / "t.csv").columns["id"].tolist() == ["=1+1", "b"]
    write_table(tmp_path / "n.csv", {"id": np.array([-1, 2])})
