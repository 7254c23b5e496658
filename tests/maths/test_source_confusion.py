"""Sources counted on gold: by hand, by explicit loops, beside Dawid–Skene, and without leaks."""

import math

import numpy as np
import pytest
import torch
from torch import Tensor

import understudy.maths.source_confusion as module
from understudy.errors import UnderstudyError
from understudy.maths.annotators import DawidSkene, fit_dawid_skene
from understudy.maths.folds import deal_folds, random_folds
from understudy.maths.source_confusion import (
    Sources,
    cross_likelihood,
    cross_posterior,
    fit_sources,
    fit_votes,
    without_each,
)


def _crowd(seed: int, rows: int, skills: list[float], classes: int = 3, abstain: float = 0.3) -> tuple[Tensor, Tensor]:
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, classes, rows)
    wrong = (truth[:, None] + rng.integers(1, classes, (rows, len(skills)))) % classes
    votes = np.where(rng.random((rows, len(skills))) < np.array(skills), truth[:, None], wrong)
    votes[rng.random(votes.shape) < abstain] = -1
    return torch.tensor(votes), torch.tensor(truth)


def _slow(votes: list[list[int]], y: list[int], classes: int, m: float, row: list[int]) -> list[float]:
    """log P(row | c) + log π_c for every c, from the definition: one source, class and answer at a time."""
    all_votes = [(vote, truth) for given, truth in zip(votes, y, strict=True) for vote in given if vote >= 0]
    overall = (sum(vote == truth for vote, truth in all_votes) + 1) / (len(all_votes) + classes)
    joint = []
    for c in range(classes):
        chance = (y.count(c) + 1) / (len(y) + classes)
        for j, vote in enumerate(row):
            mine = [(given[j], truth) for given, truth in zip(votes, y, strict=True)]
            spoken = [pair for pair in mine if pair[0] >= 0]
            accuracy = (sum(a == b for a, b in spoken) + m * overall) / (len(spoken) + m)
            here = [a for a, b in spoken if b == c]
            speaks = (len(here) + m * (len(spoken) + 0.5) / (len(y) + 1)) / (y.count(c) + m)
            if len(spoken) == len(y):
                speaks = 1.0
            if vote < 0:
                chance *= 1.0 if len(spoken) == len(y) else 1 - speaks
            else:
                expected = accuracy if vote == c else (1 - accuracy) / (classes - 1)
                chance *= speaks * (here.count(vote) + m * expected) / (len(here) + m)
        joint.append(math.log(chance))
    return joint


def test_one_source_by_hand() -> None:
    """Truth 0, 0, 0, 1; the source says 0, 0, nothing, 0; strength 2.

    It spoke 3 times, right twice: overall (2 + 1) / (3 + 2) = 0.6, accuracy (2 + 2 · 0.6) / (3 + 2) = 0.64, coverage
    3.5 / 5 = 0.7. Speaks: (2 + 1.4) / (3 + 2) = 0.68 on class 0, (1 + 1.4) / (1 + 2) = 0.8 on class 1. Says 0 if it
    speaks: (2 + 2 · 0.64) / (2 + 2) = 0.82 and (1 + 2 · 0.36) / (1 + 2) = 1.72 / 3.
    """
    fit = fit_sources(torch.tensor([[0], [0], [-1], [0]]), torch.tensor([0, 0, 0, 1]), 2, strength=2.0)
    assert fit.confusion[0, 0].tolist() == pytest.approx([0.68 * 0.82, 0.68 * 0.18, 0.32])
    assert fit.confusion[0, 1].tolist() == pytest.approx([0.8 * 1.72 / 3, 0.8 * 1.28 / 3, 0.2])
    assert fit.prior.tolist() == pytest.approx([4 / 6, 2 / 6])
    posterior = fit.posterior_of(torch.tensor([[-1]]))[0]
    assert posterior[0].item() == pytest.approx(4 * 0.32 / (4 * 0.32 + 2 * 0.2))


