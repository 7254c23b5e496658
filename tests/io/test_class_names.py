"""Classes by name, and every form of the teacher's word, from files to numbers."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
import torch

import understudy as us
from understudy.errors import UnderstudyError, UnderstudyWarning
from understudy.io.label_columns import find_names
from understudy.io.read import Examples, read_examples
from understudy.io.table import Table
from understudy.labels.class_names import ClassNames
from understudy.labels.forms import Hard, Soft
from understudy.labels.soft import TopK
from understudy.labels.votes import Votes

N = 12
TRUTH = ["pos", "neg", "neutral"] * (N // 3)


@pytest.fixture
def save(tmp_path: Path) -> Any:
    """JSON lines of a pool ``p0 … p11`` with one feature and what else is given; or of any other rows."""

    def write(name: str, count: int = N, **columns: Any) -> Path:
        rows = [
            {"id": f"p{row}", "f": row / 7} | {key: column[row] for key, column in columns.items()}
            for row in range(count)
        ]
        (tmp_path / name).write_text("\n".join(json.dumps(row) for row in rows))
        return tmp_path / name

    return write


@pytest.fixture
def gold(tmp_path: Path) -> Path:
    lines = [f"p{row},{TRUTH[row]}" for row in (2, 0, 1)]
    (tmp_path / "gold.csv").write_text("\n".join(["id,label", *lines]))
    return tmp_path / "gold.csv"


def pool_of(examples: Examples) -> us.Pool:
    assert examples.pool is not None
    return examples.pool


def test_names_are_sorted_and_shared_by_all_files(save: Any, gold: Path, tmp_path: Path) -> None:
    said: list[Any] = ["neg", "pos", None, "", *TRUTH[4:]]
    (tmp_path / "test.csv").write_text("f,label\n0.5,pos\n0.25,neutral\n")
    (tmp_path / "batch.csv").write_text("id,label\np7,neutral\np8,skip\n")
    examples = read_examples(
        gold=gold, pool=save("pool.jsonl", teacher_label=said), test=tmp_path / "test.csv",
        chosen=[tmp_path / "batch.csv"],
    )  # fmt: skip
    assert examples.class_names == ("neg", "neutral", "pos") and examples.classes == 3
    assert examples.gold is not None and examples.test is not None and examples.gold.teacher is not None
    assert examples.gold.y.tolist() == [1, 2, 0, 1] and examples.test.y.tolist() == [2, 1]
    # The teacher said nothing of p2; of p0 "neg", of p1 "pos", of p7 (chosen) what is true.
    assert examples.gold.teacher_rows.tolist() == [1, 2, 3]
    assert examples.gold.teacher.top1().tolist() == [0, 2, 0]
    teacher = pool_of(examples).teacher
    assert isinstance(teacher, Hard) and teacher.classes == 3
    assert teacher.labels.tolist() == [-1, *([0, 1, 2, 0, 1, 2, 0, 1][i] for i in (0, 1, 2, 4, 5, 6, 7))]


def test_given_order(save: Any, gold: Path) -> None:
    pool = save("pool.jsonl", teacher_label=TRUTH)
    examples = read_examples(gold=gold, pool=pool, classes=["pos", "neutral", "neg", "other"])
    assert examples.class_names == ("pos", "neutral", "neg", "other") and examples.classes == 4
    assert examples.gold is not None and examples.gold.y.tolist() == [1, 0, 2]


def test_numbers_take_names_in_the_given_order(save: Any, tmp_path: Path) -> None:
    (tmp_path / "gold.csv").write_text("id,label\np0,1\np1,0\n")
    pool = save("pool.jsonl", teacher_label=[0, 1, -1] * 4)
    examples = read_examples(gold=tmp_path / "gold.csv", pool=pool, classes=["neg", "pos"])
    assert examples.class_names == ("neg", "pos")
    assert examples.gold is not None and examples.gold.y.tolist() == [1, 0]
    assert pool_of(examples).teacher.top1().tolist() == [-1, 0, 1, -1] + [0, 1, -1] * 2  # type: ignore[union-attr]


def test_names_that_are_numbers(tmp_path: Path) -> None:
    stars = ClassNames(("1", "2", "5"))
    assert stars.numbers(np.array([5, 1, 2]), "here").tolist() == [2, 0, 1]
    assert stars.numbers(np.array(["2", "", "5"], dtype=object), "here", missing=True).tolist() == [1, -1, 2]
    with pytest.raises(UnderstudyError, match=r"here row 1 is 3, which is not one of the classes \(1, 2, 5\)"):
        stars.numbers(np.array([5, 3]), "here")
    # CSV reads 1 and 2 of gold as numbers, while the pool's "other" makes a column of text.
    gold = Table(Path("gold.csv"), {"label": np.array([1, 2])})
    pool = Table(Path("pool.csv"), {"teacher_label": np.array(["1", "other", ""], dtype=object)})
    assert find_names([gold], pool) == ClassNames(("1", "2", "other"))


def test_whole_numbers_need_no_names(save: Any, tmp_path: Path) -> None:
    (tmp_path / "gold.csv").write_text("id,label\np0,1\np1,0\n")
    examples = read_examples(gold=tmp_path / "gold.csv", pool=save("pool.jsonl", teacher_label=[0, 1, 2] * 4))
    assert examples.class_names is None and examples.classes == 3


PROBS = np.array([[0.2, 0.3, 0.5], [0.6, 0.1, 0.3], [0.1, 0.8, 0.1]] * 4)


@pytest.mark.parametrize("form", ["object", "columns", "list"])
def test_probabilities_follow_the_names(form: str, save: Any, gold: Path) -> None:
    order = ["pos", "neg", "neutral"]
    given: dict[str, Any] = {
        "object": {"teacher_probs": [dict(zip(order, row, strict=True)) for row in PROBS.tolist()]},
        "columns": {f"teacher_prob_{name}": PROBS[:, place].tolist() for place, name in enumerate(order)},
        "list": {"teacher_probs": PROBS.tolist()},
    }[form]
    pool = save("pool.jsonl", **given)
    if form == "list":
        with pytest.raises(UnderstudyError, match="say which class comes first: --classes neg,neutral,pos"):
            read_examples(gold=gold, pool=pool)
    examples = read_examples(gold=gold, pool=pool, classes=order if form == "list" else None)
    teacher = pool_of(examples).teacher
    assert isinstance(teacher, Soft) and examples.gold is not None
    sorted_order = [0, 1, 2] if form == "list" else [1, 2, 0]
    np.testing.assert_allclose(teacher.probs.numpy(), PROBS[3:][:, sorted_order], rtol=1e-6)
    assert examples.gold.y.tolist() == ([2, 0, 1] if form == "list" else [1, 2, 0])


def test_top_k_by_name_and_by_number(save: Any, gold: Path, tmp_path: Path) -> None:
    listed = [["pos", "neg"], ["neutral"], ["neg", "neutral"]] * 4
    probs = [[0.7, 0.2], [0.9], [0.6, 0.3]] * 4
    by_name = read_examples(gold=gold, pool=save("n.jsonl", teacher_topk_index=listed, teacher_topk_prob=probs))
    (tmp_path / "numbers.csv").write_text("id,label\np2,1\np0,2\np1,0\n")
    numbers = [[2, 0], [1], [0, 1]] * 4
    pool = save("k.jsonl", teacher_topk_index=numbers, teacher_topk_prob=probs)
    by_number = read_examples(gold=tmp_path / "numbers.csv", pool=pool)
    for examples in (by_name, by_number):
        teacher = pool_of(examples).teacher
        assert isinstance(teacher, TopK) and teacher.classes == 3
        expected = [[0.2, 0.1, 0.7], [0.05, 0.9, 0.05], [0.6, 0.3, 0.1]]
        torch.testing.assert_close(teacher.dense(torch.arange(3), 3), torch.tensor(expected))
        assert examples.gold is not None and examples.gold.teacher is not None
        torch.testing.assert_close(
            examples.gold.teacher.dense(torch.arange(3), 3), torch.tensor([expected[2], expected[0], expected[1]])
        )


@pytest.mark.parametrize("rule", ["majority", "dawid_skene"])
@pytest.mark.parametrize("spread", [False, True])
def test_votes_are_weighed_by_one_model(rule: str, spread: bool, save: Any, tmp_path: Path) -> None:
    votes: list[list[Any]] = [["neg", "neg", None], ["pos", "neg", "pos"], ["pos", "pos", ""]] * 4
    numbers = torch.tensor([[0, 0, -1], [1, 0, 1], [1, 1, -1]] * 4)
    given = {f"teacher_vote_{name}": [row[i] for row in votes] for i, name in enumerate("abc")}
    pool = save("pool.jsonl", **(given if spread else {"teacher_votes": votes}))
    (tmp_path / "g.csv").write_text("id,label\np1,pos\np3,neg\n")
    examples = read_examples(gold=tmp_path / "g.csv", pool=pool, votes=rule)
    expected = Votes(numbers, classes=2, by=rule)
    left = torch.tensor([row for row in range(N) if row not in (1, 3)])
    teacher = pool_of(examples).teacher
    assert isinstance(teacher, Votes) and examples.gold is not None and isinstance(examples.gold.teacher, Votes)
    torch.testing.assert_close(teacher.dense(torch.arange(len(left)), 2), expected.dense(left, 2))
    torch.testing.assert_close(examples.gold.teacher.dense(torch.arange(2), 2), expected.dense(torch.tensor([1, 3]), 2))
    assert examples.gold.teacher.weighed_like(teacher)


def test_gold_with_votes_of_its_own_is_weighed_by_the_pools_model(save: Any, tmp_path: Path) -> None:
    votes = [[0, 0, 1], [1, 0, 1], [1, 1, 1], [0, 0, 0]] * 3
    (tmp_path / "gold.jsonl").write_text('{"f": 1, "label": 1, "teacher_votes": [1, 0, 0]}\n')
    examples = read_examples(
        gold=tmp_path / "gold.jsonl", pool=save("pool.jsonl", teacher_votes=votes), votes="dawid_skene"
    )
    assert examples.gold is not None and isinstance(examples.gold.teacher, Votes)
    model = Votes(torch.tensor(votes), classes=2).dawid_skene()
    torch.testing.assert_close(
        examples.gold.teacher.dense(torch.arange(1), 2), model.posterior_of(torch.tensor([[1, 0, 0]])).float()
    )


@pytest.mark.parametrize(
    ("files", "classes", "said"),
    [
        (
            {"test.csv": "f,label\n1,pos\n2,angry\n"},
            None,
            "test.csv line 3: column 'label' row 1 is 'angry', which is not one",
        ),
        ({"test.csv": "f,label\n1,pos\n2,\n"}, None, "test.csv line 3: column 'label' row 1 is empty"),
        ({"test.csv": "f,label\n1,0\n2,7\n"}, None, "test.csv line 2: column 'label' row 0 is 0, which is not one"),
        (
            {"gold.csv": "id,label\np0,0\np1,1\n"},
            None,
            "gold.csv: column 'label' holds numbers, other labels are names",
        ),
        (
            {"batch.csv": "id,label\np7,posh\n"},
            None,
            "batch.csv line 2: column 'label' row 0 has label 'posh'; write one of",
        ),
        (
            {"batch.csv": "id,label\np7,1\n"},
            None,
            "has label '1'; write one of the classes (neg, neutral, pos), or skip",
        ),
        ({}, ["neg", "pos"], "column 'teacher_label' row 2 is 'neutral', which is not one of the classes (neg, pos)"),
        ({}, 5, "the files name 3 classes (neg, neutral, pos), not 5"),
        ({}, ["neg", "neg"], "name two classes or more, each once"),
    ],
)
def test_unknown_classes_are_named(
    files: dict[str, str], classes: Any, said: str, save: Any, gold: Path, tmp_path: Path
) -> None:
    pool = save("pool.jsonl", teacher_label=TRUTH)
    for name, content in files.items():
        (tmp_path / name).write_text(content)
    test = tmp_path / "test.csv" if "test.csv" in files else None
    chosen = [tmp_path / "batch.csv"] if "batch.csv" in files else []
    with pytest.raises(UnderstudyError) as caught:
        read_examples(gold=gold, pool=pool, test=test, chosen=chosen, classes=classes)
    assert said in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ({"teacher_topk_index": [[0, 1]] * N}, "'teacher_topk_index' stands alone; add 'teacher_topk_prob'"),
        ({"teacher_topk_prob": [[0.5]] * N}, "'teacher_topk_prob' stands alone; add 'teacher_topk_index'"),
        ({"teacher_votes": [[0, 1]] * N, "teacher_label": [0] * N}, "keep one of them"),
        ({"teacher_votes": [[0, 0.5]] * N}, "class numbers"),
        ({"teacher_prob_a": [0.5] * N, "teacher_prob_b": [0.4] * N}, "sums to 0.9"),
        ({"teacher_probs": [{"a": 0.5, "b": 0.5}] * (N - 1) + [None]}, "row 11 is empty"),
        ({"teacher_guess": [0] * N}, "'teacher_guess' is not known"),
    ],
)
def test_a_bad_word_of_the_teacher_is_named(columns: dict[str, Any], said: str, save: Any) -> None:
    with pytest.raises(UnderstudyError) as caught:
        read_examples(pool=save("pool.jsonl", **columns))
    assert said in str(caught.value) and "\n" not in str(caught.value)


def test_names_that_hardly_differ_are_told(save: Any, tmp_path: Path) -> None:
    (tmp_path / "g.csv").write_text("id,label\np0,pos\np1,neg\np2,Pos \n")
    with pytest.warns(UnderstudyWarning, match="'Pos ' and 'pos' are two classes"):
        examples = read_examples(gold=tmp_path / "g.csv", pool=save("pool.jsonl", teacher_label=["neg", "pos"] * 6))
    assert examples.class_names == ("Pos ", "neg", "pos")


def test_a_mapping_that_fits_no_file_is_a_mistake(save: Any) -> None:
    with pytest.raises(
        UnderstudyError, match=r"pool\.jsonl has no column 'lable' \(to serve as 'teacher_label'\); it has"
    ):
        read_examples(pool=save("pool.jsonl", guess=[0] * N), columns={"teacher_label": "lable"})
    examples = read_examples(pool=save("pool.jsonl", guess=[0, 1] * 6), columns={"teacher_label": "guess"})
    assert examples.featuriser.names == ("f",) and pool_of(examples).teacher is not None


def test_features_are_fitted_on_training_rows_only(save: Any, tmp_path: Path) -> None:
    """Test rows that take their features from the pool file must not scale them; gold from elsewhere does."""
    pool = save("pool.jsonl", teacher_label=[0, 1] * 6)
    (tmp_path / "test.csv").write_text("id,label\np11,0\np10,1\n")
    (tmp_path / "gold.csv").write_text("id,f,label\nz,100,0\np0,0,1\n")
    examples = read_examples(gold=tmp_path / "gold.csv", pool=pool, test=tmp_path / "test.csv")
    seen = np.array([*(row / 7 for row in range(10)), 100])
    assert examples.test is not None and examples.gold is not None
    np.testing.assert_allclose(
        examples.test.x.numpy()[:, 0], (np.array([11 / 7, 10 / 7]) - seen.mean()) / seen.std(), rtol=1e-5
    )
    np.testing.assert_allclose(
        examples.gold.rows.take(torch.arange(2)).max(), (100 - seen.mean()) / seen.std(), rtol=1e-5
    )


@pytest.mark.parametrize(
    "columns, labels",
    [
        ({"teacher_label": [-1, None, 1]}, [[0], [-1], [2]]),
        ({"teacher_label": [-1.0, None, 1.0]}, [[0], [-1], [2]]),
        ({"teacher_label": ["-1", None, "1"]}, [[0], [-1], [2]]),
        ({"teacher_label": [-1, None, 1], "teacher_confidence": [3, None, 4]}, [[0], [-1], [2]]),
        ({"teacher_vote_a": [-1, None, 1], "teacher_vote_b": [None, 0, 1]}, [[0, -1], [-1, 1], [2, 2]]),
        ({"teacher_votes": [[-1, None], [None, 0], [1, 1]]}, [[0, -1], [-1, 1], [2, 2]]),
        ({"teacher_topk_index": [[-1], [0, 1], [1]], "teacher_topk_prob": [[1.0], [0.6, 0.4], [1.0]]}, [[0], [1], [2]]),
    ],
)
@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet"])
def test_an_empty_cell_is_no_class_called_minus_one(
    columns: dict[str, list[Any]], labels: list[list[int]], kind: str, tmp_path: Path
) -> None:
    path, table = tmp_path / f"pool.{kind}", pa.table({"f": [0.5, 1.5, 2.5], **columns})
    if kind == "parquet":
        pq.write_table(table, path, row_group_size=1)
    elif kind == "jsonl":
        path.write_text("\n".join(json.dumps(row) for row in table.to_pylist()))
    elif any(pa.types.is_list(column.type) for column in table.columns):
        pytest.skip("CSV holds no lists")
    else:
        pa.csv.write_csv(table, path)
    gold = {"f": [0.0, 1.0, 2.0], "label": ["-1", "0", "1"]}
    teacher = pool_of(read_examples(gold=gold, pool=path, classes=("-1", "0", "1"))).teacher
    assert teacher is not None and teacher.answers().tolist() == labels
    if "teacher_topk_index" not in columns and "teacher_votes" not in columns:
        # Without such a class −1 means no label, as it does among class numbers.
        gold["label"] = ["0", "1", "1"]
        teacher = pool_of(read_examples(gold=gold, pool=path, classes=("0", "1"))).teacher
        assert teacher is not None and teacher.answers().max() == 1 and int((teacher.answers() < 0).sum()) >= 2


def test_an_empty_label_is_a_pool_row_of_one_file_also_where_a_class_is_minus_one(tmp_path: Path) -> None:
    label, given = pa.array([-1, 0, 1, None, None, -1]), pa.array([-1, 0, 1, None, 0, 1])
    table = pa.table({"f": [0.5, 1.5, 2.5, 3.5, 4.5, 5.5], "label": label, "teacher_label": given})
    pq.write_table(table, tmp_path / "one.parquet")
    for classes, gold, pool in ((("-1", "0", "1"), [0, 1, 2, 0], [-1, 1]), (None, [0, 1], [-1, -1, 0, 1])):
        found = read_examples(gold=tmp_path / "one.parquet", pool=tmp_path / "one.parquet", classes=classes)
        assert found.gold is not None and found.gold.y.tolist() == gold
        teacher = pool_of(found).teacher
        assert teacher is not None and teacher.top1().tolist() == pool


def test_numbers_are_no_positions_among_classes_that_are_negative_numbers(save: Any, tmp_path: Path) -> None:
    (tmp_path / "gold.csv").write_text("f,label\n0.5,-1\n0.25,+1\n")
    pool = save("pool.jsonl", teacher_label=[-1, 1] * (N // 2))
    with pytest.raises(UnderstudyError, match=r"row 1 is 1, which is not one of the classes"):
        read_examples(gold=tmp_path / "gold.csv", pool=pool, classes=("-1", "+1"))


def test_labels_of_one_class_are_refused_as_such() -> None:
    with pytest.raises(UnderstudyError, match=r"all labels are of one class \(neg\); two or more are needed"):
        read_examples(gold={"f": [1.0, 2.0], "label": ["neg", "neg"]})


ANSWERS = ["It is a pos.", "neg!", "The answer is: neg.", "Pos", "no idea", "neg"] * 2


def test_answers_in_words_are_read_where_the_classes_are_listed(save: Any, gold: Path) -> None:
    pool = save("pool.jsonl", teacher_label=ANSWERS)
    with pytest.warns(UnderstudyWarning, match=r"'teacher_label': answers in words are read \(.*\); 2 of 12 name none"):
        labels = pool_of(read_examples(pool=pool, classes=["pos", "neg"])).teacher
    assert isinstance(labels, Hard) and labels.top1().tolist() == [0, 1, 1, 0, -1, 1] * 2


def test_answers_in_words_ask_for_the_classes(save: Any, tmp_path: Path) -> None:
    """Every answer would be a class of its own."""
    (tmp_path / "g.csv").write_text("f,label\n1,pos\n2,neg\n")
    with pytest.raises(UnderstudyError, match=r"are answers in words, like .It is a pos\..; .*: --classes .neg,pos."):
        read_examples(gold=tmp_path / "g.csv", pool=save("pool.jsonl", teacher_label=ANSWERS))


def test_classes_that_gold_lacks_are_no_answers_in_words(save: Any, tmp_path: Path) -> None:
    (tmp_path / "g.csv").write_text("f,label\n1,pos\n2,neg\n")
    pool = save("pool.jsonl", teacher_label=["pos", "neg", "pos post", "mixed", "other", "negation"] * 2)
    assert len(read_examples(gold=tmp_path / "g.csv", pool=pool).class_names or ()) == 6


def test_a_class_but_for_a_letter_is_another_class(save: Any) -> None:
    pool = save("pool.jsonl", teacher_label=["level_one", "level_two", "level_twp"] * 4)
    with pytest.raises(UnderstudyError, match="row 2 is 'level_twp', which is not one of the classes"):
        read_examples(pool=pool, classes=["level_one", "level_two"])
