"""Several annotators and no gold: who is right how often (Dawid–Skene), and how far they agree (Krippendorff's alpha).

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

*Agreement* beyond what chance would bring, for nominal data with gaps: Krippendorff, "Computing Krippendorff's
Alpha-Reliability" (2011). Row u got m_u answers, n_uc of them c. Every ordered pair of answers to one row is a
coincidence, weighed so that a row counts as much as it has answers:

    o_ck = Σ_u n_uc (n_uk − [c = k]) / (m_u − 1)      over rows with m_u ≥ 2
    n_c = Σ_k o_ck,   n = Σ_c n_c
    α = 1 − D_o / D_e = 1 − (n − 1) (n − Σ_c o_cc) / (n² − Σ_c n_c²)

1: they always agree; 0: as if answers were dealt at random; below: worse than that. Where only one class was ever named
there is nothing that chance could have got wrong, and alpha is not defined.

    fit = fit_dawid_skene(votes, classes=3)
    fit.posterior, fit.prior, fit.confusion[annotator, truth, answer]
    krippendorff_alpha(votes, classes=5)          # (N, A) class numbers, −1: no answer
"""

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

    def posterior_of(self, votes: Tensor) -> Tensor:
        """The truth's chances for other rows, ``(n, C)`` float64."""
        return _expect(votes, self.prior.log(), self.confusion.log())[0]


def count_votes(votes: Tensor, classes: int) -> Tensor:
    """How many votes each class got, ``(n, C)`` float64."""
    counts = torch.zeros(len(votes), classes + 1, dtype=torch.float64)
    # Abstentions fall into a column of their own, which is cut off.
    answers = torch.where(votes < 0, classes, votes.long())
    counts.scatter_add_(1, answers, torch.ones((), dtype=torch.float64).expand(answers.shape))
    return counts[:, :classes]


def vote_shares(votes: Tensor, classes: int) -> Tensor:
    """The share of the votes each class got, ``(n, C)`` float64; all zero where there is no vote."""
    counts = count_votes(votes, classes)
    return counts / counts.sum(1, keepdim=True).clamp(min=1)


def krippendorff_alpha(votes: Tensor, classes: int) -> float | None:
    """None where no row has two answers, or only one class was named."""
    counts = count_votes(votes, classes)
    counts = counts[counts.sum(1) >= 2]
    size = counts.sum(1, keepdim=True)  # m_u
    agreeing = float((counts * (counts - 1) / (size - 1)).sum())  # Σ_c o_cc
    by_class = counts.sum(0)  # n_c: the pairs of a row add up to its answers
    total = float(by_class.sum())
    by_chance = total**2 - float((by_class**2).sum())
    return 1 - (total - 1) * (total - agreeing) / by_chance if by_chance > 0 else None


# Votes an annotator must have given before "always the same class" is taken for a rule, not for chance.
_HABIT = 10
TOLERANCE = 1e-6


def mostly_rules(votes: Tensor) -> bool:
    """Do most votes come from annotators that only ever name one class (and sometimes abstain)?"""
    answered = votes >= 0
    counts = answered.sum(0)
    lowest = torch.where(answered, votes.long(), torch.iinfo(torch.long).max).amin(0)
    rule = (lowest == votes.long().amax(0)) & (counts >= _HABIT) & (counts < len(votes))
    return bool(2 * counts[rule].sum() > counts.sum())


def fit_dawid_skene(
    votes: Tensor, classes: int, *, smoothing: float = 0.01, abstentions: bool | None = None, most_steps: int = 1000
) -> DawidSkene:
    """EM until the objective grows by less than ``TOLERANCE`` per row that has a vote.

    ``abstentions``: whether abstaining counts as an answer; None decides by ``mostly_rules``.
    """
    if not smoothing > 0:
        raise UnderstudyError(f"smoothing={smoothing} must be greater than 0, or an unseen answer would be impossible")
    spoken = votes[(votes >= 0).any(1)]
    if not len(spoken):
        raise UnderstudyError("no row has a vote (all are −1); Dawid–Skene needs some")
    abstentions = mostly_rules(spoken) if abstentions is None else abstentions
    posterior = vote_shares(spoken, classes)
    trace: list[float] = []
    converged = False
    while not converged and len(trace) < most_steps:
        log_prior, log_confusion = _maximise(spoken, posterior, smoothing, abstentions)
        prior, confusion = log_prior.exp(), log_confusion.exp()
        posterior, evidence = _expect(spoken, prior.log(), confusion.log())
        trace.append(float(evidence.sum()) + smoothing * float(log_prior.sum() + log_confusion.sum()))
        converged = len(trace) > 1 and trace[-1] - trace[-2] <= TOLERANCE * len(spoken)
    fit = DawidSkene(prior, confusion, posterior, trace, converged)
    return replace(fit, posterior=fit.posterior_of(votes))


def _maximise(votes: Tensor, posterior: Tensor, smoothing: float, abstentions: bool) -> tuple[Tensor, Tensor]:
    """log π ``(C,)`` and log Θ ``(A, C, C)``, or ``(A, C, C + 1)`` where abstaining is an answer."""
    classes = posterior.shape[1]
    counts = posterior.new_zeros(votes.shape[1], classes + 1, classes)  # annotator, answer, truth
    for annotator, answers in enumerate(votes.unbind(1)):
        counts[annotator].index_add_(0, torch.where(answers < 0, classes, answers.long()), posterior)
    prior = posterior.sum(0) + smoothing
    confusion = (counts if abstentions else counts[:, :classes]).transpose(1, 2) + smoothing
    return (prior / prior.sum()).log(), (confusion / confusion.sum(2, keepdim=True)).log()


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
