"""Seeded corruption of labels, for experiments where the truth is known.

Every flip takes labels (list, array or tensor) and returns `(noisy, changed)`: new labels and the mask of the rows
that differ from the truth. The mask is for scoring only; nothing of it may reach a student. `imbalance` returns the
rows to keep.

    noisy, changed = uniform_flip(labels, 0.4, classes=10, seed=1)
    rows = imbalance(labels, ratio=200, rare=[4], total=5000, seed=1)

`uniform_flip`, `background_flip` and `imbalance` are those of Ren et al. (2018, 4.1 and 4.2), `symmetric` that of Dong
et al. (2019, 3.4): redrawn from all classes, so that only p (C − 1)/C of the labels are wrong. `pair_flip` sends each
class to the next, as in Co-teaching (Han et al. 2018). `instance_dependent` follows Xia et al. (2020, "Part-dependent
label noise"), see there.
"""

from collections.abc import Sequence
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor

from understudy.data.checks import check_labels
from understudy.errors import UnderstudyError

Labels = Tensor | NDArray[Any] | Sequence[int]
Corrupted = tuple[Tensor, Tensor]


def uniform_flip(labels: Labels, p: float, classes: int, *, seed: int = 0) -> Corrupted:
    """With probability p a label moves to one of the *other* classes, each as likely."""
    truth, draw = _checked(labels, p, classes, least=2), _generator(seed)
    chosen = _coins(len(truth), p, draw)
    shift = torch.randint(1, classes, truth.shape, generator=draw)
    return _replace(truth, chosen, (truth + shift) % classes)


def symmetric(labels: Labels, p: float, classes: int, *, seed: int = 0) -> Corrupted:
    """With probability p a label is redrawn from all classes, its own included."""
    truth, draw = _checked(labels, p, classes), _generator(seed)
    chosen = _coins(len(truth), p, draw)
    return _replace(truth, chosen, torch.randint(0, classes, truth.shape, generator=draw))


def background_flip(labels: Labels, p: float, background: int, classes: int, *, seed: int = 0) -> Corrupted:
    """With probability p a label becomes `background`; rows of that class stay what they are."""
    truth, draw = _checked(labels, p, classes), _generator(seed)
    if not 0 <= background < classes:
        raise UnderstudyError(f"background class {background} is not one of the {classes} classes 0…{classes - 1}")
    chosen = _coins(len(truth), p, draw)
    return _replace(truth, chosen, torch.full_like(truth, background))


def pair_flip(labels: Labels, p: float, classes: int, *, seed: int = 0) -> Corrupted:
    """With probability p a label moves to the next class; the last class to the first."""
    truth, draw = _checked(labels, p, classes), _generator(seed)
    return _replace(truth, _coins(len(truth), p, draw), (truth + 1) % classes)


def instance_dependent(
    x: Tensor | NDArray[Any], labels: Labels, p: float, classes: int, *, spread: float = 0.1, seed: int = 0
) -> Corrupted:
    """Similar inputs are mislabelled alike: how often, and as what, both depend on the input.

    As in Xia et al. (2020), flip rates follow a normal distribution around p (standard deviation `spread`, reduced
    where three of them would leave [0, 1]), and the wrong class is drawn from a softmax of x W_y with a Gaussian matrix
    W_y for each true class y. There, which row gets which rate is random; here a random projection of x ranks the rows,
    and the r-th of n gets the (r + ½)/n quantile, so that the rate is a property of the input and the mean rate is p.
    Inputs are centred and scaled to unit length first: raw pixels, all positive, would point every row at one class.
    """
    truth, draw = _checked(labels, p, classes, least=2), _generator(seed)
    features = torch.as_tensor(x).detach().double().flatten(1).cpu()
    features = torch.nn.functional.normalize(features - features.mean(0), dim=1)
    if len(features) != len(truth):
        raise UnderstudyError(f"{len(features)} inputs for {len(truth)} labels; give one label per input row")

    projection = features @ torch.randn(features.shape[1], dtype=torch.float64, generator=draw)
    rank = projection.argsort(stable=True).argsort().double()
    deviation = min(spread, p / 3, (1 - p) / 3)
    rates = p + deviation * torch.special.ndtri((rank + 0.5) / max(len(truth), 1))
    chosen = torch.rand(len(truth), dtype=torch.float64, generator=draw) < rates

    target = truth.clone()
    for label in range(classes):  # one matrix at a time: all of them together would take classes² · d numbers
        weight = torch.randn(features.shape[1], classes, dtype=torch.float64, generator=draw)
        rows = (truth == label).nonzero().squeeze(1)
        if len(rows):
            scores = features[rows] @ weight
            scores[:, label] = -torch.inf
            target[rows] = torch.multinomial(scores.softmax(1), 1, generator=draw).squeeze(1)
    return _replace(truth, chosen, target)


def imbalance(labels: Labels, ratio: float, *, rare: Sequence[int], total: int, seed: int = 0) -> Tensor:
    """Indices (ascending) of `total` rows with `ratio` times fewer of every class of `rare` than of each other class.

    At least one row of each rare class stays.
    """
    truth, draw = check_labels(labels, "labels").cpu(), _generator(seed)
    present = truth.unique().tolist()
    common = [label for label in present if label not in set(rare)]
    if ratio < 1 or not common or not set(rare) <= set(present):
        raise UnderstudyError(f"imbalance needs a ratio ≥ 1, not {ratio:g}, and some, not all, classes as rare classes")
    per_common = round(total / (len(common) + len(rare) / ratio))
    per_rare = max(1, round(per_common / ratio))
    wanted = {label: per_rare if label in rare else per_common for label in present}
    # Rounding leaves a few rows over: the common classes take them, the first ones first.
    over = total - sum(wanted.values())
    for i, label in enumerate(common):
        wanted[label] += over // len(common) + (i < over % len(common))
    chosen = []
    for label, needed in wanted.items():
        rows = (truth == label).nonzero().squeeze(1)
        if len(rows) < needed:
            raise UnderstudyError(f"imbalance needs {needed} rows of class {label}, it has {len(rows)}; lower total")
        chosen.append(rows[torch.randperm(len(rows), generator=draw)[:needed]])
    return torch.cat(chosen).sort().values


def _generator(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def _coins(n: int, p: float, draw: torch.Generator) -> Tensor:
    return torch.rand(n, dtype=torch.float64, generator=draw) < p


def _replace(truth: Tensor, chosen: Tensor, target: Tensor) -> Corrupted:
    noisy = torch.where(chosen, target, truth)
    return noisy, noisy != truth


def _checked(labels: Labels, p: float, classes: int, *, least: int = 1) -> Tensor:
    truth = check_labels(labels, "labels").cpu()
    if classes < least:
        raise UnderstudyError("a label cannot move to another class when there is only one; give classes ≥ 2")
    if not 0 <= p <= 1:
        raise UnderstudyError(f"p = {p:g} is not a probability; give a number from 0 to 1")
    outside = truth >= classes
    if outside.any():
        row = int(outside.nonzero()[0])
        raise UnderstudyError(f"label {int(truth[row])} in row {row} is none of the {classes} classes; raise classes")
    return truth
