"""Class names in Python: texts and frames' columns are matched by name, bare numbers follow a given order."""

import warnings
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch

import understudy as us
from understudy.errors import UnderstudyError

X = np.arange(12, dtype=np.float32).reshape(6, 2)
Y = ["pos", "neg", "neg", "pos", "neg", "pos"]
PROBS = np.array([[0.9, 0.1], [0.2, 0.8], [0.3, 0.7], [0.7, 0.3], [0.5, 0.5], [0.6, 0.4]])  # pos, neg
FRAME = pa.table({"pos": PROBS[:, 0], "neg": PROBS[:, 1]})


def train(gold: Any, pool: Any, **more: Any) -> us.Run:
    torch.manual_seed(0)
    student = torch.nn.Sequential(torch.nn.Linear(2, 4), torch.nn.Dropout(), torch.nn.Linear(4, 2))
    return us.train(student, gold, pool, us.vanilla(), epochs=2, batch_size=4, progress=False, **more)


def test_names_are_numbers_in_the_order_of_the_alphabet_or_the_given_one() -> None:
    gold = us.Gold(X, Y, FRAME)
    assert gold.class_names == ("neg", "pos")
    assert gold.y.tolist() == [1, 0, 0, 1, 0, 1]
    assert gold.teacher.probs.tolist() == PROBS[:, ::-1].tolist()  # type: ignore[union-attr]
    turned = us.Gold(X, np.array(Y), FRAME, classes=("pos", "neg"))
    assert turned.y.tolist() == [0, 1, 1, 0, 1, 0] and turned.teacher.probs.tolist() == PROBS.tolist()  # type: ignore[union-attr]
    assert turned.take(torch.tensor([0, 2])).class_names == ("pos", "neg")
    pool = us.Pool(X, ["pos", None, "neg", "", "pos", "pos"])
    assert pool.teacher.labels.tolist() == [1, -1, 0, -1, 1, 1] and pool.teacher.classes == 2  # type: ignore[union-attr]
    prefixed = us.Pool(X, FRAME.rename_columns(["teacher_prob_pos", "teacher_prob_neg"]))
    assert prefixed.class_names == ("neg", "pos")
    assert us.Pool(X, FRAME.rename_columns(["1", "0"])).teacher.probs.tolist() == PROBS[:, ::-1].tolist()  # type: ignore[union-attr]
    assert us.Pool(X, FRAME.rename_columns(["1", "0"])).class_names is None


def test_words_and_numbers_train_to_the_same_bits_and_the_run_knows_the_names() -> None:
    named = train(us.Gold(X, Y, FRAME), us.Pool(X + 1, FRAME), test=(X, Y))
    numbers = [Y.index("pos") if word == "pos" else 1 for word in Y]
    plain = train(
        us.Gold(X, [0 if word == "neg" else 1 for word in Y], PROBS[:, ::-1].copy()),
        us.Pool(X + 1, PROBS[:, ::-1].copy()),
        test=(X, [0 if word == "neg" else 1 for word in Y]),
    )
    assert numbers == [0, 1, 1, 0, 1, 0]
    for name, value in plain.student.state_dict().items():
        assert named.student.state_dict()[name].equal(value)
    assert named.history[-1]["test_accuracy"] == plain.history[-1]["test_accuracy"]
    assert named.config["class_names"] == ["neg", "pos"] and "class_names" not in plain.config


