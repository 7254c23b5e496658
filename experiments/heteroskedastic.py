"""Which strategies spend their labels on noise: the S-Badge paper's benchmark on Fashion-MNIST, at a reduced scale.

    OMP_NUM_THREADS=1 python -m experiments.heteroskedastic --out docs/results/active_learning.md#heteroskedastic
    … --kinds noisy_blank noisy_diverse --strategies random confidence badge s_badge       the main claims alone
    … --model resnet18 --seeds 2 --kinds noisy_diverse --strategies random badge s_badge   a small ResNet-18 beside it
    … --epochs 50 --kinds noisy_diverse --strategies random confidence                     trained longer
    … --kinds                                                                              the tables, nothing new

5,000 original rows as 3-channel images and noise to 80% (in noisy_class the original rows are those of the other nine
classes), MLP with one layer of 512, 300 random labels, then 100 a round to 1,500, trained from scratch each round with
Adam 1e-3, batch 64, 20 epochs; all 10,000 test rows, clean. The paper has SVHN, 2,000 labels to 5,000, and trains
longer. The ResNet-18 sees images pooled to 14 × 14, 1,000 original rows, 300 labels to 700 and 10 epochs.
About 1.5 minutes for each of the 96 cells on one core; finished cells are kept in --work.
    expect noisy_blank: confidence picks < 3% clean rows, badge and s_badge > 97%; noisy_diverse: s_badge's clean
    share ≥ 8 points above badge's, its accuracy not lower, confidence ≥ 10 points of accuracy below random
"""

import argparse
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import understudy as us
from experiments.data import images
from experiments.strategy_benchmark import KINDS, Benchmark, Cell, benchmark
from experiments.table import save
from understudy.acquisition.strategies import STRATEGIES
from understudy.comparison.interval import Interval, percent, signed, span

SETTING = (
    "5,000 original rows as 3-channel images and noise to 80% of the pool, MLP with one layer of 512, 300 random "
    "labels, then 100 a round to 1,500, trained from scratch each round (Adam 1e-3, batch 64); all 10,000 test rows. "
    "The ResNet-18 is smaller in every way: images pooled to 14 × 14, 1,000 original rows, 300 labels to 700, 2,000 "
    "test rows. Clean picks are the rows a strategy selected (the random start not counted) that are original data; "
    "an alarm is a round in which the noise watch warned."
)


def colour_images(x: Tensor, side: int = 28) -> Tensor:
    grey = x.view(-1, 1, 28, 28)
    pooled = grey if side == 28 else F.adaptive_avg_pool2d(grey, side)
    return pooled.expand(-1, 3, -1, -1).contiguous()


def mlp() -> nn.Module:
    return us.models.mlp((3, 28, 28), 10, hidden=(512,))


def resnet18() -> nn.Module:
    return us.models.resnet18((3, 14, 14), 10)


def run(model: str, kinds: list[str], strategies: list[str], seeds: int, epochs: int, out: Path) -> None:
    x, y, x_test, y_test = images("fashion_mnist")
    small = model == "resnet18"
    side, tested = (14, 2_000) if small else (28, 10_000)
    benchmark(
        resnet18 if small else mlp, colour_images(x, side), y,
        test=(colour_images(x_test[:tested], side), y_test[:tested]), out=out, kinds=kinds, strategies=strategies,
        seeds=range(seeds), rows=1_000 if small else 5_000, start=300, batch=100, budget=700 if small else 1_500,
        epochs=epochs, batch_size=64, lr=1e-3, on_done=_say,
    )  # fmt: skip


def _say(cell: Cell) -> None:
    print(
        f"{cell.kind} {cell.strategy} seed {cell.seed}: accuracy {percent(cell.accuracy[-1])}, "
        f"clean {percent(cell.clean_share)}, {cell.alarms} alarms, {cell.seconds:.0f} s",
        flush=True,
    )


