"""Six real tables, and no option but the files: what `understudy train` and `understudy compare` make of them.

    python -m experiments.six_tables --out docs/results/auto.md#six_tables          some 15 minutes on one core

Movie-review sentences labelled by an LLM; questions, comments and messages labelled by rules; the census table Adult
with 30% of its labels flipped; pictures of clothes labelled by a small net that saw 300 others. Each is written as a
user would have it (`gold`, `pool`, `test`; texts and numbers as CSV, votes as Parquet, pictures as .npz), and four
commands are run on the files: `train` without a pool, which is gold alone; `train`, which is `--method auto`; `train
--method vanilla`, the labels as they are; and `compare`. Beside them stand the most frequent class and the teacher, on
the same test rows.
"""

import argparse
import csv
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch

import understudy as us
from experiments.data import data_file, images
from experiments.table import markdown, publish
from understudy.maths.proportions import exact

Array = np.ndarray[Any, Any]
GOLD, POOL, TEST = 150, 1500, 1000
PARTS = ("gold", "pool", "test")
STAGES = (("gold alone", "auto", "vanilla"), ("compare",))
"""The trainings of all tables come first: a comparison takes as long as five of them."""


@dataclass(frozen=True)
class Dealt:
    """A table's files, and what can be known before any training."""

    files: dict[str, Path]
    chance: float
    teacher: float
    rows: int
    """That test."""


def dealt(rows: int, seed: int, *sizes: int) -> list[Array]:
    order = np.random.default_rng(seed).permutation(rows)
    return np.split(order[: sum(sizes)], np.cumsum(sizes)[:-1])


def chance(truth: Array) -> float:
    return float(np.bincount(np.unique(truth, return_inverse=True)[1]).max() / len(truth))


def as_csv(folder: Path, columns: dict[str, Array], parts: list[Array], truth: Array, given_labels: Array) -> Dealt:
    """Gold and test have ``label``, all have the teacher's labels."""
    files = {}
    for name, rows in zip(PARTS, parts, strict=True):
        shown = {**columns, "teacher_label": given_labels, **({} if name == "pool" else {"label": truth})}
        files[name] = folder / f"{name}.csv"
        with files[name].open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(shown)
            writer.writerows(zip(*(column[rows].tolist() for column in shown.values()), strict=True))
    test = parts[2]
    return Dealt(files, chance(truth[test]), float((given_labels[test] == truth[test]).mean()), len(test))


def reviews(folder: Path, seed: int) -> Dealt:
    table = pq.read_table(data_file("text/mr_chatgpt.parquet"))
    labelled = table["chatgpt_label"].to_numpy() != -9
    names = np.array(["neg", "pos", ""], dtype=object)
    text = table["text"].to_numpy(zero_copy_only=False)[labelled]
    truth, given_labels = names[table["label"].to_numpy()[labelled]], names[table["chatgpt_label"].to_numpy()[labelled]]
    parts = dealt(len(text), seed, GOLD, POOL, TEST)
    return as_csv(folder, {"text": text}, parts, truth, given_labels)


def rules(file: str) -> Callable[[Path, int], Dealt]:
    def deal(folder: Path, seed: int) -> Dealt:
        table = pq.read_table(data_file(f"text/{file}.parquet"))
        split, truth = table["split"].to_numpy(zero_copy_only=False), table["label"].to_numpy()
        votes, files = np.array(table["weak_labels"].to_pylist()), {}
        draw = np.random.default_rng(seed)
        parts = [
            draw.permutation(np.flatnonzero(np.isin(split, wanted)))[:size]
            for wanted, size in ((("valid", "validation"), GOLD), (("train",), POOL), (("test",), TEST))
        ]
        for name, rows in zip(PARTS, parts, strict=True):
            shown = {"text": table["text"].take(pa.array(rows)), "teacher_votes": pa.array(votes[rows].tolist())}
            files[name] = folder / f"{name}.parquet"
            labels = {} if name == "pool" else {"label": truth[rows]}
            pq.write_table(pa.table({**shown, **labels}), files[name])
        test = parts[2]
        labelled = (votes[test] >= 0).any(1)
        best = us.Votes(torch.from_numpy(votes[test][labelled]), int(truth.max()) + 1).top1().numpy()
        right = (best == truth[test][labelled]).sum() / len(test)
        return Dealt(files, chance(truth[test]), float(right), len(test))

    return deal


def adult(folder: Path, seed: int) -> Dealt:
    table = pq.read_table(data_file("tabular/adult.parquet"))
    names = [name for name in table.column_names if name not in ("split", "label")]
    columns = {name: table[name].to_numpy(zero_copy_only=False) for name in names}
    truth = np.array(["low", "high"], dtype=object)[(table["label"].to_numpy(zero_copy_only=False) == 1).astype(int)]
    wrong = np.random.default_rng(seed).random(len(truth)) < 0.3
    given_labels = np.where(wrong, np.where(truth == "low", "high", "low"), truth)
    return as_csv(folder, columns, dealt(len(truth), seed, GOLD, POOL, TEST), truth, given_labels)