def test_forms_take_words_where_the_classes_are_listed() -> None:
    names = ("pos", "neg")
    hard = us.Hard(["pos", "neg", None], [0.9, 0.8, np.nan], classes=names)
    assert hard.labels.tolist() == [0, 1, -1] and hard.classes == 2 and hard.names == names
    votes = us.Votes(np.array([["pos", "neg"], ["pos", ""]], dtype=object), classes=names)
    assert votes.votes.tolist() == [[0, 1], [0, -1]]
    top = us.TopK(np.array([["neg"], ["pos"]]), np.array([[0.9], [0.6]]), classes=names)
    assert top.indices.tolist() == [[1], [0]]
    assert us.Pool(X[:3], hard).class_names == names
    assert us.Pool(X[:3], us.Hard([0, 1, 1], classes=2)).class_names is None
    with pytest.raises(UnderstudyError, match=r"holds names; list the classes in their order"):
        us.Hard(["pos", "neg"])
    with pytest.raises(UnderstudyError, match=r"row 1 is 'nge', which is not one of the classes \(pos, neg\)"):
        us.Hard(["pos", "nge"], classes=names)
    with pytest.raises(UnderstudyError, match=r"is over the classes pos, neg, not neg, pos"):
        us.Gold(X[:3], ["pos", "neg", "neg"], hard, classes=("neg", "pos"))


@pytest.mark.parametrize(
    "gold, pool, message",
    [
        (us.Gold(X, Y), us.Pool(X, PROBS), r"gold has class names, the pool class numbers.*classes=\('neg', 'pos'\)"),
        (us.Gold(X, [0, 1] * 3), us.Pool(X, FRAME), r"the pool has class names, gold class numbers"),
        (
            us.Gold(X, Y),
            us.Pool(X, ["pos", "not", "neg"] * 2),
            r"gold's classes are neg, pos, the pool's neg, not, pos",
        ),
        (us.Gold(X, Y, classes=("pos", "neg")), us.Pool(X, FRAME), r"gold's classes are pos, neg, the pool's neg, pos"),
    ],
)
def test_orders_that_differ_are_refused(gold: Any, pool: Any, message: str) -> None:
    with pytest.raises(UnderstudyError, match=message):
        train(gold, pool)


def test_a_given_order_holds_for_bare_numbers() -> None:
    turned = train(us.Gold(X, Y, classes=("pos", "neg")), us.Pool(X + 1, PROBS))
    plain = train(us.Gold(X, [0 if word == "pos" else 1 for word in Y]), us.Pool(X + 1, PROBS))
    for name, value in plain.student.state_dict().items():
        assert turned.student.state_dict()[name].equal(value)
    assert turned.config["class_names"] == ["pos", "neg"]
    with pytest.raises(UnderstudyError, match=r"gold has class names, test class numbers"):
        train(us.Gold(X, Y), None, test=(X, [0, 1] * 3))


@pytest.mark.parametrize(
    "make, message",
    [
        (
            lambda: us.Gold(X, Y, PROBS),
            r"gold\.teacher has no names, the other labels have; .*classes=\('neg', 'pos'\)",
        ),
        (lambda: us.Gold(X, [0, 1] * 3, FRAME), r"gold\.y has no names, the other labels have"),
        (lambda: us.Gold(X, [*Y[:5], None]), r"gold\.y row 5 is empty; write its class"),
        (lambda: us.Gold(X, Y, FRAME.select(["pos"])), r"gold\.teacher has columns pos; give one for each of neg, pos"),
        (lambda: us.Gold(X, Y, FRAME, classes=("pos", "ngt")), r"gold\.y row 1 is 'neg', which is not one of"),
        (lambda: us.Gold(X, Y, classes=2), r"gold: classes= is 2; it lists the names"),
        (lambda: us.Gold(X, Y, classes=("pos", "pos")), r"each once"),
        (lambda: us.Gold(X, [0, 1, 2] * 2, classes=("a", "b")), r"gold\.y holds class 2, but classes= names 2"),
        (lambda: us.Pool(X, PROBS, classes=("a", "b", "c")), r"pool\.teacher knows 2 classes, 3 are named"),
        (lambda: us.Pool(X, FRAME.append_column("teacher_x", [X[:, 0]])), r"column 'teacher_x'; .*us\.read_examples"),
        (lambda: us.Gold(X, ["a"] * 6), r"two or more are needed"),
        (lambda: us.Gold(X, Y) + us.Gold(X, [0, 1] * 3), r"one gold set has class names, the other class numbers"),
    ],
)
def test_what_cannot_be_matched_is_refused_in_one_line(make: Any, message: str) -> None:
    with pytest.raises(UnderstudyError, match=message):
        make()


