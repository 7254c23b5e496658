"""Alignment with the gold gradient: against the paper's meta-gradient, on every route, without side effects."""

import copy
import warnings
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn import functional as F

from understudy.errors import UnderstudyError, UnderstudyWarning
from understudy.maths.alignment.aligner import Aligner, alignment

Batch = tuple[Tensor, Tensor, Tensor, Tensor]


class LeNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2)
        )
        self.head = nn.Sequential(nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 10))

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.features(x).flatten(1))


class Residual(nn.Module):
    """Two BatchNorm blocks with a strided shortcut and in-place activations, as CIFAR ResNets have them."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8), nn.ReLU(inplace=True))
        self.body = nn.Sequential(
            nn.Conv2d(8, 16, 3, stride=2, padding=1, bias=False),
            nn.BatchNorm2d(16),
            nn.ReLU(inplace=True),
            nn.Conv2d(16, 16, 3, padding="same", bias=False),
            nn.BatchNorm2d(16),
        )
        self.shortcut = nn.Sequential(nn.Conv2d(8, 16, 1, stride=2, bias=False), nn.BatchNorm2d(16, affine=False))
        self.head = nn.Linear(16, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        return self.head(F.relu_(self.body(x) + self.shortcut(x)).mean((2, 3)))


class Encoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(16, 4, 32, dropout=0.0, batch_first=True, activation="gelu")
        self.embed = nn.Embedding(50, 16)
        self.encode = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(16, 10)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.encode(self.embed(x)).mean(1))


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(8, 16, batch_first=True)
        self.head = nn.Linear(16, 10)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.lstm(x)[0][:, -1])


def mlp() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(784, 64), nn.ReLU(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 10))


def images(*shape: int, dtype: torch.dtype = torch.float64, n: int = 24, m: int = 8) -> Batch:
    make = torch.Generator().manual_seed(1)
    x, gold_x = (torch.randn(rows, *shape, generator=make, dtype=dtype) for rows in (n, m))
    y, gold_y = (torch.randint(0, 10, (rows,), generator=make) for rows in (n, m))
    return x, y, gold_x, gold_y


def build(net: Callable[[], nn.Module], dtype: torch.dtype = torch.float64) -> nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(3)
        return net().to(dtype)


def meta_gradient(model: nn.Module, x: Tensor, y: Tensor, gold_x: Tensor, gold_y: Tensor, lr: float = 0.1) -> Tensor:
    """Algorithm 1 of Ren et al. as printed: ε = 0, one SGD step on Σ εᵢ ℓᵢ, −∂(gold loss)/∂ε; divided by the rate."""
    buffers = {name: b.clone() for name, b in model.named_buffers()}
    theta = {name: p.detach().clone().requires_grad_() for name, p in model.named_parameters()}
    epsilon = torch.zeros(len(y), dtype=x.dtype if x.is_floating_point() else next(model.parameters()).dtype)
    epsilon.requires_grad_()
    losses = F.cross_entropy(functional_call(model, {**theta, **buffers}, (x,)), y, reduction="none")
    gradients = torch.autograd.grad(
        (epsilon * losses).sum(), list(theta.values()), create_graph=True, materialize_grads=True
    )
    stepped = {name: p - lr * g for (name, p), g in zip(theta.items(), gradients, strict=True)}
    gold_loss = F.cross_entropy(functional_call(model, {**stepped, **buffers}, (gold_x,)), gold_y)
    return -torch.autograd.grad(gold_loss, epsilon)[0] / lr


def relative_error(found: Tensor, expected: Tensor) -> float:
    return ((found - expected).abs().max() / expected.abs().max()).item()


def test_by_hand() -> None:
    """A linear scorer with squared loss: ∇ℓ = (w·x − y) x, so u is a product of residuals and of inputs."""
    model = nn.Linear(2, 1, bias=False)
    model.weight.data = torch.tensor([[1.0, 2.0]])
    x, y = torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]), torch.tensor([0.0, 0.0, 4.0])
    gold_x, gold_y = torch.tensor([[1.0, 1.0], [2.0, 0.0]]), torch.tensor([1.0, 0.0])

    def half_square(prediction: Tensor, label: Tensor) -> Tensor:
        return 0.5 * (prediction[:, 0] - label) ** 2

    # gold gradient: mean of 2·(1, 1) and 2·(2, 0) = (3, 1); example gradients (1, 0), (0, 2), −1·(1, 1)
    u = alignment(model, x, y, gold_x, gold_y, loss=half_square)
    assert torch.equal(u, torch.tensor([3.0, 2.0, -4.0]))


@pytest.mark.parametrize(
    ("net", "shape"), [(mlp, (784,)), (LeNet, (1, 28, 28)), (Residual, (3, 12, 12))], ids=["mlp", "lenet", "resnet"]
)
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-8), (torch.float32, 1e-5)])
def test_equals_the_meta_gradient(
    net: Callable[[], nn.Module], shape: tuple[int, ...], dtype: torch.dtype, tolerance: float
) -> None:
    model, batch = build(net, dtype), images(*shape, dtype=dtype)
    assert relative_error(alignment(model, *batch), meta_gradient(model, *batch)) < tolerance


def test_equals_the_meta_gradient_in_channels_last() -> None:
    model, batch = build(Residual).to(memory_format=torch.channels_last), images(3, 12, 12)
    assert relative_error(alignment(model, *batch), meta_gradient(model, *batch)) < 1e-8


def test_positive_where_the_example_helps_gold() -> None:
    model = build(mlp)
    x, y, *_ = images(784)
    assert alignment(model, x[:1], y[:1], x[:1], y[:1]) > 0


def test_attention_goes_through_its_unfused_kernel() -> None:
    model = build(Encoder, torch.float32)
    make = torch.Generator().manual_seed(1)
    x, gold_x = (torch.randint(0, 50, (rows, 7), generator=make) for rows in (24, 8))
    _, y, _, gold_y = images(1)
    with pytest.warns(UnderstudyWarning, match="unfused kernel"):
        found = alignment(model, x, y, gold_x, gold_y)
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        expected = meta_gradient(model, x, y, gold_x, gold_y)
    assert relative_error(found, expected) < 1e-5


def test_lstm_goes_through_a_central_difference() -> None:
    model, batch = build(Recurrent, torch.float32), images(5, 8, dtype=torch.float32)
    with pytest.warns(UnderstudyWarning, match="central difference"):
        found = alignment(model, *batch)
    expected = meta_gradient(model.double(), *(t.double() if t.is_floating_point() else t for t in batch))
    assert relative_error(found.double(), expected) < 1e-3


def test_lstm_with_forward_rules_is_exact() -> None:
    """In float64 PyTorch decomposes the cell, so that forward mode applies; no dual weight may stay in its cache."""
    model, batch = build(Recurrent), images(5, 8)
    found = alignment(model, *batch)
    copy.deepcopy(model)
    assert relative_error(found, meta_gradient(model, *batch)) < 1e-8


def half_step(aligner: Aligner, batch: Batch) -> tuple[Tensor, Tensor]:
    x, y, gold_x, gold_y = batch
    g = aligner.direction(lambda: F.cross_entropy(aligner.model(gold_x), gold_y))
    return aligner.along(g, lambda: F.cross_entropy(aligner.model(x), y, reduction="none"))


@pytest.mark.parametrize("net", [mlp, LeNet, Residual], ids=["mlp", "lenet", "resnet"])
def test_the_shared_pass_gives_the_plain_gradient(net: Callable[[], nn.Module]) -> None:
    shape = {mlp: (784,), LeNet: (1, 28, 28), Residual: (3, 12, 12)}[net]
    model, batch = build(net), images(*shape)
    weights = torch.rand(24, generator=torch.Generator().manual_seed(5), dtype=torch.float64)
    expected_losses = F.cross_entropy(model(batch[0]), batch[1], reduction="none")
    expected = torch.autograd.grad((weights * expected_losses).sum(), list(model.parameters()))

    losses, u = half_step(Aligner(model), batch)
    (weights * losses).sum().backward()
    assert not u.requires_grad
    torch.testing.assert_close(losses, expected_losses, rtol=1e-12, atol=0)
    for p, gradient in zip(model.parameters(), expected, strict=True):
        torch.testing.assert_close(p.grad, gradient, rtol=1e-9, atol=1e-12)


def test_buffers_move_once_per_step_and_only_by_the_pool() -> None:
    model, batch = build(Residual), images(3, 12, 12)
    reference = build(Residual)
    reference(batch[0])
    buffers = dict(model.named_buffers())
    half_step(Aligner(model), batch)
    for name, expected in reference.named_buffers():
        torch.testing.assert_close(buffers[name], expected, rtol=1e-12, atol=0)
        assert dict(model.named_buffers())[name] is buffers[name]


def test_alignment_changes_nothing() -> None:
    model, batch = build(Residual), images(3, 12, 12)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    alignment(model, *batch)
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())
    assert all(p.grad is None and isinstance(p, nn.Parameter) for p in model.parameters())


class NoForwardRule(torch.autograd.Function):
    @staticmethod
    def forward(ctx: object, x: Tensor) -> Tensor:
        return x * 1.5

    @staticmethod
    def backward(ctx: object, gradient: Tensor) -> Tensor:  # type: ignore[override]
        return gradient * 1.5


class Opaque(nn.Module):
    """BatchNorm and dropout before an operator that forward mode does not know: the pass breaks off half-way."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Sequential(nn.Linear(12, 16), nn.BatchNorm1d(16), nn.Tanh(), nn.Dropout(0.3))
        self.last = nn.Linear(16, 10)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(NoForwardRule.apply(self.first(x)))


