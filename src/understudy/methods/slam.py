"""SLaM, Student-Label Mixing: let the student's *noisy version* match the noisy label.

Kontonis et al., "SLaM: Student-Label Mixing for Distillation with Unlabeled Examples" (NeurIPS 2023), Algorithms 1
and 2. The loss is ``ce(q, mix(f))`` with

    mix(f) = α(x) f + (1 − α(x)) top(s; k(x)) ∗ (1 − f)

so that a student who is right pays for the teacher's mistakes only what the teacher's known accuracy α(x) explains.
α and k come from isotonic curves on gold (``us.Reliability``); ``alpha=`` takes known accuracies instead. Not divided
by k − 1 unless ``normalise=True``, as in the paper's experiments (Remark B.1). ``tail="drop"`` restricts soft labels to
the top k: with α near the lower bound the mass outside it would otherwise pull the student there.

    us.train(student, gold, pool, us.slam(lower_bound=0.6), epochs=30)
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from understudy.data.checks import check_length, to_tensor
from understudy.data.labels import Ranking
from understudy.errors import UnderstudyError
from understudy.maths.losses import cross_entropy
from understudy.maths.mixing import slam_mix, top_mask
from understudy.reliability import Reliability
from understudy.types import Columns, Context, Link, Loss, Objective, Step, Target, TeacherTarget, Weight

__all__ = ["slam", "slam_link"]


@dataclass(frozen=True)
class SlamLink(Link):
    lower_bound: float
    threshold: float
    k: int | str | None
    normalise: bool
    covariate: str
    estimator: str
    alpha: Any
    name: str

    def prepare(self, context: Context) -> Columns:
        teacher = context.teacher.simplest()
        k: Tensor | None = None
        if self.alpha is not None:
            alpha = to_tensor(self.alpha, "slam(alpha=…)").double()
            check_length(len(alpha), len(teacher), "slam(alpha=…)", "the pool")
            if bool(((alpha < 0) | (alpha > 1)).any()):
                raise UnderstudyError("slam(alpha=…) holds values outside [0, 1]; alpha is a chance of being right")
            if float(alpha.min()) < 0.5 and not self.normalise:
                raise UnderstudyError("slam(alpha=…) below 0.5 flips the gradient; use normalise=True with it")
            # With alpha known, only a k estimated per row still asks for gold.
            k = torch.full((len(teacher),), context.classes)
            if isinstance(teacher, Ranking) and self.k in (None, "auto"):
                k = self._k(self._fit(context), teacher, context)
        else:
            trust = self._fit(context)
            alpha = trust.alpha(teacher)
            k = self._k(trust, teacher, context)
            context.facts[f"{self.name}.share_at_lower_bound"] = float((alpha <= self.lower_bound).double().mean())
        if isinstance(self.k, int):
            k = torch.full((len(teacher),), min(self.k, context.classes))
        context.facts[f"{self.name}.mean_alpha"] = float(alpha.mean())
        context.facts[f"{self.name}.mean_k"] = float(k.double().mean())
        return {"alpha": alpha.float(), "k": k}

    def _fit(self, context: Context) -> Reliability:
        gold, said = context.estimates
        # Gold and pool labels come from one teacher: if the pool's are hard, so are these.
        said = said if isinstance(context.teacher.simplest(), Ranking) else said.simplest()
        return Reliability.fit(
            said,
            gold.y,
            self.lower_bound,
            self.threshold,
            covariate=self.covariate,
            estimator=self.estimator,
            classes=context.classes,
        )

    def _k(self, trust: Reliability, teacher: Any, context: Context) -> Tensor:
        if self.k == "auto" and isinstance(teacher, Ranking):
            return torch.full((len(teacher),), trust.fixed_k())
        return trust.k(teacher)

    def __call__(self, logits: Tensor, step: Step) -> Tensor:
        top = top_mask(step.teacher, step.columns[f"{self.name}.k"])
        return slam_mix(logits, step.columns[f"{self.name}.alpha"], top, normalise=self.normalise)


@dataclass(frozen=True)
class TopTarget(Target):
    """Another target, cut to the teacher's top k(x) and renormalised."""

    base: Target
    link: str
    name: str = "top"

    def __call__(self, step: Step) -> Tensor:
        kept = self.base(step) * top_mask(step.teacher, step.columns[f"{self.link}.k"])
        return kept / kept.sum(-1, keepdim=True)


def slam_link(
    *,
    lower_bound: float = 0.5,
    threshold: float = 0.9,
    k: int | str | None = None,
    normalise: bool = False,
    covariate: str = "margin",
    estimator: str = "isotonic",
    alpha: Any = None,
    name: str = "slam",
) -> Link:
    """The mixing link as a slot."""
    if lower_bound < 0.5 and not normalise:
        raise UnderstudyError(
            f"slam(lower_bound={lower_bound}) flips the gradient where alpha < 0.5; use normalise=True below 0.5"
        )
    if isinstance(k, int) and k < 2:
        raise UnderstudyError(f"slam(k={k}): the mixture needs at least 2 candidate classes")
    if isinstance(k, str) and k != "auto":
        raise UnderstudyError(f"slam(k={k!r}): use None (estimated per row), a number, or 'auto'")
    return SlamLink(lower_bound, threshold, k, normalise, covariate, estimator, alpha, name)


def slam(
    lower_bound: float = 0.5,
    threshold: float = 0.9,
    k: int | str | None = None,
    normalise: bool = False,
    temperature: float | tuple[float, float] = 1.0,
    *,
    tail: str = "keep",
    hard: bool = False,
    covariate: str = "margin",
    estimator: str = "isotonic",
    alpha: Any = None,
    loss: Loss = cross_entropy,
    weight: Weight | None = None,
    temperature_scale: bool | None = None,
) -> Objective:
    if tail not in ("keep", "drop"):
        raise UnderstudyError(f"slam(tail={tail!r}): use 'keep' or 'drop'")
    target: Target = TeacherTarget(hard=hard)
    return Objective(
        name="slam",
        target=TopTarget(target, "slam") if tail == "drop" else target,
        link=slam_link(
            lower_bound=lower_bound,
            threshold=threshold,
            k=k,
            normalise=normalise,
            covariate=covariate,
            estimator=estimator,
            alpha=alpha,
        ),
        loss=loss,
        weight=weight,
        temperature=temperature,
        temperature_scale=temperature_scale,
        traits=frozenset({"noise_free_is_vanilla"}),
    )
