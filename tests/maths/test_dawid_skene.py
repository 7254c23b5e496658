"""EM by hand, by a slow loop, and what must hold for any votes."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from understudy.errors import UnderstudyError
from understudy.maths import annotators
from understudy.maths.annotators import fit_dawid_skene, mostly_rules, vote_shares


def _crowd(seed: int, rows: int, skills: list[float], classes: int = 3, abstain: float = 0.3) -> tuple[Tensor, Tensor]:
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, classes, rows)
    votes = np.empty((rows, len(skills)), dtype=np.int64)
    for a, skill in enumerate(skills):
        wrong = (truth + rng.integers(1, classes, rows)) % classes
        votes[:, a] = np.where(rng.random(rows) < skill, truth, wrong)
    votes[rng.random(votes.shape) < abstain] = -1
    return torch.tensor(votes), torch.tensor(truth)


def _slow(votes: list[list[int]], classes: int, smoothing: float, steps: int) -> tuple[np.ndarray, np.ndarray, float]:
    """The definition, one row, annotator and class at a time, without logarithms."""
    posterior = [[row.count(j) / sum(v >= 0 for v in row) for j in range(classes)] for row in votes]
    annotators = len(votes[0])
    total = 0.0
    for _ in range(steps):
        prior = [smoothing + sum(p[j] for p in posterior) for j in range(classes)]
        prior = [value / sum(prior) for value in prior]
        confusion = np.full((annotators, classes, classes), smoothing)
        for row, p in zip(votes, posterior, strict=True):
            for a, vote in enumerate(row):
                for j in range(classes):
                    if vote >= 0:
                        confusion[a, j, vote] += p[j]
        confusion /= confusion.sum(2, keepdims=True)
        total = smoothing * (np.log(prior).sum() + np.log(confusion).sum())
        for i, row in enumerate(votes):
            joint = list(prior)
            for a, vote in enumerate(row):
                for j in range(classes):
                    joint[j] *= confusion[a, j, vote] if vote >= 0 else 1.0
            total += math.log(sum(joint))
            posterior[i] = [value / sum(joint) for value in joint]
    return np.array(posterior), confusion, total


def test_two_steps_by_hand() -> None:
    """Rows (0, 0) and (0, 1), two classes, pseudo-count 1.

    Shares: row 1 (1, 0), row 2 (½, ½). M: π ∝ (1 + 3/2, 1 + 1/2) = (5/8, 3/8).
    Annotator 0 said 0 twice: Θ₀[0] ∝ (1 + 3/2, 1) → 5/7; Θ₀[1] ∝ (1 + 1/2, 1) → 3/5.
    Annotator 1 said 0, 1: Θ₁[0] ∝ (1 + 1, 1 + 1/2) → (4/7, 3/7); Θ₁[1] ∝ (1, 1 + 1/2) → (2/5, 3/5).
    E, row 1: 5/8 · 5/7 · 4/7 : 3/8 · 3/5 · 2/5; row 2: 5/8 · 5/7 · 3/7 : 3/8 · 3/5 · 3/5.
    """
    votes = torch.tensor([[0, 0], [0, 1]])
    fit = fit_dawid_skene(votes, 2, smoothing=1.0, most_steps=1)
    assert fit.prior.tolist() == pytest.approx([5 / 8, 3 / 8])
    assert fit.confusion[0].tolist() == [pytest.approx([5 / 7, 2 / 7]), pytest.approx([3 / 5, 2 / 5])]
    assert fit.confusion[1].tolist() == [pytest.approx([4 / 7, 3 / 7]), pytest.approx([2 / 5, 3 / 5])]
    joint = [(100 / 392, 18 / 200), (75 / 392, 27 / 200)]
    expected = [j[0] / sum(j) for j in joint]
    assert fit.posterior[:, 0].tolist() == pytest.approx(expected)
    cells = [5 / 8, 3 / 8, 5 / 7, 2 / 7, 3 / 5, 2 / 5, 4 / 7, 3 / 7, 2 / 5, 3 / 5]
    assert fit.log_likelihood == [pytest.approx(sum(math.log(sum(j)) for j in joint) + sum(map(math.log, cells)))]
    assert not fit.converged
    # The second M-step reads the first posteriors.
    again = fit_dawid_skene(votes, 2, smoothing=1.0, most_steps=2)
    assert again.prior[0].item() == pytest.approx((1 + sum(expected)) / 4)
    assert again.confusion[1, 0, 0].item() == pytest.approx((1 + expected[0]) / (2 + sum(expected)))


@pytest.mark.parametrize("steps", [1, 2, 7])
def test_equals_a_slow_loop(steps: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(annotators, "TOLERANCE", 0.0)
    votes, _ = _crowd(3, 40, [0.9, 0.6, 0.5, 0.8])
    votes = votes[(votes >= 0).any(1)]
    fit = fit_dawid_skene(votes, 3, smoothing=0.1, abstentions=False, most_steps=steps)
    posterior, confusion, total = _slow(votes.tolist(), 3, 0.1, steps)
    np.testing.assert_allclose(fit.posterior.numpy(), posterior, atol=1e-10)
    np.testing.assert_allclose(fit.confusion.numpy(), confusion, atol=1e-10)
    assert fit.log_likelihood[-1] == pytest.approx(total)


@given(st.integers(0, 10_000), st.integers(1, 30), st.integers(1, 5), st.integers(2, 4), st.booleans())
@settings(max_examples=30)
def test_always(seed: int, rows: int, annotators: int, classes: int, abstentions: bool) -> None:
    rng = np.random.default_rng(seed)
    votes = torch.tensor(rng.integers(-1, classes, (rows, annotators)))
    votes[0, 0] = 0
    fit = fit_dawid_skene(votes, classes, abstentions=abstentions)
    assert (np.diff(fit.log_likelihood) >= -1e-9 * rows).all()
    torch.testing.assert_close(fit.posterior.sum(1), torch.ones(rows).double())
    torch.testing.assert_close(fit.confusion.sum(2), torch.ones(annotators, classes).double())
    assert fit.prior.sum().item() == pytest.approx(1)
    assert fit.posterior_of(votes).equal(fit.posterior)
    order = torch.tensor(rng.permutation(rows))
    torch.testing.assert_close(
        fit_dawid_skene(votes[order], classes, abstentions=abstentions).posterior, fit.posterior[order],
        atol=1e-6, rtol=0,
    )  # fmt: skip


def test_abstentions_tell_nothing() -> None:
    """Rows without a vote change no estimate and hold the prior."""
    votes, _ = _crowd(0, 200, [0.9, 0.7, 0.6])
    silent = torch.full((50, 3), -1)
    fit = fit_dawid_skene(votes, 3, abstentions=False)
    more = fit_dawid_skene(torch.cat([votes, silent]), 3, abstentions=False)
    torch.testing.assert_close(more.confusion, fit.confusion)
    torch.testing.assert_close(more.posterior[-1], fit.prior)
    # An annotator who never answers is as good as absent.
    idle = fit_dawid_skene(torch.cat([votes, torch.full((200, 1), -1)], 1), 3, abstentions=False)
    torch.testing.assert_close(idle.posterior, fit.posterior)


def test_finds_the_skilled_and_beats_the_majority() -> None:
    skills = [0.95, 0.9, 0.4, 0.4, 0.4]
    votes, truth = _crowd(1, 3000, skills, abstain=0.2)
    fit = fit_dawid_skene(votes, 3)
    assert fit.confusion.shape[2] == fit.confusion.shape[1], "abstaining is no answer"
    assert fit.converged
    found = fit.confusion.diagonal(dim1=1, dim2=2).mean(1)
    np.testing.assert_allclose(found.numpy(), skills, atol=0.05)
    spoken = (votes >= 0).any(1)
    by_model, by_majority = (
        (p.argmax(1) == truth)[spoken].double().mean() for p in (fit.posterior, vote_shares(votes, 3))
    )
    assert by_model > by_majority + 0.05


def test_one_class_rules_tell_by_firing() -> None:
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 2, 2000)
    names = [0, 1, 0, 1, 1]
    # Each rule fires on 60% of its own class and 15% of the other.
    fires = [rng.random(2000) < np.where(truth == name, 0.6, 0.15) for name in names]
    votes = torch.tensor(np.stack([np.where(f, name, -1) for f, name in zip(fires, names, strict=True)], 1))
    assert mostly_rules(votes)
    fit = fit_dawid_skene(votes, 2)
    assert fit.confusion.shape == (5, 2, 3)
    spoken = (votes >= 0).any(1)
    right = (fit.posterior.argmax(1) == torch.tensor(truth))[spoken].double().mean()
    assert right > 0.85
    deaf = fit_dawid_skene(votes, 2, abstentions=False)
    assert (deaf.posterior.argmax(1) == torch.tensor(truth))[spoken].double().mean() < 0.7


def test_a_crowd_is_no_rule() -> None:
    assert not mostly_rules(_crowd(0, 500, [0.9, 0.6, 0.5])[0])


def test_shares_by_hand() -> None:
    votes = torch.tensor([[0, 1, 1, -1], [2, -1, -1, -1], [0, 1, -1, -1], [-1, -1, -1, -1]])
    expected = [[1 / 3, 2 / 3, 0], [0, 0, 1], [0.5, 0.5, 0], [0, 0, 0]]
    torch.testing.assert_close(vote_shares(votes, 3), torch.tensor(expected).double())


def test_refused() -> None:
    with pytest.raises(UnderstudyError, match="smoothing"):
        fit_dawid_skene(torch.tensor([[0]]), 2, smoothing=0.0)
    with pytest.raises(UnderstudyError, match="no row has a vote"):
        fit_dawid_skene(torch.tensor([[-1]]), 2)
