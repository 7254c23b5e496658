"""The shaken mix: its value uses α, its derivative β, in both modes of differentiation."""

import pytest
import torch
from torch.autograd import forward_ad

from understudy import models
from understudy.models.image_nets import HalvedShortcut, shake


def test_value_and_derivative_by_hand() -> None:
    first, second = torch.tensor(2.0, requires_grad=True), torch.tensor(10.0, requires_grad=True)
    mixed = shake(first, second, alpha=torch.tensor(0.25), beta=torch.tensor(0.9))
    assert mixed.item() == 0.25 * 2 + 0.75 * 10
    mixed.backward()
    torch.testing.assert_close(first.grad, torch.tensor(0.9))
    torch.testing.assert_close(second.grad, torch.tensor(0.1))


# torch itself compiles its forward-mode rules with the deprecated torch.jit.script
@pytest.mark.filterwarnings("ignore:.*torch.jit.script.*:DeprecationWarning")
def test_forward_mode_sees_beta_too() -> None:
    with forward_ad.dual_level():
        first = forward_ad.make_dual(torch.tensor(2.0), torch.tensor(1.0))
        second = forward_ad.make_dual(torch.tensor(10.0), torch.tensor(0.0))
        mixed = shake(first, second, alpha=torch.tensor(0.25), beta=torch.tensor(0.9))
        tangent = forward_ad.unpack_dual(mixed).tangent
    torch.testing.assert_close(tangent, torch.tensor(0.9))


def test_each_image_has_its_own_draw_and_eval_takes_the_mean() -> None:
    torch.manual_seed(0)
    block = models.shake_shake(depth=8, width=16)[1][0].train()  # type: ignore[index]
    for branch, value in ((block.first, 0.0), (block.second, 1.0)):
        torch.nn.init.zeros_(branch[-1].weight)
        torch.nn.init.constant_(branch[-1].bias, value)
    x = torch.randn(500, 16, 2, 2)
    share = block(x) - x
    torch.testing.assert_close(share, share[:, :1, :1, :1].expand_as(share), atol=1e-5, rtol=0)
    draws = share[:, 0, 0, 0]
    assert draws.min() > -1e-5 and draws.max() < 1 + 1e-5
    # uniform draws: mean 1/2, variance 1/12
    assert abs(draws.mean() - 0.5) < 0.05 and abs(draws.var() - 1 / 12) < 0.02
    torch.testing.assert_close(block.eval()(x), x + 0.5)


def test_same_seed_same_training_pass() -> None:
    net = models.shake_shake((3, 8, 8), depth=8, width=4).train()
    x = torch.randn(3, 3, 8, 8)
    passes = [(torch.manual_seed(seed), net(x))[1] for seed in (1, 1, 2)]
    assert torch.equal(passes[0], passes[1])
    assert not torch.equal(passes[0], passes[2])


def test_shortcut_takes_even_pixels_and_their_upper_left_neighbours() -> None:
    shortcut = HalvedShortcut(1, 2).eval()
    for half in (shortcut.even, shortcut.odd):
        torch.nn.init.ones_(half.weight)
    x = torch.arange(1.0, 17.0).view(1, 1, 4, 4)
    even, odd = shortcut(x)[0]
    torch.testing.assert_close(even, torch.tensor([[1.0, 3.0], [9.0, 11.0]]), atol=1e-3, rtol=0)
    torch.testing.assert_close(odd, torch.tensor([[0.0, 0.0], [0.0, 6.0]]), atol=1e-3, rtol=0)
