"""Co-teaching: two students, each trained on the rows its peer finds easy.

Han et al., "Co-teaching: Robust Training of Deep Neural Networks with Extremely Noisy Labels" (NeurIPS 2018). In each
batch of n pool rows each net names the ``(1 − R) n`` rows it has the smallest loss on, and its *peer* takes a step on
their mean loss. The forget rate R rises linearly from 0 to ``forget_rate`` over the first ``gradual_epochs`` epochs and
stays there. The loss is averaged once, over the kept rows. ``forget_rate=None`` measures the teacher's error on gold.
Gold rows train both nets whole. The peer is the same net, freshly initialised, and is saved with the run's modules;
``run.student`` is the first of the two. One optimizer moves both; a ``clip`` bounds their common gradient. Pretraining
and fine-tuning on gold are the first net's alone.

    us.train(student, gold, us.Pool(x, noisy_labels), us.co_teaching(forget_rate=0.4), epochs=30)
"""

import copy
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from understudy import models
from understudy.errors import UnderstudyError
from understudy.inference.passes import to_device
from understudy.maths.losses import cross_entropy
from understudy.objective import Columns, Loss, Objective, Outputs, Step, TeacherTarget, Term, Weight
from understudy.training.scoring import Scored, Scorer

__all__ = ["co_teaching"]


def forget_rate_at(epoch: int, final: float, gradual_epochs: int) -> float:
    """R(t) = τ · min(t / T_k, 1)."""
    return final * min(epoch / gradual_epochs, 1.0)


def small_loss_weights(losses: Tensor, forget_rate: float) -> Tensor:
    """n / kept on the rows of smallest loss, 0 on the rest: their mean, once the loop has divided by n."""
    kept = max(1, round((1 - forget_rate) * len(losses)))
    easiest = losses.argsort(stable=True)[:kept]
    return torch.zeros_like(losses).index_fill_(0, easiest, len(losses) / kept)