def test_a_hard_teacher_is_one_source_that_always_speaks() -> None:
    """Truth 0, 0, 1, 1 called 0, 1, 1, 1: overall (3 + 1) / (4 + 2) = 2/3, accuracy (3 + 10 · 2/3) / 14 = 29/42."""
    fit = fit_sources(torch.tensor([[0], [1], [1], [1]]), torch.tensor([0, 0, 1, 1]), 2)
    a = 29 / 42
    expected = [[(1 + 10 * a) / 12, (1 + 10 * (1 - a)) / 12], [10 * (1 - a) / 12, (2 + 10 * a) / 12]]
    torch.testing.assert_close(fit.confusion[0, :, :2], torch.tensor(expected, dtype=torch.float64))
    # It was never seen to abstain: where it does, nothing is said.
    assert fit.log_likelihood(torch.tensor([[-1]])).tolist() == [[0.0, 0.0]]


@pytest.mark.parametrize("strength", [0.5, 10.0])
def test_equals_explicit_bayes(strength: float) -> None:
    votes, y = _crowd(1, 40, [0.9, 0.5, 0.7, 0.6])
    votes[:, 1] = torch.where(votes[:, 1] < 0, 0, votes[:, 1])  # always speaks
    votes[:, 2] = -1  # never does
    asked = torch.tensor([[0, 1, 2, -1], [-1, -1, -1, -1], [2, 2, -1, 0]])
    fit = fit_sources(votes, y, 3, strength=strength)
    expected = [_slow(votes.tolist(), y.tolist(), 3, strength, row) for row in asked.tolist()]
    got = fit.log_likelihood(asked) + fit.prior.log()
    torch.testing.assert_close(got, torch.tensor(expected, dtype=torch.float64))
    assert got.dtype == torch.float64


def test_agrees_with_dawid_skene() -> None:
    """The same confusions give the same posteriors; and with next to no smoothing, known truth is its M-step."""
    votes, y = _crowd(2, 300, [0.9, 0.6, 0.4])
    fit = fit_sources(votes, y, 3, strength=1e-9)
    theirs = DawidSkene(fit.prior, fit.confusion, torch.empty(0), [], True)
    torch.testing.assert_close(fit.posterior_of(votes), theirs.posterior_of(votes))
    # One all-knowing annotator more makes the truth known to Dawid–Skene too.
    told = torch.cat([votes, y.unsqueeze(1).expand(-1, 30)], dim=1)
    em = fit_dawid_skene(told, 3, smoothing=1e-9, abstentions=True)
    torch.testing.assert_close(fit.confusion, em.confusion[:3], atol=1e-6, rtol=0)


def test_the_posterior_is_sharpened_as_a_whole() -> None:
    fit = Sources(
        torch.tensor([0.8, 0.2]).double(), torch.tensor([[[0.5, 0.4, 0.1], [0.1, 0.8, 0.1]]]).double(), 1, 0.5
    )
    assert fit.posterior_of(torch.tensor([[1]]))[0, 0].item() == pytest.approx(0.32**0.5 / (0.32**0.5 + 0.16**0.5))


def test_one_fold_and_a_few_rows_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """The losses by powers of one exponential are those of a log-softmax for each sharpness."""
    votes, y = _crowd(3, 200, [0.6, 0.6, 0.5], classes=4)
    joint, fit = cross_likelihood(votes, y, 4, with_prior=True), fit_votes(votes, y, 4)
    losses = [-(b * joint).log_softmax(1).gather(1, y[:, None]).sum() for b in module.SHARPNESS]
    monkeypatch.setattr(module, "_BUDGET", 1)
    monkeypatch.setattr(module, "_POWERS", 30)
    torch.testing.assert_close(module._losses(joint, y), torch.stack(losses), rtol=1e-12, atol=0)
    assert cross_likelihood(votes, y, 4, with_prior=True).equal(joint)
    again = fit_votes(votes, y, 4)
    assert (again.strength, again.sharpness) == (fit.strength, fit.sharpness)


def test_copies_of_one_source_are_seen_through() -> None:
    votes, y = _crowd(3, 400, [0.7, 0.6], abstain=0.0)
    copied = torch.cat([votes[:, :1].expand(-1, 12), votes[:, 1:]], dim=1)
    assert fit_votes(copied, y, 3).sharpness <= 0.2
    assert fit_votes(votes, y, 3).sharpness >= 0.8