def as_pandas(table: pa.Table) -> Any:
    frame = pytest.importorskip("pandas").DataFrame(table.to_pydict())
    return frame.set_axis(range(3, 3 + len(frame)))


def as_polars(table: pa.Table) -> Any:
    return pytest.importorskip("polars").DataFrame(table.to_pydict())


def as_datasets(table: pa.Table) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pytest.importorskip("datasets").Dataset(table)


@pytest.mark.parametrize("kind", [lambda table: table, as_pandas, as_polars, as_datasets])
def test_frames_and_their_columns_are_rows_labels_and_ids(kind: Any) -> None:
    table = pa.table({"b": [1, 2, 3, 4, 5, 6], "a": X[:, 0], "y": Y, "id": list("uvwxyz")})
    frame = kind(table)
    column = frame.column if isinstance(frame, pa.Table) else frame.__getitem__
    x = kind(table.select(["b", "a"]))
    gold = us.Gold(x, column("y"), kind(FRAME), ids=column("id"))
    assert gold.x.tolist() == np.stack([np.arange(1, 7), X[:, 0]], 1).tolist() and gold.x.dtype == torch.float32
    assert gold.y.tolist() == [1, 0, 0, 1, 0, 1] and gold.ids.tolist() == list("uvwxyz")  # type: ignore[union-attr]
    assert gold.teacher.probs.tolist() == PROBS[:, ::-1].tolist()  # type: ignore[union-attr]
    run = train(gold, us.Pool(x, kind(FRAME)))
    assert run.config["features"] == ["b", "a"]
    assert run.predict(x).shape == (6, 2)
    with pytest.raises(UnderstudyError, match=r"x has the columns a, b, the student was trained on b, a; pass these"):
        run.predict(kind(table.select(["a", "b"])))
    with pytest.raises(UnderstudyError, match=r"gold\.x has the columns b, a, the pool's x a, b; pass the same"):
        train(gold, us.Pool(kind(table.select(["a", "b"])), kind(FRAME)))
    with pytest.raises(UnderstudyError, match=r"gold\.x has a column 'id', which is no feature"):
        us.Gold(kind(table.select(["a", "id"])), Y)


@pytest.mark.parametrize("kind", [lambda table: table, as_pandas, as_polars, as_datasets])
def test_lists_texts_and_gaps_in_frames(kind: Any) -> None:
    lists = pa.table({"input_ids": [[1, 2], [3, 4]], "attention_mask": [[1, 1], [1, 0]]})
    batch = us.Gold(kind(lists), [0, 1]).rows.take(torch.tensor([1]))
    assert {name: part.tolist() for name, part in batch.items()} == {"input_ids": [[3, 4]], "attention_mask": [[1, 0]]}
    assert us.Gold(kind(lists.select(["input_ids"])), [0, 1]).x.tolist() == [[1, 2], [3, 4]]
    texts = us.Gold(kind(pa.table({"review": ["good", "bad"]})), [1, 0])
    assert texts.rows.take(torch.tensor([1])) == ["bad"]
    with pytest.raises(UnderstudyError, match=r"gold\.x: column 'a' row 1 is empty"):
        us.Gold(kind(pa.table({"a": [1.0, None], "b": [1, 2]})), [0, 1])
    with pytest.raises(UnderstudyError, match=r"row 1 holds 1 values, row 0 holds 2; lists must all have one length"):
        us.Gold(kind(pa.table({"x": [[1, 2], [3]]})), [0, 1])


