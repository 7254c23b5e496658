"""SLaM, Student-Label Mixing: let the student's *noisy version* match the noisy label (Kontonis et al., NeurIPS 2023).

Kontonis et al., "SLaM: Student-Label Mixing for Distillation with Unlabeled Examples" (NeurIPS 2023), Algorithms 1
and 2. The loss is ``ce(q, mix(f))`` with

    mix(f) = α(x) f + (1 − α(x)) top(s; k(x)) ∗ (1 − f)

so that a student who is right pays for the teacher's mistakes only what the teacher's known accuracy α(x) explains.
α and k come from isotonic curves on gold (``us.Reliability``); ``alpha=`` takes known accuracies instead, one for all
rows or one each. Not divided by k − 1 unless ``normalise=True``, as in the paper's experiments (Remark B.1).
Soft labels are cut to the top k and renormalised: at α = ½ the mixture is constant on the top k, so that only the mass
outside it would have a gradient, and pull the student there. ``tail="keep"`` leaves them whole, as the paper prints it.

    us.train(student, gold, pool, us.slam(lower_bound=0.6), epochs=30)
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, Unpack

import torch
from torch import Tensor

from understudy.data.checks import to_tensor
from understudy.errors import UnderstudyError
from understudy.labels.base import Labels
from understudy.labels.reliability import Reliability
from understudy.maths.losses import cross_entropy
from understudy.maths.mixing import slam_mix, top_mask
from understudy.method_options import WeightSlots, method
from understudy.objective import Columns, Context, Link, Loss, Objective, Slot, Step, Target, TeacherTarget

__all__ = ["slam", "slam_link"]


@dataclass(frozen=True, kw_only=True)
class SlamLink(Link):
    """The mixing link as a slot."""

    lower_bound: float = 0.5
    threshold: float = 0.9
    k: int | str | None = None
    normalise: bool = False
    covariate: str = "margin"
    estimator: str = "isotonic"
    alpha: Any = None
    #: Whether the target has no mass outside the top k: with tail="drop", or hard.
    target_in_top: bool = False
    name: str = "slam"

    def __post_init__(self) -> None:
        if self.lower_bound < 0.5 and not self.normalise:
            raise UnderstudyError(f"slam(lower_bound={self.lower_bound}) flips gradients; use normalise=True below 0.5")
        k = self.k
        if k is not None and k != "auto" and not isinstance(k, int):
            raise UnderstudyError(f"slam(k={k!r}): use None (estimated per row), a whole number, or 'auto'")
        if isinstance(k, int) and k < 2:
            raise UnderstudyError(f"slam(k={k}): the mixture needs at least 2 candidate classes")

    def prepare(self, context: Context) -> Columns:
        teacher = context.teacher.simplest()
        if isinstance(self.k, int) and not teacher.ranks and self.k < context.classes:
            raise UnderstudyError(f"slam(k={self.k}): hard labels do not rank the classes; leave k out")
        trust = self._fit(context) if self._asks_gold(teacher) else None
        k = torch.full((context.pool.rows.count,), context.classes)
        if self.alpha is not None:
            alpha = self._known_alpha(context)
            k = k if trust is None else trust.k(teacher)
        else:
            assert trust is not None
            alpha, k = trust.alpha_and_k(teacher)
            context.facts[f"{self.name}.share_at_lower_bound"] = float((alpha <= self.lower_bound).double().mean())
        if isinstance(self.k, int):
            k = torch.full_like(k, min(self.k, context.classes))
        elif self.k == "auto" and teacher.ranks and trust is not None:
            k = torch.full_like(k, trust.fixed_k())
        context.facts[f"{self.name}.mean_alpha"] = float(alpha.mean())
        context.facts[f"{self.name}.mean_k"] = float(k.double().mean())
        constant = self._slope(alpha, k).abs() < 1e-6
        if not self.target_in_top:
            constant &= k >= context.classes
        context.facts[f"{self.name}.share_without_gradient"] = float(constant.double().mean())
        return {"alpha": alpha.float(), "k": k}

    def _slope(self, alpha: Tensor, k: Tensor) -> Tensor:
        """Of the mixture in f on a top entry, α − β: where it is 0, such an entry has no gradient."""
        return alpha - (1 - alpha) / (k - 1 if self.normalise else 1)

    def estimate(self, context: Context) -> None:
        if self._asks_gold(context.teacher.simplest()):
            self._fit(context)

    def _asks_gold(self, teacher: Labels) -> bool:
        """With alpha known, only a k that is estimated still asks for gold."""
        return self.alpha is None or (teacher.ranks and not isinstance(self.k, int))

    def _known_alpha(self, context: Context) -> Tensor:
        alpha = to_tensor(self.alpha, "slam(alpha=…)").double()
        if alpha.dim() > 1:
            raise UnderstudyError(f"slam(alpha=…) has shape {tuple(alpha.shape)}; give one number, or one per pool row")
        alpha = context.per_row(alpha if alpha.dim() else alpha.repeat(context.pool_size), "slam(alpha=…)")
        if not bool(((alpha >= 0) & (alpha <= 1)).all()):
            raise UnderstudyError("slam(alpha=…) holds values outside [0, 1]; alpha is a chance of being right")
        if float(alpha.min()) < 0.5 and not self.normalise:
            raise UnderstudyError("slam(alpha=…) below 0.5 flips the gradient; use normalise=True with it")
        return alpha

    def _fit(self, context: Context) -> Reliability:
        gold, teacher = context.calibration
        fit = partial(
            Reliability.fit, lower_bound=self.lower_bound, threshold=self.threshold, covariate=self.covariate,
            estimator=self.estimator, classes=context.classes,
        )  # fmt: skip
        assert context.gold is not None  # else there were no estimates
        trust = context.gold.cached(("reliability", *fit.keywords.values()), lambda: fit(teacher, gold.y))
        context.fits[self.name] = trust
        return trust

    def __call__(self, logits: Tensor, step: Step) -> Tensor:
        top = top_mask(step.teacher, step.columns[f"{self.name}.k"])
        return slam_mix(logits, step.columns[f"{self.name}.alpha"], top, normalise=self.normalise)


@dataclass(frozen=True)
class TopTarget(Target):
    """Another target, cut to the teacher's top k(x) and renormalised."""

    base: Target
    link: str
    name: str = "top"

    def slots(self) -> Iterator[Slot]:
        yield self
        yield from self.base.slots()

    def __call__(self, step: Step) -> Tensor:
        head = self.base(step) * top_mask(step.teacher, step.columns[f"{self.link}.k"])
        return head / head.sum(-1, keepdim=True)


slam_link = SlamLink


@method
def slam(
    lower_bound: float = 0.5,
    threshold: float = 0.9,
    k: int | str | None = None,
    normalise: bool = False,
    temperature: float | tuple[float, float] = 1.0,
    *,
    tail: str = "drop",
    covariate: str = "margin",
    estimator: str = "isotonic",
    alpha: Any = None,
    loss: Loss = cross_entropy,
    **slots: Unpack[WeightSlots],
) -> Objective:
    if tail not in ("keep", "drop"):
        raise UnderstudyError(f"slam(tail={tail!r}): use 'keep' or 'drop'")
    hard, drops = slots.get("hard", False), tail == "drop"
    target = TopTarget(TeacherTarget(hard), "slam") if drops else TeacherTarget(hard)
    link = slam_link(
        lower_bound=lower_bound, threshold=threshold, k=k, normalise=normalise, covariate=covariate,
        estimator=estimator, alpha=alpha, target_in_top=hard or drops,
    )  # fmt: skip
    return Objective(
        name="slam", target=target, link=link, loss=loss, temperature=temperature,
        traits=frozenset({"noise_free_is_vanilla"}), **slots,
    )  # fmt: skip