def test_every_row_is_judged_by_the_other_folds() -> None:
    votes, y = _crowd(4, 60, [0.8, 0.6, 0.5])
    fold = deal_folds(y)
    dealt = torch.bincount(fold * 3 + y, minlength=15).view(5, 3)
    assert bool((dealt.amax(0) - dealt.amin(0) <= 1).all())
    for number in range(5):
        mine = fold == number
        torch.testing.assert_close(
            cross_likelihood(votes, y, 3)[mine], fit_sources(votes[~mine], y[~mine], 3).log_likelihood(votes[mine])
        )
        mine = random_folds(60) == number
        torch.testing.assert_close(
            cross_posterior(votes, y, 3)[mine], fit_votes(votes[~mine], y[~mine], 3).posterior_of(votes[mine])
        )


def test_a_rows_posterior_does_not_know_its_truth() -> None:
    """Nor does its fold: dealt by class, 100 rows of two classes are right on 52.6% where the votes tell nothing."""
    votes, y = _crowd(4, 60, [0.8, 0.6, 0.5])
    posterior = cross_posterior(votes, y, 3)
    for row in range(0, 60, 6):
        other = torch.where(torch.arange(60) == row, (y + 1) % 3, y)
        assert cross_posterior(votes, other, 3)[row].equal(posterior[row])


def test_random_truth_is_not_predicted() -> None:
    """12 sources, 60 rows, votes that have nothing to do with the truth: what was not cross-fitted would look good."""
    plain, crossed = [], []
    for seed in range(8):
        rng = torch.Generator().manual_seed(seed)
        votes, y = torch.randint(-1, 2, (60, 12), generator=rng), torch.arange(60) % 2
        plain.append(float((fit_sources(votes, y, 2).posterior_of(votes).argmax(1) == y).double().mean()))
        crossed.append(float((cross_posterior(votes, y, 2).argmax(1) == y).double().mean()))
    assert np.mean(plain) > 0.65
    assert np.mean(crossed) < 0.5 + 3 * 0.5 / 480**0.5


def test_few_rows_and_no_smoothing() -> None:
    one = fit_votes(torch.tensor([[0, -1]]), torch.tensor([0]), 2)
    assert bool(one.posterior_of(torch.tensor([[1, 1], [-1, -1]])).isfinite().all())
    with pytest.raises(UnderstudyError, match="strength"):
        fit_sources(torch.tensor([[0]]), torch.tensor([0]), 2, strength=0.0)


def test_everybody_but_one() -> None:
    votes, y = _crowd(5, 90, [0.9, 0.6, 0.5])
    loss, predicted, fold = without_each(votes, y, 3)
    mine = fold == 2
    assert loss.shape == predicted.shape == (5, 90, 4) and fold.equal(random_folds(90))
    fit = fit_votes(votes[~mine], y[~mine], 3)
    others = Sources(fit.prior, fit.confusion[1:], fit.strength, fit.sharpness)
    for column, posterior in enumerate((fit.posterior_of(votes), others.posterior_of(votes[:, 1:]))):
        torch.testing.assert_close(loss[2, :, column], -posterior.gather(1, y.unsqueeze(1)).squeeze(1).log())
        assert predicted[2, :, column].equal(posterior.argmax(1))
    assert loss[:, :, 1].mean() > loss[:, :, 0].mean()


def test_votes_that_tell_nothing_are_right_as_often_as_by_chance() -> None:
    """Folds dealt by class would find 56%: the larger class of gold, as often as it is larger."""
    shares = []
    for seed in range(40):
        votes, y = torch.randint(0, 2, (2, 30, 3), generator=torch.Generator().manual_seed(seed))
        _, predicted, fold = without_each(votes, y[:, 0], 2)
        shares.append(float((predicted[fold, torch.arange(30), 0] == y[:, 0]).double().mean()))
    assert abs(np.mean(shares) - 0.5) < 3 * np.std(shares) / 40**0.5
