"""Students that read texts: a tiny BERT, trained, saved, loaded by transformers, and held against loops by hand."""

import copy
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

import understudy as us
from tiny_bert import some_texts, write_tiny_bert
from understudy.data.inputs import TextRows, as_rows, read_by
from understudy.errors import UnderstudyError
from understudy.hf.text import TextReader
from understudy.models.registry import reader_of

transformers = pytest.importorskip("transformers")
# The library alone takes seconds to import.
pytestmark = pytest.mark.slow
FAST: dict[str, Any] = {"lr": 5e-3, "batch_size": 16, "progress": False}


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_bert(tmp_path_factory.mktemp("bert"))


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNDERSTUDY_CACHE", str(tmp_path / "cache"))


def _sets(gold: int = 24, pool: int = 60) -> tuple[us.Gold, us.Pool]:
    texts, labels = some_texts(gold + pool)
    wrong = labels.clone()
    wrong[::5] = 1 - wrong[::5]
    return us.Gold(texts[:gold], labels[:gold], teacher=us.Hard(wrong[:gold])), us.Pool(
        texts[gold:], us.Hard(wrong[gold:])
    )


def test_it_learns_and_its_run_is_a_folder_for_transformers(bert: Path, tmp_path: Path) -> None:
    gold, pool = _sets(40, 160)
    texts, labels = some_texts(80, seed=1)
    student = us.text(bert, classes=["neg", "pos"])
    told = FAST | {"epochs": 12, "schedule": "constant", "test": us.Gold(texts, labels), "out": tmp_path / "run"}
    run = us.train(student, gold, pool, us.slam(), **told, notes={"class_names": ["neg", "pos"]})
    assert run.history[-1]["test_accuracy"] > 0.9

    again = us.Run.load(tmp_path / "run")
    probs = run.predict(texts)
    assert again.predict(texts).equal(probs)
    folder = tmp_path / "run" / "model"
    model = transformers.AutoModelForSequenceClassification.from_pretrained(folder).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    with torch.no_grad():
        batch = tokenizer(texts, padding=True, truncation=True, max_length=24, return_tensors="pt")
        torch.testing.assert_close(model(**batch).logits.softmax(-1), probs)
    assert model.config.id2label == {0: "neg", 1: "pos"} and model.config.label2id == {"neg": 0, "pos": 1}
    card = (folder / "README.md").read_text()
    assert f"| test | last | {run.history[-1]['test_accuracy']:.1%} |" in card and "`slam`" in card
    assert "40 gold rows and 160 pool rows" in card and str(bert.parent) not in card
    # One file under two names, not twice the disk.
    assert (folder / "model.safetensors").samefile(tmp_path / "run" / "student.safetensors")


def test_a_batch_is_padded_to_its_own_longest_and_costs_what_a_fixed_one_does(bert: Path) -> None:
    """Without dropout the loss is that of texts padded to 24 tokens by transformers itself."""
    gold, pool = _sets()
    student = us.text(write_tiny_bert(bert.parent / "still", dropout=0.0, spread=0.5), classes=2)()
    session = us.Session(student, gold, pool, us.vanilla(), batch_size=16, seed=3)
    tokenizer = transformers.AutoTokenizer.from_pretrained(bert)
    widths, unmasked = set(), []
    for batch in session.batches(0):
        widths.add(batch.x["input_ids"].shape[1])
        texts = gold.rows.take(batch.gold_rows) + pool.rows.take(batch.pool_rows)
        assert pool.teacher is not None
        y = torch.cat([gold.y[batch.gold_rows], pool.teacher.top1()[batch.pool_rows]])
        fixed = tokenizer(texts, padding="max_length", truncation=True, max_length=24, return_tensors="pt")
        expected = torch.nn.functional.cross_entropy(student(**fixed).logits, y)
        torch.testing.assert_close(session.loss(student, batch), expected, rtol=0, atol=1e-5)
        seen = torch.nn.functional.cross_entropy(student(input_ids=fixed["input_ids"]).logits, y)
        unmasked.append((seen - expected).abs().item())
    assert max(unmasked) > 1e-3, "padding that is not masked would show"
    assert max(widths) < 24 and len(widths) > 1


