"""Every distillation method and the compositions the papers report, on Fashion-MNIST, with one tuning budget for all.

*paper*: 200 rows train the teacher and pretrain the student; 500 more gold rows estimate and also train; 15,000 pool
rows; 30 epochs. The papers' own protocol; training on the 700 gold rows alone wins here, which the table shows.
*honest*: the teacher's 500 labels are its own, as with a model from elsewhere; 300 other rows are gold; 10,000 pool
rows; 25 epochs. Teacher MLP 784-512-512-10, student MLP 784-128-128-10, Adam 1e-3 cosine, batch 128; 3 seeds. Gold
alone gets 200 epochs, so that it also converges.

Each method may try three settings of its main option; the one with the best mean accuracy on 300 gold rows kept for
this choice is reported, with its test accuracy at the last epoch and at the epoch those rows chose. ``oracle`` keeps
the labels that are right, which only the true labels show: a comparison, not a method, and no upper bound (it still
copies how sure the teacher is). VID and UPS work on what an MLP teacher without dropout has: its logits, and one pass.

    python -m experiments.distillation_methods --setting honest     # 16 methods × 3 options × 3 seeds: 20 minutes
    python -m experiments.distillation_methods --setting paper      # 30 minutes; one core each
    expect SLaM above vanilla in both
"""

import argparse
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import nn

import understudy as us
from experiments.data import images
from experiments.table import comparison_table, publish
from understudy.comparison.outcome import Comparison, Outcome

SEEDS = 3
Options = dict[str, us.Objective]


@dataclass(frozen=True)
class Setting:
    name: str
    teacher_rows: int
    estimate_rows: int
    pool_rows: int
    epochs: int
    private: bool
    """Whether the teacher's labels stay its own, or also train the student."""


PAPER = Setting("paper protocol", 200, 500, 15_000, 30, private=False)
HONEST = Setting("honest setting", 500, 300, 10_000, 25, private=True)
SELECT_ROWS = 300
RECIPE = {"batch_size": 128, "lr": 1e-3, "schedule": "cosine", "progress": False}


def teacher_net() -> nn.Module:
    return us.models.mlp(inputs=784, hidden=(512, 512), classes=10)


def student_net() -> nn.Module:
    return us.models.mlp(inputs=784, hidden=(128, 128), classes=10)


@dataclass(frozen=True)
class Dealt:
    """One seed's rows, its teacher's labels, and the student all methods start from."""

    gold: us.Gold
    pool: us.Pool
    select: us.Gold
    test: us.Gold
    pool_truth: torch.Tensor
    teacher: nn.Module
    start: nn.Module
    teacher_accuracy: float


def deal(setting: Setting, seed: int) -> Dealt:
    x, y, x_test, y_test = images("fashion_mnist")
    order = torch.randperm(len(x), generator=torch.Generator().manual_seed(seed))
    sizes = [setting.teacher_rows, setting.estimate_rows, setting.pool_rows, SELECT_ROWS]
    own, estimate, pool, select = order[: sum(sizes)].split(sizes)
    own_gold = us.Gold(x[own], y[own])
    teacher = us.train(teacher_net, own_gold, None, us.vanilla(), epochs=100, seed=seed, **RECIPE).student
    gold = us.Gold(x[estimate], y[estimate], teacher=us.teach(teacher, x[estimate]))
    first = gold if setting.private else own_gold
    return Dealt(
        gold=gold if setting.private else own_gold + gold,
        pool=us.Pool(x[pool], us.teach(teacher, x[pool])),
        select=us.Gold(x[select], y[select]),
        test=us.Gold(x_test, y_test),
        pool_truth=y[pool],
        teacher=teacher,
        start=us.train(student_net, first, None, us.vanilla(), epochs=100, seed=seed, **RECIPE).student,
        teacher_accuracy=us.evaluate(teacher, us.Gold(x_test, y_test))["accuracy"],
    )


