"""Sparse over-parametrisation: learn a sparse error for every label beside the student (Liu et al., ICML 2022).

Liu et al., "Robust Training under Label Noise by Over-parameterization" (ICML 2022), Algorithm 1. Each pool row has a
number u and a vector v, tiny at first; the student's prediction is scored with the error that they stand for,

    ce(q, φ(f + s)),        s = u² q − v² (1 − q),        φ(a) = max(a, ε) / Σ max(a, ε),    ε = 1e-4

so that a label which the student cannot explain is explained by s, and s is absent from ``predict``. u goes down the
gradient of that cross-entropy, v down that of ‖onehot(argmax f) + s − q‖² (cross-entropy says nothing of entries that
the label has not), each by plain gradient descent on the mean over the batch's pool rows with a constant rate of its
own, both in [−1, 1]; no gold is needed. What is not the label's grows by (1 + 4 · ``v_lr`` / batch) a visit, so that
short trainings and large batches need larger rates. 10 and 10 are the paper's for CIFAR-10, batches of 128 and 120
epochs. Their later code also moves u by the squared error and has another rate for it; the paper's form is taken.
SOP+ (consistency and class balance) is not reproduced.

    us.train(student, None, us.Pool(x, noisy_labels), us.sop(), epochs=120)
"""

from dataclasses import dataclass, field
from typing import Unpack

import torch
from torch import Tensor, nn

from understudy.maths.losses import cross_entropy
from understudy.maths.mixing import best_class
from understudy.method_options import Slots, method
from understudy.objective import Columns, Context, Link, Objective, Step, TeacherTarget
from understudy.store.option_fields import check_interval

__all__ = ["sop", "sop_link"]

EPSILON = 1e-4


def sparse_error(u: Tensor, v: Tensor, label: Tensor) -> Tensor:
    """s, ``(B, C)``, of u ``(B, 1)`` and v ``(B, C)``."""
    return u.square() * label - v.square() * (1 - label)


def log_explained(f: Tensor, error: Tensor) -> Tensor:
    """log φ(f + s), ``(B, C)``."""
    raised = (f + error).clamp(min=EPSILON)
    return raised.log() - raised.sum(-1, keepdim=True).log()


class LabelErrors(nn.Module):
    """u and v of every pool row. Buffers: a row moves when it is drawn, and no optimizer has a part in it."""

    u: Tensor
    v: Tensor

    def __init__(self, rows: int, classes: int, start: float) -> None:
        super().__init__()
        self.register_buffer("u", start * torch.randn(rows, 1))
        self.register_buffer("v", start * torch.randn(rows, classes))


@dataclass(frozen=True)
class SopLink(Link):
    """The prediction with the label's error as a slot."""

    u_lr: float = 10.0
    v_lr: float = 10.0
    start: float = field(default=1e-8, kw_only=True)
    hard: bool = field(default=False, kw_only=True)
    name: str = field(default="sop", kw_only=True)

    def __post_init__(self) -> None:
        check_interval("sop", "[0, inf)", u_lr=self.u_lr, v_lr=self.v_lr, start=self.start)

    def module(self, context: Context) -> nn.Module:
        return LabelErrors(len(context.pool), context.classes, self.start)

    def observe(self, step: Step) -> Columns:
        """u and v as they are; their next values are stored, as of an optimizer that steps when the student's does."""
        errors = step.modules[self.name]
        assert isinstance(errors, LabelErrors)
        rows = step.rows.to(errors.u.device)
        u, v = errors.u[rows].requires_grad_(), errors.v[rows].requires_grad_()
        label = TeacherTarget(self.hard)(step).to(u.dtype)
        f = (step.outputs.logits / step.temperature).softmax(-1).to(u.dtype)
        if len(rows):
            with torch.enable_grad():
                explained = cross_entropy(log_explained(f, sparse_error(u, v, label)), label).mean()
                squared = (best_class(f) + sparse_error(u, v, label) - label).square().sum(-1).mean()
                (by_u,), (by_v,) = torch.autograd.grad(explained, [u]), torch.autograd.grad(squared, [v])
            errors.u[rows] = (u.detach() - self.u_lr * by_u).clamp(-1, 1)
            errors.v[rows] = (v.detach() - self.v_lr * by_v).clamp(-1, 1)
        return {"u": u.detach(), "v": v.detach()}

    def __call__(self, logits: Tensor, step: Step) -> Tensor:
        u, v = step.columns[f"{self.name}.u"], step.columns[f"{self.name}.v"]
        return log_explained(logits.softmax(-1), sparse_error(u, v, TeacherTarget(self.hard)(step)))


sop_link = SopLink


@method
def sop(u_lr: float = 10.0, v_lr: float = 10.0, *, start: float = 1e-8, **slots: Unpack[Slots]) -> Objective:
    link = sop_link(u_lr, v_lr, start=start, hard=slots.get("hard", False))
    return Objective(name="sop", link=link, **slots)
