"""Forward correction: score the student's prediction as seen through the noise matrix (Patrini et al., CVPR 2017).

Patrini et al., "Making Deep Neural Networks Robust to Label Noise: a Loss Correction Approach" (CVPR 2017). With
``T[i, j] = P(label = j | truth = i)`` the loss is ``ce(q, Tᵀ f)``, so that a student who is right is expected to
disagree with exactly the labels that T calls wrong. T is

    transition=None      the mean label on the gold rows of each class (needs teacher= on gold, and every class)
    transition=matrix    given, (C, C), rows sum to 1
    transition="anchor"  row i is what is predicted of the pool row most confidently labelled i: the row at the 97th
                         percentile, as in the paper's experiments. Predictions of the *noisy* label are needed: the
                         teacher's soft labels, or ``noisy_probs``, those of a net trained on the labels as they are.

With soft labels T is the mean soft label (the mean hard one with ``hard=True``). Nothing is smoothed: with a teacher
that is always right, T is the identity and this is vanilla.

    us.train(student, us.Gold(x_gold, y, teacher=labels_gold), us.Pool(x, labels), us.forward(), epochs=30)
"""

from dataclasses import dataclass
from typing import Any, Unpack

import torch
from torch import Tensor, nn

from understudy.data.checks import to_tensor
from understudy.errors import UnderstudyError
from understudy.labels.base import Labels
from understudy.maths.mixing import forward_correction
from understudy.method_options import Slots, method
from understudy.objective import Context, Link, Objective, Step
from understudy.store.option_fields import check_interval

__all__ = ["forward", "forward_link", "transition_on_gold"]


def label_shares(teacher: Labels, classes: int, *, hard: bool = False) -> Tensor:
    """The teacher's labels as distributions ``(n, C)`` float64; ``hard``: all of it on the best class."""
    labels = teacher.dense(torch.arange(len(teacher)), classes).double()
    return nn.functional.one_hot(labels.argmax(-1), classes).double() if hard else labels


def transition_on_gold(context: Context, *, hard: bool = False, who: str = "forward") -> Tensor:
    """T (C, C): the teacher's mean label on the gold rows of each class; an error where a class has none."""
    gold, teacher = context.calibration
    labels = label_shares(teacher, context.classes, hard=hard)
    counts = torch.bincount(gold.y, minlength=context.classes)
    missing = (counts == 0).nonzero().squeeze(1).tolist()
    if missing:
        raise UnderstudyError(f"{who}: no labelled gold row is of class {missing[0]}; add such rows, or a matrix")
    sums = torch.zeros(context.classes, context.classes, dtype=torch.float64).index_add_(0, gold.y, labels)
    return sums / counts.unsqueeze(1)


def transition_at_anchors(noisy_probs: Tensor, quantile: float = 0.97) -> Tensor:
    """T (C, C) from predictions of the noisy label (N, C): row i is the prediction at the quantile of column i."""
    rank = round(quantile * (len(noisy_probs) - 1))
    anchors = noisy_probs.argsort(dim=0, stable=True)[rank]
    return noisy_probs.double()[anchors]


@dataclass(frozen=True, eq=False, kw_only=True)
class ForwardLink(Link):
    """The correction as a slot."""

    transition: Any = None
    noisy_probs: Any = None
    quantile: float = 0.97
    hard: bool = False
    name: str = "transition"

    def __post_init__(self) -> None:
        if isinstance(self.transition, str) and self.transition != "anchor":
            raise UnderstudyError(f"forward(transition={self.transition!r}): use None, a (C, C) matrix or 'anchor'")
        check_interval("forward", "[0, 1]", quantile=self.quantile)

    def module(self, context: Context) -> nn.Module:
        """Holds the fixed noise matrix, which is kept and saved with the run."""
        if isinstance(self.transition, str):
            matrix = transition_at_anchors(self._noisy_probs(context), self.quantile)
        elif self.transition is None:
            matrix = transition_on_gold(context, hard=self.hard)
        else:
            matrix = _checked_matrix(self.transition, context.classes)
        context.facts[f"{self.name}.mean_accuracy"] = float(matrix.diagonal().mean())
        holder = nn.Module()
        holder.register_buffer("transition", matrix.float())
        return holder

    def _noisy_probs(self, context: Context) -> Tensor:
        teacher = context.teacher.simplest()
        if self.noisy_probs is not None:
            return context.numbers_per_row(self.noisy_probs, "forward(noisy_probs=…)", context.classes)
        if not teacher.ranks:
            raise UnderstudyError("forward(transition='anchor') needs soft labels, or noisy_probs= of a net")
        return label_shares(teacher, context.classes)

    def __call__(self, logits: Tensor, step: Step) -> Tensor:
        return forward_correction(logits, step.modules[self.name].get_buffer("transition"))


def _checked_matrix(transition: Any, classes: int) -> Tensor:
    where = "forward(transition=…), a row for each truth,"
    matrix = to_tensor(transition, where).double()
    if matrix.shape != (classes, classes):
        raise UnderstudyError(f"{where} has shape {tuple(matrix.shape)}; give {(classes, classes)}")
    off = (matrix.sum(1) - 1).abs() > 1e-4
    if bool((matrix < 0).any()) or bool(off.any()):
        row = int(((matrix < 0).any(1) | off).nonzero()[0])
        raise UnderstudyError(f"{where} has no distribution in row {row}: sum {float(matrix[row].sum()):.4g}")
    return matrix


forward_link = ForwardLink


@method
def forward(
    transition: Any = None, *, noisy_probs: Any = None, quantile: float = 0.97, **slots: Unpack[Slots]
) -> Objective:
    hard = slots.get("hard", False)
    link = forward_link(transition=transition, noisy_probs=noisy_probs, quantile=quantile, hard=hard)
    return Objective(name="forward", link=link, traits=frozenset({"noise_free_is_vanilla"}), **slots)
