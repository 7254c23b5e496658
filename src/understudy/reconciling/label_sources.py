"""Reconciled labels: one soft label per pool row, combined from several label sources with weights fitted on gold.

Label sources are the teacher, and base models such as a student trained on gold only, robust students and the nearest
neighbours. ``CrossFit`` has their out-of-fold predictions of gold rows; ``maths/opinion_pool.py`` fits a weight for
each on these, and the same weights give the labels of the pool:

    log q(y | x) = b_0 · log P(teacher's label | y) + Σ_m b_m log p_m(y | x) + a_y − log Z

The teacher counts in one or two ways: soft labels as they are, log s_y; and its label (a hard one, or the best class of
a soft one) by its confusion with gold, log P(label | y), cross-fitted. The votes of several annotators are one source
likewise (``fit_votes``); its weight is drawn to 1, those of base models to little: on few gold rows they add noise.
Pool rows without a teacher's label get one from the other sources. Where a single source has a significantly smaller
cross-validated log-loss on gold than all of them together, it is taken alone.

    pool = reconciled_pool(fitted, fitted.run(executor))
    pool.teacher, pool.sources                       # soft labels q; each source with its weight
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from understudy.comparison.candidates import FEWEST_ROWS
from understudy.data.checks import CHUNK
from understudy.data.examples import Gold, Pool
from understudy.data.fitted_rows import fitted_keys
from understudy.labels.base import Labels
from understudy.labels.forms import Soft
from understudy.maths.folds import out_of_fold
from understudy.maths.metric_scores import ACCURACY, mean_and_error, of_class, row_losses
from understudy.maths.opinion_pool import OpinionPool, Prior, fit_opinion_pool
from understudy.maths.proportions import disagreement
from understudy.maths.source_confusion import cross_likelihood, fit_sources, fit_votes
from understudy.objective import Columns, Objective
from understudy.reconciling.base_models import C, TrainedModel, is_numeric
from understudy.reconciling.cross_fitting import CrossFit, OutOfFold
from understudy.training.automatic_options import mean_square
from understudy.training.evaluation import COMPARED_ROWS

# A source that was never wrong about a class on gold may still be wrong: no label counts for more than 10,000 to 1.
LEAST = 1e-4
TEACHER, TEACHER_CONFUSION, VOTES = "teacher", "teacher confusion", "votes"
# Where there are votes: the prior weight of all base models together (the votes' is 1), and its worth in gold rows.
BASE_MODELS, PRIOR_ROWS = 0.25, 10.0
# Where there is nothing to learn, the accuracy on gold is 2 to 4 points too high with 24 rows and 1 with 50: the other
# rows' predictions, which the weights are fitted to, come from models that a row has trained.
ENOUGH_ROWS = 50
#: A run's facts about each label source.
NUMBERS = ("weight", "accuracy", "rows", "log_loss", "disagreement")
#: A source's log-scores: ``(n, C)`` of gold rows, and ``(N, C)`` of the pool.
Scores = tuple[Tensor, Tensor]


@dataclass(frozen=True, eq=False)
class LabelSource:
    name: str
    #: b; 0: without influence.
    weight: float
    #: Of its best class, on gold rows it has an out-of-fold prediction for.
    accuracy: float
    #: How many these are.
    rows: int
    #: Of its predictions alone, with temperature and bias fitted on gold, cross-validated.
    log_loss: float
    #: Of its models of the folds (``maths.proportions.cross_validated``).
    disagreement: float
    #: Its predictions of the pool, ``(N, C)``.
    probs: Tensor


class ReconciledPool(Pool):
    """A pool whose labels are q, and the ``sources`` they were combined from."""

    derived = ("class_order", "sources", "opinion", "opinions", "on_gold", "accuracy_on_gold", "disagreement")
    sources: list[LabelSource]
    opinion: OpinionPool
    #: The same, fitted (and its form chosen) without the gold rows of each fold.
    opinions: list[OpinionPool]
    #: q of each gold row ``(n, C)``, by the opinion without its fold; NaN on chosen rows.
    on_gold: Tensor
    #: The accuracy of its best class, and on how many rows.
    accuracy_on_gold: tuple[float, int]
    #: Of the opinions without each fold, on the pool.
    disagreement: float

    def columns(self) -> Columns:
        """In pool order: the label and its probability, each source's best class and its probability of the label."""
        assert self.teacher is not None
        label = self.teacher.top1()
        probs = self.teacher.dense(torch.arange(len(self)), self.opinion.bias.shape[0])
        columns = {"reconciled.label": label, "reconciled.prob": of_class(probs, label)}
        for source in self.sources:
            columns[f"{source.name}.label"] = source.probs.argmax(1)
            columns[f"{source.name}.prob"] = of_class(source.probs, label).float()
        return columns

    def is_of(self, gold: Gold, pool: Pool) -> bool:
        """Whether it has as many rows as these."""
        return len(self) == len(pool) and len(self.on_gold) == len(gold)

    def facts(self) -> dict[str, float]:
        """Numbers for a run's facts; no accuracy where gold has too few rows for it."""
        accuracy, rows = self.accuracy_on_gold
        return {
            "reconciled.log_loss": self.opinion.log_loss, "reconciled.disagreement": self.disagreement,
            **({"reconciled.accuracy": accuracy} if rows >= ENOUGH_ROWS else {}),
            "reconciled.gold_rows": float(rows), "reconciled.pool_rows": float(len(self)),
            **{f"reconciled.{key} of {one.name}": float(getattr(one, key)) for one in self.sources for key in NUMBERS},
        }  # fmt: skip


