"""Dawid–Skene: who of several annotators is right how often, and what the truth probably is, without any gold.

Dawid and Skene, "Maximum Likelihood Estimation of Observer Error-Rates Using the EM Algorithm" (1979). Row i has a true
class j with chance π_j; annotator a answers l with chance Θ_a[j, l], independently given the truth:

    E:  T_ij ∝ π_j Π_a Θ_a[j, v_ia]                  (over the annotators that answered)
    M:  π_j ∝ s + Σ_i T_ij,    Θ_a[j, l] ∝ s + Σ_i T_ij [v_ia = l]

started from the vote shares and run in log space. Decided here: an abstention (−1) says nothing, as in a crowd where
not every annotator saw every row. Rules that only ever name one class are another matter: given that such a rule
answers, its answer is certain and tells nothing; what tells is that it fired. With ``abstentions=True`` abstaining is
one more answer (YouTube spam rules: accuracy 82% instead of 43%). By default that is done where most votes come from
such rules. Each cell gets a pseudo-count s (``smoothing``, a Dirichlet prior), so no answer is impossible; EM climbs
the log-likelihood plus s · (Σ log π + Σ log Θ), and that is the trace.

    fit = fit_dawid_skene(votes, classes=3)
    fit.posterior, fit.prior, fit.confusion[annotator, truth, answer]
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from understudy.errors import UnderstudyError


@dataclass(frozen=True, eq=False)
class DawidSkene:
    """The fitted model. Apply it to further rows of the same annotators with ``posterior_of``."""

    #: π, ``(C,)``.
    prior: Tensor
    #: Θ, ``(A, C, C)``: annotator, truth, answer (one more answer where abstentions count).
    confusion: Tensor
    #: ``(N, C)`` of the rows it was fitted on; rows without a vote hold the prior.
    posterior: Tensor
    #: After every E-step, with the smoothing's share; never decreases.
    log_likelihood: list[float]
    converged: bool

    @property
    def abstentions(self) -> bool:
        return self.confusion.shape[2] > self.confusion.shape[1]

    def posterior_of(self, votes: Tensor) -> Tensor:
        """The truth's chances for other rows, ``(n, C)`` float64."""
        return _expect(votes, self.prior.log(), self.confusion.log())[0]


def vote_shares(votes: Tensor, classes: int) -> Tensor:
    """The share of the votes each class got, ``(n, C)`` float64; all zero where there is no vote."""
    counts = torch.zeros(len(votes), classes + 1, dtype=torch.float64)
    # Abstentions fall into a column of their own, which is cut off.
    answers = torch.where(votes < 0, classes, votes.long())
    counts.scatter_add_(1, answers, torch.ones((), dtype=torch.float64).expand(answers.shape))
    counts = counts[:, :classes]
    return counts / counts.sum(1, keepdim=True).clamp(min=1)


# Votes an annotator must have given before "always the same class" is taken for a rule, not for chance.
_HABIT = 10


def mostly_rules(votes: Tensor) -> bool:
    """Do most votes come from annotators that only ever name one class (and sometimes abstain)?"""
    answered = votes >= 0
    counts = answered.sum(0)
    lowest = torch.where(answered, votes.long(), torch.iinfo(torch.long).max).amin(0)
    rule = (lowest == votes.long().amax(0)) & (counts >= _HABIT) & (counts < len(votes))
    return bool(2 * counts[rule].sum() > counts.sum())


def fit_dawid_skene(
    votes: Tensor,
    classes: int,
    *,
    smoothing: float = 0.01,
    abstentions: bool | None = None,
    tolerance: float = 1e-6,
    most_steps: int = 1000,
) -> DawidSkene:
    """EM until the objective grows by less than ``tolerance`` per row that has a vote.

    ``abstentions``: whether abstaining counts as an answer; None decides by ``mostly_rules``.
    """
    spoken = votes[(votes >= 0).any(1)]
    fit = fit_counts(
        lambda model: VoteCounts.of(spoken, classes, model), smoothing=smoothing, abstentions=abstentions,
        tolerance=tolerance, most_steps=most_steps,
    )  # fmt: skip
    return replace(fit, posterior=fit.posterior_of(votes))


