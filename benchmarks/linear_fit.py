"""A linear student trained to convergence beside scikit-learn's logistic regression on the same rows, labels and C.

``us.train(…, optimizer="lbfgs")`` with all that belongs to a training (checks, refined labels, the run), until it stops
by itself, and ``LogisticRegression(C=C, tol=…).fit``, whose tolerance is the loosest power of ten from its default of
1e-4 on with which it gets as low, but for 1e-4: mean log-loss plus ‖W‖² / (2 C rows). Rows: film reviews as TF-IDF
(9,000 × 20,000, sparse), and made-up vectors (5,000 × 2,000) in two and in five classes. Target: at most 1.3 times the
time.

    python -m benchmarks.linear_fit
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch
from experiments.data import data_file
from pyarrow.parquet import read_table
from scipy.special import log_softmax
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression

import understudy as us
from benchmarks.figures import Figure, main
from benchmarks.timing import interleave

CS = (1.0, 10.0)
EQUAL, TOLERANCES = 1e-4, (1e-4, 1e-5, 1e-6, 1e-7)


def reviews() -> tuple[Any, np.ndarray[Any, Any]]:
    table = read_table(data_file("text/mr_chatgpt.parquet")).slice(0, 9_000)
    words = TfidfVectorizer(max_features=20_000, ngram_range=(1, 2), dtype=np.float32)
    return words.fit_transform(table["text"].to_pylist()), np.array(table["label"].to_pylist())


def vectors(classes: int) -> tuple[Any, np.ndarray[Any, Any]]:
    draw = np.random.default_rng(0)
    x = draw.normal(size=(5_000, 2_000)).astype(np.float32)
    return x, (x @ draw.normal(size=(2_000, classes)) / 10 + 3 * draw.gumbel(size=(5_000, classes))).argmax(1)


def contest(x: Any, y: np.ndarray[Any, Any], c: float) -> tuple[dict[str, Callable[[], Any]], str]:
    """The contestants, and which objectives they reach."""
    classes, pool = int(y.max()) + 1, us.Pool(x, torch.from_numpy(y))
    recipe: Any = {"optimizer": "lbfgs", "weight_decay": us.l2_of_c(c, len(y), classes), "progress": False}

    def ours() -> us.Run:
        return us.train(us.models.linear(x.shape[1], classes), None, pool, us.vanilla(), **recipe)

    head: Any = ours().student.head
    weight, bias = head.weight.detach().numpy(), head.bias.detach().numpy()
    if classes == 2:
        weight, bias = weight[1:] - weight[:1], bias[1:] - bias[:1]
    mine = objective(x, y, c, weight, bias)
    for tolerance in TOLERANCES:
        peer = partial(LogisticRegression(C=c, max_iter=10_000, tol=tolerance).fit, x, y)
        fitted = peer()
        theirs = objective(x, y, c, fitted.coef_, fitted.intercept_)
        if theirs <= mine + EQUAL:
            break
    return {"ours": ours, "peer": peer}, f"objective {mine:.5f}, theirs {theirs:.5f} at tol={tolerance:g}"


def objective(x: Any, y: np.ndarray[Any, Any], c: float, weight: np.ndarray[Any, Any], bias: Any) -> float:
    logits = x.astype(np.float64) @ weight.T.astype(np.float64) + bias
    if len(weight) == 1:
        logits = np.hstack([np.zeros_like(logits), logits])
    loss = -log_softmax(logits, axis=1)[np.arange(len(y)), y].mean()
    return float(loss + (weight.astype(np.float64) ** 2).sum() / (2 * c * len(y)))


def figures(repeats: int = 5) -> list[Figure]:
    rows = {
        "TF-IDF 9,000 × 20,000, 2 classes": reviews(),
        "vectors 5,000 × 2,000, 2 classes": vectors(2),
        "vectors 5,000 × 2,000, 5 classes": vectors(5),
    }
    found = []
    for what, (x, y) in rows.items():
        for c in CS:
            both, ends = contest(x, y, c)
            took = interleave(both, repeats=repeats)
            ours, peer = 1e3 * took["ours"], 1e3 * took["peer"]
            found.append(Figure(f"{what}, C = {c:g} ({ends})", "ms", ours, "scikit-learn", peer, ours / peer, "≤ 1.3"))
    return found


if __name__ == "__main__":
    main(figures)
