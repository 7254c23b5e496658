"""Reconciled labels: one label per pool row, made of everybody's word, each weighed on gold rows it has not seen.

What the teacher said, what a student trained on gold alone would say, what robust students and the rows' neighbours
would say are several witnesses of one truth. ``CrossFit`` has asked them about gold rows that they did not see; there
``maths/opinion_pool.py`` learns how to weigh them, and the same weights make the labels of the pool:

    log q(y | x) = b_0 · log P(word | y) + Σ_m b_m log p_m(y | x) + a_y − log Z

The teacher testifies as its labels allow: soft labels as they are, log s_y; answers (a hard label, the best class of a
soft one, the votes of several sources) by how often gold saw them beside each truth, log P(answers | y), counted on
other gold rows. Rows without a teacher's label are labelled by the rest. Where a single witness surely has a smaller
cross-validated log-loss on gold than all of them together, it is taken alone.

    pool = reconciled_pool(fitted, fitted.run(executor))
    pool.teacher, pool.witnesses                     # soft labels q; who was believed how far
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from understudy.data.checks import CHUNK
from understudy.data.examples import Gold, Ids, Pool
from understudy.data.rows import Rows
from understudy.labels.base import Labels
from understudy.labels.forms import Soft
from understudy.maths.opinion_pool import OpinionPool, fit_opinion_pool
from understudy.maths.source_confusion import cross_likelihood, fit_sources
from understudy.objective import Columns, Objective
from understudy.reconciling.crossfit import CrossFit, Testimony
from understudy.reconciling.members import C, TrainedOn, is_flat
from understudy.training.l2 import mean_square

# A witness that has never seen a class err may still err: no word counts for more than 10,000 to 1.
LEAST = 1e-4
TEACHER, WORD = "teacher", "teacher's word"
NUMBERS = ("weight", "accuracy", "rows", "log_loss")
"""What a run's facts tell of each witness."""


@dataclass(frozen=True, eq=False)
class Witness:
    name: str
    weight: float
    """b: how far it was believed; 0: not at all."""
    accuracy: float
    """Of its best class, on gold rows it had not seen and said something of."""
    rows: int
    """How many these are."""
    log_loss: float
    """Of its word alone, tempered and biased to suit gold, cross-validated."""
    probs: Tensor
    """What it says of the pool, ``(N, C)``."""


class ReconciledPool(Pool):
    """A pool whose labels are q; ``witnesses`` tells what they were made of."""

    derived = ("size", "witnesses", "opinion", "on_gold", "together")
    witnesses: list[Witness]
    opinion: OpinionPool
    on_gold: Tensor
    """q of each gold row ``(n, C)``, by witnesses and weights that did not know its truth; NaN on chosen rows."""
    together: tuple[float, int]
    """How often the best class of that is right, and on how many rows."""

    @classmethod
    def made(
        cls, rows: Rows, probs: Tensor, ids: Ids | None, witnesses: list[Witness], opinion: OpinionPool
    ) -> "ReconciledPool":
        pool = cls.__new__(cls)
        pool._fill(rows, Soft(probs), ids)
        pool.witnesses, pool.opinion = witnesses, opinion
        return pool

    def _judge(self, gold: Gold, rows: Tensor) -> None:
        log_q = self.opinion.unseen
        assert log_q is not None
        self.on_gold = torch.full((len(gold), log_q.shape[1]), float("nan"))
        self.on_gold[rows] = log_q.exp().float()
        self.together = _accuracy(log_q, gold.y[rows])

    def columns(self) -> Columns:
        """In pool order: the label and its chance, and each witness's best class and what it gives the label."""
        assert self.teacher is not None
        label = self.teacher.top1()
        probs = self.teacher.dense(torch.arange(len(self)), self.opinion.bias.shape[0])
        columns = {"reconciled.label": label, "reconciled.prob": _of(probs, label)}
        for witness in self.witnesses:
            columns[f"{witness.name}.label"] = witness.probs.argmax(1)
            columns[f"{witness.name}.prob"] = _of(witness.probs, label).float()
        return columns

    def facts(self) -> dict[str, float]:
        """Numbers worth telling."""
        return {
            "reconciled.log_loss": self.opinion.log_loss,
            "reconciled.accuracy": self.together[0],
            "reconciled.gold_rows": float(self.together[1]),
            **{
                f"reconciled.{number} of {witness.name}": float(getattr(witness, number))
                for witness in self.witnesses
                for number in NUMBERS
            },
        }


