"""Sparse over-parametrisation: one step by hand, eight against closed-form gradients, and which labels it explains."""

import math

import numpy as np
import pytest
import torch
from torch import Tensor

import understudy as us
from understudy.methods.sop import LabelErrors, SopLink
from understudy.objective import Objective, Outputs, Step

from ..three_blobs import points


def _visit(objective: Objective, logits: Tensor, label: Tensor, rows: Tensor, errors: LabelErrors) -> Tensor:
    """The losses of a batch, as the training loop makes them; ``errors`` moves."""
    assert isinstance(objective.link, SopLink)
    step = Step(Outputs(logits.detach()), label, rows, modules={"sop": errors})
    columns = {f"sop.{name}": value for name, value in objective.link.observe(step).items()}
    return objective.pool_losses(Step(Outputs(logits), label, rows, columns=columns))


def test_one_step_by_hand() -> None:
    """f = (3/4, 1/4), label 1, u = v₀ = 1/2: f + s = (1/2, 1/2), so the loss is log 2, with the u and v of before.

    ∂ce/∂u = −2u / (1/4 + u²) + 2u / (3/4 + u²) = −1; ∂mse/∂v₀ = 2 (1 − v₀²) (−2 v₀) = −3/2; v₁ is the label's own.
    """
    errors = LabelErrors(2, 2, 0.0).double()
    errors.u[1], errors.v[1] = 0.5, 0.5
    logits = torch.tensor([[math.log(3), 0.0]], dtype=torch.float64)
    loss = _visit(us.sop(0.1, 0.2), logits, torch.tensor([[0.0, 1.0]]).double(), torch.tensor([1]), errors)
    assert loss.item() == pytest.approx(math.log(2))
    torch.testing.assert_close(errors.u, torch.tensor([[0.0], [0.6]]).double())
    torch.testing.assert_close(errors.v, torch.tensor([[0.0, 0.0], [0.8, 0.5]]).double())


def test_eight_steps_agree_with_closed_form_gradients() -> None:
    """In numpy's float64; the mean over the batch divides each gradient, and both stay in [−1, 1]."""
    draw = np.random.default_rng(0)
    errors = LabelErrors(6, 4, 0.0).double()
    u, v = 0.3 * draw.normal(size=(6, 1)), 0.3 * draw.normal(size=(6, 4))
    errors.u.copy_(torch.tensor(u)), errors.v.copy_(torch.tensor(v))
    for _ in range(8):
        rows, z = draw.permutation(6)[:4], 2 * draw.normal(size=(4, 4))
        q, f = np.eye(4)[draw.integers(4, size=4)], np.exp(z) / np.exp(z).sum(1, keepdims=True)
        own_u, own_v = u[rows], v[rows]
        s = own_u**2 * q - own_v**2 * (1 - q)
        raised = np.maximum(f + s, 1e-4)
        on_label, total = (raised * q).sum(1, keepdims=True), raised.sum(1, keepdims=True)
        residual = np.eye(4)[f.argmax(1)] + s - q
        u[rows] = np.clip(own_u - 1 / 4 * 2 * own_u * (1 / total - 1 / on_label), -1, 1)
        v[rows] = np.clip(own_v + 2 / 4 * 4 * own_v * (1 - q) * residual, -1, 1)
        logits = torch.tensor(z, requires_grad=True)
        losses = _visit(us.sop(1.0, 2.0), logits, torch.tensor(q), torch.tensor(rows), errors)
        losses.sum().backward()
        passes = f + s > 1e-4
        by_f = passes * (1 / total - q / on_label)
        np.testing.assert_allclose(losses.detach(), -np.log(on_label / total)[:, 0], rtol=1e-10)
        np.testing.assert_allclose(logits.grad, f * (by_f - (f * by_f).sum(1, keepdims=True)), rtol=1e-8, atol=1e-12)
    np.testing.assert_allclose(errors.u, u, rtol=1e-10)
    np.testing.assert_allclose(errors.v, v, rtol=1e-10)
    assert (np.abs(u) == 1).any() and (np.abs(u) < 1).any()


def test_wrong_labels_are_explained_and_not_memorised() -> None:
    x, y = points()
    draw = torch.Generator().manual_seed(2)
    noisy = torch.where(torch.rand(len(y), generator=draw) < 0.5, torch.randint(3, y.shape, generator=draw), y)
    wrong = noisy != y
    run = us.train(
        us.models.mlp(4, 3, (64,)), None, us.Pool(x, noisy), us.sop(), epochs=60, batch_size=50, lr=0.01,
        progress=False,
    )  # fmt: skip
    explained = run.module_states["sop"]["u"].square()[:, 0]
    assert explained[wrong].mean() > 0.5 > 0.2 > explained[~wrong].mean()
    assert (run.predict(x).argmax(1) == noisy)[wrong].double().mean() < 0.2


@pytest.mark.parametrize("options", [{"u_lr": -1.0}, {"v_lr": -1.0}, {"start": -1.0}])
def test_impossible_options_are_refused(options: dict[str, float]) -> None:
    with pytest.raises(us.UnderstudyError, match="sop"):
        us.sop(**options)
