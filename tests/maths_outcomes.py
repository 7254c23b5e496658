"""The chances of k-means++ in closed form, for a few rows."""

from itertools import permutations

from torch import Tensor


def sequence_probabilities(distances: Tensor, first: int, n: int) -> dict[tuple[int, ...], float]:
    """Every ordered outcome of plain k-means++ that starts at `first`, with its probability."""
    outcomes = {}
    for rest in permutations([i for i in range(len(distances)) if i != first], n - 1):
        probability, picked = 1.0, [first]
        for row in rest:
            chance = distances[:, picked].amin(1)
            probability *= float(chance[row] / chance.sum())
            picked.append(row)
        outcomes[first, *rest] = probability
    return outcomes