def witnesses_in(facts: Mapping[str, float]) -> list[dict[str, Any]]:
    """What a run's facts tell of its witnesses, by ``name`` and ``NUMBERS``, the most believed first."""
    first = "reconciled.weight of "
    names = [name.removeprefix(first) for name in facts if name.startswith(first)]
    found = [{"name": one, **{each: facts[f"reconciled.{each} of {one}"] for each in NUMBERS}} for one in names]
    return sorted(found, key=lambda one: -one["weight"])


def reconciled_pool(fitted: CrossFit, said: Testimony) -> ReconciledPool:
    pool = fitted.pool
    scores = Scores.of(fitted, said.gold, said.pool, fitted.judges)
    opinion = fit_opinion_pool(scores.gold, scores.y)
    alone = [fit_opinion_pool(one.unsqueeze(0), scores.y, full=False) for one in scores.gold]
    best = min(range(len(alone)), key=lambda number: alone[number].log_loss)
    if surely_better(alone[best], opinion, scores.y):
        weights = torch.zeros(len(scores.names), dtype=torch.float64)
        weights[best] = alone[best].weights[0]
        opinion = replace(alone[best], weights=weights)
    witnesses = [
        Witness(
            name, float(opinion.weights[number]), *_accuracy(scores.gold[number], scores.y),
            log_loss=alone[number].log_loss, probs=scores.pool[number].softmax(1),
        )
        for number, name in enumerate(scores.names)
    ]  # fmt: skip
    made = ReconciledPool.made(pool.rows, scores.labels(opinion), pool.ids, witnesses, opinion)
    made._judge(fitted.gold, fitted.judges)
    return made


def surely_better(single: OpinionPool, every: OpinionPool, y: Tensor) -> bool:
    """Whether one witness alone loses less on gold than all of them together, by more than twice the gap's standard
    error: the best of many always looks good."""
    assert single.unseen is not None and every.unseen is not None
    gain = _of(single.unseen, y) - _of(every.unseen, y)
    return bool(gain.mean() > 2 * gain.std() / len(gain) ** 0.5)


def labels_of_folds(fitted: CrossFit, said: Testimony) -> list[Tensor]:
    """For each fold the pool's labels ``(N, C)`` as they would be without its gold rows: to judge a student by them.

    They are made of the fold's own members, which learned from most of the pool rows they label here: such labels are
    a little worse than the real ones, which no member has learned from.
    """
    labels = []
    for number in range(fitted.folds):
        rows = fitted.judges[fitted.gold_fold[fitted.judges] != number]
        of_pool = {name: torch.tensor(words[number]) for name, words in said.of_fold.items()}
        scores = Scores.of(fitted, said.gold, of_pool, rows)
        labels.append(scores.labels(fit_opinion_pool(scores.gold, scores.y)))
    return labels


def judged_student(fitted: CrossFit, said: Testimony, executor: Any, *, progress: bool = False) -> Tensor:
    """What students on such labels say of the gold rows held out, ``(n, C)``."""
    student = TrainedOn(Objective(name="vanilla"), labels_of_folds(fitted, said), suitable_c(fitted.pool))
    folder = None if fitted.folder is None else fitted.folder / "reconciled"
    judged = replace(fitted, members={"reconciled": student}, folder=folder, needed=("reconciled",))
    return judged.run(executor, progress=progress).gold["reconciled"]


def suitable_c(pool: Pool) -> float | None:
    """scikit-learn's C for a linear student on reconciled labels. Chosen on gold it would be worse: gold had its say in
    these labels. They are cleaner than the pool's own and soft, and bear a weak penalty: of 0.1, 1, 10 and 100, for
    rows of length 1, 10 was the best or within 1.2 points of it on each of twelve text settings."""
    return C / mean_square(pool.rows) if is_flat(pool.rows) else None


