"""What Weighted Distillation estimates and what it brings, where the truth is known: weights, distortions, the effect.

    python -m experiments.weighted_page --seeds 12 --out docs/results/weighted.md     # about 4 minutes on two cores

The pool's true labels are hidden from the methods, not from this page. The pool is cut into tenths by the distortion
that the method estimates from its validation rows; beside each mean stands the true one of the same rows. The setting
is that of Figure 5.
"""

import argparse
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor, nn

import understudy as us
from experiments.engines.distil import Dealt, Distillation, deal
from experiments.p000_weighted_distillation import fig05
from experiments.sequential import LOOKS, evidence
from experiments.table import in_processes, markdown, percent, publish
from understudy.comparison.interval import signed, span
from understudy.inference.passes import predict
from understudy.maths.confidence import MEASURES
from understudy.maths.weights import debias, distortion_of, neighbour_count, neighbour_means
from understudy.report.figures import COLOURS, GREY
from understudy.store.files import appearing_whole

Array = np.ndarray[Any, Any]
BINS = 20
TENTHS = 10
TITLE = "Weighted Distillation: its weights, its distortions, its effect"


@dataclass(frozen=True)
class Looked:
    """One seed."""

    weights: Array
    """Of every pool row."""
    tenths: Array
    """``(10, 4)``: estimated and true share of wrong labels, estimated and true distortion."""
    ideal: float
    """The mean weight that the true values of the tenths would give."""
    weighted: float
    unweighted: float


def look(setting: Distillation, seed: int) -> Looked:
    dealt = deal(setting, setting.labelled[0], seed)
    weighted = setting.train(us.weighted(confidence="margin"), dealt, seed)
    unweighted = setting.train(us.vanilla(), dealt, seed)
    estimated, true = distortions(dealt)
    order = estimated[:, 1].argsort(stable=True)
    tenths = torch.stack([torch.cat([estimated[rows].mean(0), true[rows].mean(0)]) for rows in order.chunk(TENTHS)])
    tenths = tenths[:, [0, 2, 1, 3]]
    accuracy = [us.evaluate(run.student, dealt.test)["accuracy"] for run in (weighted, unweighted)]
    ideal = float(debias(tenths[:, 1], tenths[:, 3]).mean())
    return Looked(weighted.columns["debias.weight"].numpy(), tenths.numpy(), ideal, *accuracy)


def distortions(dealt: Dealt) -> tuple[Tensor, Tensor]:
    """Per pool row (wrong, distortion): as the nearest validation rows have them, and as the row itself has."""
    assert isinstance(dealt.start, nn.Module) and dealt.pool.teacher is not None and dealt.gold.teacher is not None
    classes = int(dealt.gold.y.max()) + 1
    known = dealt.gold.teacher_rows
    margin = MEASURES["margin"]
    found = {}
    for name, rows, labels, y in (
        ("gold", dealt.gold.rows.take(known), dealt.gold.teacher, dealt.gold.y[known]),
        ("pool", dealt.pool.rows, dealt.pool.teacher, dealt.truth),
    ):
        student, said = predict(dealt.start, rows), labels.dense(torch.arange(len(labels)), classes)
        plane = torch.stack([labels.confidence("margin"), margin(student)], dim=1).double()
        found[name] = plane, torch.stack(distortion_of(said, y, student), dim=1)
    (gold_plane, gold_values), (pool_plane, pool_values) = found["gold"], found["pool"]
    tables = [table.numpy() for table in (pool_plane, gold_plane, gold_values)]
    means = neighbour_means(*tables, neighbour_count(len(gold_plane)))
    return torch.from_numpy(means), pool_values