def test_the_difference_route_leaves_one_update_and_one_draw() -> None:
    model, reference, batch = build(Opaque), build(Opaque), images(12)
    torch.manual_seed(0)
    reference(batch[2])
    reference = build(Opaque)
    expected = F.cross_entropy(reference(batch[0]), batch[1], reduction="none")
    after = torch.rand(1)

    torch.manual_seed(0)
    aligner = Aligner(model)
    with pytest.warns(UnderstudyWarning, match="central difference"):
        losses, _ = half_step(aligner, batch)
    assert torch.equal(torch.rand(1), after)
    torch.testing.assert_close(losses, expected)
    torch.testing.assert_close(dict(model.named_buffers()), dict(reference.named_buffers()))
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # said once, not at every step
        half_step(aligner, batch)


def test_dropout_shares_one_mask_between_loss_and_tangent() -> None:
    """With all but a few inputs dropped, an example whose mask is empty has a bias gradient only."""
    model = nn.Sequential(nn.Dropout(0.5), nn.Linear(6, 3, bias=False)).double()
    x, y, gold_x, gold_y = images(6)
    y, gold_y = y % 3, gold_y % 3
    aligner = Aligner(model)
    g = aligner.direction(lambda: F.cross_entropy(model[1](gold_x), gold_y))
    torch.manual_seed(7)
    _, u = aligner.along(g, lambda: F.cross_entropy(model(x), y, reduction="none"))
    torch.manual_seed(7)
    kept = model[0](x)
    residual = F.softmax(kept @ model[1].weight.T, 1) - F.one_hot(y, 3)
    torch.testing.assert_close(
        u, torch.einsum("bc,cd,bd->b", residual, g.multiplied().gradients[model[1].weight], kept)
    )


