"""Cross-fitting: one gold set serves estimates and judgement, but no row serves both at once.

A fold is held out, trust is estimated on the others, and the held-out rows are judged by it; after all folds every row
has been judged by an estimate that never saw it.

    for estimate, held_out in us.cross_fit(gold, folds=5): ...
    alpha = us.cross_fitted_alpha(gold, us.Reliability.fit)     # one per gold row, from the folds it is not in
    alpha = us.cross_fitted_alpha(gold, partial(us.Reliability.fit, lower_bound=0.6))
"""

from collections.abc import Callable, Iterator
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from understudy.data.examples import Gold
from understudy.errors import UnderstudyError
from understudy.labels.forms import Hard, Labels


class Trust(Protocol):
    def alpha(self, probs: Any, /) -> Tensor: ...


def cross_fit(gold: Gold, folds: int = 5, seed: int = 0) -> Iterator[tuple[Gold, Gold]]:
    """(estimate part, held-out part) per fold; every fold has nearly the classes' shares."""
    for estimate, held_out in fold_rows(gold, folds, seed):
        yield gold.take(estimate), gold.take(held_out)


def cross_fitted_alpha(gold: Gold, fit: Callable[[Any, Tensor], Trust], folds: int = 5, seed: int = 0) -> Tensor:
    """The chance that the teacher is right on each gold row, ``(n,)`` float64, estimated without that row's fold.

    ``fit(labels, truth)`` is ``us.Reliability.fit``, possibly with options. NaN where the teacher said nothing. Rows
    chosen by active learning get a value, but no estimate is made from them.
    """
    alpha = torch.full((len(gold),), float("nan"), dtype=torch.float64)
    for estimate, held_out in fold_rows(gold, folds, seed):
        part, judged = gold.take(estimate), gold.take(held_out)
        rows, said = part.estimates()
        if said is None or len(rows) < 2:
            raise UnderstudyError(
                f"a fold leaves {len(rows)} gold rows to estimate the teacher, at least 2 are needed: pass teacher= to "
                f"us.Gold for rows it had not trained on, or use fewer than {folds} folds"
            )
        if judged.teacher is not None and len(judged.teacher_rows):
            trust = fit(_with_class_count(said, gold), part.y[rows])
            alpha[held_out[judged.teacher_rows]] = trust.alpha(judged.teacher)
    return alpha


def fold_rows(gold: Gold, folds: int, seed: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Per fold the numbers of the other rows and of its own, ascending."""
    if not 2 <= folds <= len(gold):
        raise UnderstudyError(f"folds={folds} must lie between 2 and the {len(gold)} gold rows")
    # Shuffled, then by class: dealing the rows out in turn gives every fold its share of each class.
    shuffled = np.random.default_rng(seed).permutation(len(gold))
    by_class = shuffled[np.argsort(gold.y.numpy()[shuffled], kind="stable")]
    fold = torch.empty(len(gold), dtype=torch.long)
    fold[torch.from_numpy(by_class)] = torch.arange(len(gold)) % folds
    for held_out in range(folds):
        yield (fold != held_out).nonzero().squeeze(1), (fold == held_out).nonzero().squeeze(1)


def _with_class_count(said: Labels, gold: Gold) -> Labels:
    """Bare hard labels do not tell how many classes there are, and a fold may miss one that its held-out rows name."""
    if not isinstance(said, Hard) or said.classes is not None or gold.teacher is None:
        return said
    return Hard(said.labels, said.given, classes=max(int(gold.y.max()), int(gold.teacher.top1().max())) + 1)
