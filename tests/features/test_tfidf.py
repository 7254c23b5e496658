"""TF-IDF against scikit-learn's, and by hand."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch
from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer

import understudy as us
from understudy.errors import UnderstudyError
from understudy.features.featuriser import FeatureOptions, Featuriser, SparseRows
from understudy.features.raw_columns import RawColumns

ODD = [
    "",
    "   ",
    "İstanbul ISTANBUL ıŞık",
    "naïve NAÏVE cafe\u0301 café",
    "日本語 テキスト です",
    "🙂 🙂🙂 👩‍👩‍👧",
    "a b c",
]
ODD += [
    "x\x00y zero\x00byte",
    "don't re-use_it 3.14 ½ ² Ⅷ",
    "ﬁne ﬀ ß SS",
    "\u200bzero\u200bwidth",
    "lone \ud83d surrogate",
]
ODD += ["مرحبا بالعالم", "line\r\nbreaks\u2028here", "word " * 300]


def _columns(texts: list[str]) -> dict[str, Any]:
    return {"text": np.array(texts, dtype=object)}


def _sentences(rng: np.random.Generator, count: int) -> list[str]:
    words = np.array([f"w{number}" for number in range(400)] + ["The", "the", "IT", "it", "é", "ß"])
    # Few words are frequent and most are rare, as in language.
    pick = (rng.pareto(1.0, size=(count, 12)) * 3).astype(int) % len(words)
    return [" ".join(words[row[: rng.integers(1, 12)]]) for row in pick]


def _options(ngrams: int) -> dict[str, Any]:
    return {"ngram_range": (1, ngrams), "sublinear_tf": True, "dtype": np.float32}


def test_by_hand() -> None:
    # Two texts; "aa" is in both, "bb" and the pairs in one.
    columns = _columns(["aa aa", "aa bb"])
    fitted = Featuriser.fit(columns, FeatureOptions(text="text", ngrams=1), where="t")
    rare = np.log(3 / 2) + 1
    row = np.array([1, rare]) / np.hypot(1, rare)
    x = fitted(columns, where="t").take(torch.arange(2))
    np.testing.assert_allclose(x, [[1, 0], row], rtol=1e-6)
    # Counted twice in a text: 1 + ln 2 before the row is brought to length 1.
    x = fitted(_columns(["bb bb aa unseen"]), where="t").take(torch.arange(1))
    row = np.array([1, rare * (1 + np.log(2))])
    np.testing.assert_allclose(x, [row / np.linalg.norm(row)], rtol=1e-6)


@pytest.mark.parametrize("ngrams", [1, 2, 3])
@pytest.mark.parametrize("count", [60, 400])
def test_exactly_scikit_learn(rng: np.random.Generator, tmp_path: Path, count: int, ngrams: int) -> None:
    train, new = _sentences(rng, count) + ODD, _sentences(rng, 80) + ODD
    fitted = Featuriser.fit(_columns(train), FeatureOptions(text="text", ngrams=ngrams), where="t")
    reference = TfidfVectorizer(min_df=2 if count >= 100 else 1, **_options(ngrams)).fit(train)
    fitted.save(tmp_path)
    for featuriser in (fitted, Featuriser.load(tmp_path)):
        assert featuriser.parts[0].terms == reference.get_feature_names_out().tolist()
        for texts in (train, new):
            _same(featuriser(_columns(texts), where="t").matrix, reference.transform(texts))


def _same(matrix: Any, wanted: Any) -> None:
    """Every bit, and nothing stored that is 0."""
    assert matrix.dtype == wanted.dtype == np.float32 and matrix.nnz == wanted.nnz
    assert (matrix.toarray() == wanted.toarray()).all()


@pytest.mark.parametrize("ngrams", [1, 2, 3])
def test_the_most_frequent_terms(rng: np.random.Generator, ngrams: int) -> None:
    train = _sentences(rng, 400) + ODD
    part = Featuriser.fit(_columns(train), FeatureOptions(text="text", ngrams=ngrams, max_terms=100), where="t").parts[
        0
    ]
    counter = CountVectorizer(ngram_range=(1, ngrams), min_df=2).fit(train)
    counts = np.asarray(counter.transform(train).sum(0)).ravel().tolist()
    ranked = sorted(zip([-count for count in counts], counter.get_feature_names_out(), strict=True))
    assert part.terms == sorted(term for _, term in ranked[:100])
    reference = TfidfVectorizer(vocabulary=part.terms, **_options(ngrams)).fit(train)
    _same(part(RawColumns(_columns(train), "t")), reference.transform(train))


def test_batches_are_the_rows_taken(rng: np.random.Generator) -> None:
    texts = _sentences(rng, 50)
    x = Featuriser.fit(_columns(texts), FeatureOptions(text="text"), where="t")(_columns(texts), where="t")
    assert isinstance(x, SparseRows) and len(x) == 50
    index = torch.tensor([7, 3, 3, 49])
    batch = x.take(index)
    assert batch.dtype == torch.float32 and (batch.numpy() == x.matrix.toarray()[index]).all()


def test_all_kinds_of_text_columns(rng: np.random.Generator) -> None:
    texts = [*_sentences(rng, 30), "日本語 🙂"]
    fitted = Featuriser.fit(_columns(texts), FeatureOptions(text="text"), where="t")
    wanted = fitted(_columns(texts), where="t").matrix.toarray()
    for column in (np.array(texts), pa.array(texts), pa.chunked_array([texts[:9], texts[9:]])):
        assert (fitted({"text": column}, where="t").matrix.toarray() == wanted).all()


def test_text_stands_beside_numbers(rng: np.random.Generator) -> None:
    texts = _sentences(rng, 20)
    columns = {**_columns(texts), "stars": np.arange(20), "kind": np.array(["a", "b"] * 10)}
    alone = Featuriser.fit(columns, FeatureOptions(text="text"), where="t")
    assert alone.names == ("text",), "a column beside the text is used only where it is asked for"
    both = Featuriser.fit(columns, FeatureOptions(text="text", columns=("stars", "kind"), scale=False), where="t")
    assert both.names == ("text", "stars", "kind") and both.shape == (alone.shape[0] + 3,)
    x = both(columns, where="t").take(torch.arange(20))
    assert x[5, -3:].tolist() == [5, 0, 1]
    assert (x[:, :-3] == alone(columns, where="t").take(torch.arange(20))).all()


@pytest.mark.parametrize("texts", [["", " "], ["a b", "! ?"], ["a"] * 200])
def test_no_words_at_all(texts: list[str]) -> None:
    with pytest.raises(UnderstudyError, match=r"t\.csv: column 'text' holds no word"):
        Featuriser.fit(_columns(texts), FeatureOptions(text="text"), where="t.csv")


def test_no_text_is_an_error_that_says_where() -> None:
    with pytest.raises(UnderstudyError, match=r"t\.csv: column 'text' row 1 holds nothing"):
        Featuriser.fit({"text": np.array(["aa", None], dtype=object)}, FeatureOptions(text="text"), where="t.csv")
    with pytest.raises(UnderstudyError, match="holds whole numbers; it must hold one text per row"):
        Featuriser.fit({"text": np.arange(3)}, FeatureOptions(text="text"), where="t.csv")
    with pytest.raises(UnderstudyError, match="has no column 'words'"):
        Featuriser.fit(_columns(["aa"]), FeatureOptions(text="words"), where="t.csv")


@pytest.mark.torture
def test_real_reviews_train_a_student(shared_data: Callable[[str], Path]) -> None:
    """200 gold sentences and the labels of an LLM: a linear student on TF-IDF beats gold alone by far."""
    from understudy.io.table import read_table

    columns = read_table(shared_data("text/mr_chatgpt.parquet")).columns
    train, test = (columns["split"] == split for split in ("train", "test"))
    said = columns["chatgpt_label"]
    gold = np.random.default_rng(0).permutation(np.flatnonzero(train))[:200]
    pool = np.setdiff1d(np.flatnonzero(train & (said >= 0)), gold)

    def rows(index: np.ndarray[Any, Any]) -> dict[str, Any]:
        return {"text": columns["text"][index]}

    fitted = Featuriser.fit(rows(np.concatenate([gold, pool])), FeatureOptions(text="text"), where="mr")
    scores = {}
    for name, teacher in (("gold", None), ("both", us.Pool(fitted(rows(pool), where="mr"), said[pool]))):
        torch.manual_seed(0)
        student = torch.nn.Linear(fitted.shape[0], 2)
        run = us.train(
            student,
            us.Gold(fitted(rows(gold), where="mr"), columns["label"][gold]),
            teacher,
            us.vanilla(),
            epochs=5 if teacher else 40,
            lr=1e-2,
            progress=False,
        )
        probs = run.predict(fitted(rows(np.flatnonzero(test)), where="mr"))
        scores[name] = float((probs.argmax(1).numpy() == columns["label"][test]).mean())
    assert scores["both"] > 0.72 and scores["both"] > scores["gold"] + 0.05, scores
