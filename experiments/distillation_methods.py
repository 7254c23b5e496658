"""Every distillation method and the compositions the papers report, on Fashion-MNIST, with one tuning budget for all.

The protocols are those of ``experiments.fashion_mnist`` (*paper* and *honest*), 3 seeds. Each method may try three
settings of its main option; the one with the best mean accuracy on 300 gold rows kept for this choice is reported, with
its test accuracy at the last epoch and at the epoch those rows chose. ``oracle`` keeps the labels that
are right, which only the true labels show: a comparison, not a method, and no upper bound (it still copies how sure the
teacher is). VID and UPS work on what an MLP teacher without dropout has: its logits, and one pass.

    python -m experiments.distillation_methods --setting honest     # 16 methods × 3 options × 3 seeds: 20 minutes
    python -m experiments.distillation_methods --setting paper      # 30 minutes; one core each
    expect SLaM above vanilla in both
"""

import argparse
from pathlib import Path

import torch

import understudy as us
from experiments.fashion_mnist import HONEST, PAPER, RECIPE, Dealt, Setting, deal, student_net
from experiments.table import comparison_table, publish
from understudy.comparison.outcome import Comparison, Outcome

SEEDS = 3
Options = dict[str, us.Objective]


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
