"""A linear student trained to convergence beside scikit-learn's logistic regression on the same rows, labels and C.

``us.train(…, optimizer="lbfgs")`` with all that belongs to a training (checks, refined labels, the run), and
``LogisticRegression(C=C).fit``; both stop at the same gradient. Rows: film reviews as TF-IDF (9,000 × 20,000, sparse),
and made-up vectors (5,000 × 2,000) in two and in five classes. Target: at most twice the time.

    python -m benchmarks.linear_fit
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from experiments.data import data_file
from pyarrow.parquet import read_table
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression

import understudy as us
from benchmarks.figures import Figure, main
from benchmarks.timing import interleave

CS = (1.0, 10.0)


def reviews() -> tuple[Any, np.ndarray[Any, Any]]:
    table = read_table(data_file("text/mr_chatgpt.parquet")).slice(0, 9_000)
    words = TfidfVectorizer(max_features=20_000, ngram_range=(1, 2), dtype=np.float32)
    return words.fit_transform(table["text"].to_pylist()), np.array(table["label"].to_pylist())


def vectors(classes: int) -> tuple[Any, np.ndarray[Any, Any]]:
    draw = np.random.default_rng(0)
    x = draw.normal(size=(5_000, 2_000)).astype(np.float32)
    return x, (x @ draw.normal(size=(2_000, classes)) / 10 + 3 * draw.gumbel(size=(5_000, classes))).argmax(1)


def contest(x: Any, y: np.ndarray[Any, Any], c: float) -> dict[str, Callable[[], object]]:
    classes, pool = int(y.max()) + 1, us.Pool(x, torch.from_numpy(y))
    recipe: Any = {"optimizer": "lbfgs", "weight_decay": us.l2_of_c(c, len(y), classes), "progress": False}
    return {
        "ours": lambda: us.train(us.models.linear(x.shape[1], classes), None, pool, us.vanilla(), **recipe),
        "peer": lambda: LogisticRegression(C=c, max_iter=1000).fit(x, y),
    }


def figures(repeats: int = 5) -> list[Figure]:
    rows = {
        "TF-IDF 9,000 × 20,000, 2 classes": reviews(),
        "vectors 5,000 × 2,000, 2 classes": vectors(2),
        "vectors 5,000 × 2,000, 5 classes": vectors(5),
    }
    found = []
    for what, (x, y) in rows.items():
        for c in CS:
            took = interleave(contest(x, y, c), repeats=repeats)
            ours, peer = 1e3 * took["ours"], 1e3 * took["peer"]
            found.append(Figure(f"{what}, C = {c:g}", "ms", ours, "scikit-learn", peer, ours / peer, "≤ 2"))
    return found


if __name__ == "__main__":
    main(figures)
