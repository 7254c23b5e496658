"""The papers' nets: published sizes, blocks by hand; the shaken mix takes its value from α, its derivative from β."""

from collections.abc import Callable

import pytest
import torch
from experiments.nets import HalvedShortcut, shake
from torch import nn
from torch.autograd import forward_ad

from experiments import nets
from understudy.errors import UnderstudyError
from understudy.models import build, from_text


def count(net: nn.Module) -> int:
    return sum(parameter.numel() for parameter in net.parameters())


PUBLISHED: list[tuple[str, Callable[[], nn.Module], int]] = [
    ("ResNet-110, 1.7M", nets.resnet110, 1_727_962),
    ("WRN-28-10, 36.5M", lambda: nets.wide_resnet(), 36_479_194),
    ("WRN-16-8, 11.0M", lambda: nets.wide_resnet(depth=16, width=8), 10_961_370),
    ("WRN-40-4, 8.9M", lambda: nets.wide_resnet(depth=40, width=4), 8_949_210),
    ("shake-shake 26 2×32d, 2.9M", lambda: nets.shake_shake(), 2_923_162),
    ("shake-shake 26 2×64d, 11.7M", lambda: nets.shake_shake(width=64), 11_653_978),
    ("shake-shake 26 2×96d, 26.2M", lambda: nets.shake_shake(width=96), 26_192_922),
]


@pytest.mark.parametrize(("net", "parameters"), [case[1:] for case in PUBLISHED], ids=[case[0] for case in PUBLISHED])
def test_size_is_the_published_one(net: Callable[[], nn.Module], parameters: int) -> None:
    with torch.device("meta"):
        assert count(net()) == parameters


SMALL = ["resnet11", "shake_shake:depth=8,width=8", "wide_resnet:depth=10,width=1"]


@pytest.mark.parametrize("text", SMALL)
def test_every_parameter_has_a_gradient_and_eval_repeats(text: str) -> None:
    torch.manual_seed(0)
    net, x = from_text(text, shape=(3, 8, 8), classes=5), torch.randn(4, 3, 8, 8)
    net.train()(x).square().sum().backward()
    assert all(each.grad is not None and each.grad.abs().sum() > 0 for each in net.parameters())
    with torch.no_grad():
        assert torch.equal(net.eval()(x), net(x)) and net(x).shape == (4, 5)


@pytest.mark.parametrize(("name", "wanted"), [("cifar_resnet_v2", "9n"), ("wide_resnet", "6n"), ("shake_shake", "6n")])
def test_an_impossible_depth_is_refused(name: str, wanted: str) -> None:
    with pytest.raises(UnderstudyError, match=wanted):
        build({"name": name, "args": {"depth": 21}})


@pytest.mark.parametrize(("depth", "keras_total"), [(20, 574_090), (56, 1_673_738)])
def test_version_2_matches_the_keras_example(depth: int, keras_total: int) -> None:
    """Its summary also counts a bias per convolution channel and batch normalisation's running statistics."""
    with torch.device("meta"):
        net = nets.cifar_resnet_v2(depth=depth)
    biases = sum(layer.out_channels for layer in net.modules() if isinstance(layer, nn.Conv2d))
    running = sum(2 * layer.num_features for layer in net.modules() if isinstance(layer, nn.BatchNorm2d))
    assert count(net) + biases + running == keras_total


def test_wide_block_by_hand() -> None:
    """With the residual branch silent: the input itself, or the projection of the activated input."""
    first, second = nets.wide_resnet(depth=16, width=2)[1][:2].eval()  # type: ignore[index]
    for block in (first, second):
        nn.init.zeros_(block.residual[-1].weight)
    x = torch.randn(2, 16, 6, 6)
    out = first(x)
    # a fresh batch normalisation in eval mode only divides by sqrt(1 + 1e-5)
    torch.testing.assert_close(out, first.projection(x.relu()), rtol=1e-4, atol=1e-5)
    assert torch.equal(second(out), out)


def test_version_2_blocks_by_hand() -> None:
    """With the residual branch silent: a projection of the raw input at the start of a stage, then the identity."""
    first, second, third = nets.cifar_resnet_v2(depth=20)[1][:3].eval()  # type: ignore[index]
    for block in (first, second, third):
        nn.init.zeros_(block.residual[-1].weight)
    x = torch.randn(2, 16, 6, 6)
    out = first(x)
    assert torch.equal(out, first.shortcut(x)) and out.shape == (2, 64, 6, 6)
    assert torch.equal(second(out), out)
    assert isinstance(first.residual[0], nn.Conv2d), "the stem has just normalised"
    assert isinstance(second.residual[0], nn.BatchNorm2d)
    assert torch.equal(third(out), third.shortcut(out)) and third(out).shape == (2, 128, 3, 3)


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
    block = nets.shake_shake(depth=8, width=16)[1][0].train()  # type: ignore[index]
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
    net = nets.shake_shake((3, 8, 8), depth=8, width=4).train()
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