def test_tied_and_frozen_parameters() -> None:
    model = nn.Sequential(nn.Linear(6, 6), nn.Tanh(), nn.Linear(6, 6), nn.Tanh(), nn.Linear(6, 10)).double()
    model[2].weight = model[0].weight
    model[4].weight.requires_grad_(False)
    x, y, gold_x, gold_y = images(6)
    trainable = [p for p in model.parameters() if p.requires_grad]
    losses = F.cross_entropy(model(x), y, reduction="none")
    g = torch.autograd.grad(F.cross_entropy(model(gold_x), gold_y), trainable)
    rows = [torch.autograd.grad(loss, trainable, retain_graph=True) for loss in losses]
    expected = torch.stack([sum((a * b).sum() for a, b in zip(row, g, strict=True)) for row in rows])
    torch.testing.assert_close(alignment(model, x, y, gold_x, gold_y), expected, rtol=1e-10, atol=1e-14)


def test_errors_name_the_cure() -> None:
    x, y, gold_x, gold_y = images(6)
    model = nn.Linear(6, 10).double()
    with pytest.raises(UnderstudyError, match="reduction='none'"):
        alignment(model, x, y, gold_x, gold_y, loss=F.cross_entropy)
    with pytest.raises(UnderstudyError, match=r"\.mean\(\)"):
        Aligner(model).direction(lambda: F.cross_entropy(model(gold_x), gold_y, reduction="none"))
    with pytest.raises(UnderstudyError, match="requires_grad_"):
        Aligner(model.requires_grad_(False))


def test_a_broken_model_raises_its_own_error() -> None:
    x, y, gold_x, gold_y = images(6)
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        alignment(nn.Linear(6, 10).double(), x[:, :5], y, gold_x, gold_y)


@pytest.mark.parametrize("stopped", ["detach", "no_grad"])
@pytest.mark.parametrize("net", [mlp, Opaque], ids=["forward", "difference"])
@pytest.mark.filterwarnings("ignore::understudy.errors.UnderstudyWarning")
def test_a_target_made_of_the_prediction_is_constant(net: Callable[[], nn.Module], stopped: str) -> None:
    model = build(net).eval()
    x, y, gold_x, gold_y = images(784 if net is mlp else 12)

    def self_distilled(logits: Tensor, labels: Tensor) -> Tensor:
        if stopped == "detach":
            target = (2 * logits.detach()).softmax(1)
        else:
            with torch.no_grad():
                target = (2 * logits).softmax(1)
        return F.cross_entropy(logits, 0.5 * target + 0.5 * F.one_hot(labels, 10), reduction="none")

    parameters = list(model.parameters())
    g = torch.autograd.grad(self_distilled(model(gold_x), gold_y).mean(), parameters)
    losses = self_distilled(model(x), y)
    rows = [torch.autograd.grad(loss, parameters, retain_graph=True) for loss in losses]
    expected = torch.stack([sum((a * b).sum() for a, b in zip(row, g, strict=True)) for row in rows])
    assert relative_error(alignment(model, x, y, gold_x, gold_y, loss=self_distilled), expected) < 1e-6


