"""Stochastic teacher passes: dropout alone is on, moments are right, and nothing of the caller's changes."""

import weakref
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import understudy as us
from understudy.inference.passes import penultimate, predict
from understudy.inference.teacher import stochastic_passes, teacher_features


def _net(p: float = 0.4) -> nn.Sequential:
    torch.manual_seed(3)
    net = nn.Sequential(nn.Linear(4, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(p), nn.Linear(16, 3))
    net(5 * torch.randn(64, 4) + 2)  # gives BatchNorm running statistics of its own
    return net


X = torch.randn(10, 4, generator=torch.Generator().manual_seed(0))


def test_moments_are_those_of_the_stacked_passes() -> None:
    net = _net()
    found = stochastic_passes(net, X, passes=7, seed=11)
    net.eval()
    net[3].train()
    with torch.random.fork_rng(), torch.no_grad():
        torch.manual_seed(11)
        stacked = torch.stack([net(X).double().softmax(-1) for _ in range(7)])
    torch.testing.assert_close(found.mean, stacked.mean(0).float())
    torch.testing.assert_close(found.std, stacked.std(0).float(), rtol=1e-5, atol=1e-7)
    torch.testing.assert_close(found.variance, stacked.var(0).mean(-1).float(), rtol=1e-5, atol=1e-9)
    assert found.std.min() > 0
    assert found.mean.shape == found.std.shape == (10, 3)
    assert found.variance.shape == (10,)


def test_one_pass_has_no_spread() -> None:
    found = stochastic_passes(_net(), X, passes=1)
    assert found.std.eq(0).all()
    assert found.variance.eq(0).all()
    assert found.mean.isfinite().all()


def test_two_passes_by_hand() -> None:
    answers = iter([torch.tensor([[0.2, 0.8]]), torch.tensor([[0.6, 0.4]])])
    found = stochastic_passes(lambda x: next(answers), torch.zeros(1, 1), passes=2)
    # Deviations ±0.2 from (0.4, 0.6): sample variance 0.08 in both classes.
    torch.testing.assert_close(found.mean, torch.tensor([[0.4, 0.6]]))
    torch.testing.assert_close(found.std, torch.tensor([[0.08**0.5, 0.08**0.5]]))
    assert found.variance.item() == pytest.approx(0.08)


def test_small_spreads_do_not_cancel() -> None:
    """Deviations of 1e-9 around 1: E[p²] − E[p]² would be noise of 1e-16 against a variance of 1e-18."""
    wobble = iter([1e-9, 3e-9, 2e-9])

    def teacher(x: Tensor) -> Tensor:
        low = torch.tensor([[next(wobble)]], dtype=torch.float64)
        return torch.cat([1 - low, low], 1)

    found = stochastic_passes(teacher, torch.zeros(1, 1), passes=3)
    torch.testing.assert_close(found.std, torch.tensor([[1e-9, 1e-9]]), rtol=1e-4, atol=0)


def test_only_dropout_is_on() -> None:
    net = _net()
    buffers = {name: value.clone() for name, value in net.named_buffers()}
    modes = [module.training for module in net.modules()]
    stochastic_passes(net, X, passes=3)
    assert all(value.equal(buffers[name]) for name, value in net.named_buffers())
    assert [module.training for module in net.modules()] == modes
    # BatchNorm in train mode would make a row's answer depend on the rows beside it, even where nothing is dropped.
    still = _net(p=1e-12)
    found = stochastic_passes(still, X, passes=2)
    torch.testing.assert_close(found.mean, predict(still, X))


def test_modes_come_back_after_a_failure() -> None:
    net = _net().eval()
    with pytest.raises(RuntimeError):
        stochastic_passes(net, torch.zeros(4, 9))
    assert not any(module.training for module in net.modules())


@pytest.mark.parametrize(
    "teacher",
    [
        nn.Sequential(nn.TransformerEncoderLayer(4, 2, 8, dropout=0.3, batch_first=True), nn.Linear(4, 3)),
        nn.Sequential(nn.Unflatten(1, (1, 2, 2)), nn.Dropout2d(0.5), nn.Conv2d(1, 3, 2), nn.Flatten()),
        nn.Sequential(nn.Linear(4, 6), nn.AlphaDropout(0.5), nn.Linear(6, 3)),
    ],
    ids=["transformer", "dropout2d", "alpha"],
)
def test_every_kind_of_dropout_counts(teacher: nn.Module) -> None:
    # A fused eval path of the transformer layer would skip its dropout.
    x = X.unsqueeze(1) if isinstance(teacher[0], nn.TransformerEncoderLayer) else X  # type: ignore[index]
    wrapped = nn.Sequential(teacher, nn.Flatten()).eval()
    assert (stochastic_passes(wrapped, x, passes=20).variance > 0).all()


def test_the_same_seed_gives_the_same_numbers_and_the_callers_state_stays() -> None:
    net = _net()
    torch.manual_seed(8)
    before = torch.get_rng_state()
    first, second, other = (stochastic_passes(net, X, passes=3, seed=seed, batch_size=4) for seed in (1, 1, 2))
    assert torch.get_rng_state().equal(before)
    assert first.std.equal(second.std)
    assert not first.std.equal(other.std)


def test_augmented_passes_have_dropout_off_and_fresh_draws() -> None:
    net = _net()
    calls: list[int] = []

    def jitter(x: Tensor, generator: torch.Generator) -> Tensor:
        calls.append(len(x))
        return x + 0.3 * torch.randn(x.shape, generator=generator)

    found = stochastic_passes(net, X, passes=5, augment=jitter, batch_size=6, seed=4)
    assert calls == [6] * 5 + [4] * 5
    assert found.std.min() > 0
    generator = torch.Generator().manual_seed(4)
    stacked = torch.stack([predict(net, jitter(X[:6], generator)) for _ in range(5)])
    torch.testing.assert_close(found.mean[:6], stacked.mean(0))
    torch.testing.assert_close(found.std[:6], stacked.std(0), rtol=1e-3, atol=1e-6)
    still = stochastic_passes(net, X, passes=3, augment=lambda x, generator: x)
    assert still.variance.max() < 1e-12


def test_batches_do_not_change_an_augmented_rows_place() -> None:
    """Row i of the result is row i of x, whatever the batch size."""
    net = _net()
    for batch_size in (1, 3, 10, 64):
        found = stochastic_passes(net, X, passes=2, augment=lambda x, generator: x, batch_size=batch_size)
        torch.testing.assert_close(found.mean, predict(net, X))


def test_answers_are_not_kept() -> None:
    answers: list[weakref.ref[Tensor]] = []
    alive: list[int] = []

    def teacher(x: Tensor) -> Tensor:
        alive.append(sum(answer() is not None for answer in answers))
        probs = torch.rand(len(x), 3).softmax(-1)
        answers.append(weakref.ref(probs))
        return probs

    stochastic_passes(teacher, X, passes=30)
    assert max(alive) <= 2


def test_the_results_serve_ups_and_fidelity() -> None:
    net = _net()
    passes = stochastic_passes(net, X, passes=10)
    pool = us.Pool(X, passes.mean)
    for objective in (
        us.ups(std=passes.std, positive_std=0.5, negative_std=0.5, positive_above=0.4, negative_below=0.3),
        us.fidelity(beta=2, uncertainty=passes.variance),
    ):
        run = us.train(us.models.linear(4, 3), None, pool, objective, epochs=1, progress=False)
        assert all(value.isfinite().all() for value in run.student.state_dict().values())


def _no_dropout() -> nn.Module:
    return nn.Sequential(nn.Linear(4, 3), nn.Dropout(0.0))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"teacher": _no_dropout(), "x": X}, "no dropout"),
        ({"teacher": _net(), "x": X, "passes": 0}, "at least 1"),
        ({"teacher": _net(), "x": X[:0]}, "no rows"),
        ({"teacher": lambda x: x, "x": X}, "sums to|negative"),
    ],
)
def test_what_cannot_be_meant_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(us.UnderstudyError, match=message):
        stochastic_passes(**options)


def test_no_dropout_is_fine_for_one_pass() -> None:
    net = _no_dropout()
    torch.testing.assert_close(stochastic_passes(net, X, passes=1).mean, predict(net, X))


def test_teacher_features_are_the_penultimate_ones() -> None:
    net = _net()
    with torch.no_grad():
        expected = net.eval()[:4](X)
    torch.testing.assert_close(teacher_features(net, X, batch_size=3), expected)
    assert teacher_features(net, X, layer="1").equal(penultimate(net, X, layer="1"))
    assert not teacher_features(net, X, layer="1").equal(expected)