def fresh_copy(student: nn.Module, seed: int) -> nn.Module:
    """The same architecture with weights of its own, drawn under ``seed``."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        spec = models.spec_of(student)
        if spec is not None:
            return models.build(spec).to(next(student.parameters()))
        peer = copy.deepcopy(student)
        for part in peer.modules():
            reset = getattr(part, "reset_parameters", None)
            if callable(reset):
                reset()
    if all(a.equal(b) for a, b in zip(student.parameters(), peer.parameters(), strict=True)):
        raise UnderstudyError(
            f"co_teaching cannot draw new weights for {type(student).__name__}: none of its layers has "
            "reset_parameters(), and two equal nets teach each other nothing; give its class that method"
        )
    return peer


class NetScorer(Scorer):
    """One of the two nets: its losses on a batch, before anything is chosen or summed."""

    def parts(
        self, x: Any, gold_rows: Tensor, pool_rows: Tensor, *, epoch: int, progress: float
    ) -> tuple[Tensor, Tensor, Step]:
        """The summed gold loss, the pool losses ``(B,)``, and the step they come from."""
        split = len(gold_rows)
        outputs = self._forward(to_device(x, self.device))
        features = None if outputs.features is None else outputs.features[split:]
        step = self._step(Outputs(outputs.logits[split:], features), pool_rows, epoch, progress)
        gold_loss = outputs.logits.new_zeros(())
        if split:
            gold_loss = self.gold_weight * self._gold_losses(outputs.logits[:split], gold_rows).sum()
        return gold_loss, self.objective.pool_losses(step), step

    def weights(self, chosen: Tensor, losses: Tensor, step: Step) -> Tensor:
        """The peer's choice times the objective's own weights."""
        others = self.objective.pool_weights(losses, step)
        return chosen if others is None else chosen * others


class CoTeachingScorer(NetScorer):
    """Scores a batch with both nets; the loop sees one sum and one optimizer."""

    def __init__(
        self,
        student: nn.Module,
        objective: Objective,
        *args: Any,
        forget_rate: float | None,
        gradual_epochs: int,
        seed: int,
        **options: Any,
    ) -> None:
        super().__init__(student, objective, *args, seed=seed, **options)
        if self.aligner is not None:
            raise UnderstudyError("co_teaching cannot be combined with l2rw_weight: its weights are for one net")
        self.forget_rate, self.gradual_epochs = forget_rate, gradual_epochs
        self.peer: NetScorer | None = None
        if self.pool is not None:
            self.peer = NetScorer(
                fresh_copy(student, seed + 1), objective, *args, seed=seed, **(options | {"refine": False})
            )

    def prepare(self, epoch: int) -> None:
        super().prepare(epoch)
        if self.peer is None:
            return
        self.peer.prepare(epoch)
        if epoch == 0:
            self.modules["peer"] = nn.ModuleDict({"student": self.peer.student, **self.peer.modules})
            if self.forget_rate is None:
                self.forget_rate = self._teacher_error()
            self.facts["co_teaching.forget_rate"] = self.forget_rate

    def all_columns(self) -> Columns:
        """Where columns are refreshed, each net has its own."""
        theirs = {} if self.peer is None else self.peer.columns
        return self.columns | {f"peer {name}": column for name, column in theirs.items()}

    def put_back_columns(self, columns: Columns) -> None:
        for name, column in columns.items():
            if not name.startswith("peer "):
                self.columns[name] = column
            elif self.peer is not None:
                self.peer.columns[name.removeprefix("peer ")] = column

    def _teacher_error(self) -> float:
        rows, said = (torch.empty(0), None) if self.gold is None else self.gold.estimates()
        if self.gold is None or said is None or not len(rows):
            raise UnderstudyError(
                "co_teaching must know how many labels are wrong: pass forget_rate=, or gold rows with teacher="
            )
        return float((said.top1() != self.gold.y[rows]).double().mean())

    def score(self, x: Any, gold_rows: Tensor, pool_rows: Tensor, *, epoch: int, progress: float) -> Scored:
        if self.peer is None or not len(pool_rows):
            return super().score(x, gold_rows, pool_rows, epoch=epoch, progress=progress)
        assert self.forget_rate is not None
        self.peer.student.train()
        own_gold, own_losses, own_step = self.parts(x, gold_rows, pool_rows, epoch=epoch, progress=progress)
        peer_gold, peer_losses, peer_step = self.peer.parts(x, gold_rows, pool_rows, epoch=epoch, progress=progress)
        rate = forget_rate_at(epoch, self.forget_rate, self.gradual_epochs)
        own_weights = self.weights(small_loss_weights(peer_losses.detach(), rate), own_losses, own_step)
        peer_weights = self.peer.weights(small_loss_weights(own_losses.detach(), rate), peer_losses, peer_step)
        if self.refinery is not None:
            self.refinery.add(pool_rows, own_step.outputs.logits, own_weights)
        pool_loss = (own_weights * own_losses).sum() + (peer_weights * peer_losses).sum()
        return Scored(own_gold + peer_gold + pool_loss, True)


def co_teaching(
    forget_rate: float | None = None,
    *,
    gradual_epochs: int = 10,
    hard: bool = False,
    loss: Loss = cross_entropy,
    weight: Weight | None = None,
    terms: tuple[Term, ...] = (),
    temperature: float | tuple[float, float] = 1.0,
    temperature_scale: bool | None = None,
) -> Objective:
    if forget_rate is not None and not 0 <= forget_rate < 1:
        raise UnderstudyError(f"co_teaching(forget_rate={forget_rate}) must lie in [0, 1): the share of rows to drop")
    if gradual_epochs < 1:
        raise UnderstudyError(f"co_teaching(gradual_epochs={gradual_epochs}) must be at least 1")
    return Objective(
        name="co_teaching",
        target=TeacherTarget(hard=hard),
        loss=loss,
        weight=weight,
        terms=terms,
        temperature=temperature,
        temperature_scale=temperature_scale,
        scorer=partial(CoTeachingScorer, forget_rate=forget_rate, gradual_epochs=gradual_epochs),
    )