def claims(found: Benchmark) -> str:
    """Each expectation with the figure that meets or misses it."""
    lines = []

    def say(claim: str, value: str, met: bool) -> None:
        lines.append(f"- {claim}: {value} ({'met' if met else 'not met'})")

    def has(kind: str, *names: str) -> bool:
        return all(found.of(kind, name) for name in names)

    if has("noisy_blank", "confidence"):
        share = found.clean_share("noisy_blank", "confidence").mean
        say("Noisy-Blank, confidence picks under 3% clean rows", f"{percent(share)}%", share < 0.03)
    for name in ("badge", "s_badge"):
        if has("noisy_blank", name):
            share = found.clean_share("noisy_blank", name).mean
            say(f"Noisy-Blank, {name} picks over 97% clean rows", f"{percent(share)}%", share > 0.97)
    if has("noisy_diverse", "badge", "s_badge"):
        gap = paired([cell.clean_share for cell in found.of("noisy_diverse", "s_badge")],
                     [cell.clean_share for cell in found.of("noisy_diverse", "badge")])  # fmt: skip
        say("Noisy-Diverse, s_badge's clean share at least 8 points above badge's", shown(gap), gap.mean >= 0.08)
        gap = paired(last(found, "s_badge"), last(found, "badge"))
        say("Noisy-Diverse, s_badge's accuracy not below badge's", shown(gap), gap.mean >= 0)
    if has("noisy_diverse", "confidence", "random"):
        gap = paired(last(found, "confidence"), last(found, "random"))
        say("Noisy-Diverse, confidence at least 10 points below random", shown(gap), gap.mean <= -0.10)
    return "\n".join(lines)


def last(found: Benchmark, strategy: str) -> list[float]:
    return [cell.accuracy[-1] for cell in found.of("noisy_diverse", strategy)]


def paired(values: list[float], others: list[float]) -> Interval:
    return Interval.of(value - other for value, other in zip(values, others, strict=True))


def shown(gap: Interval) -> str:
    return f"{signed(gap.mean)} points, {span(gap, signed)}"


def section(folder: Path, picture: Path | None) -> str:
    """Everything finished in one folder of cells: expectations (for the full-size runs), tables, curves."""
    found = Benchmark.load(folder)
    model, epochs = folder.name.split("-")
    text = [f"### {model}, {epochs} epochs"]
    if model == "mlp":
        text.append(claims(found))
    text.append(found.markdown())
    if picture is not None:
        found.plot(picture)
        text.append(f"Curves with 95% bands: `{picture.name}`, beside the table.")
    return "\n\n".join(text)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", choices=["mlp", "resnet18"], default="mlp")
    parser.add_argument("--kinds", nargs="*", choices=KINDS, default=list(KINDS))
    parser.add_argument("--strategies", nargs="+", choices=list(STRATEGIES), default=list(STRATEGIES))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--epochs", type=int, help="default: 20 for the MLP, 10 for the ResNet-18")
    parser.add_argument("--work", type=Path, default=Path("runs/heteroskedastic"), help="where finished cells are kept")
    parser.add_argument("--out", type=Path, help="write the tables to this Markdown file, and the curves beside it")
    options = parser.parse_args()
    torch.set_num_threads(1)
    epochs = options.epochs or {"mlp": 20, "resnet18": 10}[options.model]
    if options.kinds:
        here = options.work / f"{options.model}-{epochs}"
        run(options.model, options.kinds, options.strategies, options.seeds, epochs, here)
    sections = []
    for folder in sorted(options.work.iterdir(), key=lambda folder: folder.name):
        if any(folder.glob("*.json")):
            picture = options.out and options.out.with_name(f"heteroskedastic_{folder.name.replace('-', '_')}.png")
            sections.append(section(folder, picture))
    text = "\n\n".join([SETTING, *sections])
    print(text)
    save(options.out, text)


if __name__ == "__main__":
    main()
