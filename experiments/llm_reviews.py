"""A real LLM as the teacher, from files to predictions: movie reviews labelled by ChatGPT, through the command line.

    OMP_NUM_THREADS=1 python -m experiments.llm_reviews --out docs/results/texts.md#llm_reviews

8,662 sentences of the movie-review data set of Pang and Lee (2005) with the LLM's answers (93.7% right, errors lean
from positive to negative; rows without a usable answer have none), 200 of them as gold, 2,000 test rows. For each
seed and method two commands are run, `understudy train --text text …` and `understudy predict`, and the accuracy is
counted from the file of predictions, where the class names have come back. The student is an MLP, 10 epochs: on TF-IDF
it sees nothing but the words of short sentences; on frozen MiniLM vectors (`--encoder`, where UNDERSTUDY_MINILM names
the encoder's folder, see `experiments/frozen.py`) what a user of today would give it. Neither can reach the LLM, which
has read much else: the question is which way to use its labels loses least. About 3 minutes on one core for TF-IDF, and
as much for MiniLM once its vectors are in the cache.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from experiments.data import data_file
from experiments.frozen import MINILM, missing
from experiments.table import in_processes, markdown, paired, percent, publish

GOLD, NAMES = 200, np.array(["neg", "pos"], dtype=object)
METHODS: dict[str, list[str]] = {
    "gold only": [],
    "vanilla": ["--method", "vanilla"],
    "SLaM, hard labels": ["--method", "slam"],
    "weighted": ["--method", "weighted", "--pretrain", "10"],
}
TRAINING = ["--text", "text", "--student", "mlp:64", "--classes", "neg,pos", "--quiet"]
# Gold alone has 40 times fewer steps in an epoch.
EPOCHS = {"gold only": "40"}
TFIDF = "TF-IDF"


def features() -> dict[str, list[str]]:
    """Name -> options of the command line; MiniLM only where its folder is at hand."""
    return {TFIDF: []} | ({} if missing(MINILM) else {"MiniLM": ["--encoder", os.environ[MINILM]]})


def write_files(folder: Path, seed: int) -> float:
    """gold.parquet (id, label), pool.parquet (id, text, the LLM's answer), test.parquet; returns the LLM's accuracy."""
    table = pq.read_table(data_file("text/mr_chatgpt.parquet"))
    parts = {name: table.filter(pc.equal(table["split"], name)) for name in ("train", "test")}
    truth, given_labels = (parts["train"][name].to_numpy() for name in ("label", "chatgpt_label"))
    ids = np.array([f"train-{row}" for row in range(len(truth))], dtype=object)
    answers = np.where(given_labels >= 0, NAMES[given_labels.clip(0)], None)
    gold = np.random.default_rng(seed).permutation(len(truth))[:GOLD]
    pq.write_table(pa.table({"id": ids[gold], "label": NAMES[truth[gold]]}), folder / "gold.parquet")
    pool = {"id": ids, "text": parts["train"]["text"], "teacher_label": pa.array(answers, pa.string())}
    pq.write_table(pa.table(pool), folder / "pool.parquet")
    test = {"id": [f"test-{row}" for row in range(len(parts["test"]))], "text": parts["test"]["text"]}
    pq.write_table(pa.table({**test, "label": NAMES[parts["test"]["label"].to_numpy()]}), folder / "test.parquet")
    if "gold only" in METHODS:
        own = {"text": parts["train"]["text"].take(gold), "label": NAMES[truth[gold]]}
        pq.write_table(pa.table({"id": ids[gold], **own}), folder / "gold_with_text.parquet")
    answered = given_labels >= 0
    return float((given_labels == truth)[answered].mean())


def accuracy_of(job: tuple[str, str, int]) -> float:
    kind, method, seed = job
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_files(folder, seed)
        files = ["--gold", "gold.parquet", "--pool", "pool.parquet"] if METHODS[method] else [
            "--gold", "gold_with_text.parquet"]  # fmt: skip
        epochs = ["--epochs", EPOCHS.get(method, "10"), "--seed", str(seed), "--out", "run"]
        _understudy(folder, "train", *files, *TRAINING, *features()[kind], *METHODS[method], *epochs)
        _understudy(folder, "predict", "run", "test.parquet", "--out", "predictions.parquet")
        truth, found = (pq.read_table(folder / file) for file in ("test.parquet", "predictions.parquet"))
        assert found["id"].equals(truth["id"].cast(found["id"].type))
        return float(np.mean(found["label"].to_numpy() == truth["label"].to_numpy()))


def _understudy(folder: Path, *arguments: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "understudy", *arguments], cwd=folder, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise RuntimeError(f"understudy {' '.join(arguments)}: {done.stderr.strip()[-500:]}")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--workers", type=int, default=2, help="processes of one thread each")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        teacher = write_files(Path(folder), 0)
    jobs = [(kind, method, seed) for kind in features() for method in METHODS for seed in range(options.seeds)]
    found: dict[tuple[str, str], list[float]] = {}
    for (kind, method, seed), accuracy in zip(jobs, in_processes(accuracy_of, jobs, options.workers), strict=True):
        found.setdefault((kind, method), []).append(accuracy)
        print(f"{kind}, {method}, seed {seed}: {accuracy:.4f}", file=sys.stderr, flush=True)
    rows = [
        [kind, method, percent(values), "" if method == "vanilla" else paired(values, found[kind, "vanilla"])]
        for (kind, method), values in found.items()
    ]
    without = "" if missing(MINILM) is None else f" MiniLM was left out: {missing(MINILM)}."
    text = (
        f"Accuracy of the LLM's labels: {100 * teacher:.1f}% of the training rows it answered. {options.seeds} seeds, "
        f"mean ± half of the 95% interval, in %; the last epoch.{without}\n\n"
        f"{markdown(['features', 'method', 'test accuracy', 'minus vanilla'], rows)}"
    )
    publish(text, options.out)


if __name__ == "__main__":
    main()
