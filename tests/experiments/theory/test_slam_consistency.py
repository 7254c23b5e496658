"""SLaM, Proposition C.1: on a teacher's noise as Definition 3.2 has it, the truth minimises the expected SLaM loss."""

import pytest
import torch
from torch import Tensor

from understudy.maths.mixing import slam_mix

ROWS, CLASSES = 40, 5


def problem(generator: torch.Generator) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Truth, α in (½, 1), the teacher's k candidates, which hold the truth, and the chance of each noisy label."""
    truth = torch.randint(CLASSES, (ROWS,), generator=generator)
    alpha = 0.5 + 0.49 * torch.rand(ROWS, generator=generator, dtype=torch.float64).clamp(min=0.05)
    k = torch.randint(2, CLASSES + 1, (ROWS,), generator=generator)
    order = torch.rand(ROWS, CLASSES, generator=generator).scatter(1, truth[:, None], 2.0).argsort(1, descending=True)
    top = torch.zeros(ROWS, CLASSES, dtype=torch.bool).scatter(1, order, torch.arange(CLASSES) < k[:, None])
    noisy = (1 - alpha)[:, None] * top / (k - 1)[:, None]
    return truth, alpha, top, noisy.scatter(1, truth[:, None], alpha[:, None])


def expected_loss(logits: Tensor, alpha: Tensor, top: Tensor, noisy: Tensor, normalise: bool) -> Tensor:
    """E[ce(y, mix(f)) | x] of every row."""
    return -(noisy * slam_mix(logits, alpha, top, normalise=normalise)).sum(1)


@pytest.mark.parametrize("normalise", [True, False])
def test_the_truth_minimises_the_slam_loss(normalise: bool) -> None:
    """Also without the division by k − 1, as the paper's experiments have it (Remark B.1)."""
    generator = torch.Generator().manual_seed(0)
    truth, alpha, top, noisy = problem(generator)
    certain = 40 * torch.nn.functional.one_hot(truth, CLASSES).double()
    lowest = expected_loss(certain, alpha, top, noisy, normalise)
    for scale in (0.3, 3.0, 30.0):
        for _ in range(50):
            other = scale * torch.randn(ROWS, CLASSES, generator=generator, dtype=torch.float64)
            assert bool((expected_loss(other, alpha, top, noisy, normalise) >= lowest - 1e-9).all())


@pytest.mark.parametrize("normalise", [True, False])
def test_descent_finds_the_truth_where_cross_entropy_finds_the_teacher(normalise: bool) -> None:
    """A minimiser agrees with the truth on every row: from any start, also where all begin on a wrong class.

    The minimum of cross-entropy on the same labels is the noise itself, whose chance of the truth is α.
    """
    generator = torch.Generator().manual_seed(1)
    truth, alpha, top, noisy = problem(generator)
    start = torch.randn(ROWS, CLASSES, generator=generator, dtype=torch.float64)
    start = start + 3 * torch.nn.functional.one_hot((truth + 1) % CLASSES, CLASSES)
    logits, naive = start.clone().requires_grad_(), start.clone().requires_grad_()
    optimizer = torch.optim.Adam([logits, naive], lr=0.1)
    for _ in range(800):
        optimizer.zero_grad()
        slam = expected_loss(logits, alpha, top, noisy, normalise).sum()
        (slam - (noisy * naive.log_softmax(1)).sum()).backward()
        optimizer.step()
    found = logits.detach().softmax(1)
    assert bool((found.argmax(1) == truth).all())
    assert float(found[torch.arange(ROWS), truth].min()) > 0.95
    of_teacher = naive.detach().softmax(1)[torch.arange(ROWS), truth]
    torch.testing.assert_close(of_teacher, alpha, atol=2e-3, rtol=0.0)
