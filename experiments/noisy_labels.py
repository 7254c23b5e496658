"""Every noisy-label method on Fashion-MNIST with flipped labels, ten gold rows per class (as Ren et al. 2018, 4.2).

    OMP_NUM_THREADS=1 python -m experiments.noisy_labels --out docs/results/noisy_labels.md#noisy_labels

10,000 pool rows, of which 40% of the labels move to class 0 (background flip) or to any other class (uniform flip); MLP
784-256-10, Adam 1e-3 cosine, batch 128, 40 epochs. The 100 gold rows estimate, steer and select; they train only in
"clean only" and where +FT says so (15 epochs at 1e-4, at the end). "selected" is the epoch best on gold, +ES stops
after 4 epochs without a better one; "noisy split" selects on a tenth of the pool kept out, by its noisy labels. Test
accuracy, 3 seeds.

About 30 minutes of CPU. Expect, last epoch under background flips: vanilla 61%, l2rw 82%, forward and the confusion
S-model 80%, resample 83%; under uniform flips vanilla 82%, gce, MentorNet-PD and Co-teaching about 2 points more
(``experiments.air_fashion_mnist`` has a recipe that memorises far more).
"""

import argparse
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

import understudy as us
from experiments.data import images
from experiments.table import in_processes, markdown, paired, percent, publish
from understudy.data.noise import background_flip, uniform_flip

ROWS, CLASSES, PER_CLASS, EPOCHS, RATE = 10_000, 10, 10, 40, 0.4
FT: dict[str, Any] = {"finetune_epochs": 15, "finetune_lr": 1e-4}
ES: dict[str, Any] = {"patience": 4}


class Variant(NamedTuple):
    objective: Callable[[], us.Objective]
    options: dict[str, Any] = {}  # noqa: RUF012 - never changed
    noisy_split: bool = False


VARIANTS: dict[str, Variant] = {
    "vanilla": Variant(us.vanilla),
    "vanilla, noisy split": Variant(us.vanilla, noisy_split=True),
    "vanilla +ES": Variant(us.vanilla, ES),
    "vanilla +FT": Variant(us.vanilla, FT),
    "vanilla +ES +FT": Variant(us.vanilla, ES | FT),
    "self_distillation": Variant(us.self_distillation),
    "l2rw": Variant(us.l2rw),
    "random_weights": Variant(us.random_weights),
    "gce": Variant(us.gce),
    "gce, truncated": Variant(lambda: us.gce(truncated=True)),
    "elr": Variant(us.elr),
    "sop": Variant(us.sop),
    "bootstrap, hard": Variant(us.bootstrap),
    "bootstrap, soft": Variant(lambda: us.bootstrap(target="soft")),
    "forward": Variant(us.forward),
    "s_model": Variant(us.s_model),
    "s_model, confusion": Variant(lambda: us.s_model("confusion")),
    "s_model, confusion +ES +FT": Variant(lambda: us.s_model("confusion"), ES | FT),
    "co_teaching": Variant(lambda: us.co_teaching(gradual_epochs=5)),
    "mentornet_pd": Variant(lambda: us.mentornet_pd(1 - RATE)),
    "class_ratio": Variant(us.class_ratio),
    "class_ratio +FT": Variant(us.class_ratio, FT),
    "proportion": Variant(us.proportion),
    "resample": Variant(us.resample),
    "hard_mining": Variant(us.hard_mining),
}
FLIPS: dict[str, Callable[[Tensor, int], tuple[Tensor, Tensor]]] = {
    "background flip": lambda y, seed: background_flip(y, RATE, 0, CLASSES, seed=seed),
    "uniform flip": lambda y, seed: uniform_flip(y, RATE, CLASSES, seed=seed),
}


class Result(NamedTuple):
    last: float
    selected: float | None


def student() -> nn.Module:
    return us.models.mlp(784, CLASSES, hidden=(256,))


