"""Gold split by purpose, seeded and stratified: no row serves two purposes that must be disjoint.

    parts = us.split(gold, estimate=300, select=0.2, test=1000, seed=0)    # the rest is parts.train

Cross-fitting lets one gold set serve calibration and evaluation: a fold is held out, reliability is estimated on the
others and applied to it; after all folds every row has an estimate that never saw it.

    for estimate, held_out in us.cross_fit(gold, folds=5): ...
    alpha = us.cross_fitted_alpha(gold, us.Reliability.fit)     # one per gold row, from the folds it is not in
    alpha = us.cross_fitted_alpha(gold, partial(us.Reliability.fit, lower_bound=0.6))
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from understudy.data.examples import Gold, weighed
from understudy.errors import UnderstudyError
from understudy.maths.folds import deal_folds
from understudy.store.option_fields import checked


class Splits(NamedTuple):
    """train: fits the student. estimate: calibrates the teacher. select: validation set. test: test set."""

    train: Gold | None
    estimate: Gold | None
    select: Gold | None
    test: Gold | None


@checked
def split(
    gold: Gold, *, estimate: int | float = 0, select: int | float = 0, test: int | float = 0, seed: int = 0
) -> Splits:
    """Cut gold into disjoint parts with nearly its class shares. Sizes are row counts (int) or shares (float); the
    rest is ``train``."""
    if seed < 0:
        raise UnderstudyError(f"seed={seed} must be a whole number from 0")
    parts = split_rows(gold.y, {"estimate": estimate, "select": select, "test": test}, seed)
    return Splits(**{name: gold.take(rows) if len(rows) else None for name, rows in parts.items()})


def split_rows(y: Tensor, wanted: Mapping[str, int | float], seed: int) -> dict[str, Tensor]:
    """Part -> its row numbers, ascending; "train" takes the rest."""
    counts: dict[str, int] = {}
    share = 0.0
    for name, size in wanted.items():
        if isinstance(size, float) and not 0 <= size <= 1:
            raise UnderstudyError(f"split({name}={size}): a share lies between 0 and 1; use an int for a row count")
        if size < 0:
            raise UnderstudyError(f"split({name}={size}): a row count is not negative")
        if isinstance(size, float):
            # Rounded where the shares so far end, so that shares that add up to 1 take every row exactly once.
            counts[name] = round((share + size) * len(y)) - round(share * len(y))
            share += size
        else:
            counts[name] = size
    if (rest := len(y) - sum(counts.values())) < 0:
        wanted_rows = ", ".join(f"{name}={count}" for name, count in counts.items() if count)
        raise UnderstudyError(f"gold has {len(y)} rows, too few for {wanted_rows}; take fewer or add gold")
    counts["train"] = rest
    parts = _order(y, seed).split(list(counts.values()))
    return {name: rows.sort().values for name, rows in zip(counts, parts, strict=True)}


def random_rows(rows: int, wanted: int, seed: int) -> Tensor:
    """``wanted`` different row numbers (all, where there are not so many), in a random order."""
    return torch.randperm(rows, generator=torch.Generator().manual_seed(seed))[:wanted]


def _order(y: Tensor, seed: int) -> Tensor:
    """A random order whose every stretch has nearly the classes' shares."""
    rng, labels = np.random.default_rng(seed), y.numpy()
    position = np.empty(len(labels))
    for label in np.unique(labels):
        mine = np.flatnonzero(labels == label)
        # The j-th of a class's n rows sits near (j + u) / n of the whole.
        position[rng.permutation(mine)] = (np.arange(len(mine)) + rng.random()) / len(mine)
    return torch.from_numpy(np.argsort(position, kind="stable"))


@checked
def cross_fit(gold: Gold, folds: int = 5, seed: int = 0) -> Iterator[tuple[Gold, Gold]]:
    """(estimate part, held-out part) per fold; every fold has nearly the classes' shares."""
    for estimate, held_out in fold_rows(gold.y, folds, seed):
        yield gold.take(estimate), gold.take(held_out)


@checked
def cross_fitted_alpha(gold: Gold, fit: Callable[[Any, Tensor], Any], folds: int = 5, seed: int = 0) -> Tensor:
    """The teacher's estimated accuracy on each gold row, ``(n,)`` float64, from the folds that row is not in.

    ``fit(labels, truth)`` is ``us.Reliability.fit``, possibly with options. NaN without a teacher label. Rows
    chosen by active learning get a value, but no estimate is made from them.
    """
    alpha = torch.full((len(gold),), float("nan"), dtype=torch.float64)
    for estimate, held_out in fold_rows(gold.y, folds, seed):
        part, judged = gold.take(estimate), gold.take(held_out)
        part, judged = weighed(part, part), weighed(judged, part)
        rows, labels = part.calibration()
        if labels is None or len(rows) < 2:
            few = f"a fold leaves {len(rows)} gold rows to estimate the teacher, at least 2 are needed"
            raise UnderstudyError(f"{few}: pass teacher= to us.Gold for rows it had not trained on, or use fewer folds")
        if judged.teacher is not None and len(judged.teacher_rows):
            if labels.classes is None and gold.teacher is not None:
                # A fold of bare hard labels may miss a class.
                labels = labels.with_classes(max(int(gold.y.max()), int(gold.teacher.top1().max())) + 1)
            trust = fit(labels, part.y[rows])
            alpha[held_out[judged.teacher_rows]] = trust.alpha(judged.teacher)
    return alpha


def fold_rows(y: Tensor, folds: int, seed: int, *, stratify: bool = True) -> list[tuple[Tensor, Tensor]]:
    """Per fold the numbers of the other rows and of its own, ascending.

    Folds that *evaluate* are not stratified. With the class shares of the held-out rows among those that train, always
    predicting gold's majority class is as accurate as its share of gold: 55.6% in the mean for 50 rows of two equal
    classes. Classes of fewer than ``2 · folds`` rows are stratified all the same: no fold has all rows of one.
    """
    if not 2 <= folds <= len(y):
        raise UnderstudyError(f"folds={folds} must lie between 2 and the {len(y)} gold rows")
    if not stratify:
        y = torch.where(torch.bincount(y)[y] < 2 * folds, y, -1)
    fold = torch.from_numpy(stratified_folds(y.numpy(), folds, np.random.default_rng(seed)))
    return [((fold != own).nonzero().squeeze(1), (fold == own).nonzero().squeeze(1)) for own in range(folds)]


def stratified_folds(labels: NDArray[np.int64], folds: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """The fold of each row: the rows of every class in random order, dealt out in turn.

    scikit-learn's StratifiedKFold refuses classes with fewer rows than folds.
    """
    shuffled = rng.permutation(len(labels))
    fold = np.empty(len(labels), dtype=np.int64)
    fold[shuffled] = deal_folds(torch.from_numpy(labels[shuffled]), folds).numpy()
    return fold
