"""Co-teaching: two students, each trained on the rows its peer finds easy (Han et al., NeurIPS 2018).

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
import hashlib
from functools import partial
from typing import Any, Unpack

import torch
from torch import Tensor, nn

from understudy import models
from understudy.errors import UnderstudyError
from understudy.method_options import Slots, method
from understudy.models.registry import drawn_parts
from understudy.objective import Objective
from understudy.store.option_fields import check_interval
from understudy.training.batch_loss import Batch, Losses, Scored, StudentLearner

__all__ = ["co_teaching"]


def forget_rate_at(epoch: int, final: float, gradual_epochs: int) -> float:
    """R(t) = τ · min(t / T_k, 1)."""
    return final * min(epoch / gradual_epochs, 1.0)


def small_loss_weights(losses: Tensor, forget_rate: float) -> Tensor:
    """n / kept on the rows of smallest loss, 0 on the rest: their mean, once the loop has divided by n."""
    kept = max(1, round((1 - forget_rate) * len(losses)))
    easiest = losses.argsort(stable=True)[:kept]
    return torch.zeros_like(losses).index_fill_(0, easiest, len(losses) / kept)


def peer_seed(seed: int) -> int:
    """A random stream of its own: any small number may be the seed that the student was made under."""
    return int.from_bytes(hashlib.sha256(f"co_teaching's peer, seed {seed}".encode()).digest()[:8]) >> 1


def fresh_copy(student: nn.Module, seed: int) -> nn.Module:
    """The same architecture with weights of its own, drawn for a training of this seed."""
    with torch.random.fork_rng():
        torch.manual_seed(peer_seed(seed))
        spec = models.spec_of(student)
        if spec is not None:
            return models.build(spec).to(next(student.parameters()))
        peer = copy.deepcopy(student)
        for part in drawn_parts(peer):
            reset = getattr(part, "reset_parameters", None)
            if callable(reset):
                reset()
    if all(a.equal(b) for a, b in zip(student.parameters(), peer.parameters(), strict=True)):
        raise UnderstudyError(f"co_teaching draws its peer by reset_parameters(), which {type(student).__name__} lacks")
    return peer


class CoTeachingScorer:
    """Scores a batch with both nets; the loop sees one sum and one optimizer."""

    def __init__(self, learner: StudentLearner, *, forget_rate: float | None, gradual_epochs: int) -> None:
        if learner.objective.alignment_rows:
            raise UnderstudyError("co_teaching cannot be combined with l2rw_weight: its weights are for one net")
        self.learner, self.forget_rate, self.gradual_epochs = learner, forget_rate, gradual_epochs
        self.peer = learner.with_student(fresh_copy(learner.student, learner.seed))
        self.learners = {"": learner, "peer": self.peer}

    def prepare(self, epoch: int, *, warn: bool = True) -> None:
        self.learner.prepare(epoch, warn=warn)
        self.peer.prepare(epoch, warn=warn)
        if epoch == 0:
            self.learner.modules["peer"] = nn.ModuleDict({"student": self.peer.student, **self.peer.modules})
            if self.forget_rate is None:
                self.forget_rate = self._teacher_error()
            self.learner.facts["co_teaching.forget_rate"] = self.forget_rate

    def _teacher_error(self) -> float:
        gold = self.learner.gold
        rows, labels = (torch.empty(0), None) if gold is None else gold.calibration()
        if gold is None or labels is None or not len(rows):
            raise UnderstudyError("co_teaching needs forget_rate=, or gold rows with teacher= to measure it")
        return float((labels.top1() != gold.y[rows]).double().mean())

    def score(self, model: Any, batch: Batch) -> Scored:
        own = self.learner.losses(model, batch)
        own_gold = self.learner.gold_weight * own.gold.sum()
        if own.step is None:
            return Scored(own_gold)
        assert self.forget_rate is not None
        self.peer.student.train()
        peer = self.peer.losses(self.peer.student, batch)
        rate = forget_rate_at(batch.epoch, self.forget_rate, self.gradual_epochs)
        own_weights = self.learner.cached(batch, "own", lambda: self._weights(self.learner, own, batch, peer, rate))
        peer_weights = self.peer.cached(batch, "peer", lambda: self._weights(self.peer, peer, batch, own, rate))
        gold_loss = own_gold + self.peer.gold_weight * peer.gold.sum()
        pool_loss = (own_weights * own.pool).sum() + (peer_weights * peer.pool).sum()
        return Scored(gold_loss + pool_loss, True, own.step.outputs.logits, own_weights)

    def _weights(self, learner: StudentLearner, losses: Losses, batch: Batch, chosen_by: Losses, rate: float) -> Tensor:
        """The peer's choice times the objective's own weights."""
        small_losses = partial(small_loss_weights, forget_rate=rate)
        chosen = learner.over_batch(small_losses, chosen_by.pool.detach(), batch)
        others = learner.pool_weights(losses, batch)
        return chosen if others is None else chosen * others


@method
def co_teaching(forget_rate: float | None = None, *, gradual_epochs: int = 10, **slots: Unpack[Slots]) -> Objective:
    check_interval("co_teaching", "[0, 1)", forget_rate=0 if forget_rate is None else forget_rate)
    check_interval("co_teaching", "[1, inf)", gradual_epochs=gradual_epochs)
    scorer = partial(CoTeachingScorer, forget_rate=forget_rate, gradual_epochs=gradual_epochs)
    return Objective(name="co_teaching", scorer=scorer, **slots)
