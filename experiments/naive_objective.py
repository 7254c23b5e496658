"""Where the unweighted risk fails and the debiased one does not (Weighted Distillation, E.3 to E.5).

    python experiments/naive_objective.py       about 3 min on one free core (3 noise levels, 5 seeds)

Rows uniform on a sphere in 10 dimensions; the wrong labels lie where a halfspace rotated by πc disagrees with the
truth. Printed: clean logistic risk above the best in the unit ball, measured on 200,000 fresh rows, means over seeds
with 95% t-intervals. "Unweighted minimum" is found by SLSQP on the sample: what fails is the objective, not the
optimiser.

*All of them wrong* is Proposition E.3: the unweighted minimiser is at least c/2 above. Here p(x) is 0 or 1, so that
to know it is to know the truth: Equation 4's weights hold the clean label, and that SGD succeeds on them shows that
the optimiser does, and nothing about the method.

*Drawn at random*: there a label is wrong with chance 0.4, and ``advised`` weighs by p(x) alone. It reads neither the
truth nor the corrupted label, which is what Theorems E.4 and E.5 are about.

Expect, for c = 0.1, 0.25, 0.5 with --rows 5000 --seeds 2: unweighted minimum 0.41, 0.96, 1.64 above the best where all
are wrong, and 0.06, 0.15, 0.26 at random, where p(x) alone has 0.08, 0.08, 0.05: it pays from c = 0.25 on.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import torch
from scipy import optimize
from torch import Tensor

from experiments.theory import (
    NoisyRows,
    advised,
    best_iterate,
    debiased,
    failing_radius,
    logistic_loss,
    multi_pass_sgd,
    rotated_labels,
    single_pass_sgd,
    unweighted,
)
from understudy.comparison.interval import Interval

Objective = Callable[[Tensor, Tensor], Tensor]


def unweighted_minimum(rows: NoisyRows, radius: float, seed: int) -> Tensor:
    objective, index = unweighted(rows), torch.arange(len(rows.x))

    def value_and_gradient(point: np.ndarray) -> tuple[float, np.ndarray]:
        theta = torch.tensor(point, requires_grad=True)
        value = objective(theta, index).mean()
        return value.item(), torch.autograd.grad(value, theta)[0].numpy()

    ball = {"type": "ineq", "fun": lambda point: 1 - point @ point, "jac": lambda point: -2 * point}
    start = np.full(rows.x.shape[1], 0.01)
    found = optimize.minimize(value_and_gradient, start, jac=True, method="SLSQP", constraints=ball)
    return torch.tensor(found.x)


def _single_pass(objective: Objective, rows: NoisyRows, bound: float, seed: int) -> Tensor:
    n, d = rows.x.shape
    return single_pass_sgd(objective, rows=n, shape=(d,), gradient_bound=bound)


def _multi_pass(objective: Objective, rows: NoisyRows, bound: float, seed: int) -> Tensor:
    n, d = rows.x.shape
    generator = torch.Generator().manual_seed(seed)
    iterates = multi_pass_sgd(objective, rows=n, shape=(d,), steps=n, gradient_bound=bound, generator=generator)
    return best_iterate(objective, iterates, rows=n)


Method = Callable[[NoisyRows, float, int], Tensor]
CHANCE = 0.4
ALL_WRONG: dict[str, Method] = {
    "unweighted minimum": unweighted_minimum,
    "unweighted SGD": lambda rows, bound, seed: _single_pass(unweighted(rows), rows, bound, seed),
    "exact weights, 1 pass": lambda rows, bound, seed: _single_pass(debiased(rows), rows, bound, seed),
    "exact weights, multi": lambda rows, bound, seed: _multi_pass(debiased(rows), rows, bound, seed),
}
# The advised loss is steeper than the plain one by 1 / (1 − 2p).
AT_RANDOM: dict[str, Method] = {
    "unweighted minimum": unweighted_minimum,
    "p(x) alone, 1 pass": lambda rows, bound, seed: _single_pass(advised(rows), rows, bound / (1 - 2 * CHANCE), seed),
    "p(x) alone, multi": lambda rows, bound, seed: _multi_pass(advised(rows), rows, bound / (1 - 2 * CHANCE), seed),
}


def at_random(rows: NoisyRows, generator: torch.Generator) -> NoisyRows:
    """The same rows, but a label of the region where all were wrong is so with chance ``CHANCE`` only."""
    flip = CHANCE * rows.flip
    wrong = torch.rand(len(flip), generator=generator) < flip
    return replace(rows, observed=torch.where(wrong, rows.corrupted, rows.clean), flip=flip)


def excess_risks(
    methods: dict[str, Method], *, noise: float, dimensions: int, rows: int, seed: int
) -> dict[str, float]:
    """Clean risk above the best one for every method, on one sample."""
    radius, generator = failing_radius(noise, dimensions), torch.Generator().manual_seed(seed)

    def draw(n: int) -> NoisyRows:
        return rotated_labels(n, noise=noise, dimensions=dimensions, radius=radius, generator=generator)

    sample, fresh = draw(rows), draw(200_000)
    if methods is AT_RANDOM:
        sample = at_random(sample, generator)

    def risk(theta: Tensor) -> float:
        return logistic_loss(fresh.clean, fresh.x @ theta).mean().item()

    truth = torch.eye(dimensions, dtype=torch.float64)[0]
    return {name: risk(method(sample, radius, seed)) - risk(truth) for name, method in methods.items()}


def main(*, noise: list[float], seeds: int, rows: int, dimensions: int) -> None:
    torch.set_num_threads(1)
    print(f"clean risk above the best: {rows:,} rows, {dimensions} dimensions, {seeds} seeds")
    for title, methods in {"all of them wrong": ALL_WRONG, "drawn at random": AT_RANDOM}.items():
        print(f"\n{title}\n{'c':>5}{'c/2':>8}  {'method':24}{'excess':>9}{'95% interval':>15}")
        for c in noise:
            runs = [excess_risks(methods, noise=c, dimensions=dimensions, rows=rows, seed=s) for s in range(seeds)]
            for name in methods:
                interval = Interval.of(run[name] for run in runs)
                around = f"± {interval.high - interval.mean:.4f}"
                print(f"{c:>5}{c / 2:>8.3f}  {name:24}{interval.mean:>9.4f}{around:>15}", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="the naive objective's failure, and the debiased one's success")
    parser.add_argument("--noise", type=float, nargs="+", default=[0.1, 0.25, 0.5])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--dimensions", type=int, default=10)
    main(**vars(parser.parse_args()))
