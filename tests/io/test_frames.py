"""Tables in memory: pandas, polars, Arrow, ``datasets`` and mappings of arrays are read as files are, to the same bits.

Each library is asked for where it is used: what is not installed is skipped.
"""

import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
import torch
from scipy import sparse

import understudy as us
from understudy.errors import UnderstudyError
from understudy.io.label_columns import declared_classes
from understudy.io.table import read_table

ROWS, GOLD = 40, 12


def world() -> tuple[pa.Table, pa.Table]:
    """A pool with everything, and gold of id and label."""
    random = np.random.default_rng(0)
    right = random.random(ROWS).round(3)
    kinds = np.array(["b", "a", "c"], dtype=object)
    pool = pa.table(
        {
            "id": [f"r{row}" for row in range(ROWS)],
            "size": random.normal(size=ROWS).round(4),
            "count": random.integers(0, 9, ROWS),
            "kind": kinds[random.integers(0, 3, ROWS)],
            "flag": random.random(ROWS) > 0.5,
            "teacher_prob_pos": right,
            "teacher_prob_neg": (1 - right).round(3),
        }
    )
    gold = pa.table({"id": [f"r{3 * row}" for row in range(GOLD)], "label": ["pos", "neg", "neg"] * (GOLD // 3)})
    return gold, pool


def as_csv(table: pa.Table, folder: Path, name: str) -> Path:
    pyarrow.csv.write_csv(table, folder / f"{name}.csv")
    return folder / f"{name}.csv"


def as_parquet(table: pa.Table, folder: Path, name: str) -> Path:
    pq.write_table(table, folder / f"{name}.parquet")
    return folder / f"{name}.parquet"


def as_pandas(table: pa.Table, *_: Any) -> Any:
    frame = pytest.importorskip("pandas").DataFrame(table.to_pydict())
    return frame.set_axis(range(7, 7 + len(frame)))  # an index of its own, which is no column


def as_polars(table: pa.Table, *_: Any) -> Any:
    return pytest.importorskip("polars").DataFrame(table.to_pydict())


def as_lazy(table: pa.Table, *_: Any) -> Any:
    pytest.importorskip("narwhals")
    return as_polars(table).lazy()


def as_datasets(table: pa.Table, *_: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # its own imports' affair
        datasets = pytest.importorskip("datasets")
    more = pa.concat_tables([table.slice(0, 2), table])
    return datasets.Dataset(more).select(range(2, 2 + len(table)))  # rows by index, as after a shuffle or a filter


def as_mapping(table: pa.Table, *_: Any) -> Any:
    columns: dict[str, Any] = {name: table[name].to_pylist() for name in table.column_names}
    if "size" in columns:
        columns |= {"size": torch.tensor(columns["size"], dtype=torch.float64), "count": np.array(columns["count"])}
    return columns


def as_arrow(table: pa.Table, *_: Any) -> pa.Table:
    return pa.concat_tables([table.slice(0, 5), table.slice(5, 0), table.slice(5)])


KINDS = [as_csv, as_parquet, as_arrow, as_pandas, as_polars, as_lazy, as_datasets, as_mapping]


@pytest.mark.parametrize("kind", KINDS)
def test_one_table_gives_the_same_bits_whatever_holds_it(kind: Any, tmp_path: Path) -> None:
    def bits(make: Any) -> tuple[Any, Any]:
        examples = us.read_examples(
            **{name: make(table, tmp_path, name) for name, table in zip(("gold", "pool"), world(), strict=True)}
        )
        torch.manual_seed(1)
        student = torch.nn.Sequential(torch.nn.Linear(*examples.shape, 8), torch.nn.Dropout(), torch.nn.Linear(8, 2))
        run = us.train(student, examples.gold, examples.pool, us.slam(), epochs=2, batch_size=8, progress=False)
        return examples, run

    (ours, run), (theirs, expected) = bits(kind), bits(as_parquet)
    assert ours.class_names == ("neg", "pos")
    assert ours.gold.ids.tolist() == theirs.gold.ids.tolist()
    for part in ("gold", "pool"):
        mine, other = getattr(ours, part), getattr(theirs, part)
        every = torch.arange(len(other))
        assert mine.rows.take(every).equal(other.rows.take(every)) and mine.teacher.probs.equal(other.teacher.probs)
    for name, value in expected.student.state_dict().items():
        assert run.student.state_dict()[name].equal(value)
    for name, column in expected.columns.items():
        torch.testing.assert_close(run.columns[name], column, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("kind", [as_arrow, as_pandas, as_polars, as_datasets])
def test_lists_gaps_and_categories(kind: Any) -> None:
    table = pa.table(
        {
            "x": [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]],
            "teacher_label": ["neg", None, "pos"],
            "teacher_confidence": [0.5, None, 0.9],
        }
    )
    read = read_table(kind(table), name="pool")
    assert read.columns["x"].tolist() == [[1, 2], [3, 4], [5, 6]]
    assert read.columns["teacher_label"].tolist() == ["neg", "", "pos"]
    assert np.isnan(read.columns["teacher_confidence"][1])


def test_categories_are_their_words() -> None:
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    words = ["b", "a", "b"]
    for frame in (
        pandas.DataFrame({"label": pandas.Categorical(words, categories=["b", "a"])}),
        polars.DataFrame({"label": polars.Series(words, dtype=polars.Categorical)}),
        polars.DataFrame({"label": polars.Series(words, dtype=polars.Enum(["b", "a"]))}),
    ):
        assert read_table(frame).columns["label"].tolist() == words


def declared(labels: list[int], names: list[str], column: str = "label", **more: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        datasets = pytest.importorskip("datasets")
    features = {column: datasets.ClassLabel(names=names)}
    features |= {name: datasets.Dataset.from_dict({name: values}).features[name] for name, values in more.items()}
    return datasets.Dataset.from_dict({column: labels, **more}, features=datasets.Features(features))


def test_declared_classes_give_the_order() -> None:
    """Lists of probabilities, and whole numbers, then follow it; names in another order are matched or refused."""
    gold = declared([0, 1, 1], ["pos", "neg"], x=[[1.0], [2.0], [3.0]], teacher_probs=[[0.9, 0.1], [0.2, 0.8], [0, 1]])
    pool = {"x": [[4.0], [5.0]], "teacher_probs": [[0.7, 0.3], [0.4, 0.6]]}
    examples = us.read_examples(gold=gold, pool=pool)
    assert examples.class_names == ("pos", "neg") and examples.gold is not None and examples.pool is not None
    assert examples.gold.y.tolist() == [0, 1, 1]
    assert us.read_examples(gold=gold, pool={"x": [[4.0]], "teacher_label": ["neg"]}).pool.teacher.labels.item() == 1  # type: ignore[union-attr]

    swapped = declared([0, 1, -1], ["neg", "pos"], "teacher_label", x=[[4.0], [5.0], [6.0]])
    plain = declared([0, 1, 1], ["pos", "neg"], x=[[1.0], [2.0], [3.0]])
    with pytest.raises(UnderstudyError, match=r"declares the classes pos, neg, pool .* neg, pos; say which order"):
        us.read_examples(gold=plain, pool=swapped)
    matched = us.read_examples(gold=plain, pool=swapped, classes=("pos", "neg"))
    assert matched.pool is not None and matched.pool.teacher.labels.tolist() == [1, 0, -1]  # type: ignore[union-attr]
    assert declared_classes([read_table({"label": ["a"]})]) is None


class NoTable:
    columns = 3


@pytest.mark.parametrize(
    "given, message",
    [
        (5, r"gold is a int; pass a file's name, a pandas"),
        ({"x": 3}, r"gold: column 'x' is a int; pass an array"),
        ({"x": sparse.eye(2, format="csr"), "label": [0, 1]}, r"column 'x' is a csr_.*sparse features: us\.Gold"),
        ({"x": torch.tensor(3.0)}, r"gold: column 'x' is a Tensor; pass an array"),
        ({3: [1]}, r"gold has a column named 3; names are text"),
        ({"x": [1.0], "label": [0, 1]}, r"gold: columns differ in length \(x 1, label 2\)"),
        ({"x": [1.0, "a"], "label": [0, 1]}, r"gold: column 'x' holds values of several types \(float, str\)"),
        (pa.table({"x": [1.0], "label": pa.array([None], pa.int64())}), r"gold \(Arrow Table\): column 'label' row 0"),
        (pa.table([[1], [2]], names=["a", "a"]), r"gold \(Arrow Table\): two columns are named 'a'"),
        (pa.table({"x": pa.array([], pa.int64())}), r"gold \(Arrow Table\) holds no rows"),
    ],
)
def test_what_is_no_table_is_refused_in_one_line(given: Any, message: str) -> None:
    with pytest.raises(UnderstudyError, match=message):
        us.read_examples(gold=given)


def test_an_index_that_should_be_a_column_is_named() -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"id": ["a", "b"], "size": [1.0, 2.0], "odd": [1, "two"], "label": [0, 1]})
    with pytest.raises(UnderstudyError, match=r"'id' is the index of the pandas DataFrame.*reset_index"):
        us.read_examples(gold=frame.set_index("id"))
    with pytest.raises(UnderstudyError, match=r"column 'odd' of the pandas DataFrame is nothing that Arrow can hold"):
        us.read_examples(gold=frame)
    gold = us.read_examples(gold=frame, features=us.features.featuriser.FeatureOptions(columns=("size",))).gold
    assert gold is not None and gold.y.tolist() == [0, 1]  # a column that nobody uses troubles nobody


def test_frames_that_need_narwhals_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UnderstudyError, match=r"NoTable is no table; pass a pandas, polars or Arrow one"):
        us.read_examples(gold=NoTable())
    monkeypatch.setitem(sys.modules, "narwhals", None)
    with pytest.raises(UnderstudyError, match=r'pip install .*\[frames\]"'):
        us.read_examples(gold=NoTable())


def test_several_tables_or_a_stream_are_not_one() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        datasets = pytest.importorskip("datasets")
    one = datasets.Dataset.from_dict({"x": [1.0]})
    with pytest.raises(UnderstudyError, match=r"holds several tables \(train, test\); pass one"):
        us.read_examples(gold=datasets.DatasetDict({"train": one, "test": one}))
    with pytest.raises(UnderstudyError, match=r"no end to count its rows to"):
        us.read_examples(gold=one.to_iterable_dataset())