def methods(dealt: Dealt) -> dict[str, Options]:
    """name -> label of the option -> objective."""
    return {
        "vanilla": {f"T={t}": us.vanilla(temperature=t) for t in (1.0, 2.0, 4.0)},
        "vanilla, hard labels": {"": us.vanilla(hard=True)},
        "weighted": {f"refresh {r}": us.weighted(refresh_every=r) for r in (None, 5, 1)},
        "slam": {f"lb={lb}": us.slam(lower_bound=lb, tail="keep") for lb in (0.5, 0.6, 0.7)},
        "taylor": {f"degree {d}": us.taylor(d) for d in (2, 4, 8)},
        "poly": {f"ε={e}": us.poly(e) for e in (-0.5, 1.0, 2.0)},
        "ups": {f"τp={p}": us.ups(positive_above=p) for p in (0.5, 0.7, 0.9)},
        "vid": {f"λ={s}": us.vid(strength=s) for s in (0.01, 0.1, 1.0)},
        "fidelity": {f"β={b}": us.fidelity(b) for b in (0.5, 1.0, 2.0)},
        "confident": {f"share {s}": us.confident(s) for s in (0.25, 0.5, 0.75)},
        "weighted × fidelity": {f"β={b}": us.weighted(weight=us.fidelity_weight(b)) for b in (0.5, 1.0, 2.0)},
        "weighted × vid": {f"λ={s}": us.weighted(terms=(us.vid_term(strength=s),)) for s in (0.01, 0.1, 1.0)},
        "slam × fidelity": {f"β={b}": us.slam(weight=us.fidelity_weight(b), tail="keep") for b in (0.5, 1.0, 2.0)},
        "slam × temperature": {f"T={t}": us.slam(temperature=t, tail="keep") for t in (0.5, 2.0, 4.0)},
        "slam × taylor": {f"degree {d}": us.slam(loss=us.taylor_loss(d), tail="keep") for d in (2, 4, 8)},
        "slam × poly": {f"ε={e}": us.slam(loss=us.poly_loss(e), tail="keep") for e in (-0.5, 1.0, 2.0)},
        "oracle (knows the truth)": {"": us.oracle(dealt.pool_truth)},
    }


def run(setting: Setting, seeds: int) -> tuple[Comparison, dict[str, str]]:
    """The tuned comparison, and the option each method took."""
    comparison = Comparison("vanilla")
    found: dict[tuple[str, str], dict[int, us.Run]] = {}
    for seed in range(seeds):
        dealt = deal(setting, seed)
        common = {"seed": seed, "select": dealt.select, "test": dealt.test, **RECIPE}
        comparison.add("teacher", seed, Outcome(dealt.teacher_accuracy))
        gold_only = us.train(student_net, dealt.gold, None, us.vanilla(), epochs=200, **common)
        comparison.add("gold only", seed, Outcome.of(gold_only))
        for name, options in methods(dealt).items():
            for label, objective in options.items():
                trained = us.train(dealt.start, dealt.gold, dealt.pool, objective, epochs=setting.epochs, **common)
                found.setdefault((name, label), {})[seed] = trained
                accuracy = trained.history[-1]["test_accuracy"]
                print(f"{setting.name} seed {seed} {name} {label}: {100 * accuracy:.2f}", flush=True)
    chosen = {name: _best(name, found) for name, _ in found}
    for name, label in chosen.items():
        for seed, trained in found[name, label].items():
            comparison.add(name, seed, Outcome.of(trained))
    return comparison, chosen


def _best(name: str, found: dict[tuple[str, str], dict[int, us.Run]]) -> str:
    def on_select(label: str) -> float:
        return sum(trained.history[-1]["select_accuracy"] for trained in found[name, label].values())

    return max((label for method, label in found if method == name), key=on_select)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--setting", choices=["honest", "paper"], default="honest")
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--out", type=Path, help="write the table to this Markdown file")
    options = parser.parse_args()
    torch.set_num_threads(1)
    setting = HONEST if options.setting == "honest" else PAPER
    comparison, chosen = run(setting, options.seeds)
    taken = "; ".join(f"{name}: {label}" for name, label in chosen.items() if label)
    title = f"**All distillation methods, Fashion-MNIST, {setting.name}** (test accuracy in %, {options.seeds} seeds)"
    text = f"{title}\n\n{comparison_table(comparison)}\nOptions taken, of three each: {taken}."
    publish(text, options.out)


if __name__ == "__main__":
    main()
