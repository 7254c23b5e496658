"""The settings of ``experiments.alternatives``: text as 20,000 words and pairs, texts and images as frozen vectors.

    SETTINGS["SMS, rules"](seed=0)           # a Situation: gold, pool and test rows, dealt by the seed
    unavailable("TREC, rules, MiniLM")       # why it cannot be dealt here; None where it can

Features are what users have: TF-IDF as the library's own featuriser makes it, fitted on rows that are not tested, or
the vectors of a net trained elsewhere. Teachers are an LLM, rules, word lists, a small model, a real model's
probabilities, and planted mistakes that depend on the class or on the row. The ten settings of
``experiments.auto_data`` come last, as they are. Every row has its number in the source as id.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import torch
from scipy import sparse
from sklearn.linear_model import LogisticRegression
from torch import Tensor

import understudy as us
from experiments import auto_data
from experiments.auto_data import Situation, dealt
from experiments.data import data_file
from experiments.datasets import load
from experiments.frozen import EFFICIENTNET, MINILM, missing, picture_vectors, sentence_vectors
from understudy.data.rows import SparseRows
from understudy.features.tabular import RawColumns, Tfidf
from understudy.labels.base import Labels

Array = np.ndarray[Any, Any]
TERMS, NGRAMS = 20_000, 2
IMDB_POOL, IMDB_TEST, PICTURES = 6_000, 2_000, 5_000
# As usual for TF-IDF; a tenth to ten times as much differs by a point or two.
C = 10.0
# At most; a linear student trains until it has converged, which is sooner.
EPOCHS = 20


@dataclass(frozen=True)
class Source:
    """Rows as they come: features, truth, who may be gold or pool, who is tested; the columns of their table."""

    x: Any
    """A sparse matrix, or a tensor."""
    y: Tensor
    train: Tensor
    test: Tensor
    columns: dict[str, Array]

    @property
    def classes(self) -> int:
        return int(self.y.max()) + 1

    def deal(self, labels: Labels, gold_rows: int, seed: int, *, without: Tensor | None = None) -> Situation:
        """``labels``: the teacher's labels of every row of the source; ``without``: rows it learned from."""
        train = self.train if without is None else self.train[~torch.isin(self.train, without)]
        gold, pool = (train[rows] for rows in dealt(len(train), [gold_rows, len(train) - gold_rows], seed))
        return Situation(
            us.Gold(self.rows(gold), self.y[gold], teacher=labels.take(gold), ids=gold.tolist()),
            us.Pool(self.rows(pool), labels.take(pool), ids=pool.tolist()),
            us.Gold(self.rows(self.test), self.y[self.test], ids=self.test.tolist()),
            partial(us.models.linear, inputs=self.x.shape[1], classes=self.classes),
            epochs=EPOCHS,
            recipe=linear_recipe(gold_rows + int(labels.take(pool).labelled().sum()), self.classes),
            truth=self.y[pool],
        )

    def rows(self, index: Tensor) -> Any:
        return self.x[index] if isinstance(self.x, Tensor) else SparseRows(self.x[index.numpy()])


def linear_recipe(rows: int, classes: int) -> dict[str, Any]:
    """The minimum that logistic regression finds with the same C."""
    return {"optimizer": "lbfgs", "weight_decay": us.l2_of_c(C, rows, classes)}


def words(texts: list[str], fit_on: Tensor) -> sparse.csr_matrix[Any]:
    """TF-IDF of the most frequent words and pairs of the rows ``fit_on``."""
    column = np.array(texts, dtype=object)
    part = Tfidf.fit(RawColumns({"text": column[fit_on.numpy()]}, "texts"), "text", max_terms=TERMS, ngrams=NGRAMS)
    return part(RawColumns({"text": column}, "texts"))


@cache
def text(name: str, vectors: str = "words") -> Source:
    """A table of ``text/`` with the columns text, label and split; rows that are not test rows may be gold or pool."""
    table = pq.read_table(data_file(f"text/{name}.parquet"))
    columns = {key: np.array(table[key].to_pylist()) for key in table.column_names if key != "text"}
    usable = columns["chatgpt_label"] >= 0 if name == "mr_chatgpt" else np.ones(len(table), dtype=bool)
    train, test = (
        torch.from_numpy(np.flatnonzero(part))
        for part in ((columns["split"] != "test") & usable, columns["split"] == "test")
    )
    texts = table["text"].to_pylist()
    x = words(texts, train) if vectors == "words" else torch.from_numpy(sentence_vectors(texts))
    return Source(x, torch.from_numpy(columns["label"].astype(np.int64)), train, test, columns)