def sources_in(facts: Mapping[str, float]) -> list[dict[str, Any]]:
    """The label sources in a run's facts, by ``name`` and ``NUMBERS``, the largest weight first."""
    first = "reconciled.weight of "
    names = [name.removeprefix(first) for name in facts if name.startswith(first)]
    sources = [{"name": one, **{each: facts[f"reconciled.{each} of {one}"] for each in NUMBERS}} for one in names]
    return sorted(sources, key=lambda one: -one["weight"])


def reconciled_pool(fitted: CrossFit, predictions: OutOfFold) -> ReconciledPool:
    """The pool with labels combined from the teacher's and the base models' predictions."""
    opinions, classes = [], []
    for number in range(fitted.folds):
        part = _scores_without(fitted, predictions, number)
        opinions.append(choose_opinion(part, fitted.recipe.metric)[0])
        part = replace(part, pool=[each[:COMPARED_ROWS] for each in part.pool])
        classes.append(part.labels(opinions[-1]).argmax(1).numpy())
    scores = SourceScores.of(fitted, predictions.gold, predictions.pool, fitted.evaluation_rows)
    unseen = torch.empty(scores.gold.shape[1:], dtype=torch.float64)
    for number, held_out in enumerate(opinions):
        mine = scores.fold == number
        # A fold of few rows may have no teacher among its sources.
        unseen[mine] = held_out(scores.gold[len(scores.names) - len(held_out.weights) :, mine])
    opinion, single = choose_opinion(scores, fitted.recipe.metric)
    opinion = replace(opinion, unseen=unseen, log_loss=float(-of_class(unseen, scores.y).mean()))
    sources = [
        LabelSource(
            name, float(opinion.weights[number]), *_accuracy(scores.gold[number], scores.y),
            log_loss=single[number].log_loss, probs=scores.pool[number].softmax(1),
            disagreement=predictions.disagreement(name) if name in predictions.by_fold else 0.0,
        )
        for number, name in enumerate(scores.names)
    ]  # fmt: skip
    labels = Soft(scores.labels(opinion))
    labels.fitted_to = fitted_keys(fitted.gold, fitted.pool)
    combined = ReconciledPool.of(fitted.pool.rows, labels, fitted.pool.ids)
    combined.sources, combined.opinion, combined.opinions = sources, opinion, opinions
    combined.on_gold = torch.full((len(fitted.gold), fitted.classes), float("nan"))
    combined.on_gold[fitted.evaluation_rows] = unseen.exp().float()
    combined.accuracy_on_gold, combined.disagreement = _accuracy(unseen, scores.y), disagreement(classes)
    return combined


