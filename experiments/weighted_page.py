"""What Weighted Distillation estimates and what it brings, where the truth is known: weights, distortions, the effect.

    python -m experiments.weighted_page --seeds 12 --out docs/results/distillation.md#weighted  # 4 minutes, 2 cores

The pool's true labels are hidden from the methods, not from this page: the distortions of the validation rows stand
beside those of the pool, and in each tenth of the pool, cut by the distortion that the method estimates, beside what it
estimates stands what is true of the same rows. The setting is that of Figure 5.
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
from matplotlib.ticker import MaxNLocator
from torch import Tensor, nn

import understudy as us
from experiments.engines.distil import Dealt, Distillation, deal
from experiments.p000_weighted_distillation.tables import PARTS
from experiments.page import points
from experiments.sequential import LOOKS, evidence
from experiments.table import in_processes, markdown, percent, publish
from understudy.comparison.interval import span
from understudy.inference.passes import predict
from understudy.maths.confidence import MEASURES
from understudy.maths.weights import debias, distortion_of, neighbour_count, neighbour_means
from understudy.report.figures import COLOURS, GREY
from understudy.store.files import appearing_whole

Array = np.ndarray[Any, Any]
BINS = 20
TENTHS = 10
QUANTILES = (0.1, 0.25, 0.5, 0.75, 0.9)
SIDES = ("on the validation rows", "on the pool, true")
TITLE = "Weighted Distillation: its weights, its distortions, its effect"


@dataclass(frozen=True)
class Looked:
    """One seed."""

    weights: Array
    """Of every pool row."""
    tenths: Array
    """``(10, 5)``: estimated and true share of wrong labels, estimated and true distortion, weight; means over rows."""
    quantiles: Array
    """``(2, len(QUANTILES))``: of the distortion where the teacher is wrong, on the validation rows and on the pool."""
    weighted: float
    unweighted: float


def look(setting: Distillation, seed: int) -> Looked:
    dealt = deal(setting, setting.labelled[0], seed)
    weighted = setting.train(us.weighted(confidence="margin"), dealt, seed)
    unweighted = setting.train(us.vanilla(), dealt, seed)
    weight = weighted.columns["debias.weight"]
    estimated, on_gold, true = distortions(dealt)
    order = estimated[:, 1].argsort(stable=True)
    values = torch.stack([estimated[:, 0], true[:, 0], estimated[:, 1], true[:, 1], weight.double()], dim=1)
    tenths = torch.stack([values[rows].mean(0) for rows in order.chunk(TENTHS)])
    levels = torch.tensor(QUANTILES, dtype=torch.float64)
    quantiles = torch.stack([rows[rows[:, 0] == 1, 1].quantile(levels) for rows in (on_gold, true)])
    accuracy = [us.evaluate(run.student, dealt.test)["accuracy"] for run in (weighted, unweighted)]
    return Looked(weight.numpy(), tenths.numpy(), quantiles.numpy(), *accuracy)


def distortions(dealt: Dealt) -> tuple[Tensor, Tensor, Tensor]:
    """(wrong, distortion) of pool rows as their nearest validation rows have them; of these; of the pool's own."""
    assert isinstance(dealt.start, nn.Module) and dealt.pool.teacher is not None and dealt.gold.teacher is not None
    classes = int(dealt.gold.y.max()) + 1
    known = dealt.gold.teacher_rows
    planes, values = [], []
    for rows, labels, y in (
        (dealt.gold.rows.take(known), dealt.gold.teacher, dealt.gold.y[known]),
        (dealt.pool.rows, dealt.pool.teacher, dealt.truth),
    ):
        student, given_labels = predict(dealt.start, rows), labels.dense(torch.arange(len(labels)), classes)
        planes.append(torch.stack([labels.confidence("margin"), MEASURES["margin"](student)], dim=1).double().numpy())
        values.append(torch.stack(distortion_of(given_labels, y, student), dim=1))
    means = neighbour_means(planes[1], planes[0], values[0].numpy(), neighbour_count(len(planes[0])))
    return torch.from_numpy(means), *values


