"""How much of the labels the kernel calls informative, along a self-distillation run (AIR, Figures 2 and 5's quantity).

MNIST 4 against 9, 2,000 rows, 40% of the labels flipped, MLP 784-128-2, Adam 1e-3, self_distillation. After some epochs
the empirical NTK of 128 training rows (the logit difference as the scalar output) is computed, and with it the
information ratio of the true, of the noisy and of the self-distilled labels: the share of the label vector's norm in
the span of the top 5 eigenvectors. The gain is that of the self-distilled labels over the noisy ones they replace.

    python -m experiments.information_gain --out docs/results/information_gain.md          # a minute on one core
    expect true above noisy from the first epoch on, and a positive gain while the student has not fitted the noise
"""

import argparse
from pathlib import Path

import torch
from torch import Tensor

import understudy as us
from experiments.data import images
from experiments.table import markdown, publish
from understudy.comparison.interval import Interval
from understudy.maths.kernel import empirical_kernel, information_gain, information_ratio

ROWS, BATCH, NOISE, STRENGTH = 2_000, 128, 0.4, 1.0
EPOCHS = (1, 2, 5, 10, 20)


def fours_and_nines(seed: int) -> tuple[Tensor, Tensor]:
    x, y, _, _ = images("mnist")
    kept = ((y == 4) | (y == 9)).nonzero().squeeze(1)
    rows = kept[torch.randperm(len(kept), generator=torch.Generator().manual_seed(seed))[:ROWS]]
    return x[rows], (y[rows] == 9).long()


def signs(labels: Tensor) -> Tensor:
    return 2.0 * labels - 1


def measure(seed: int, epochs: int) -> dict[str, float]:
    x, y = fours_and_nines(seed)
    noisy, _ = us.noise.uniform_flip(y, NOISE, 2, seed=seed)
    # Every epoch's batches depend on the seed and its number alone: fewer epochs are the beginning of more.
    run = us.train(
        lambda: us.models.mlp(784, 2, hidden=(128,)), None, us.Pool(x, us.Hard(noisy, classes=2)),
        us.self_distillation(STRENGTH), epochs=epochs, seed=seed, progress=False,
    )  # fmt: skip
    kernel = empirical_kernel(run.student, x[:BATCH], output=lambda z: z[1] - z[0], chunk=BATCH)
    own, given = run.predict(x[:BATCH]).argmax(1), noisy[:BATCH]
    trust = min(1.0, STRENGTH * float((own == given).double().mean()))
    refined = (1 - trust) * signs(given) + trust * signs(own)
    return {
        "true labels": float(information_ratio(kernel, signs(y[:BATCH]))),
        "noisy labels": float(information_ratio(kernel, signs(given))),
        "self-distilled": float(information_ratio(kernel, refined)),
        "gain": float(information_gain(kernel, refined=refined, given=signs(given))),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    rows = []
    for epochs in EPOCHS:
        found = [measure(seed, epochs) for seed in range(options.seeds)]
        intervals = {name: Interval.of(cell[name] for cell in found) for name in found[0]}
        rows.append(
            [str(epochs), *(f"{value.mean:.3f} ± {value.high - value.mean:.3f}" for value in intervals.values())]
        )
        print(" | ".join(rows[-1]), flush=True)
    lead = f"Information ratio (r = 5) on {BATCH} rows, {options.seeds} seeds; mean ± half of the 95% interval.\n\n"
    publish(lead + markdown(["epochs", *found[0]], rows), options.out)


if __name__ == "__main__":
    main()