def test_words_beside_numbers_are_for_read_examples() -> None:
    with pytest.raises(UnderstudyError, match=r"column 'city' holds string, no number; us\.read_examples"):
        us.Gold(pa.table({"a": [1, 2], "city": ["x", "y"]}), [0, 1])
    examples = us.read_examples(gold={"a": [1.0, 2.0], "label": ["n", "y"]})
    assert examples.gold is not None and examples.gold.class_names == ("n", "y")


def test_an_audit_knows_the_names_and_refuses_another_order() -> None:
    gold = us.Gold(np.tile(X, (5, 1)), Y * 5, pa.concat_tables([FRAME] * 5))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert us.audit(gold, us.Pool(X, FRAME), rows_wrong=0).class_names == ["neg", "pos"]
    with pytest.raises(UnderstudyError, match=r"gold's classes are neg, pos, the pool's pos, neg"):
        us.audit(gold, us.Pool(X, FRAME, classes=("pos", "neg")), rows_wrong=0)


def test_a_map_style_dataset_stays_one_whatever_its_module_is_called() -> None:
    class Own:
        __module__ = "datasets.mine"
        format = "png"

        def __len__(self) -> int:
            return 2

        def __getitem__(self, row: int) -> Any:
            return torch.full((3,), float(row))

    assert us.Gold(Own(), [0, 1]).rows.take(torch.tensor([1])).tolist() == [[1.0] * 3]
    formatted = as_datasets(pa.table({"a": [[1.0], [2.0]], "b": [[3], [4]]})).with_format("torch")
    rows = us.Gold(formatted, [0, 1]).rows
    assert rows.per_row and {name: part.tolist() for name, part in rows.take(torch.tensor([1])).items()} == {
        "a": [[2.0]], "b": [[4]],
    }  # fmt: skip


def odd_values() -> list[Any]:
    return [
        *(0, 1.5, "a", b"a", [], [1], ["a", None], [None, None], ["a", 1], [[1], [2, 3]], {}, {"a": 1}, object(), int),
        *(np.array(5), np.array([None, "a"], dtype=object), np.zeros((2, 0)), torch.tensor(1.0), range(2), iter([1])),
        *(torch.eye(2).to_sparse(), pa.table({}), pa.table({"neg": ["a", "b"], "pos": [1, 2]}), pa.array([None, None])),
        *(pa.array([{"a": 1}, {"a": 2}]), pa.array([b"1", b"2"]), pa.table({"0": [0.5, None], "1": [0.5, 1.0]})),
        *(us.Hard([0, 1]), float("nan"), np.float32(3), lambda x: x, Ellipsis),
    ]


@pytest.mark.filterwarnings("ignore::understudy.errors.UnderstudyWarning")
def test_whatever_is_passed_an_error_is_one_line() -> None:
    """Or the value is one that can be meant; a bare TypeError is a bug."""
    refused = 0
    for make in (
        lambda value: us.Gold(value, [0, 1]),
        lambda value: us.Gold(X[:2], value),
        lambda value: us.Gold(X[:2], ["a", "b"], value),
        lambda value: us.Gold(X[:2], [0, 1], ids=value),
        lambda value: us.Gold(X[:2], ["a", "b"], classes=value),
        lambda value: us.Pool(X[:2], value, classes=("a", "b")),
        lambda value: us.Hard(value, classes=("a", "b")),
        lambda value: us.Votes(value, classes=("a", "b")),
        lambda value: us.read_examples(gold=value),
        lambda value: us.read_examples(gold={"x": value, "label": [0, 1]}),
        lambda value: us.read_examples(gold={"x": X[:2], "label": ["a", "b"], "teacher_label": value}),
        lambda value: us.read_examples(gold={"x": X[:2], "label": ["a", "b"]}, classes=value),
    ):
        for value in odd_values():
            try:
                make(value)
            except UnderstudyError as error:
                refused += 1
                assert "\n" not in str(error)
    assert refused > 250
