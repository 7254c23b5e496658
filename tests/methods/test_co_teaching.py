"""Co-teaching: who trains on whose small losses, by hand and by an independent loop; the schedule; the peer."""

import copy
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import understudy as us
from understudy.data.batches import epoch_seed, plan_epoch
from understudy.methods.co_teaching import forget_rate_at, fresh_copy, small_loss_weights
from understudy.objective import Step, Weight
from understudy.training.batch_loss import Batch


def _pool(rows: int = 60) -> us.Pool:
    g = torch.Generator().manual_seed(2)
    y = torch.arange(rows) % 3
    x = torch.randn(rows, 4, generator=g) + 2 * F.one_hot(y, 4)
    noisy = torch.where(torch.rand(rows, generator=g) < 0.4, (y + 1) % 3, y)
    return us.Pool(x, us.Hard(noisy, classes=3))


def _net() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 3))


def test_weights_by_hand() -> None:
    """A quarter is forgotten: the three smallest of four count 4/3 each, so that Σ / 4 is their mean."""
    found = small_loss_weights(torch.tensor([0.5, 9.0, 0.1, 2.0]), 0.25)
    torch.testing.assert_close(found, torch.tensor([4 / 3, 0.0, 4 / 3, 4 / 3]))
    assert small_loss_weights(torch.tensor([0.5, 9.0]), 0.0).tolist() == [1.0, 1.0]
    # However much is forgotten, one row stays.
    assert small_loss_weights(torch.tensor([0.5, 9.0, 3.0]), 0.99).tolist() == [3.0, 0.0, 0.0]


def test_forget_rate_rises_linearly_without_jumps() -> None:
    rates = [forget_rate_at(epoch, 0.4, 10) for epoch in range(15)]
    assert rates[:3] == pytest.approx([0.0, 0.04, 0.08])
    assert rates[10:] == [0.4] * 5
    assert max(b - a for a, b in pairwise(rates)) == pytest.approx(0.04)