def choose_opinion(scores: "SourceScores", metric: str = ACCURACY) -> tuple[OpinionPool, list[OpinionPool]]:
    """All sources combined, or the best one alone where it is significantly better; and each source alone."""
    fold = scores.fold if len(scores.fold.unique()) > 1 else None
    opinion = fit_opinion_pool(scores.gold, scores.y, fold=fold, metric=metric, prior=scores.prior)
    single = [fit_opinion_pool(one.unsqueeze(0), scores.y, full=False, fold=fold) for one in scores.gold]
    losses = [opinion_losses(one, scores.y, metric) for one in single]
    best = min(range(len(single)), key=lambda number: float(losses[number].mean()))
    if significantly_less(losses[best], opinion_losses(opinion, scores.y, metric)):
        weights = torch.zeros(len(scores.names), dtype=torch.float64)
        weights[best] = single[best].weights[0]
        opinion = replace(single[best], weights=weights)
    return opinion, single


def opinion_losses(opinion: OpinionPool, y: Tensor, metric: str) -> Tensor:
    assert opinion.unseen is not None
    return row_losses(metric, opinion.unseen, y)


def significantly_less(single: Tensor, combined: Tensor) -> bool:
    """Whether one source has smaller losses on gold than all combined, by more than two standard errors: the best of
    many always looks good."""
    gain, error = mean_and_error(combined - single)
    return gain > 2 * error


def labels_by_fold(fitted: CrossFit, predictions: OutOfFold, opinions: Sequence[OpinionPool]) -> list[Tensor]:
    """For each fold the pool's labels ``(N, C)``, fitted without the fold's gold rows, to cross-validate a student.

    They come from the fold's own base models, which were trained on most of the pool rows they label here: such labels
    are slightly worse than the final ones, which are out of fold.
    """
    return [_scores_without(fitted, predictions, number).labels(each) for number, each in enumerate(opinions)]


def _scores_without(fitted: CrossFit, predictions: OutOfFold, number: int) -> "SourceScores":
    """Scores of the gold rows that are not in a fold, and of the pool by the fold's base models."""
    rows = fitted.evaluation_rows[fitted.gold_fold[fitted.evaluation_rows] != number]
    on_pool = {name: torch.tensor(probs[number]) for name, probs in predictions.by_fold.items()}
    return SourceScores.of(fitted, predictions.gold, on_pool, rows)


def cross_validate_student(fitted: CrossFit, labels: list[Tensor], executor: Any, *, progress: bool) -> OutOfFold:
    """Out-of-fold predictions by "reconciled": students trained on ``labels_by_fold``."""
    model = TrainedModel(Objective(name="vanilla"), c=default_c(fitted.pool), labels=labels)
    folder = None if fitted.folder is None else fitted.folder / "reconciled"
    students = replace(fitted, base_models={"reconciled": model}, folder=folder, needed=("reconciled",))
    return students.run(executor, progress=progress)


def default_c(pool: Pool) -> float | None:
    """scikit-learn's C for a linear student on reconciled labels. It is not chosen on gold, which has already been used
    for these labels. They are cleaner than the pool's own and soft, and need a weak penalty: of 0.1, 1, 10 and 100, for
    rows of length 1, 10 was the best or within 1.2 points of it on each of twelve text settings."""
    return C / mean_square(pool.rows) if is_numeric(pool.rows) else None


@dataclass(frozen=True, eq=False)
class SourceScores:
    """Log-scores of all label sources on some gold rows and on the pool."""

    names: list[str]
    #: ``(M, n, C)``.
    gold: Tensor
    y: Tensor
    #: The fold that each is held out in, ``(n,)``.
    fold: Tensor
    #: ``(N, C)`` each, float32.
    pool: list[Tensor]

    @classmethod
    def of(
        cls, fitted: CrossFit, gold: Mapping[str, Tensor], pool: Mapping[str, Tensor], rows: Tensor
    ) -> "SourceScores":
        """``rows``: the gold rows that weights and the teacher's confusion are fitted on."""
        fold = fitted.gold_fold[rows]
        # Decided by all rows, so that a fold has the sources that its weights are for.
        many = len(fitted.gold.take(fitted.evaluation_rows).calibration()[0]) >= FEWEST_ROWS
        scores = teacher_scores(fitted.gold.take(rows), fitted.pool, fold, fitted.classes, as_votes=many)
        scores |= {name: (_log(gold[name][rows]), _log(probs)) for name, probs in pool.items()}
        on_gold, on_pool = zip(*scores.values(), strict=True)
        return cls(list(scores), torch.stack(on_gold), fitted.gold.y[rows], fold, [each.float() for each in on_pool])

    @property
    def prior(self) -> Prior | None:
        """Of the weights; votes of several labellers, already weighed by gold, count as they are until gold says more:
        base models have learned from the same votes."""
        if self.names[0] != VOTES:
            return None
        base_models = len(self.names) - 1
        centre = [1.0, *[BASE_MODELS / max(base_models, 1)] * base_models]
        return Prior(torch.tensor(centre, dtype=torch.float64), PRIOR_ROWS)

    def labels(self, opinion: OpinionPool) -> Tensor:
        """q of the pool, ``(N, C)`` float32, in chunks: the scores of all sources at once may not fit into memory."""
        parts = zip(*(scores.split(CHUNK) for scores in self.pool), strict=True)
        return torch.cat([opinion(torch.stack(part)).exp().float() for part in parts])


