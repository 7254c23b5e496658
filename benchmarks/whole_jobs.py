"""Whole jobs of the command line on texts: CPU seconds and peak memory of train, audit and compare, and their growth.

Files are those of ``benchmarks/profile_job.py`` (passages of film reviews, a quarter of the pool's labels wrong, 300
gold rows); above 100,000 rows passages are three sentences drawn anew from reviews of one class. The peer of ``train``
does what one would write by hand: TF-IDF, logistic regression on gold and pool, five folds, cleanlab's label issues
left out, the fit again, the pool predicted; it runs under the Python in $UNDERSTUDY_PEERS. Every job is a process of
its own, start and imports included; seconds count its children. The exponent is that of the last step, the slope of
log(seconds) over log(rows): 1 is linear, less where the start still counts.

    UNDERSTUDY_PEERS=.peers/bin/python python -m benchmarks.whole_jobs         # 15 minutes of one core
    python -m benchmarks.whole_jobs --jobs train --rows 1000000                # to print: 188 s, 4.9 GB (1b5a4411)
"""

import argparse
import json
import math
import os
import re
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from experiments.data import data_file

from benchmarks import profile_job
from benchmarks.figures import Figure, main

SIZES = {"train": (2_000, 20_000, 100_000), "audit": (2_000, 20_000, 100_000), "compare": (2_000, 20_000)}
TARGETS = {
    ("train", 20_000): "≤ 12", ("train", 100_000): "≤ 40", ("compare", 20_000): "≤ 60", ("audit", 2_000): "≤ 2.5",
}  # fmt: skip
OWN_PASSAGES, MEMORY, PEER = 100_000, 1_000, "logistic regression + cleanlab"
# Starts the job as its only child, so that what it says of children is what the job cost.
WATCH = """
import json, resource, subprocess, sys
done = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL)
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(json.dumps([done.returncode, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024]))
"""
BY_HAND = """
import sys
import pyarrow.parquet as pq
from cleanlab.filter import find_label_issues
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_predict
gold, pool = (pq.read_table(path).to_pydict() for path in sys.argv[1:3])
tfidf = TfidfVectorizer(ngram_range=(1, 2), max_features=20_000, sublinear_tf=True)
x = tfidf.fit_transform(gold["text"] + pool["text"])
names = sorted({*gold["label"]})
y = [names.index(name) for name in gold["label"] + pool["teacher_label"]]
model = LogisticRegression(max_iter=1000)
issues = find_label_issues(y, cross_val_predict(model, x, y, cv=5, method="predict_proba"), n_jobs=1)
kept = [row for row in range(len(y)) if not issues[row]]
model.fit(x[kept], [y[row] for row in kept]).predict_proba(x)
"""


def drawn_passages(rows: int) -> tuple[list[str], np.ndarray[Any, Any]]:
    """As many as asked for."""
    table = pq.read_table(data_file("imdb_50k.parquet"), columns=["text", "label"])
    sentences: dict[int, list[str]] = {0: [], 1: []}
    for text, label in zip(table["text"].to_pylist(), table["label"].to_pylist(), strict=True):
        sentences[label] += re.split(r"(?<=[.!?])\s+", text)
    draw = np.random.default_rng(0)
    labels = draw.integers(0, 2, rows)
    places = draw.random((rows, profile_job.SENTENCES))
    texts = [
        " ".join(sentences[label][int(place * len(sentences[label]))] for place in row)
        for label, row in zip(labels.tolist(), places.tolist(), strict=True)
    ]
    return texts, labels


def command(job: str, gold: Path, pool: Path, folder: Path) -> list[str] | None:
    if job == PEER:
        python = os.environ.get("UNDERSTUDY_PEERS")
        return None if python is None else [python, "-c", BY_HAND, str(gold), str(pool)]
    files = ["--gold", gold, "--pool", pool, "--text", "text"]
    more: dict[str, list[Any]] = {
        "train": ["--encoder", "none", "--out", folder / "out", "--option", "workers=1"],
        "compare": ["--encoder", "none", "--out", folder / "out", "--workers", 1],
        "audit": ["--out", folder / "audit.html"],
    }
    return [sys.executable, "-m", "understudy", job, *map(str, [*files, *more[job]]), "--quiet"]


def measure(job: str, rows: int) -> tuple[float, float] | None:
    """CPU seconds and megabytes at most; None where the peer is not installed."""
    if rows > OWN_PASSAGES:
        profile_job.passages = drawn_passages
    with tempfile.TemporaryDirectory() as name:
        gold, pool = profile_job.write_files(Path(name), rows, "text")
        words = command(job, gold, pool, Path(name))
        if words is None:
            return None
        done = subprocess.run(
            [sys.executable, "-c", WATCH, *words], env=os.environ | {"OMP_NUM_THREADS": "1"}, stdout=subprocess.PIPE
        )
    code, seconds, megabytes = json.loads(done.stdout)
    if code:
        raise RuntimeError(f"{job} of {rows:,} rows ended with {code}")
    print(f"{job}, {rows:,} rows: {seconds:.1f} s, {megabytes:,.0f} MB", file=sys.stderr, flush=True)
    return seconds, megabytes


def figures(sizes: dict[str, tuple[int, ...]] = SIZES) -> list[Figure]:
    table = []
    for job, each in sizes.items():
        seconds = {}
        for rows in each:
            mine, what, target = measure(job, rows), f"understudy {job}, {rows:,} texts", TARGETS.get((job, rows), "")
            assert mine is not None
            theirs = measure(PEER, rows) if job == "train" else None
            seconds[rows], megabytes = mine
            if target or theirs is None:
                value = mine[0] if target else None
                table.append(Figure(f"{what}: CPU", "s", mine[0], value=value, target=target))
            if theirs is not None:
                table.append(Figure(f"{what}: CPU", "s", mine[0], PEER, theirs[0], mine[0] / theirs[0]))
                table.append(Figure(f"{what}: memory", "MB", megabytes, PEER, theirs[1], megabytes / theirs[1]))
            limit = f"≤ {MEMORY:,}" if rows == OWN_PASSAGES else ""
            table.append(Figure(f"{what}: memory", "MB", megabytes, value=megabytes, target=limit))
        if len(each) > 1:
            (fewer, before), (more, after) = list(seconds.items())[-2:]
            slope = math.log(after / before) / math.log(more / fewer)
            what = f"understudy {job}, exponent from {fewer:,} to {more:,} texts"
            table.append(Figure(what, "", slope, value=slope, target="≤ 1.1"))
    return table


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", nargs="+", choices=SIZES, default=list(SIZES))
    parser.add_argument("--rows", type=int, nargs="+", help="instead of each job's own sizes")
    options, rest = parser.parse_known_args()
    main(partial(figures, {job: tuple(options.rows or SIZES[job]) for job in options.jobs}), rest)