def test_training_equals_a_plain_loop_over_two_nets() -> None:
    """Independent: no weights, the chosen rows are cut out and averaged, one SGD per net."""
    pool, net, seed, epochs = _pool(), _net(), 5, 4
    run = us.train(
        net, None, pool, us.co_teaching(0.5, gradual_epochs=2), epochs=epochs, batch_size=20, lr=0.3, seed=seed,
        optimizer="sgd", progress=False,
    )  # fmt: skip
    nets = [copy.deepcopy(net), fresh_copy(net, seed)]
    optimizers = [torch.optim.SGD(one.parameters(), lr=0.3, momentum=0.9) for one in nets]
    labels = pool.teacher.top1()  # type: ignore[union-attr]
    for epoch in range(epochs):
        torch.manual_seed(epoch_seed(seed, epoch))
        kept = (20, 15, 10, 10)[epoch]
        for _, rows in plan_epoch(0, len(pool), batch_size=20, seed=seed, epoch=epoch):
            losses = [F.cross_entropy(one(pool.x[rows]), labels[rows], reduction="none") for one in nets]
            chosen = [values.detach().topk(kept, largest=False).indices for values in losses]
            for optimizer, values, by_peer in zip(optimizers, losses, chosen[::-1], strict=True):
                optimizer.zero_grad()
                values[by_peer].mean().backward()
                optimizer.step()
    for expected, found in zip(nets[0].parameters(), run.student.parameters(), strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
    peer = run.modules["peer"]
    assert isinstance(peer, nn.ModuleDict)
    for expected, found in zip(nets[1].parameters(), peer["student"].parameters(), strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


def test_gold_trains_both_nets_whole() -> None:
    pool, gold = _pool(), us.Gold(torch.randn(4, 4), [0, 1, 2, 0])
    session = us.Session(_net(), gold, pool, us.co_teaching(0.5, gradual_epochs=1))
    session.prepare()
    rows = torch.arange(8)
    x = torch.cat([gold.x, pool.x[rows]])
    scored = session.score(session.student, Batch(x, torch.arange(4), rows, 4, 8, step_rows=12, epoch=1))
    nets = [learner.student for learner in session.scorer.learners.values()]
    on_gold = sum(F.cross_entropy(one(gold.x), gold.y, reduction="sum") for one in nets)
    labels = pool.teacher.top1()[rows]  # type: ignore[union-attr]
    losses = [F.cross_entropy(one(pool.x[rows]), labels, reduction="none") for one in nets]
    chosen = [values.detach().topk(4, largest=False).indices for values in losses]
    on_pool = 2 * losses[0][chosen[1]].sum() + 2 * losses[1][chosen[0]].sum()
    torch.testing.assert_close(scored.total, on_gold + on_pool)


def test_the_peer_is_another_net_the_same_for_a_seed_and_saved(tmp_path: Path) -> None:
    net = us.models.mlp(4, 3, hidden=(5,))
    one, same, other = fresh_copy(net, 1), fresh_copy(net, 1), fresh_copy(net, 2)
    first = [next(module.parameters()) for module in (net, one, same, other)]
    assert first[1].equal(first[2])
    assert not first[0].equal(first[1]) and not first[1].equal(first[3])
    run = us.train(net, None, _pool(), us.co_teaching(0.3), epochs=1, out=tmp_path / "run", progress=False)
    assert (tmp_path / "run" / "modules.safetensors").exists()
    assert not next(run.modules["peer"].parameters()).equal(fresh := next(fresh_copy(net, 0).parameters()))
    assert fresh.shape == next(net.parameters()).shape


@pytest.mark.parametrize("build", [lambda: nn.Linear(4, 3), lambda: us.models.linear(4, 3)])
@pytest.mark.parametrize("made_under", [-1, 0, 1, 2, 3])
def test_the_peer_differs_from_a_student_made_under_a_seed_near_the_training_s(
    build: Callable[[], nn.Module], made_under: int
) -> None:
    """A stream that is only the next number of the seed draws the very net that ``manual_seed(1)`` drew."""
    torch.manual_seed(made_under)
    student = build()
    session = us.Session(student, None, _pool(), us.co_teaching(0.2), seed=0)
    peer = session.scorer.learners["peer"].student
    assert not next(student.parameters()).equal(next(peer.parameters()))


def test_forget_rate_is_measured_on_gold_where_it_is_not_given() -> None:
    gold = us.Gold(
        torch.randn(10, 4), [0, 1, 2, 0, 1, 2, 0, 1, 2, 0], us.Hard([0, 1, 2, 0, 1, 2, 0, 2, 1, 1], classes=3)
    )
    run = us.train(_net(), gold, _pool(), us.co_teaching(), epochs=1, progress=False)
    assert run.facts["co_teaching.forget_rate"] == pytest.approx(0.3)


def test_pretraining_and_fine_tuning_on_gold_work() -> None:
    gold = us.Gold(torch.randn(6, 4), [0, 1, 2, 0, 1, 2])
    run = us.train(
        _net(), gold, _pool(), us.co_teaching(0.2), epochs=1, pretrain_epochs=1, finetune_epochs=1, progress=False
    )
    assert all(value.isfinite().all() for value in run.student.state_dict().values())


def test_another_weight_multiplies() -> None:
    pool = _pool()
    run = us.train(_net(), None, pool, us.co_teaching(0.2, weight=Half()), epochs=1, batch_size=20, progress=False)
    assert run.columns["refined.weight"].mean().item() == pytest.approx(0.5, abs=1e-6)


class Half(Weight):
    name = "half"

    def __call__(self, losses: Tensor, step: Step) -> Tensor:
        return torch.full_like(losses, 0.5)


class Bare(nn.Module):
    """Parameters that nothing can draw anew."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(4, 3))

    def forward(self, x: Tensor) -> Tensor:
        return x @ self.weight


def test_bad_input_fails_before_the_first_step() -> None:
    with pytest.raises(us.UnderstudyError, match="forget_rate="):
        us.train(_net(), None, _pool(), us.co_teaching(), epochs=1, progress=False)
    with pytest.raises(us.UnderstudyError, match="reset_parameters"):
        us.train(Bare(), None, _pool(), us.co_teaching(0.2), epochs=1, progress=False)
    gold = us.Gold(torch.randn(3, 4), [0, 1, 2])
    with pytest.raises(us.UnderstudyError, match="l2rw_weight"):
        us.train(_net(), gold, _pool(), us.co_teaching(0.2, weight=us.l2rw_weight()), epochs=1, progress=False)


@pytest.mark.parametrize("options", [{"forget_rate": 1.0}, {"gradual_epochs": 0}])
def test_options_are_checked(options: dict[str, object]) -> None:
    with pytest.raises(us.UnderstudyError, match=next(iter(options))):
        us.co_teaching(**options)