@cache
def imdb(pool_split: str) -> Source:
    """8,200 reviews, the same for every seed: gold and pool from one split, test rows from the test split."""
    table = pq.read_table(data_file("imdb_50k.parquet"))
    split, draw = table["split"].to_numpy(zero_copy_only=False), np.random.default_rng(0)
    probs = real_probabilities(table["label"].to_numpy(), table["id"].to_numpy())
    test = draw.permutation(np.flatnonzero((split == "test") & ~np.isnan(probs[:, 0])))
    rest = test[IMDB_TEST:] if pool_split == "test" else np.flatnonzero(split == pool_split)
    rows = np.concatenate([draw.permutation(rest)[: IMDB_POOL + 200], test[:IMDB_TEST]])
    chosen = table.take(rows)
    columns = {"rating": chosen["rating"].to_numpy(), "text": np.array(chosen["text"].to_pylist(), dtype=object)}
    if pool_split == "test":
        columns["probs"] = probs[rows]
    first, last = torch.arange(len(rows)).split([IMDB_POOL + 200, IMDB_TEST])
    x = words(columns["text"].tolist(), first)
    return Source(x, torch.from_numpy(chosen["label"].to_numpy().astype(np.int64)), first, last, columns)


def real_probabilities(labels: Array, numbers: Array) -> Array:
    """A real model's labels of IMDB's test reviews, by label and number of the review.

    NaN for about 400 of the 25,000: some keys are not in the file, and as many stand there twice.
    """
    with np.load(data_file("label_errors/imdb_test_pyx.npz"), allow_pickle=False) as known:
        keys = 12_500 * known["label"].astype(int) + known["file_id"]
        found, at, count = np.unique(keys, return_index=True, return_counts=True)
        probs = np.full((25_000, 2), np.nan)
        probs[found[count == 1]] = known["pyx"][at[count == 1]]
    return probs[12_500 * labels.astype(int) + numbers]


@cache
def pictures() -> Source:
    """The first images of CIFAR-10's test set, because a real model's probabilities are known for these."""
    data = load("cifar10")
    x = torch.from_numpy(picture_vectors("cifar10-test", data.x_test[:PICTURES]))
    with np.load(data_file("label_errors/cifar10_test_pyx.npz"), allow_pickle=False) as known:
        columns = {"probs": known["pyx"][:PICTURES]}
    every = torch.arange(PICTURES)
    return Source(x, data.y_test[:PICTURES], every, every[:0], columns)


def reviews(seed: int, vectors: str = "words") -> Situation:
    """An LLM's labels of sentences of movie reviews."""
    source = text("mr_chatgpt", vectors)
    given_labels = torch.from_numpy(source.columns["chatgpt_label"].astype(np.int64)).clamp(min=-1)
    return source.deal(us.Hard(given_labels, classes=2), 200, seed)


def rules(seed: int, name: str, gold_rows: int, vectors: str = "words") -> Situation:
    source = text(name, vectors)
    votes = torch.from_numpy(source.columns["weak_labels"].astype(np.int64))
    return source.deal(us.Votes(votes, source.classes), gold_rows, seed)


def class_noise(seed: int) -> Situation:
    """30% of the positive sentences are called negative, 10% of the negative ones positive."""
    source = text("sst2")
    rate = torch.where(source.y == 1, 0.3, 0.1)
    wrong = torch.rand(len(rate), generator=torch.Generator().manual_seed(seed)) < rate
    return source.deal(us.Hard(torch.where(wrong, 1 - source.y, source.y), classes=2), 200, seed)


def small_model(seed: int) -> Situation:
    """Logistic regression on 300 sentences of its own says how likely each other one is positive."""
    source = text("sst2")
    own = source.train[dealt(len(source.train), [300], seed + 1_000)[0]]
    model = LogisticRegression(C=10).fit(source.x[own.numpy()], source.y[own].numpy())
    return source.deal(us.Soft(model.predict_proba(source.x)), 200, seed, without=own)