def test_the_seed_draws_the_last_layer_and_the_same_seed_gives_the_same_bits(bert: Path) -> None:
    gold, pool = _sets()
    student = us.text(bert, classes=2)
    one, same, other = (
        us.train(student, gold, pool, us.vanilla(), epochs=1, seed=seed, **FAST).student.state_dict()
        for seed in (0, 0, 1)
    )
    assert all(one[name].equal(same[name]) for name in one)
    assert not one["classifier.weight"].equal(other["classifier.weight"])


def test_a_training_that_was_stopped_goes_on_to_the_same_bits(bert: Path, tmp_path: Path) -> None:
    gold, pool = _sets()
    student = us.text(bert, classes=2)
    told = FAST | {"epochs": 2, "group_by_length": True, "warmup": 0.5}
    whole = us.train(student, gold, pool, us.slam(), **told)

    class Stop(us.Callback):
        def on_epoch(self, view: Any) -> None:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        us.train(student, gold, pool, us.slam(), **told, out=tmp_path / "run", callbacks=[Stop()])
    resumed = us.train(student, gold, pool, us.slam(), **told, out=tmp_path / "run", resume=True)
    for name, value in whole.student.state_dict().items():
        assert value.equal(resumed.student.state_dict()[name]), name


def test_texts_become_tokens_once(bert: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[int] = []
    tokens = TextReader.tokens

    def spy(self: Any, texts: Any) -> Any:
        read.append(len(texts))
        return tokens(self, texts)

    monkeypatch.setattr(TextReader, "tokens", spy)
    gold, pool = _sets()
    student = us.text(bert, classes=2)
    us.train(student, gold.take(torch.arange(12)), pool, us.weighted(), epochs=2, **FAST)
    us.train(student, gold, pool, us.vanilla(), epochs=1, **FAST)
    assert sorted(read) == [24, 60]


def test_parts_and_sums_of_sets_are_read_like_the_whole(bert: Path) -> None:
    gold, _ = _sets()
    texts, labels = some_texts(5, seed=7)
    both = gold.take(torch.tensor([3, 1, 8])) + us.Gold(texts, labels)
    student = us.text(bert, classes=2)().eval()
    order = torch.tensor([6, 0, 7, 2])
    reader, listed = reader_of(student), [*gold.rows.take(torch.tensor([3, 1, 8])), *texts]
    assert reader is not None and both.rows.take(order) == [listed[row] for row in order]
    found = read_by(student, both.rows)
    alone = read_by(student, TextRows(listed))
    assert found.take(order)["input_ids"].equal(alone.take(order)["input_ids"])
    assert (found.lengths() == alone.lengths()).all()  # type: ignore[union-attr]


def test_passes_put_the_longest_first_and_answer_in_order(bert: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from understudy.inference import passes

    texts, _ = some_texts(30)
    student = us.text(bert, classes=2)().eval()
    one_by_one = torch.cat([passes.predict(student, [text]) for text in texts])
    monkeypatch.setattr(passes, "BATCH_TOKENS", 40)
    torch.testing.assert_close(passes.predict(student, texts, batch_size=8), one_by_one)


@pytest.mark.parametrize(("freeze", "trained"), [(1, {"layer.1", "pooler", "classifier"}), ("encoder", {"classifier"})])
def test_frozen_layers_stay(bert: Path, freeze: Any, trained: set[str]) -> None:
    gold, pool = _sets()
    student = us.text(bert, classes=2, freeze=freeze)
    torch.manual_seed(0)
    run = us.train(student, gold, pool, us.vanilla(), epochs=1, **FAST)
    before = us.text(bert, classes=2)().state_dict()
    for name, value in run.student.state_dict().items():
        if name.startswith("bert"):
            assert value.equal(before[name]) != any(part in name for part in trained), name


def test_checkpointing_changes_no_gradient(bert: Path) -> None:
    gradients = []
    for checkpointing in (False, True):
        torch.manual_seed(0)
        student = us.text(bert, classes=2, checkpointing=checkpointing)()
        gold, pool = _sets()
        session = us.Session(student, gold, pool, us.vanilla(), batch_size=16)
        batch = next(iter(session.batches(0)))
        session.loss(student, batch).backward()
        gradients.append([p.grad.clone() for p in student.parameters() if p.grad is not None])
    for one, other in zip(*gradients, strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize("method", ["vanilla", "slam", "weighted", "co_teaching", "l2rw", "s_model"])
def test_methods_train_it(bert: Path, method: str) -> None:
    gold, pool = _sets()
    run = us.train(us.text(bert, classes=2), gold, pool, us.METHODS[method](), epochs=1, **FAST)
    assert run.predict(["a good film"]).shape == (1, 2)


def test_comparisons_and_pilots_take_it(bert: Path) -> None:
    gold, pool = _sets(40)
    student = us.text(bert, classes=2)
    table = us.compare(student, gold, pool, ["slam"], seeds=1, select=0.0, epochs=1, workers=1, **FAST)
    assert "slam" in str(table)
    run = us.auto(student, gold, pool, methods=["slam"], folds=2, epochs=1, workers=1, **FAST)
    assert run.predict(["a good film"]).shape == (1, 2)


def test_it_brings_what_suits_it_and_what_is_given_wins(bert: Path) -> None:
    gold, _ = _sets()
    run = us.train(us.text(bert, classes=2), gold, None, us.vanilla(), lr=1e-3, progress=False)
    told = {name: run.config[name] for name in ("epochs", "batch_size", "lr", "optimizer", "schedule", "warmup")}
    assert told == {
        "epochs": 3, "batch_size": 32, "lr": 1e-3, "optimizer": "adamw", "schedule": "linear", "warmup": 0.1,
    }  # fmt: skip


def test_bfloat16_is_for_gpus_that_have_it(bert: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    student = us.text(bert, classes=2)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda: True)
    assert student.options("cuda")["autocast"] == "bfloat16"
    assert "autocast" not in student.options() and "autocast" not in student.options("cpu")
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda: False)
    assert "autocast" not in student.options("cuda")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda bert: us.text(bert, classes=1), "classes=1 must be a whole number"),
        (lambda bert: us.text(bert, classes=2, freeze=3)(), "freeze=3: there are 2 layers"),
        (lambda bert: us.text(bert, classes=2, freeze="all"), "freeze='all' is a number of layers"),
        (lambda bert: us.text(bert, classes=2, max_tokens=99)(), "reads 3 to 24 tokens"),
        (lambda bert: us.text(bert / "no", classes=2)(), "no such folder"),
        (lambda bert: us.Gold(["a", None], [0, 1]), "gold.x row 1 holds nothing, not a text"),
    ],
)
def test_mistakes_are_one_line(bert: Path, make: Any, message: str) -> None:
    with pytest.raises(UnderstudyError, match=message) as caught:
        make(bert)
    assert "\n" not in str(caught.value)


def test_a_lone_surrogate_is_named(bert: Path) -> None:
    student = us.text(bert, classes=2)()
    with pytest.raises(UnderstudyError, match="x row 1 holds half a character"):
        read_by(student, as_rows(["good", "\ud83d"], "x")).take(torch.arange(2))


def test_numbers_students_refuse_texts() -> None:
    texts, labels = some_texts(8)
    with pytest.raises(UnderstudyError, match="these rows are texts, and Linear takes numbers"):
        us.train(torch.nn.Linear(2, 2), us.Gold(texts, labels), None, us.vanilla(), epochs=1)


def test_without_transformers_one_line_names_the_extra(bert: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(UnderstudyError, match=r'pip install .*\[hf\]"'):
        us.text(bert, classes=2)()


def test_copies_share_their_reader(bert: Path) -> None:
    student = us.text(bert, classes=2)()
    assert reader_of(copy.deepcopy(student)) is reader_of(student)
