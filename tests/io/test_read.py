"""Files to gold and pool: the column names, the join by id, and what is refused."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from understudy.data.rows import TensorRows
from understudy.errors import UnderstudyError, UnderstudyWarning
from understudy.features.featuriser import FeatureOptions, Featuriser
from understudy.io.gold_pool import PoolFile, features_of, load_featuriser, to_gold, to_pool
from understudy.io.read import read_examples
from understudy.io.table import Table, read_table
from understudy.io.write import write_table
from understudy.labels.forms import Hard, Soft

SUFFIXES = [".npz", ".parquet"]
X = np.arange(12, dtype=np.float32).reshape(6, 2)
PROBS = np.array([[0.9, 0.1], [0.2, 0.8], [0.6, 0.4], [0.7, 0.3], [0.5, 0.5], [0.1, 0.9]])
IDS = np.array(["d", "a", "f", "b", "e", "c"])  # not in order, so that a join that forgets to sort back is seen


def fitted(table: Table, request: FeatureOptions | None = None) -> Featuriser:
    return Featuriser.fit(table.columns, request or FeatureOptions(), where=str(table.path))


def gold_of(table: Table) -> Any:
    return to_gold(table, featuriser=fitted(table))


def pool_of(table: Table) -> Any:
    return to_pool(PoolFile.read(table, fitted(table)))


@pytest.fixture
def save(tmp_path: Path) -> Any:
    def write(name: str, **columns: Any) -> Path:
        write_table(tmp_path / name, {key: np.asarray(column) for key, column in columns.items()})
        return tmp_path / name

    return write


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_table_comes_back_as_it_was_written(suffix: str, save: Any) -> None:
    columns = {"id": IDS, "x": np.arange(36.0).reshape(6, 3, 2), "label": np.arange(6), "flag": np.arange(6) > 2}
    table = read_table(save(f"t{suffix}", **columns))
    assert list(table.columns) == list(columns)
    for name, column in columns.items():
        np.testing.assert_array_equal(table.columns[name], column)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_gold_and_pool_with_everything(suffix: str, save: Any) -> None:
    gold = gold_of(read_table(save(f"g{suffix}", x=X[:2], label=[1, 0], teacher_probs=PROBS[:2])))
    pool = pool_of(read_table(save(f"p{suffix}", x=X[2:], teacher_label=[0, -1, 1, 1])))
    assert gold.y.tolist() == [1, 0] and isinstance(gold.teacher, Soft)
    torch.testing.assert_close(gold.x, torch.from_numpy(X[:2]))
    torch.testing.assert_close(gold.teacher.probs, torch.from_numpy(PROBS[:2]))
    assert isinstance(pool.teacher, Hard) and pool.teacher.labels.tolist() == [0, -1, 1, 1]
    assert pool.teacher.given is None


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_small_gold_file_joins_the_pool_by_id_and_leaves_it(suffix: str, save: Any) -> None:
    # Gold in another order than the pool, so that a join by position would be seen.
    gold = save(f"g{suffix}", id=["e", "b"], label=[1, 0])
    pool = save(f"p{suffix}", id=IDS, x=X, teacher_probs=PROBS, label=np.zeros(6, int))
    examples = read_examples(gold=gold, pool=pool)
    assert examples.gold is not None and examples.pool is not None
    assert examples.gold.y.tolist() == [1, 0] and examples.gold.ids.tolist() == ["e", "b"]
    np.testing.assert_array_equal(examples.gold.x.numpy(), X[[4, 3]])
    np.testing.assert_array_equal(examples.gold.teacher.probs.numpy(), PROBS[[4, 3]])
    assert examples.pool.ids.tolist() == ["d", "a", "f", "c"]
    np.testing.assert_array_equal(examples.pool.rows.take(torch.arange(4)).numpy(), X[[0, 1, 2, 5]])
    assert examples.shape == (2,) and examples.classes == 2 and examples.featuriser.names == ("x",)


def test_integer_ids_of_different_width_join(save: Any) -> None:
    gold = save("g.parquet", id=np.array([30, 10], dtype=np.int32), label=[1, 0])
    pool = save("p.npz", id=np.array([10, 20, 30]), x=X[:3], teacher_probs=PROBS[:3])
    examples = read_examples(gold=gold, pool=pool)
    np.testing.assert_array_equal(examples.gold.x.numpy(), X[[2, 0]])  # type: ignore[union-attr]


def test_numeric_columns_are_features_in_the_pools_order(save: Any) -> None:
    pool = save("p.parquet", id=[1, 2], height=[1.5, 2.5], age=[3, 4], teacher_label=[0, 1], label=[0, 1])
    test = save("t.parquet", age=[7, 8], height=[5.5, 6.5], label=[0, 1])
    examples = read_examples(pool=pool, test=test, features=FeatureOptions(scale=False))
    assert examples.featuriser.names == ("height", "age")
    assert examples.pool.x.tolist() == [[1.5, 3], [2.5, 4]]  # type: ignore[union-attr]
    assert examples.test.x.tolist() == [[5.5, 7], [6.5, 8]]  # type: ignore[union-attr]


def test_text_columns_are_left_out_with_a_warning(save: Any) -> None:
    table = read_table(save("p.parquet", height=np.arange(5.0), comment=["v", "w", "x", "y", "z"]))
    with pytest.warns(UnderstudyWarning, match="'comment' left out"):
        assert fitted(table).names == ("height",)


def test_gold_with_features_takes_the_teachers_word_from_the_pool(save: Any) -> None:
    gold = save("g.npz", id=["z", "c"], x=np.stack([[50, 51], X[5]]), label=[0, 1])
    pool = save("p.npz", id=IDS, x=X, teacher_probs=PROBS)
    examples = read_examples(gold=gold, pool=pool)
    assert examples.gold is not None and len(examples.gold) == 2
    rows, said = examples.gold.calibration()
    assert examples.gold.y[rows].tolist() == [1]
    np.testing.assert_array_equal(said.probs.numpy(), PROBS[[5]])  # type: ignore[union-attr]
    assert len(examples.pool) == 5  # type: ignore[arg-type]


def test_integers_become_floats_and_images_keep_their_shape(save: Any) -> None:
    table = read_table(save("p.npz", x=np.arange(24, dtype=np.uint8).reshape(2, 3, 4)))
    rows = features_of(table, fitted(table))
    assert isinstance(rows, TensorRows)
    x = rows.x
    assert x.dtype == torch.float32 and x.shape == (2, 3, 4)


def test_empty_cells_mean_no_teacher_label(tmp_path: Path) -> None:
    columns = {"f": [1.0, 2.0], "teacher_label": pa.array([None, 1], pa.uint8()), "teacher_confidence": [None, 0.5]}
    pq.write_table(pa.table(columns), tmp_path / "p.parquet")
    teacher = pool_of(read_table(tmp_path / "p.parquet")).teacher
    assert isinstance(teacher, Hard) and teacher.labels.tolist() == [-1, 1]
    assert teacher.given is not None and teacher.given[1] == 0.5


def test_lists_of_variable_type_but_equal_length_are_read(tmp_path: Path) -> None:
    pq.write_table(pa.table({"x": [[1.0, 2.0], [3.0, 4.0]], "label": [0, 1]}), tmp_path / "g.parquet")
    assert gold_of(read_table(tmp_path / "g.parquet")).x.tolist() == [[1, 2], [3, 4]]


def _gold(columns: dict[str, Any]) -> Any:
    return gold_of(Table(Path("gold.npz"), {name: np.asarray(column) for name, column in columns.items()}))


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ({"x": X[:2]}, "gold.npz has no column 'label'"),
        ({"label": [0, 1]}, "gold.npz has no features"),
        ({"x": X[:2], "label": ["cat", "dog"]}, "gold.npz: column 'label' holds text"),
        ({"x": X[:2], "label": [0, -1]}, "gold.npz: column 'label' row 1 is -1"),
        ({"x": X[:2], "label": [0, 0.5]}, "gold.npz: column 'label' row 1 is 0.5"),
        ({"x": [["a", "b"]], "label": [0]}, "column 'x' holds arrays of"),
        ({"x": [[1.0, 2.0], [np.nan, 0.0]], "label": [0, 1]}, "column 'x' row 1 holds NaN"),
        ({"f": [1.0, np.inf], "label": [0, 1]}, "column 'f' row 1 holds infinity"),
        ({"x": X[:2], "label": [0, 1], "teacher_probs": [[0.5, 0.5], [0.9, 0.3]]}, "'teacher_probs' row 1 sums to 1.2"),
        ({"x": X[:2], "label": [0, 1], "teacher_probs": PROBS[:2], "teacher_label": [0, 1]}, "keep one"),
        ({"x": X[:2], "label": [0, 1], "teacher_confidence": [0.5, 0.1]}, "add 'teacher_label'"),
        ({"x": X[:2], "label": [0, 1], "teacher_prob": PROBS[:2]}, "'teacher_prob' is not known"),
        ({"x": X[:2], "label": [0, 1], "teacher_label": ["cat", "dog"]}, "'teacher_label' holds text"),
        ({"x": X[:2], "label": [0, 1], "id": [7, 7]}, "column 'id' row 1 repeats 7"),
        ({"x": X[:2], "label": [0, 1], "id": [0.5, 7]}, "column 'id' holds fractions"),
    ],
)
def test_a_bad_gold_table_is_named(columns: dict[str, Any], said: str) -> None:
    with pytest.raises(UnderstudyError) as caught:
        _gold(columns)
    assert said in str(caught.value) and "\n" not in str(caught.value)


def test_join_errors_name_the_row_and_both_files(save: Any) -> None:
    pool = save("p.npz", id=IDS, x=X, teacher_probs=PROBS)
    for columns, said in [
        ({"id": ["a", "zz"], "label": [0, 1]}, r"g\d.npz: column 'id' row 1: 'zz' is not among the ids of .*p.npz"),
        ({"id": [1, 2], "label": [0, 1]}, "row 0: '1' is not among the ids of .*p.npz .such as 'd'.;"),
        ({"label": [0, 1]}, r"g\d.npz has no column 'id' to join by"),
        ({"id": ["a"], "x": X[3:4], "label": [0]}, "'a' has other features in"),
        ({"id": list("abcdef"), "label": [0] * 6}, "every row also serves as gold"),
    ]:
        gold = save(f"g{len(said) % 10}.npz", **columns)
        with pytest.raises(UnderstudyError, match=said):
            read_examples(gold=gold, pool=pool)
        gold.unlink()
    with pytest.raises(UnderstudyError, match=r"p2.npz has no column 'id' to join by"):
        read_examples(gold=save("g.npz", id=["a"], label=[0]), pool=save("p2.npz", x=X, teacher_probs=PROBS))


def test_a_row_serves_one_purpose(save: Any) -> None:
    pool = save("p.npz", id=IDS, x=X, teacher_probs=PROBS)
    gold, test = save("g.npz", id=["a", "b"], label=[0, 1]), save("t.npz", id=["b", "c"], label=[1, 1])
    with pytest.raises(UnderstudyError, match="share 1 ids"):
        read_examples(gold=gold, pool=pool, test=test)


def test_test_rows_leave_the_pool_too(save: Any) -> None:
    pool = save("p.npz", id=IDS, x=X, teacher_probs=PROBS)
    gold, test = save("g.npz", id=["a"], label=[0]), save("t.npz", id=["b"], label=[1])
    assert read_examples(gold=gold, pool=pool, test=test).pool.ids.tolist() == ["d", "f", "e", "c"]  # type: ignore


def test_partly_missing_features_are_pointed_at(save: Any) -> None:
    pool = save("p.npz", a=[1.0, 2.0], b=[1.0, 2.0], teacher_label=[0, 1])
    with pytest.raises(UnderstudyError, match=r"t.npz has no column 'b', but other features"):
        read_examples(pool=pool, test=save("t.npz", a=[1.0], label=[0]))


def test_unreadable_files_are_errors(tmp_path: Path, save: Any) -> None:
    broken = {name: tmp_path / f"broken{name}" for name in SUFFIXES}
    for path in broken.values():
        path.write_bytes(b"not what it says")
    (tmp_path / "table.sav").write_text("a,b\n")
    np.save(tmp_path / "one.npy", X)
    (tmp_path / "one.npy").rename(tmp_path / "one.npz")
    np.savez(tmp_path / "objects.npz", label=np.array([1, "two"], dtype=object))
    np.savez(tmp_path / "ragged.npz", x=X, label=np.zeros(3))
    np.savez(tmp_path / "scalar.npz", x=X, label=np.array(3))
    np.savez(tmp_path / "empty.npz", x=X[:0], label=np.zeros(0))
    for name, said in [
        ("broken.npz", "cannot read .*broken.npz as .npz"),
        ("broken.parquet", "cannot read .*broken.parquet as Parquet"),
        ("table.sav", "files ending in '.sav' are not read; use one of .parquet, .csv, .tsv, .txt, .jsonl, .xlsx"),
        ("nowhere.npz", "nowhere.npz is not there"),
        ("one.npz", "single array"),
        ("objects.npz", "column 'label' holds Python objects of mixed types"),
        ("ragged.npz", "columns differ in length .x 6, label 3."),
        ("scalar.npz", "column 'label' is a single value"),
        ("empty.npz", "holds no rows"),
    ]:
        with pytest.raises(UnderstudyError, match=said) as caught:
            dict(read_table(tmp_path / name).columns)
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("column", "values", "said"),
    [
        ("x", [[1.0, 2.0], [3.0]], "column 'x' row 1 holds 1 values, row 0 holds 2"),
        ("x", [[1.0, None], [3.0, 4.0]], "column 'x' row 0 has an empty entry"),
        ("label", [0, None], "column 'label' row 1 is empty"),
        ("id", ["a", None], "column 'id' row 1 is empty"),
    ],
)
def test_gaps_in_parquet_are_named(column: str, values: list[Any], said: str, tmp_path: Path) -> None:
    pq.write_table(pa.table({column: values}), tmp_path / "p.parquet")
    with pytest.raises(UnderstudyError, match=said):
        read_table(tmp_path / "p.parquet").columns[column]


def test_runs_made_in_python_name_their_columns(tmp_path: Path, save: Any) -> None:
    table = read_table(save("t.npz", b=[1.0, 2.0], a=[3, 4], x=X[:2]))
    for features, expected in [(["a", "b"], [[3, 1], [4, 2]]), (None, X[:2].tolist())]:
        rows = features_of(table, load_featuriser(tmp_path, {"features": features}, table))
        assert isinstance(rows, TensorRows) and rows.x.tolist() == expected


def test_nothing_is_learned_from_rows_to_predict(tmp_path: Path, save: Any) -> None:
    """A run made in Python keeps no featuriser: what categories mean would be made up from the file at hand."""
    table = read_table(save("t.csv", age=[1.0, 2.0], job=["cook", "smith"]))
    with pytest.raises(UnderstudyError, match=r"does not say how column 'job' of .*t\.csv becomes numbers"):
        load_featuriser(tmp_path, {}, table)


def test_no_file_is_overwritten(save: Any) -> None:
    path = save("t.npz", x=X)
    with pytest.raises(UnderstudyError, match="already exists"):
        write_table(path, {"x": X})
    with pytest.raises(UnderstudyError, match=r"\.parquet, \.csv, \.jsonl or \.npz"):
        write_table(path.with_suffix(".txt"), {"x": X})


@pytest.mark.parametrize("marks", [[True, False, False], [1, 0, 0], ["true", "False", "no"], [1.0, 0.0, 0.0]])
def test_a_column_marks_gold_that_estimates_only(marks: list[Any], save: Any, tmp_path: Path) -> None:
    pool = save("pool.parquet", id=IDS, x=X, teacher_probs=PROBS)
    gold = save("gold.csv", id=["a", "b", "c"], label=[0, 1, 1], estimate_only=marks)
    found = read_examples(gold=gold, pool=pool).gold
    assert found is not None and found.estimate_only.tolist() == [True, False, False]
    # Rows with features of their own take the labels of those that the pool knows.
    columns = {"id": ["z", "a", "b"], "x": np.concatenate([X[:1] + 9, X[[1, 3]]]), "label": [0, 0, 1]}
    gold = save("own.parquet", **columns, estimate_only=np.asarray(marks)[[1, 0, 2]])
    found = read_examples(gold=gold, pool=pool).gold
    assert found is not None and found.ids is not None and found.ids.tolist() == ["z", "a", "b"]
    assert found.estimate_only.tolist() == [False, True, False] and found.teacher_rows.tolist() == [1, 2]
    assert found.teacher is not None and np.allclose(found.teacher.probs, PROBS[[1, 3]])  # type: ignore[attr-defined]


def test_labels_given_with_a_suggestion_in_view_never_estimate(save: Any) -> None:
    pool = save("pool.parquet", id=IDS, x=X, teacher_probs=PROBS)
    marks = {"label": [0, 1, 1], "suggestion_shown": [True, False, False]}
    found = read_examples(gold=save("gold.csv", id=["a", "b", "c"], **marks), pool=pool).gold
    assert (
        found is not None
        and found.calibration_rows().tolist() == [1, 2]
        and found.training_rows().tolist() == [0, 1, 2]
    )
    # Also of rows with features of their own.
    own = save("own.parquet", id=["z", "a", "b"], x=np.concatenate([X[:1] + 9, X[[1, 3]]]), **marks)
    found = read_examples(gold=own, pool=pool).gold
    assert found is not None and found.ids is not None and found.ids.tolist() == ["z", "a", "b"]
    assert found.chosen.tolist() == [True, False, False]
    # In answers, of rows that no strategy picked.
    batch = save("batch.csv", id=["a", "b", "c"], chosen=[0, 0, 1], **marks)
    found = read_examples(pool=pool, chosen=[batch]).gold
    assert found is not None and found.chosen.tolist() == [True, False, True]
    # Nor does the probability with which such a row was drawn help.
    for name, role in (("one.csv", "gold"), ("two.parquet", "gold"), ("three.csv", "chosen")):
        drawn = save(name, id=["a", "b", "c"], probability=[0.5, 0.25, np.nan], **marks)
        found = read_examples(pool=pool, **{role: drawn if role == "gold" else [drawn]}).gold
        assert found is not None and found.probability is not None
        assert found.probability.isnan().tolist() == [True, False, True] and float(found.probability[1]) == 0.25
    none = save("none.parquet", id=["a", "b", "c"], probability=[0.5, 0.0, 1.0], **marks)  # read as NaN before
    with pytest.raises(UnderstudyError, match=r"'probability' row 1 is 0; a probability is above 0"):
        read_examples(pool=pool, gold=none)
    batch = save("unsure.csv", id=["a", "b"], label=[0, 1], suggestion_shown=["", "no"])
    with pytest.raises(UnderstudyError, match=r"unsure\.csv line 2: column 'suggestion_shown' row 0 is ''; write true"):
        read_examples(pool=pool, chosen=[batch])


def test_a_mark_is_true_or_false(save: Any) -> None:
    gold = save("gold.csv", id=["a", "b"], label=[0, 1], estimate_only=["true", "maybe"])
    with pytest.raises(UnderstudyError, match=r"gold\.csv line 3: column 'estimate_only' row 1 is 'maybe'"):
        read_examples(gold=gold, pool=save("pool.parquet", id=IDS, x=X, teacher_probs=PROBS))
    gold = save("numbers.csv", x0=[0.0, 1.0], label=[0, 1], estimate_only=[1, 0])
    with pytest.raises(UnderstudyError, match="none of them"):
        read_examples(gold=gold)