@dataclass(frozen=True, eq=False)
class VoteCounts:
    """What EM needs to know of some rows: sums, which those of other rows are added to."""

    #: Σ_i T_ij, ``(C,)``.
    prior: Tensor
    #: Σ_i T_ij [v_ia = l], ``(A, C + 1, C)``: annotator, answer (the last: abstaining), truth.
    counts: Tensor
    #: The log-likelihood of the rows, by the model that T is of.
    evidence: float
    #: With a vote.
    rows: int
    #: Votes of each annotator, ``(A,)``, and the lowest and highest class it named.
    answered: Tensor
    lowest: Tensor
    highest: Tensor

    @classmethod
    def of(cls, votes: Tensor, classes: int, model: DawidSkene | None) -> "VoteCounts":
        """By the posteriors of a model; None: by the vote shares that EM starts from."""
        answered = votes >= 0
        votes, answered = votes[answered.any(1)], answered[answered.any(1)]
        if model is None:
            posterior, evidence = vote_shares(votes, classes), torch.zeros(0)
        else:
            posterior, evidence = _expect(votes, model.prior.log(), model.confusion.log())
        counts = posterior.new_zeros(votes.shape[1], classes + 1, classes)
        for annotator, answers in enumerate(votes.unbind(1)):
            counts[annotator].index_add_(0, torch.where(answers < 0, classes, answers.long()), posterior)
        named = torch.where(answered, votes.long(), classes)
        lowest = torch.cat([named, torch.full((1, votes.shape[1]), classes)]).amin(0)
        highest = torch.cat([votes.long(), torch.full((1, votes.shape[1]), -1)]).amax(0)
        return cls(posterior.sum(0), counts, float(evidence.sum()), len(votes), answered.sum(0), lowest, highest)

    def __add__(self, other: "VoteCounts") -> "VoteCounts":
        return VoteCounts(
            self.prior + other.prior, self.counts + other.counts, self.evidence + other.evidence,
            self.rows + other.rows, self.answered + other.answered,
            torch.minimum(self.lowest, other.lowest), torch.maximum(self.highest, other.highest),
        )  # fmt: skip

    def mostly_rules(self) -> bool:
        """``mostly_rules`` of all these rows."""
        rule = (self.lowest == self.highest) & (self.answered >= _HABIT) & (self.answered < self.rows)
        return bool(2 * self.answered[rule].sum() > self.answered.sum())

    def maximised(self, smoothing: float, abstentions: bool) -> tuple[Tensor, Tensor]:
        """log π ``(C,)`` and log Θ ``(A, C, C)``."""
        prior = self.prior + smoothing
        counts = self.counts if abstentions else self.counts[:, : len(prior)]
        confusion = counts.transpose(1, 2) + smoothing
        return (prior / prior.sum()).log(), (confusion / confusion.sum(2, keepdim=True)).log()


def fit_counts(
    counted: Callable[[DawidSkene | None], VoteCounts],
    *,
    smoothing: float = 0.01,
    abstentions: bool | None = None,
    tolerance: float = 1e-6,
    most_steps: int = 1000,
) -> DawidSkene:
    """EM on rows that only ``counted`` sees, some of them here, others there; without their posterior.

    ``counted(model)``: what the rows come to by a model (None: by the vote shares).
    """
    if not smoothing > 0:
        raise UnderstudyError(f"smoothing={smoothing} must be greater than 0, or an unseen answer would be impossible")
    known = counted(None)
    if not known.rows:
        raise UnderstudyError("no row has a vote (all are −1); Dawid–Skene needs some")
    abstentions = known.mostly_rules() if abstentions is None else abstentions
    trace: list[float] = []
    converged = False
    no_rows = torch.zeros(0, len(known.prior), dtype=torch.float64)
    while not converged and len(trace) < most_steps:
        log_prior, log_confusion = known.maximised(smoothing, abstentions)
        model = DawidSkene(log_prior.exp(), log_confusion.exp(), no_rows, trace, False)
        known = counted(model)
        trace.append(known.evidence + smoothing * float(log_prior.sum() + log_confusion.sum()))
        converged = len(trace) > 1 and trace[-1] - trace[-2] <= tolerance * known.rows
    return replace(model, converged=converged)


def _expect(votes: Tensor, log_prior: Tensor, log_confusion: Tensor) -> tuple[Tensor, Tensor]:
    """The rows' posteriors ``(n, C)`` and log-likelihoods ``(n,)``."""
    annotators, classes, answers = log_confusion.shape
    # One lookup row per answer, the last for abstaining: zero where that says nothing.
    says = log_confusion.transpose(1, 2)
    if answers == classes:
        says = torch.cat([says, says.new_zeros(annotators, 1, classes)], dim=1)
    joint = log_prior.repeat(len(votes), 1)
    for annotator, given in enumerate(votes.unbind(1)):
        joint += says[annotator].index_select(0, torch.where(given < 0, classes, given.long()))
    evidence = joint.logsumexp(1)
    return (joint - evidence.unsqueeze(1)).exp(), evidence