def page(looked: list[Looked], setting: Distillation) -> str:
    tenths = np.mean([one.tenths for one in looked], axis=0)
    gaps = [one.weighted - one.unweighted for one in looked]
    found = evidence(gaps, delta=_delta())
    weights = np.stack([one.weights for one in looked])
    rows = [
        [f"{number + 1}", f"{wrong:.1%}", f"{true_wrong:.1%}", f"{distortion:.2f}", f"{true:.2f}"]
        for number, (wrong, true_wrong, distortion, true) in enumerate(tenths)
    ]
    text = [
        f"# {TITLE}",
        f"`python -m experiments.weighted_page`; {setting.data}, {setting.labelled[0]:,} labelled and "
        f"{setting.validation:,} validation rows, {setting.unlabelled or 0:,} in the pool; teacher {setting.teacher}, "
        f"student {setting.student}; {len(looked)} seeds.",
        "![weights, distortions and effect](weighted.png)",
        f"**Effect**: weighted {percent([one.weighted for one in looked])}%, unweighted "
        f"{percent([one.unweighted for one in looked])}%; difference {signed(found.interval.mean)} points, "
        f"{span(found.interval, signed)} (99% interval at {found.interval.count} seeds, one of five looks that hold "
        f"together with 95%; p over the looks {found.p:.3f}).",
        f"**Weights**: mean {weights.mean():.3f}, {np.mean(weights == 1):.0%} exactly 1; with the true share of wrong "
        f"labels and the true distortion of each tenth the mean weight would be "
        f"{np.mean([one.ideal for one in looked]):.3f}.",
        "**Estimated on the validation rows, and true**, in tenths of the pool by the estimated distortion",
        markdown(["tenth", "wrong, estimated", "wrong, true", "distortion, estimated", "distortion, true"], rows),
    ]
    return "\n\n".join(text)


def _delta() -> float | None:
    return fig05.EXPERIMENT.parts[0].judged()[0].within


def draw(path: Path, looked: list[Looked]) -> None:
    figure = Figure(figsize=(13, 3.8), layout="constrained")
    histogram, against, effect = figure.subplots(1, 3)
    _histogram(histogram, np.concatenate([one.weights for one in looked]))
    _against(against, np.stack([one.tenths for one in looked]))
    _effect(effect, [one.weighted - one.unweighted for one in looked])
    for ax in (histogram, against, effect):
        ax.spines[["top", "right"]].set_visible(False)
        ax.grid(color="#e4e4e4", linewidth=0.7)
        ax.set_axisbelow(True)
    with appearing_whole(path) as temporary:
        figure.savefig(temporary, dpi=90, metadata={"Software": None})


def _histogram(ax: Axes, weights: Array) -> None:
    shares = np.full(len(weights), 100 / len(weights))
    below = weights < 1
    ax.hist(weights[below], bins=BINS, range=(0, 1), weights=shares[below], color=COLOURS[0])
    exact = 100 * float(np.mean(~below))
    ax.bar([1.04], [exact], width=0.04, color=GREY)
    ax.annotate(f"exactly 1: {exact:.0f}%", (1.04, exact), ha="right", va="bottom", fontsize=9)
    ax.set(xlabel="weight", ylabel="% of pool rows")
    ax.set_title("Weights", fontsize=10, loc="left")


def _against(ax: Axes, tenths: Array) -> None:
    means = tenths.mean(0)
    for seed in tenths:
        ax.plot(seed[:, 2], seed[:, 3], ".", color=COLOURS[0], alpha=0.25, markersize=4)
    ax.plot(means[:, 2], means[:, 3], "o-", color=COLOURS[0], linewidth=1.4, label="mean over seeds")
    ends = [min(means[:, 2:].min(), 1.0), means[:, 2:].max()]
    ax.plot(ends, ends, "--", color=GREY, linewidth=1, label="equal")
    ax.set(xscale="log", yscale="log", xlabel="estimated on validation rows", ylabel="true on the pool")
    ax.set_title("Distortion, in tenths of the pool", fontsize=10, loc="left")
    ax.legend(frameon=False, fontsize=8)


def _effect(ax: Axes, gaps: list[float]) -> None:
    found = evidence(gaps).interval
    ax.plot(range(1, len(gaps) + 1), 100 * np.array(gaps), "o", color=COLOURS[0])
    ax.axhline(0, color=GREY, linewidth=1)
    ax.axhline(100 * found.mean, color=COLOURS[1], linewidth=1.4, label="mean")
    ax.axhspan(100 * found.low, 100 * found.high, color=COLOURS[1], alpha=0.15, label="99% interval")
    ax.set(xlabel="seed", ylabel="points")
    ax.set_title("Weighted minus unweighted", fontsize=10, loc="left")
    ax.legend(frameon=False, fontsize=8)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=LOOKS[-2])
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    setting = fig05.REDUCED
    looked = list(in_processes(partial(look, setting), range(options.seeds), options.workers))
    if options.out is not None:
        draw(options.out.with_suffix(".png"), looked)
    publish(page(looked, setting), options.out)


if __name__ == "__main__":
    main()
