"""``inference/combination.py``: beside a fit by scipy in float64, what a row's own fit has seen, the pool's counts."""

import numpy as np
import torch
from scipy.optimize import minimize
from scipy.special import logsumexp

from understudy.inference.combination import PoolCounts, fit_combination
from understudy.maths.folds import deal_folds
from understudy.maths.opinion_pool import fit_scalar_pool
from understudy.maths.source_confusion import STRENGTHS, cross_likelihood, fit_sources


def made(rows: int, classes: int, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """A student's probabilities, a teacher that is right on 70%, the truth."""
    rng = np.random.default_rng(seed)
    y = rng.integers(classes, size=rows)
    logits = rng.normal(size=(rows, classes)) + 1.5 * np.eye(classes)[y]
    said = np.where(rng.random(rows) < 0.7, y, (y + 1) % classes)
    return torch.from_numpy(logits).softmax(1), torch.from_numpy(said), torch.from_numpy(y)


def test_confusions_are_counts_shrunk_towards_the_pools() -> None:
    votes, y = torch.tensor([[0], [0], [1], [1]]), torch.tensor([0, 0, 0, 1])
    pool = torch.tensor([[[80.0, 20.0], [10.0, 90.0]]])
    found = fit_sources(votes, y, 2, strength=10.0, others=pool).confusion[0, :, :2]
    # Accuracy on gold: (3 + 10 · 4/6) / (4 + 10) = 0.690; the pool's row 0 with 10 rows of it: (80 + 6.90) / 110.
    expected = (80 + 10 * (3 + 10 * 4 / 6) / 14) / 110
    assert abs(float(found[0, 0]) - (2 + 10 * expected) / 13) < 1e-12
    torch.testing.assert_close(found.sum(1), torch.ones(2).double())


def test_weights_and_biases_are_those_of_scipy() -> None:
    probs, said, y = made(240, 3)
    fit = fit_combination(probs.log(), said, y).combination
    labels = y.numpy()

    def solve(strength: float) -> tuple[float, np.ndarray]:
        likelihood = cross_likelihood(said.unsqueeze(1), y, 3, deal_folds(y), strength=strength).numpy()
        scores = np.stack([likelihood, np.log(np.maximum(probs.numpy(), 1e-4))])
        scores -= scores.mean(2, keepdims=True)

        def loss(values: np.ndarray, ridge: float = 1.0) -> float:
            log_q = np.einsum("m,mnc->nc", values[:2], scores) + values[2:]
            log_q -= logsumexp(log_q, axis=1, keepdims=True)
            pull = ((values[:2] - 0.5) ** 2).sum() + 3 * (values[2:] ** 2).sum()
            return -log_q[np.arange(240), labels].mean() + ridge * pull / 240

        best = minimize(loss, np.array([0.5, 0.5, 0, 0, 0]), method="BFGS", options={"gtol": 1e-9}).x
        return loss(np.array([1.0, 1, 0, 0, 0]), ridge=0), best

    solved = {strength: solve(strength) for strength in STRENGTHS}
    strength = min(solved, key=lambda each: solved[each][0])
    np.testing.assert_allclose(fit.weights, solved[strength][1][:2], atol=2e-4)
    np.testing.assert_allclose(fit.bias, solved[strength][1][2:], atol=2e-4)
    counted = fit_sources(said.unsqueeze(1), y, 3, strength=strength).confusion[0, :, :3]
    np.testing.assert_allclose(np.exp(fit.log_likelihood), counted)


def test_held_out_rows_do_not_see_their_own_truth() -> None:
    """Where neither tells anything, a fit that saw the rows would look better than the classes' shares."""
    rng = np.random.default_rng(0)
    probs = torch.from_numpy(rng.dirichlet(np.ones(8), 200))
    said, y = (torch.from_numpy(rng.integers(8, size=200)) for _ in range(2))
    fit, _, held_out, *_ = fit_combination(probs.log(), said, y)
    loss = -held_out.log().gather(1, y.unsqueeze(1)).mean()
    assert loss > np.log(8) - 0.02
    scores = torch.stack([torch.from_numpy(fit.log_likelihood.T)[said], probs.clamp(min=1e-4).log()])
    seen = -fit_scalar_pool(scores, y)(scores).gather(1, y.unsqueeze(1)).mean()
    assert seen < loss - 0.1


def test_soft_labels_count_as_labels_and_as_probabilities() -> None:
    probs, _, y = made(300, 3, seed=1)
    sure = torch.rand(300, generator=torch.Generator().manual_seed(0)).double()
    # Its confidence is its accuracy: wrong where it is unsure.
    label = torch.where(torch.rand(300, generator=torch.Generator().manual_seed(1)) < sure, y, (y + 1) % 3)
    soft = torch.full((300, 3), 0.0).double().scatter_(1, label.unsqueeze(1), sure.unsqueeze(1))
    soft = soft + (1 - soft.sum(1, keepdim=True)) / 3
    losses = []
    for teacher in (label, soft):
        fit, _, held_out, *_ = fit_combination(probs.log(), teacher, y)
        losses.append(float(-held_out.log().gather(1, y.unsqueeze(1)).mean()))
    assert len(fit.weights) == 3 and losses[1] < losses[0]


def test_the_pools_counts_help_where_gold_is_thin() -> None:
    classes = 20
    probs, said, y = made(80, classes, seed=3)
    _, more, truth = made(8000, classes, seed=4)
    counts = torch.zeros(classes, classes, dtype=torch.float64)
    counts.index_put_((truth, more), torch.ones(8000).double(), accumulate=True)
    losses = [
        float(-fit_combination(probs.log(), said, y, pool=pool).unseen.log().gather(1, y.unsqueeze(1)).mean())
        for pool in (None, PoolCounts(counts))
    ]
    assert losses[1] < losses[0]


def test_a_folds_rows_have_no_part_in_their_answers_or_in_the_choice_to_combine() -> None:
    """Whatever their truth is: the other folds fit, choose, and have the pool's counts without this fold."""
    probs, said, y = made(90, 3, seed=5)
    fold, counts = torch.arange(90) % 3, 20 * torch.rand(3, 3, 3, generator=torch.Generator().manual_seed(0)).double()
    mine, found = fold == 1, []
    for truth in (y, torch.where(mine, (said + 2) % 3, y)):
        without = torch.stack(
            [each if number == 1 else each + float(truth.sum()) for number, each in enumerate(counts)]
        )
        pool = PoolCounts(counts.sum(0) + float(truth.sum()), without, fold, truth).of(truth, torch.arange(90))
        found.append(fit_combination(probs.log(), said, truth, pool=pool))
    for name in ("unseen", "helps"):
        before, after = (getattr(each, name) for each in found)
        assert before[mine].equal(after[mine])
    assert not found[0].unseen[~mine].equal(found[1].unseen[~mine]) and found[0].better and not found[1].better


def test_test_rows_are_in_no_fold_of_gold() -> None:
    counts, y = torch.rand(3, 2, 2), torch.tensor([0, 1, 1])
    pool, rows = PoolCounts(counts.sum(0), counts, torch.tensor([0, 1, 2]), y), torch.tensor([0, 2])
    assert pool.of(y, rows).fold.tolist() == [0, 2] and pool.of(y, rows).without(2).equal(counts[2])
    assert pool.of(1 - y, rows).fold is None and pool.of(1 - y, rows).without(2).equal(counts.sum(0))