class Odd(nn.Module):
    """Wide linear weights in every use: without bias, before an in-place ReLU, twice, transposed, in a list."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(40, 40, bias=False)
        self.again = nn.Linear(40, 40)
        self.decode = nn.Linear(40, 40)
        self.listed = nn.Linear(40, 40, bias=False)
        self.last = nn.Linear(40, 10)

    def forward(self, x: Tensor) -> Tensor:
        h = F.relu_(self.first(x))
        h = self.again(self.again(h)).tanh()
        h = self.decode(h) @ self.decode.weight
        h = h + F.linear(torch.stack([h, h], 1), self.listed.weight).sum(1) @ torch.cat([self.listed.weight])
        return self.last(h)


class OddWhenTraining(Odd):
    """Gold sees plain linear maps only (few rows); the pool also meets the same weights elsewhere."""

    def forward(self, x: Tensor) -> Tensor:
        h = self.decode(self.again(F.relu_(self.first(x))))
        if len(x) > 4:
            h = h @ self.decode.weight + (h @ torch.cat([self.again.weight, self.again.weight]).T)[:, :40]
        return self.last(h)


@pytest.mark.parametrize("net", [Odd, OddWhenTraining])
def test_factored_gradients_reach_every_use_of_a_weight(net: Callable[[], nn.Module]) -> None:
    model, batch = build(net), images(40, m=3)
    assert relative_error(alignment(model, *batch), meta_gradient(model, *batch)) < 1e-8


def test_direction_is_the_gold_gradient() -> None:
    model, (_, _, gold_x, gold_y) = build(OddWhenTraining), images(40, m=3)
    direction = Aligner(model).direction(lambda: F.cross_entropy(model(gold_x), gold_y))
    assert {model.first.weight, model.again.weight, model.decode.weight} <= set(direction.factors)
    found = direction.multiplied().gradients
    F.cross_entropy(model(gold_x), gold_y).backward()
    for name, p in model.named_parameters():
        expected = torch.zeros_like(p) if p.grad is None else p.grad
        torch.testing.assert_close(found[p], expected, rtol=1e-12, atol=1e-15, msg=name)


class Mixed(nn.Module):
    """Grouped and dilated convolutions, BatchNorm of every kind (one in eval mode), frozen weights."""

    def __init__(self) -> None:
        super().__init__()
        self.maps = nn.Sequential(
            nn.Conv2d(4, 8, 3, groups=2, dilation=2),
            nn.BatchNorm2d(8, track_running_stats=False),
            nn.GELU(),
            nn.Conv2d(8, 8, 3, stride=(2, 1), padding=(0, 1)),
            nn.BatchNorm2d(8),
            nn.AvgPool2d(2),
            nn.Flatten(),
            nn.LayerNorm(16),
        )
        self.head = nn.Sequential(nn.Linear(16, 12), nn.BatchNorm1d(12), nn.SiLU(), nn.Linear(12, 10))
        self.maps[4].eval()
        self.maps[0].weight.requires_grad_(False)
        self.head[1].weight.requires_grad_(False)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.maps(x))


def test_rules_cover_layers_in_every_state() -> None:
    model, batch = build(Mixed), images(4, 9, 9)
    trainable = [p for p in model.parameters() if p.requires_grad]
    x, y, gold_x, gold_y = batch
    g = torch.autograd.grad(F.cross_entropy(model(gold_x), gold_y), trainable)
    losses = F.cross_entropy(model(x), y, reduction="none")
    rows = [torch.autograd.grad(loss, trainable, retain_graph=True) for loss in losses]
    expected = torch.stack([sum((a * b).sum() for a, b in zip(row, g, strict=True)) for row in rows])
    assert relative_error(alignment(build(Mixed), *batch), expected) < 1e-8


def test_logits_inside_an_output_object() -> None:
    class Output:
        def __init__(self, logits: Tensor) -> None:
            self.logits = logits

    class Wrapped(nn.Module):
        def __init__(self, inner: nn.Module) -> None:
            super().__init__()
            self.inner = inner

        def forward(self, x: Tensor) -> Output:
            return Output(self.inner(x))

    model, batch = build(mlp), images(784)
    assert torch.equal(alignment(Wrapped(model), *batch), alignment(model, *batch))
