"""The empirical kernel against explicit Jacobians; information ratio and gain on kernels worked by hand."""

import math

import pytest
import torch
from experiments.theory.neural_tangent_kernel import empirical_kernel, information_gain, information_ratio
from torch import Tensor, nn

from understudy.errors import UnderstudyError


class Net(nn.Module):
    def __init__(self, outputs: int) -> None:
        super().__init__()
        self.maps = nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.Tanh(), nn.Dropout(0.5), nn.Flatten())
        self.head = nn.Linear(4 * 16, outputs)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.maps(x))


@pytest.fixture
def images() -> Tensor:
    return torch.randn(11, 1, 6, 6, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def net(outputs: int) -> Net:
    torch.manual_seed(0)
    return Net(outputs).double()


def kernel_by_loops(model: nn.Module, x: Tensor, coefficients: Tensor) -> Tensor:
    model.eval()
    rows = []
    for row in x:
        gradients = torch.autograd.grad((model(row[None])[0] * coefficients).sum(), list(model.parameters()))
        rows.append(torch.cat([g.flatten() for g in gradients]))
    jacobian = torch.stack(rows)
    model.train()
    return jacobian @ jacobian.T


@pytest.mark.parametrize("chunk", [1, 4, 11, 64])
def test_equals_explicit_jacobians(images: Tensor, chunk: int) -> None:
    model = net(1)
    expected = kernel_by_loops(model, images, torch.ones(1, dtype=torch.float64))
    found = empirical_kernel(model, images, chunk=chunk)
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)
    assert torch.equal(found, found.T)
    assert model.training and all(module.training for module in model.modules())


def test_chosen_output(images: Tensor) -> None:
    model = net(3)
    expected = kernel_by_loops(model, images, torch.tensor([-1.0, 0.0, 1.0], dtype=torch.float64))
    found = empirical_kernel(model, images, output=lambda z: z[2] - z[0], chunk=5)
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)


def test_linear_model_by_hand() -> None:
    """f = w·x + b: the gradient is (x, 1), so H = X Xᵀ + 1."""
    x = torch.tensor([[1.0, 2.0], [0.0, 1.0], [3.0, 0.0]])
    assert torch.equal(
        empirical_kernel(nn.Linear(2, 1), x), torch.tensor([[6.0, 3.0, 4.0], [3.0, 2.0, 1.0], [4.0, 1.0, 10.0]])
    )


def test_frozen_parameters_do_not_count() -> None:
    model = nn.Linear(2, 1)
    model.bias.requires_grad_(False)
    x = torch.tensor([[1.0, 2.0], [0.0, 1.0]])
    assert torch.equal(empirical_kernel(model, x), x @ x.T)


def test_information_ratio_by_hand() -> None:
    kernel = torch.diag(torch.tensor([1.0, 5.0, 3.0, 0.1]))
    labels = torch.tensor([1.0, -1.0, 1.0, -1.0])
    assert information_ratio(kernel, labels, r=1).item() == pytest.approx(0.5)
    assert information_ratio(kernel, labels, r=2).item() == pytest.approx(math.sqrt(0.5))
    assert information_ratio(kernel, labels, r=4).item() == pytest.approx(1.0)
    assert information_ratio(kernel, torch.tensor([2.0, 4.0, 4.0, 0.0]), r=1).item() == pytest.approx(4 / 6)
    assert information_ratio(kernel, torch.zeros(4), r=1).item() == 0.0
    pair = information_ratio(kernel, torch.stack([labels, torch.tensor([0.0, 1.0, 0.0, 0.0])], 1), r=1)
    torch.testing.assert_close(pair, torch.tensor([0.5, 1.0], dtype=torch.float64))


def test_information_gain_by_hand() -> None:
    kernel = torch.diag(torch.tensor([4.0, 1.0]))
    gain = information_gain(kernel, refined=torch.tensor([1.0, 0.0]), given=torch.tensor([1.0, 1.0]), r=1)
    assert gain.item() == pytest.approx(1 - math.sqrt(0.5))


def test_noise_lowers_the_ratio() -> None:
    """Figure 2's shape on a small problem: two clusters, ±1 labels, ever more of them flipped."""
    make = torch.Generator().manual_seed(0)
    truth = torch.tensor([1.0, -1.0]).repeat(64)
    x = truth[:, None] * torch.ones(8) + 0.3 * torch.randn(128, 8, generator=make)
    torch.manual_seed(0)
    kernel = empirical_kernel(nn.Sequential(nn.Linear(8, 256), nn.Tanh(), nn.Linear(256, 1)), x)
    ratios = []
    for share in (0.0, 0.1, 0.2, 0.3, 0.4):
        noisy = truth.clone()
        noisy[torch.randperm(128, generator=make)[: round(128 * share)]] *= -1
        ratios.append(information_ratio(kernel, noisy).item())
    assert ratios == sorted(ratios, reverse=True)
    assert ratios[0] > 0.95 and ratios[-1] < 0.5


def test_bad_input_is_named(images: Tensor) -> None:
    with pytest.raises(UnderstudyError, match="output="):
        empirical_kernel(net(3), images)
    with pytest.raises(UnderstudyError, match="chunk = 0"):
        empirical_kernel(net(1), images, chunk=0)
    with pytest.raises(UnderstudyError, match="r = 6"):
        information_ratio(torch.eye(5), torch.ones(5), r=6)
    with pytest.raises(UnderstudyError, match="3 labels"):
        information_ratio(torch.eye(5), torch.ones(3))