@dataclass(frozen=True, eq=False)
class Scores:
    """Log-scores of all witnesses on some gold rows and on the pool."""

    names: list[str]
    gold: Tensor
    """``(M, n, C)``."""
    y: Tensor
    pool: list[Tensor]
    """``(N, C)`` each, float32."""

    @classmethod
    def of(cls, fitted: CrossFit, gold: Mapping[str, Tensor], pool: Mapping[str, Tensor], rows: Tensor) -> "Scores":
        """``rows``: the gold rows to weigh by; those the teacher's answers are counted on, too."""
        words = teacher_scores(fitted.gold.take(rows), fitted.pool, fitted.gold_fold[rows], fitted.classes)
        words |= {name: (_log(gold[name][rows]), _log(probs)) for name, probs in pool.items()}
        on_gold, on_pool = zip(*words.values(), strict=True)
        return cls(list(words), torch.stack(on_gold), fitted.gold.y[rows], [scores.float() for scores in on_pool])

    def labels(self, opinion: OpinionPool) -> Tensor:
        """q of the pool, ``(N, C)`` float32, part by part: all witnesses' scores at once may be too much."""
        parts = zip(*(scores.split(CHUNK) for scores in self.pool), strict=True)
        return torch.cat([opinion(torch.stack(part)).exp().float() for part in parts])


def teacher_scores(gold: Gold, pool: Pool, fold: Tensor, classes: int) -> dict[str, tuple[Tensor, Tensor]]:
    """What the teacher's word is worth: log-scores ``(n, C)`` of gold rows, cross-fitted, and ``(N, C)`` of the pool.

    Zero, which says nothing, on rows without a label. A teacher that said nothing of gold cannot be weighed.
    """
    rows, on_gold = gold.calibration()
    teacher = pool.teacher
    assert teacher is not None
    if on_gold is None or len(rows) < 2 * classes:
        return {}
    words: dict[str, tuple[Tensor, Tensor]] = {}
    if teacher.answers().shape[1] == 1 and teacher.has_confidence and not teacher.needs_gold:
        words[TEACHER] = (_spread(_soft(on_gold, classes), rows, len(gold)), _soft(teacher, classes))
    answers, y = on_gold.answers(), gold.y[rows]
    counted = cross_likelihood(answers, y, classes, fold[rows])
    on_pool = fit_sources(answers, y, classes).log_likelihood(teacher.answers())
    on_pool[~teacher.labelled()] = 0.0
    words[WORD] = (_spread(counted, rows, len(gold)), on_pool)
    return words


def _soft(labels: Labels, classes: int) -> Tensor:
    """log s, zero on rows without a label; a hard label with a confidence shares the rest out."""
    rows = labels.labelled().nonzero().squeeze(1)
    probs = labels.dense(rows, classes).double()
    if not labels.simplest().ranks:
        sure = labels.confidence("margin")[rows].clamp(0, 1).unsqueeze(1)
        probs = sure * probs + (1 - sure) * (1 - probs) / max(1, classes - 1)
    return _spread(_log(probs), rows, len(labels))


def _log(probs: Tensor) -> Tensor:
    return probs.double().clamp(min=LEAST).log().log_softmax(1)


def _spread(scores: Tensor, rows: Tensor, length: int) -> Tensor:
    every = torch.zeros(length, scores.shape[1], dtype=torch.float64)
    every[rows] = scores
    return every


def _of(probs: Tensor, label: Tensor) -> Tensor:
    return probs.gather(1, label.unsqueeze(1)).squeeze(1)


def _accuracy(scores: Tensor, y: Tensor) -> tuple[float, int]:
    """How often the best class is the truth, and of how many rows; equal scores for all classes say nothing."""
    spoken = scores.amax(1) > scores.amin(1)
    right = (scores.argmax(1) == y)[spoken]
    return (float(right.double().mean()) if len(right) else 0.0), len(right)
