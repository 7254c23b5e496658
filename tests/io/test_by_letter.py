"""Labels and ids by the letter: what a file happens to hold does not decide what its cells mean."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from understudy.errors import UnderstudyError, UnderstudyWarning
from understudy.features.featuriser import FeatureOptions
from understudy.io.batch_answers import read_chosen
from understudy.io.read import Examples, read_examples
from understudy.io.table import read_table
from understudy.labels.class_names import ClassNames

Save = Callable[..., Path]


@pytest.fixture
def save(tmp_path: Path) -> Save:
    """A CSV of columns, cell by cell as they are written; ``.parquet`` and ``.jsonl`` with their types."""

    def write(name: str, **columns: Any) -> Path:
        path = tmp_path / name
        if path.suffix == ".parquet":
            pq.write_table(pa.table(columns), path)
        elif path.suffix == ".jsonl":
            rows = [dict(zip(columns, cells, strict=True)) for cells in zip(*columns.values(), strict=True)]
            path.write_text("\n".join(map(json.dumps, rows)))
        else:
            lines = [",".join(map(str, cells)) for cells in zip(*columns.values(), strict=True)]
            path.write_text("\n".join([",".join(columns), *lines]) + "\n")
        return path

    return write


def numbers(count: int) -> list[float]:
    return [row / 7 for row in range(count)]


def truth(examples: Examples, role: str = "gold") -> list[str]:
    """The classes of a set by name."""
    names = examples.class_names
    assert names is not None
    return [names[number] for number in getattr(examples, role).y.tolist()]


@pytest.mark.filterwarnings("ignore:.*are two classes:understudy.UnderstudyWarning")
def test_zeros_make_another_class_whatever_else_the_file_holds(save: Save) -> None:
    gold = save("gold.csv", f=numbers(6), label=["7", "007", "x"] * 2)
    examples = read_examples(gold=gold, test=save("test.csv", f=numbers(4), label=["007", "7", "7", "007"]))
    assert examples.class_names == ("007", "7", "x")
    assert truth(examples, "test") == ["007", "7", "7", "007"]
    typed = read_examples(gold=gold, test=save("test.parquet", f=numbers(2), label=[7, 7]))
    assert truth(typed, "test") == ["7", "7"]


def test_near_names_are_named(save: Save) -> None:
    with pytest.warns(UnderstudyWarning, match="'007' and '7' are two classes, which differ in capitals, spaces or"):
        read_examples(gold=save("gold.csv", f=numbers(3), label=["7", "007", "x"]))
    with pytest.raises(UnderstudyError, match=r"labels hold '1' and '1\.0' \(whole numbers are written so"):
        read_examples(gold=save("gold.csv", f=numbers(3), label=["1", "1.0", "x"]))
    listed = read_examples(gold=save("gold.csv", f=numbers(3), label=["1", "1.0", "x"]), classes=["x", "1", "1.0"])
    assert listed.gold is not None and listed.gold.y.tolist() == [1, 2, 0]


@pytest.mark.parametrize(
    ("labels", "names"),
    [
        (["0", "1", "1e3"], ("0", "1", "1e3")),
        (["01", "02", "01"], ("01", "02")),
        (["1.0", "1.5", "2.0"], ("1.0", "1.5", "2.0")),
        (["skip", "nan", "pos"], ("nan", "pos", "skip")),
        (["True", "False", "True"], ("False", "True")),
        (["0", "1", "2"], None),
        (["0.0", "1.0", "2"], None),
        (["0", "7", "900000"], ("0", "7", "900000")),
        (["4000001", "30000002", "4000001"], ("4000001", "30000002")),
        (["12345678901234567890", "7", "x"], ("12345678901234567890", "7", "x")),
    ],
)
def test_what_is_a_number_and_what_a_name(labels: list[str], names: tuple[str, ...] | None, save: Save) -> None:
    examples = read_examples(gold=save("gold.csv", f=numbers(3), label=labels))
    assert examples.class_names == names
    assert examples.gold is not None
    shown = truth(examples) if names else [f"{number}" for number in examples.gold.y.tolist()]
    assert shown == (labels if names else [label.removesuffix(".0") for label in labels])


def test_large_numbers_of_typed_files_are_names_too(save: Save) -> None:
    examples = read_examples(gold=save("gold.parquet", f=numbers(3), label=[0, 1234567, 900000]))
    assert examples.class_names == ("0", "900000", "1234567") and truth(examples) == ["0", "1234567", "900000"]
    counted = read_examples(gold=save("gold.csv", f=numbers(3), label=[0, 1, 20_000]), classes=20_001)
    assert counted.class_names is None


def test_probabilities_by_large_numbers(save: Save) -> None:
    pool = save("p.csv", f=[1.0, 2.0], teacher_prob_0=[0.25, 1.0], teacher_prob_99999999999=[0.75, 0.0])
    examples = read_examples(pool=pool)
    assert examples.class_names == ("0", "99999999999") and examples.pool is not None
    assert examples.pool.teacher is not None and examples.pool.teacher.top1().tolist() == [1, 0]
    alone = save("q.csv", f=[1.0, 2.0], teacher_prob_99999999999=[1.0, 1.0])
    with pytest.raises(UnderstudyError, match="scores class 99999999999, which would make 100,000,000,000 classes"):
        read_examples(pool=alone)


@pytest.mark.parametrize("label", ["nan", "-3", "inf", ""])
def test_no_class_among_numbers(label: str, save: Save) -> None:
    with pytest.raises(UnderstudyError, match=r"column 'label' row 2 is "):
        read_examples(gold=save("gold.csv", f=numbers(3), label=["0", "1", label]))


def test_votes_by_the_letter(save: Save) -> None:
    votes = {"teacher_vote_a": ["7", "007", "x"], "teacher_vote_b": ["007", "007", "007"]}
    gold = save("gold.csv", f=numbers(3), label=["7", "007", "x"])
    with pytest.warns(UnderstudyWarning, match="two classes"):
        examples = read_examples(gold=gold, pool=save("pool.csv", f=[5.0, 6.0, 7.0], **votes))
    assert examples.pool is not None and examples.pool.teacher is not None
    assert examples.pool.teacher.answers().tolist() == [[1, 0], [0, 0], [2, 0]]
    gaps = save("gaps.csv", f=[1.0, 2.0], teacher_vote_a=["1e3", "0"], teacher_vote_b=["0", ""])
    assert read_examples(pool=gaps).class_names == ("0", "1e3")


def test_annotators_go_by_their_names(save: Save) -> None:
    pool = save("pool.csv", f=numbers(4), teacher_vote_a=[0, 1, 1, 0], teacher_vote_b=[1, 1, 0, 0])
    gold = save("gold.csv", f=[3.0, 4.0], label=[0, 1], teacher_vote_b=[1, 1], teacher_vote_a=[0, 0])
    examples = read_examples(gold=gold, pool=pool, votes="dawid_skene")
    assert examples.gold is not None and examples.gold.teacher is not None
    assert examples.gold.teacher.answers().tolist() == [[0, 1], [0, 1]]
    other = save("other.csv", f=[3.0, 4.0], label=[0, 1], teacher_vote_a=[1, 1], teacher_vote_c=[0, 0])
    with pytest.raises(UnderstudyError, match=r"votes of different annotators \('teacher_vote_b' is in one"):
        read_examples(gold=other, pool=pool, votes="dawid_skene")


def test_truth_values_beside_names(save: Save) -> None:
    pool = save("pool.csv", f=[1.0, 2.0], teacher_label=["yes", "no"])
    with pytest.raises(
        UnderstudyError, match=r"column 'label' holds true or false, other labels are names \(no, yes\)"
    ):
        read_examples(gold=save("gold.parquet", f=[3.0, 4.0], label=[True, False]), pool=pool)
    with pytest.raises(UnderstudyError, match="holds true or false, but the classes are no, yes; write their names"):
        ClassNames(("no", "yes"), ordered=True).numbers(np.array([True, False]), "here")
    three = save("three.csv", f=[1.0, 2.0, 3.0], teacher_label=["0", "1", "2"])
    with pytest.raises(UnderstudyError, match="column 'label' holds true or false; name one of 3 classes"):
        read_examples(gold=save("gold.parquet", f=[4.0, 5.0], label=[True, False]), pool=three)
    numbers_alone = read_examples(gold=save("gold.parquet", f=[3.0, 4.0], label=[True, False]))
    assert numbers_alone.gold is not None and numbers_alone.gold.y.tolist() == [1, 0]


def test_numbers_are_places_only_where_the_order_was_given(save: Save) -> None:
    gold = save("gold.csv", f=[1.0, 2.0], label=["pos", "neg"])
    test = save("test.csv", f=[1.0, 2.0], label=["0", "1"])
    with pytest.raises(
        UnderstudyError, match=r"test.csv line 2: column 'label' row 0 is 0, which is not one of the classes"
    ):
        read_examples(gold=gold, test=test)
    given = read_examples(gold=gold, test=test, classes=["pos", "neg"])
    assert truth(given, "test") == ["pos", "neg"]


def test_classes_that_gold_and_pool_spell_in_two_ways(save: Save) -> None:
    pool = save("pool.csv", f=[1.0, 2.0], teacher_label=["01", "02"])
    for labels, said in ((["1", "02"], "'01' and '1' are two"), ([" 01", "02"], "' 01' and '01' are two")):
        with pytest.raises(UnderstudyError, match=said):
            read_examples(gold=save("gold.jsonl", f=[3.0, 4.0], label=labels), pool=pool)


def test_gold_and_teacher_speak_of_the_same_classes(save: Save) -> None:
    gold = save("gold.csv", f=[1.0, 2.0], label=["True", "False"])
    with pytest.raises(
        UnderstudyError, match=r"gold's classes \(False, True\) and the teacher's \(neg, pos\) have none"
    ):
        read_examples(gold=gold, pool=save("pool.csv", f=[3.0, 4.0], teacher_label=["neg", "pos"]))


def test_a_number_stored_as_text_is_that_number(save: Save) -> None:
    gold = save("gold.parquet", f=[1.0, 2.0, 3.0], label=[0, 1, 2])
    examples = read_examples(gold=gold, test=save("test.jsonl", f=[1.0, 2.0], label=["2", "0"]))
    assert examples.class_names is None and examples.test is not None and examples.test.y.tolist() == [2, 0]
    with pytest.raises(UnderstudyError, match="column 'label' holds texts; it must hold numbers"):
        read_examples(gold=gold, test=save("test.jsonl", f=[1.0, 2.0], label=["02", "0"]))


def test_a_fraction_with_two_spellings_is_refused() -> None:
    names = ClassNames(("1", "1.0", "2"))
    assert names.numbers(np.array([1, 2]), "here").tolist() == [0, 2]
    with pytest.raises(UnderstudyError, match=r"here: '1' and 1\.0 are two classes"):
        names.numbers(np.array([1.0, 2.0]), "here")


# Ids


@pytest.mark.parametrize(
    ("of_pool", "of_gold"),
    [
        (["1", "2", "x3"], ["1", "2"]),
        (["1234567890123456789", "2234567890123456789"], ["1234567890123456789"]),
        (["007", "7"], ["7"]),
    ],
)
def test_ids_meet_by_the_letter(of_pool: list[str], of_gold: list[str], save: Save) -> None:
    pool = save("pool.csv", id=of_pool, f=numbers(len(of_pool)), teacher_label=[0, 1, 1][: len(of_pool)])
    gold = save("gold.csv", id=of_gold, label=[1, 0][: len(of_gold)])
    typed = save("gold.jsonl", id=[int(name) for name in of_gold], label=[1, 0][: len(of_gold)])
    for path in (gold, typed):
        examples = read_examples(gold=path, pool=pool)
        assert examples.pool is not None and examples.gold is not None
        assert len(examples.pool.rows) == len(of_pool) - len(of_gold)
        assert examples.gold.ids is not None and [str(name) for name in examples.gold.ids] == of_gold
        kinds = {type(name) for ids in (examples.gold.ids, examples.pool.ids) for name in np.asarray(ids).tolist()}
        assert len(kinds) == 1


@pytest.mark.parametrize(
    ("of_pool", "of_gold", "said"),
    [
        (
            ["1", "2", "3"],
            ["2.0", "3.0"],
            r"'2\.0', where there is '2' \(data frames with gaps write whole numbers so; 2",
        ),
        (["007", "008", "x"], ["7", "9"], r"'7', where there is '007' \(leading zeros; 1 such ids\)"),
        (["a", "b", "c"], ["b ", "d"], r"'b ', where there is 'b' \(spaces; 1 such ids\)"),
    ],
)
def test_ids_that_differ_in_spelling_alone(of_pool: list[str], of_gold: list[str], said: str, save: Save) -> None:
    pool = save("pool.csv", id=of_pool, f=numbers(3), teacher_label=[0, 1, 1])
    for gold in (save("gold.csv", id=of_gold, label=[1, 0]), save("own.csv", id=of_gold, f=[1.0, 2.0], label=[1, 0])):
        with pytest.raises(UnderstudyError, match=said):
            read_examples(gold=gold, pool=pool)
    with pytest.raises(UnderstudyError, match=said):
        read_examples(gold=save("g.csv", id=["q"], f=[1.0], label=[1]), pool=pool, test=save(
            "test.csv", id=of_gold, f=[1.0, 2.0], label=[1, 0]
        ))  # fmt: skip


def test_fractions_are_no_ids(save: Save) -> None:
    with pytest.raises(
        UnderstudyError, match=r"holds fractions .data frames turn whole numbers with gaps into fraction"
    ):
        read_examples(gold=save("gold.parquet", id=[1.0, 2.0], f=[1.0, 2.0], label=[0, 1]))


def test_answers_by_the_letter(save: Save) -> None:
    pool = read_table(save("pool.csv", id=[1, 2, 3], f=numbers(3)))
    named = ClassNames(("nan", "pos", "skip"))
    answers = read_chosen(read_table(save("batch.csv", id=[1, 2, 3], label=["skip", "-1", "nan"])), pool, named)
    assert answers.columns["id"].tolist() == [1, 3] and answers.columns["label"].tolist() == [2, 0]
    for text in ("1e3", "007", "1_000", "٣"):
        with pytest.raises(UnderstudyError, match="write a class number from 0"):
            ClassNames().number(text, "here")
    assert ClassNames().number("3.0", "here") == 3
    strange = read_chosen(read_table(save("batch.csv", id=["1_0", "2"], label=[0, 1])), pool, ClassNames())
    assert strange.rows_in(pool).tolist() == [-1, 1]


# Types


def test_training_decides_what_a_column_holds(save: Save) -> None:
    pool = save("pool.csv", zip=["01", "02", "a1", "01"] * 5, f=numbers(20), teacher_label=[0, 1] * 10)
    gold = save("gold.csv", zip=["02", "01"], f=[1.0, 2.0], label=[0, 1])
    examples = read_examples(gold=gold, pool=pool)
    assert examples.featuriser.types == {"f": "numbers", "zip": "texts"}
    assert examples.gold is not None
    assert examples.gold.rows.take(torch.arange(2))[:, 1:].tolist() == [[0, 1, 0], [1, 0, 0]]


def test_a_declared_type(save: Save) -> None:
    pool = save("pool.csv", zip=["01", "1"] * 5, f=numbers(10), teacher_label=[0, 1] * 5)
    typed = save("pool.parquet", zip=[1, 2] * 5, f=numbers(10), teacher_label=[0, 1] * 5)
    for path, known in ((pool, ["01", "1"]), (typed, ["1", "2"])):
        found = read_examples(pool=path, features=FeatureOptions(types={"zip": "text"})).featuriser
        assert found.types["zip"] == "declared texts"
        assert found.parts[1].known == [("zip", known)]  # type: ignore[attr-defined]
    with pytest.raises(
        UnderstudyError, match=r"column 'zip' row 4 is 'x', where training or the other file has numbers"
    ):
        odd = save("gold.csv", zip=["1", "2", "3", "4", "x"], f=numbers(5), label=[0, 1, 0, 1, 1])
        read_examples(gold=odd, pool=pool)
    with pytest.raises(UnderstudyError, match=r"has no column 'zap', which you name; did you mean 'zip'"):
        read_examples(pool=pool, features=FeatureOptions(types={"zap": "text"}))
    with pytest.raises(UnderstudyError, match="column 'f' holds fractions, whose spelling the file does not keep"):
        read_examples(pool=typed, features=FeatureOptions(types={"f": "text"}))


def test_index_columns_and_capitals_are_named_and_not_used(save: Save, tmp_path: Path) -> None:
    path = tmp_path / "pool.csv"
    path.write_text(
        "".join([",f,Label,teacher_label\n", *(f"{row},{row / 3},{row % 2},{row % 2}\n" for row in range(6))])
    )
    with pytest.warns(UnderstudyWarning) as caught:
        examples = read_examples(pool=path)
    assert examples.featuriser.names == ("f",)
    texts = [str(each.message) for each in caught]
    assert any("'' not used: it numbers the rows" in text for text in texts)
    assert any(
        "column 'Label' is not used: it differs from 'label' in capitals alone; take it" in text for text in texts
    )
    table = pa.table({"f": numbers(4), "__index_level_0__": [0, 1, 2, 3], "teacher_label": [0, 1, 0, 1]})
    pq.write_table(table, tmp_path / "frame.parquet")
    with pytest.warns(UnderstudyWarning, match="'__index_level_0__' not used"):
        assert read_examples(pool=tmp_path / "frame.parquet").featuriser.names == ("f",)


@pytest.mark.parametrize("prefix, used", [("teacher_prob_", True), ("Teacher_Prob_", False)])
def test_capitals_of_class_names_are_no_mistake_and_advice_keeps_them(
    prefix: str, used: bool, recwarn: pytest.WarningsRecorder
) -> None:
    probs = {f"{prefix}Pos": [0.8, 0.2], f"{prefix}Neg": [0.2, 0.8]}
    examples = read_examples(gold={"f": [1.5, 2.5], "label": ["Pos", "Neg"]}, pool={"f": [0.5, 1.0], **probs})
    assert examples.pool is not None and (examples.pool.teacher is not None) == used
    texts = [str(each.message) for each in recwarn]
    cure = "take it with --column teacher_prob_Pos=Teacher_Prob_Pos, or rename it"
    assert (not texts) if used else any(text.endswith(cure) for text in texts)


def test_rows_over_a_megabyte(tmp_path: Path) -> None:
    long = "word " * 300_000
    (tmp_path / "t.csv").write_text(f'text,n\nshort,1\n"{long}",2\nlast,x\n')
    table = read_table(tmp_path / "t.csv")
    assert len(table) == 3 and table.columns["n"].tolist() == ["1", "2", "x"] and table.columns["text"][1] == long


def test_one_file_for_gold_and_pool(save: Save) -> None:
    labels = ["1.0", "", "0.0", "1.0", *[""] * 4]
    both = save("mine.csv", zip=["01", "1"] * 4, label=labels, teacher_label=[0, 1] * 4)
    examples = read_examples(gold=both, pool=both, features=FeatureOptions(types={"zip": "text"}))
    assert examples.class_names is None and examples.featuriser.types == {"zip": "declared texts"}
    assert examples.gold is not None and examples.gold.y.tolist() == [1, 0, 1]