def rated_noise(seed: int) -> Situation:
    """The milder a review's rating (1 to 4, 7 to 10), the likelier it is misread: 10%, 20%, 30%, 45%."""
    source = imdb("train")
    mild = np.minimum(source.columns["rating"] - 1, 10 - source.columns["rating"])
    rate = torch.tensor([0.1, 0.2, 0.3, 0.45])[torch.from_numpy(mild.astype(np.int64))]
    wrong = torch.rand(len(rate), generator=torch.Generator().manual_seed(seed)) < rate
    return source.deal(us.Hard(torch.where(wrong, 1 - source.y, source.y), classes=2), 200, seed)


LISTS = {
    1: ("great", "excellent superb wonderful", "best", "love loved loves", "perfect amazing", "beautiful touching"),
    0: ("bad", "worst", "boring dull", "waste wasted", "awful terrible horrible", "poor poorly", "stupid lame"),
}


def word_lists(seed: int) -> Situation:
    """Thirteen rules: each votes for its class where one of its words is in the review."""
    source = imdb("train")
    found = [set(review.lower().replace(".", " ").replace(",", " ").split()) for review in source.columns["text"]]
    votes = [
        [label if not words_of.isdisjoint(listed.split()) else -1 for label, lists in LISTS.items() for listed in lists]
        for words_of in found
    ]
    return source.deal(us.Votes(torch.tensor(votes), 2), 200, seed)


def reviews_model(seed: int) -> Situation:
    """A real model's probabilities for reviews it had not seen."""
    source = imdb("test")
    return source.deal(us.Soft(proper(source.columns["probs"])), 200, seed)


def proper(probs: Array) -> Tensor:
    """Sums of float32 probabilities are 1 to five digits; these are 1."""
    exact = torch.from_numpy(probs).double()
    return exact / exact.sum(1, keepdim=True)


def picture_teacher(seed: int, temperature: float | None = None) -> Situation:
    """A real model's probabilities; with a temperature, one label drawn from them: what looks alike is confused."""
    source = pictures()
    probs = proper(source.columns["probs"])
    labels: Labels = us.Soft(probs)
    if temperature is not None:
        draw = torch.Generator().manual_seed(seed)
        drawn = torch.multinomial((probs.log() / temperature).softmax(1), 1, generator=draw).squeeze(1)
        labels = us.Hard(drawn, classes=source.classes)
    train, test = dealt(PICTURES, [3_500, 1_500], seed + 1_000)
    return Source(source.x, source.y, train, test, {}).deal(labels, 300, seed)


Deal = Callable[[int], Situation]
WORDS: dict[str, Deal] = {
    "reviews, LLM": reviews,
    "TREC, rules": partial(rules, name="weak_trec", gold_rows=200),
    "YouTube, rules": partial(rules, name="weak_youtube", gold_rows=100),
    "SMS, rules": partial(rules, name="weak_sms", gold_rows=120),
    "SST-2, class noise": class_noise,
    "SST-2, small model": small_model,
    "IMDB, rated noise": rated_noise,
    "IMDB, word lists": word_lists,
    "IMDB, real model": reviews_model,
}
VECTORS: dict[str, Deal] = {
    "reviews, LLM, MiniLM": partial(reviews, vectors="minilm"),
    "TREC, rules, MiniLM": partial(rules, name="weak_trec", gold_rows=200, vectors="minilm"),
    "YouTube, rules, MiniLM": partial(rules, name="weak_youtube", gold_rows=100, vectors="minilm"),
    "CIFAR-10, real model": picture_teacher,
    "CIFAR-10, confusions": partial(picture_teacher, temperature=3.0),
}
TEN: dict[str, Deal] = {f"{name} (ten)": deal for name, deal in auto_data.SETTINGS.items()}
SETTINGS: dict[str, Deal] = WORDS | VECTORS | TEN
HELD_OUT = ("SMS, rules", "IMDB, rated noise", "CIFAR-10, confusions")
"""Measured when everything is fixed; nothing is tuned on them."""


def unavailable(setting: str) -> str | None:
    """Why a setting cannot be dealt here, None where it can."""
    if setting not in VECTORS:
        return None
    return missing(MINILM if setting.endswith("MiniLM") else EFFICIENTNET)