@cache
def data(flip: str, seed: int) -> tuple[us.Gold, us.Pool, us.Gold]:
    """Gold with the labeller's word on it, the noisy pool, and the test rows."""
    x, y, x_test, y_test = images("fashion_mnist")
    order = torch.randperm(len(x), generator=torch.Generator().manual_seed(seed))
    gold_rows = torch.cat([order[y[order] == label][:PER_CLASS] for label in range(CLASSES)])
    left = torch.ones(len(x), dtype=torch.bool)
    left[gold_rows] = False
    pool_rows = order[left[order]][:ROWS]
    noisy, _ = FLIPS[flip](torch.cat([y[gold_rows], y[pool_rows]]), seed)
    given_labels = us.Hard(noisy, classes=CLASSES)
    on_gold, on_pool = (
        given_labels.take(torch.arange(len(gold_rows))),
        given_labels.take(torch.arange(len(gold_rows), len(noisy))),
    )
    gold = us.Gold(x[gold_rows], y[gold_rows], on_gold)
    return gold, us.Pool(x[pool_rows], on_pool), us.Gold(x_test, y_test)


def result_of(job: tuple[int, str, str]) -> Result:
    seed, flip, name = job
    gold, pool, test = data(flip, seed)
    common: dict[str, Any] = {"seed": seed, "schedule": "cosine", "progress": False, "refine": False}
    if name == "clean only":
        run = us.train(student, gold, None, us.vanilla(), epochs=150, batch_size=32, **common)
        return Result(us.evaluate(run.student, test)["accuracy"], None)
    if name == "forward, anchor":
        noisy_probs = us.train(student, None, pool, us.vanilla(), epochs=3, **common).predict(pool.x)
        variant = Variant(lambda: us.forward("anchor", noisy_probs=noisy_probs))
    else:
        variant = VARIANTS[name]
    select = gold
    if variant.noisy_split:
        held, kept = torch.arange(len(pool)).split([len(pool) // 10, len(pool) - len(pool) // 10])
        assert pool.teacher is not None
        select, pool = us.Gold(pool.x[held], pool.teacher.top1()[held]), pool.take(kept)
    run = us.train(
        student, gold, pool, variant.objective(), epochs=EPOCHS, select=select, test=test, gold_repeat=0, **common,
        **variant.options,
    )  # fmt: skip
    if "finetune_epochs" in variant.options:
        return Result(run.facts["finetuned_test_accuracy"], None)
    found = run.metrics()
    return Result(found["last"]["accuracy"], found["selected"]["accuracy"])


def table(flip: str, found: dict[tuple[str, str], list[Result]]) -> str:
    base = [result.last for result in found[flip, "vanilla"]]
    rows = []
    for (of, name), results in found.items():
        if of == flip:
            last = [result.last for result in results]
            selected = [result.selected for result in results if result.selected is not None]
            gap = "" if name == "vanilla" else paired(last, base)
            rows.append([name, percent(last), percent(selected) if selected else "", gap])
    return f"## {flip}, {RATE:.0%}\n\n{markdown(['method', 'last, %', 'selected, %', 'last minus vanilla'], rows)}\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--workers", type=int, default=2, help="processes of one thread each")
    parser.add_argument("--only", nargs="+", help="rows of the table beside vanilla, e.g. elr sop")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    started = time.perf_counter()
    names = ["vanilla", *args.only] if args.only else [*VARIANTS, "forward, anchor", "clean only"]
    jobs = [(seed, flip, name) for seed in range(args.seeds) for flip in FLIPS for name in names]
    found: dict[tuple[str, str], list[Result]] = {}
    for job, result in zip(jobs, in_processes(result_of, jobs, args.workers), strict=True):
        found.setdefault(job[1:], []).append(result)
        print(job, result, flush=True)
    text = (
        "# Noisy labels: Fashion-MNIST, ten gold rows per class\n\n"
        f"{ROWS:,} pool rows, MLP 784-256-10, {EPOCHS} epochs, {args.seeds} seeds; test accuracy, mean ± half of "
        "the 95% interval, differences paired by seed. `python -m experiments.noisy_labels`\n\n"
        + "".join(table(flip, found) for flip in FLIPS)
    )
    publish(text, args.out)
    print(f"{time.perf_counter() - started:.0f} s")


if __name__ == "__main__":
    main()