def page(looked: list[Looked], setting: Distillation) -> str:
    tenths = np.mean([one.tenths for one in looked], axis=0)
    gaps = [one.weighted - one.unweighted for one in looked]
    found = evidence(gaps, delta=_delta())
    weights = np.stack([one.weights for one in looked])
    ideal = debias(*torch.from_numpy(tenths)[:, [1, 3]].unbind(1)).tolist()
    rows = [
        [str(number), *(f"{value:.1%}" for value in tenth[:2]), *(f"{value:.2f}" for value in (*tenth[2:], wanted))]
        for number, (tenth, wanted) in enumerate(zip(tenths, ideal, strict=True), start=1)
    ]
    quantiles = np.exp(np.mean([np.log(one.quantiles) for one in looked], axis=0))
    both = [f"{what}, {how}" for what in ("wrong", "distortion") for how in ("estimated", "true")]
    text = [
        f"# {TITLE}",
        f"`python -m experiments.weighted_page`; {setting.data}, {setting.labelled[0]:,} labelled and "
        f"{setting.validation:,} validation rows, {setting.unlabelled or 0:,} in the pool; teacher {setting.teacher}, "
        f"student {setting.student}; {len(looked)} seeds.",
        "![weights, distortions and effect](weighted.png)",
        f"**Effect**: weighted {percent([one.weighted for one in looked])}%, unweighted "
        f"{percent([one.unweighted for one in looked])}%; difference {points(found.interval.mean)} points, "
        f"{span(found.interval, points)} (99% interval at {found.interval.count} seeds, one of five looks that hold "
        f"together with 95%; p over the looks {found.p:.3f}).",
        f"**Weights**: mean {weights.mean():.3f}, {np.mean(weights == 1):.0%} exactly 1.",
        "**Distortion of the rows the teacher gets wrong**, quantiles, geometric mean over seeds",
        markdown(
            ["", *(f"{level:.0%}" for level in QUANTILES)],
            [[name, *(f"{value:.2f}" for value in found)] for name, found in zip(SIDES, quantiles, strict=True)],
        ),
        "**As estimated for each row, and true**, in tenths of the pool by the estimated distortion. A mean distortion "
        "rests on few rows, those in which the student is sure of the truth: a row's loss on it is floored at 0.001.",
        markdown(["tenth", *both, "weight", "weight, from the truth"], rows),
    ]
    return "\n\n".join(text)


def _delta() -> float | None:
    return PARTS["cifar10"].judged()[0].within


def draw(path: Path, looked: list[Looked]) -> None:
    figure = Figure(figsize=(13, 3.8), layout="constrained")
    histogram, against, effect = figure.subplots(1, 3)
    _histogram(histogram, np.concatenate([one.weights for one in looked]))
    _against(against, np.stack([one.quantiles for one in looked]))
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


def _against(ax: Axes, quantiles: Array) -> None:
    """Quantile against quantile."""
    for seed in quantiles:
        ax.plot(*seed, ".", color=COLOURS[0], alpha=0.3, markersize=5)
    middle = np.exp(np.log(quantiles).mean(0))
    ax.plot(*middle, "o-", color=COLOURS[0], linewidth=1.4, label="geometric mean over seeds")
    ends = [middle.min(), middle.max()]
    ax.plot(ends, ends, "--", color=GREY, linewidth=1, label="equal")
    ax.set(xscale="log", yscale="log", xlabel=SIDES[0], ylabel=SIDES[1])
    ax.set_title("Distortion where the teacher is wrong, quantiles", fontsize=10, loc="left")
    ax.legend(frameon=False, fontsize=8)


def _effect(ax: Axes, gaps: list[float]) -> None:
    found = evidence(gaps).interval
    ax.plot(range(1, len(gaps) + 1), 100 * np.array(gaps), "o", color=COLOURS[0])
    ax.axhline(0, color=GREY, linewidth=1)
    ax.axhline(100 * found.mean, color=COLOURS[1], linewidth=1.4, label="mean")
    ax.axhspan(100 * found.low, 100 * found.high, color=COLOURS[1], alpha=0.15, label="99% interval")
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    ax.set(xlabel="seed", ylabel="points")
    ax.set_title("Weighted minus unweighted", fontsize=10, loc="left")
    ax.legend(frameon=False, fontsize=8)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=LOOKS[-2])
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    setting = PARTS["cifar10"].reduced
    looked = list(in_processes(partial(look, setting), range(options.seeds), options.workers))
    if options.out is not None:
        draw(options.out.with_name("weighted.png"), looked)
    publish(page(looked, setting), options.out)


if __name__ == "__main__":
    main()
