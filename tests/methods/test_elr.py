"""Early-learning regularisation: two visits by hand, its gradient in closed form, and what it does to wrong labels."""

import math

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import understudy as us
from understudy.objective import Objective, Outputs, Step

from ..three_blobs import points


def _visit(objective: Objective, logits: Tensor, teacher: Tensor, rows: Tensor, average: Tensor) -> Tensor:
    """The losses of a batch, as the training loop makes them; ``average`` moves."""
    module = nn.Module()
    module.register_buffer("average", average)
    step = Step(Outputs(logits.detach()), teacher, rows, columns={}, modules={"elr": module})
    columns = {f"elr.{name}": value for name, value in objective.terms[0].observe(step).items()}
    return objective.pool_losses(Step(Outputs(logits), teacher, rows, columns=columns, modules={"elr": module}))


def test_two_visits_by_hand() -> None:
    """f = (3/4, 1/4): ⟨f, f⟩ = 5/8, and t is 0.3 f at the first visit, 0.51 f at the second."""
    average, rows = torch.zeros(3, 2, dtype=torch.float64), torch.tensor([1])
    logits, label = torch.tensor([[math.log(3), 0.0]]).double(), torch.tensor([[1.0, 0.0]]).double()
    for share in (0.3, 0.51):
        expected = math.log(4 / 3) + 3 * math.log(1 - share * 5 / 8)
        assert _visit(us.elr(), logits, label, rows, average).item() == pytest.approx(expected, rel=1e-6)
    torch.testing.assert_close(average[1], torch.tensor([0.51 * 0.75, 0.51 * 0.25]).double(), rtol=1e-6, atol=0)
    assert not average[[0, 2]].any()


def test_losses_and_gradients_agree_with_the_closed_form() -> None:
    """∂/∂z = f − q + λ f (⟨f, t⟩ − t) / (1 − ⟨f, t⟩), t a constant, over eight visits in numpy's float64."""
    draw = np.random.default_rng(0)
    average, t = torch.zeros(6, 4, dtype=torch.float64), np.zeros((6, 4))
    for _ in range(8):
        rows, z, q = draw.permutation(6)[:4], draw.normal(size=(4, 4)), draw.dirichlet(np.ones(4), size=4)
        f = np.exp(z) / np.exp(z).sum(1, keepdims=True)
        t[rows] = 0.9 * t[rows] + 0.1 * f
        agree = (f * t[rows]).sum(1, keepdims=True)
        logits = torch.tensor(z, requires_grad=True)
        losses = _visit(us.elr(7.0, decay=0.9), logits, torch.tensor(q), torch.tensor(rows), average)
        losses.sum().backward()
        assert logits.grad is not None
        np.testing.assert_allclose(losses.detach(), -(q * np.log(f)).sum(1) + 7 * np.log(1 - agree[:, 0]), rtol=1e-6)
        np.testing.assert_allclose(logits.grad, f - q + 7 * f * (agree - t[rows]) / (1 - agree), rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(average, t, rtol=1e-6)


def test_a_sure_student_has_a_finite_loss() -> None:
    average, logits = torch.tensor([[1.0, 0.0]]), torch.tensor([[1e4, -1e4]], requires_grad=True)
    losses = _visit(us.elr(), logits, torch.tensor([[1.0, 0.0]]), torch.tensor([0]), average)
    losses.sum().backward()
    assert losses.isfinite().all() and logits.grad is not None and logits.grad.isfinite().all()


def test_wrong_labels_are_memorised_less() -> None:
    x, y = points()
    draw = torch.Generator().manual_seed(2)
    noisy = torch.where(torch.rand(len(y), generator=draw) < 0.5, torch.randint(3, y.shape, generator=draw), y)
    wrong = noisy != y
    options = {"epochs": 60, "batch_size": 50, "lr": 0.01, "progress": False}
    student = us.models.mlp(4, 3, (64,))
    fitted = [
        (run.predict(x).argmax(1) == noisy)[wrong].double().mean()
        for method in (us.vanilla(), us.elr())
        for run in [us.train(student, None, us.Pool(x, noisy), method, **options)]
    ]
    assert fitted[1] < 0.5 * fitted[0]


def test_a_batch_that_is_scored_many_times_moves_the_average_once() -> None:
    x, y = points()
    run = us.train(us.models.linear(4, 3), None, us.Pool(x, y), us.elr(), epochs=2, optimizer="lbfgs", progress=False)
    torch.testing.assert_close(run.module_states["elr"]["average"].sum(1), torch.full((len(y),), 0.3 + 0.7 * 0.3))


@pytest.mark.parametrize("options", [{"strength": -1.0}, {"decay": 1.0}])
def test_impossible_options_are_refused(options: dict[str, float]) -> None:
    with pytest.raises(us.UnderstudyError, match="elr"):
        us.elr(**options)