def clothes(folder: Path, seed: int) -> Dealt:
    x, y, _, _ = images("fashion_mnist")
    own, *parts = dealt(len(x), seed, 300, GOLD, POOL, TEST)
    net = us.train(
        lambda: us.models.mlp(inputs=784, classes=10, hidden=(256,)), us.Gold(x[own], y[own]), None, us.vanilla(),
        epochs=30, seed=seed, progress=False,
    ).student  # fmt: skip
    files = {}
    for name, rows in zip(PARTS, parts, strict=True):
        files[name] = folder / f"{name}.npz"
        probs = us.teach(net, x[rows]).numpy()
        labels = {} if name == "pool" else {"label": y[rows].numpy()}
        np.savez(files[name], x=x[rows].numpy(), teacher_probs=probs, **labels)
    test = parts[2]
    given_labels = us.teach(net, x[test]).argmax(1)
    return Dealt(files, chance(y[test].numpy()), float((given_labels == y[test]).double().mean()), len(test))


TABLES: dict[str, Callable[[Path, int], Dealt]] = {
    "reviews, an LLM": reviews,
    "questions (TREC), 68 rules": rules("weak_trec"),
    "comments (YouTube), 10 rules": rules("weak_youtube"),
    "messages (SMS), 73 rules": rules("weak_sms"),
    "Adult, 30% flipped": adult,
    "clothes, a small net": clothes,
}


def understudy(*words: str | Path, folder: Path) -> str:
    """What a command prints."""
    threads = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "understudy", *map(str, words)]
    done = subprocess.run(command, cwd=folder, env=os.environ | threads, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(map(str, words))}: {done.stderr[-500:]}")
    return done.stdout


def run_table(name: str, seed: int, folder: Path, wanted: Sequence[str]) -> dict[str, Any]:
    """What the page reports of a table, for the commands wanted."""
    given = TABLES[name](folder, seed)
    gold, pool, test = (["--" + part, given.files[part]] for part in PARTS)
    both = [*gold, *pool, *test]
    commands = {
        "gold alone": ["train", *gold, *test], "auto": ["train", *both],
        "vanilla": ["train", *both, "--method", "vanilla"], "compare": ["compare", *both],
    }  # fmt: skip
    found: dict[str, Any] = {"chance": given.chance, "teacher": given.teacher, "rows": given.rows}
    for way in wanted:
        out = way.replace(" ", "-")
        printed = understudy(*commands[way], "--out", out, folder=folder)
        found[f"{way} says"] = [line.strip() for line in printed.splitlines() if line.strip()]
        if way != "compare":
            found[way] = us.Run.load(folder / out).metrics()["last"]["accuracy"]
            continue
        compared = json.loads((folder / out / "comparison.json").read_text())
        taken = compared["recommendation"]["choice"]
        found |= {"taken": taken, "sentences": compared["sentences"]}
        found |= {way: {name: one["last"]["mean"] for name, one in compared["methods"].items()}}
    return found


def page(kept: Mapping[str, dict[str, Any]]) -> str:
    header = ["table", "most frequent class", "teacher", "gold alone", "`train` (auto)", "vanilla", "`compare` takes"]
    rows, words = [], []
    for name, one in kept.items():
        share = exact(round(one["auto"] * one["rows"]), one["rows"])
        cells = [f"{100 * one[each]:.1f}" for each in ("chance", "teacher", "gold alone")]
        cells.append(f"**{100 * one['auto']:.1f}** ({100 * share.low:.1f}–{100 * share.high:.1f})")
        taken = f"{one['taken']}, {100 * one['compare'][one['taken']]:.1f}" if "compare" in one else "not run"
        rows.append([name, *cells, f"{100 * one['vanilla']:.1f}", taken])
        if one["auto"] <= one["gold alone"]:
            words.append(f"- **{name}**, `train`: {one['auto says'][-2]}")
        if "compare" in one:
            words.append(f"- **{name}**, `compare`: {one['sentences'][0]}")
    above = {each: sum(one["auto"] > one[each] for one in kept.values()) for each in ("chance", "gold alone")}
    near = sum(
        one["auto"] <= one["gold alone"] <= exact(round(one["auto"] * one["rows"]), one["rows"]).high
        for one in kept.values()
    )
    parts = [
        "**Six tables, no option but the files** (test accuracy in %, one draw; of `train` with the 95% interval that "
        "the test rows give)",
        markdown(header, rows).rstrip(),
        f"`train` is above the most frequent class on {above['chance']} of {len(kept)} tables and above gold alone on "
        f"{above['gold alone']}; on {near} gold alone is ahead by less than the interval. Gold alone is here a command "
        "of its own: without a pool a text's features are made of gold's words only. `train` and `compare` hold their "
        "student against gold alone on the features that both share. Rows on which all rules are silent count against "
        "the teacher.",
        "What they say, `compare` first of all and `train` where it is not above gold alone:",
        "\n".join(words),
    ]
    return "\n\n".join(parts) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", help="a table whose name begins so")
    parser.add_argument("--kept", type=Path, help="a JSON file: commands whose result it holds are not run again")
    parser.add_argument("--out", type=Path, help="write the table to this Markdown file")
    options = parser.parse_args()
    torch.set_num_threads(1)
    kept: dict[str, dict[str, Any]] = {}
    if options.kept is not None and options.kept.exists():
        kept = json.loads(options.kept.read_text())
    for stage in STAGES:
        for name in (name for name in TABLES if name.startswith(options.only or "")):
            wanted = [way for way in stage if way not in kept.get(name, {})]
            if not wanted:
                continue
            with tempfile.TemporaryDirectory() as folder:
                found = run_table(name, options.seed, Path(folder), wanted)
            kept[name] = kept.get(name, {}) | found
            print(name, json.dumps(found, indent=1), flush=True)
            if options.kept is not None:
                options.kept.write_text(json.dumps(kept, indent=1))
    publish(page(kept), options.out)


if __name__ == "__main__":
    main()