def teacher_scores(gold: Gold, pool: Pool, fold: Tensor, classes: int, *, as_votes: bool = True) -> dict[str, Scores]:
    """The teacher as one or two sources, gold rows cross-fitted.

    Zero, i.e. uninformative, on rows without a label; no source at all where gold has too few of the teacher's labels.
    """
    rows, on_gold = gold.calibration()
    teacher = pool.teacher
    assert teacher is not None
    if on_gold is not None and teacher.answers().shape[1] > 1 and as_votes:
        return {VOTES: _votes(on_gold.answers(), gold.y[rows], rows, fold, teacher, classes)}
    if on_gold is None or len(rows) < 2 * classes:
        return {}
    scores: dict[str, Scores] = {}
    if teacher.answers().shape[1] == 1 and teacher.has_confidence and not teacher.needs_gold:
        scores[TEACHER] = (_spread(_soft(on_gold, classes), rows, len(gold)), _soft(teacher, classes))
    answers, y = on_gold.answers(), gold.y[rows]
    counted = cross_likelihood(answers, y, classes, fold[rows])
    on_pool = fit_sources(answers, y, classes).log_likelihood(teacher.answers())
    on_pool[~teacher.labelled()] = 0.0
    scores[TEACHER_CONFUSION] = (_spread(counted, rows, len(gold)), on_pool)
    return scores


def _votes(votes: Tensor, y: Tensor, rows: Tensor, fold: Tensor, teacher: Labels, classes: int) -> Scores:
    """log P(votes | truth), as sharp as gold shows that they are: labellers copy each other."""

    def likelihood(known: Tensor, given: Tensor) -> Tensor:
        sources = fit_votes(votes[known], y[known], classes)
        return sources.sharpness * sources.log_likelihood(given)

    counted = out_of_fold(fold[rows], lambda others, mine: likelihood(others, votes[mine]))
    on_pool = likelihood(torch.arange(len(y)), teacher.answers())
    on_pool[~teacher.labelled()] = 0.0
    return _spread(counted, rows, len(fold)), on_pool


def _soft(labels: Labels, classes: int) -> Tensor:
    """log s, zero on rows without a label; a hard label with a confidence spreads the rest over the other classes."""
    rows = labels.labelled().nonzero().squeeze(1)
    probs = labels.dense(rows, classes).double()
    if not labels.simplest().ranks:
        confidence = labels.confidence("margin")[rows].clamp(0, 1).unsqueeze(1)
        probs = confidence * probs + (1 - confidence) * (1 - probs) / max(1, classes - 1)
    return _spread(_log(probs), rows, len(labels))


def _log(probs: Tensor) -> Tensor:
    return probs.double().clamp(min=LEAST).log().log_softmax(1)


def _spread(scores: Tensor, rows: Tensor, length: int) -> Tensor:
    every = torch.zeros(length, scores.shape[1], dtype=torch.float64)
    every[rows] = scores
    return every


def _accuracy(scores: Tensor, y: Tensor) -> tuple[float, int]:
    """The accuracy of the best class, and on how many rows; rows with equal scores for all classes do not count."""
    informative = scores.amax(1) > scores.amin(1)
    right = (scores.argmax(1) == y)[informative]
    return (float(right.double().mean()) if len(right) else 0.0), len(right)
