"""Learning to reweight: the weights by hand and against the paper's double backward, and when no step is made."""

import copy
import dataclasses

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import understudy as us
from understudy.objective import Outputs, Step, Weight
from understudy.training.batch_loss import Batch


def _pool_and_gold(rows: int = 40, classes: int = 3) -> tuple[us.Gold, us.Pool]:
    g = torch.Generator().manual_seed(1)
    x, y = torch.randn(rows + 12, 5, generator=g), torch.arange(rows + 12) % classes
    x = x + 2 * F.one_hot(y, 5)
    noisy = torch.where(torch.rand(rows, generator=g) < 0.4, (y[12:] + 1) % classes, y[12:])
    return us.Gold(x[:12], y[:12]), us.Pool(x[12:], us.Hard(noisy, classes=classes))


def _net(*, batch_norm: bool = False) -> nn.Sequential:
    torch.manual_seed(0)
    middle = nn.BatchNorm1d(8) if batch_norm else nn.Identity()
    return nn.Sequential(nn.Linear(5, 8), middle, nn.Tanh(), nn.Linear(8, 3))


def test_weights_by_hand() -> None:
    """max(u, 0) = (1, 0, 3, 0), scaled to mean 1: (1, 0, 3, 0) · 4 / 4."""
    step = Step(Outputs(torch.zeros(4, 2)), torch.zeros(4, 2), torch.arange(4))
    found = us.l2rw().pool_weights(torch.ones(4), _aligned(step, [1.0, -2.0, 3.0, 0.0]))
    assert found is not None
    assert found.tolist() == [1.0, 0.0, 3.0, 0.0]
    assert us.l2rw_weight()(torch.ones(2), _aligned(step, [-1.0, -2.0])).tolist() == [0.0, 0.0]
    assert us.l2rw_weight()(torch.ones(2), _aligned(step, [2.0, 6.0])).tolist() == [0.5, 1.5]


def _aligned(step: Step, alignment: list[float]) -> Step:
    return dataclasses.replace(step, alignment=torch.tensor(alignment))


def test_weights_of_gold_and_pool_together_by_hand() -> None:
    """u = (2, −1) on gold and (1, −2, 3, 0) on the pool: Σ max(u, 0) = 6 over 6 rows, so w = max(u, 0)."""
    objective = us.l2rw(gold_in_pool=True)
    step = Step(Outputs(torch.zeros(4, 2)), torch.zeros(4, 2), torch.arange(4))
    on_gold, on_pool = torch.tensor([2.0, -1.0]), torch.tensor([1.0, -2.0, 3.0, 0.0])
    step = dataclasses.replace(step, alignment=on_pool, gold_alignment=on_gold)
    assert objective.pool_weights(torch.ones(4), step).tolist() == [1.0, 0.0, 3.0, 0.0]  # type: ignore[union-attr]
    assert objective.gold_weights(on_gold, on_pool).tolist() == [2.0, 0.0]
    assert objective.gold_weights(torch.tensor([1.0, 3.0]), torch.empty(0)).tolist() == [0.5, 1.5]


@pytest.mark.parametrize("pool_rows", [14, 0])
def test_gold_in_the_pool_scores_as_the_papers_double_backward(pool_rows: int) -> None:
    """§3.1: the training set contains the validation set; ε for all rows of the batch, in float64."""
    gold, pool = _pool_and_gold()
    net = _net().train()
    session = us.Session(net, gold, pool, us.l2rw(gold_in_pool=True), gold_weight=1.0)
    golds, rows = torch.arange(6), torch.arange(pool_rows)
    x = torch.cat([gold.x[golds], pool.x[rows]])
    y = torch.cat([gold.y[golds], pool.teacher.top1()[rows]])  # type: ignore[union-attr]

    exact = copy.deepcopy(net).double()
    parameters = dict(exact.named_parameters())

    def losses(values: dict[str, Tensor], x: Tensor, y: Tensor) -> Tensor:
        return F.cross_entropy(torch.func.functional_call(exact, values, (x.double(),)), y, reduction="none")

    epsilon = torch.zeros(len(y), dtype=torch.float64, requires_grad=True)
    each = losses(parameters, x, y)
    gradients = torch.autograd.grad((epsilon * each).sum(), list(parameters.values()), create_graph=True)
    moved = {name: p - 0.1 * g for (name, p), g in zip(parameters.items(), gradients, strict=True)}
    meta = -torch.autograd.grad(losses(moved, gold.x, gold.y).mean(), epsilon)[0]
    weights = len(y) * meta.clamp(min=0) / meta.clamp(min=0).sum()
    assert float(weights[:6].sum()) > 0

    scored = session.score(net, Batch(x, golds, rows, len(golds), len(rows), step_rows=len(y)))
    torch.testing.assert_close(scored.total.double(), (weights * each).sum(), rtol=1e-5, atol=1e-5)
    assert scored.moves


def test_with_gold_in_the_pool_an_opposed_pool_does_not_stop_training() -> None:
    """Where every pool row pulls away from gold, gold's own rows still descend (the condition of Lemma 1)."""
    x = torch.ones(8, 1)
    gold, pool = us.Gold(x, [1] * 7 + [0]), us.Pool(x, us.Hard([0] * 8, classes=2))
    net = us.models.linear(1, 2)
    options = {"epochs": 2, "optimizer": "sgd", "lr": 0.1, "progress": False}
    run = us.train(net, gold, pool, us.l2rw(gold_in_pool=True), **options)
    before, after = (us.evaluate(one, gold)["loss"] for one in (net, run.student))
    assert after < before
    assert run.columns["refined.weight"].tolist() == [0.0] * 8
    with pytest.raises(us.UnderstudyError, match="pass one"):
        us.l2rw(gold_in_pool=True, train_on_gold=True)


@pytest.mark.parametrize("objective", [us.l2rw(gold_in_pool=True), us.l2rw()])
def test_a_batch_that_is_scored_again_keeps_its_weights(objective: us.Objective) -> None:
    """A line search asks for the same batch several times (L-BFGS): gold's weights are kept with the pool's."""
    gold, pool = _pool_and_gold()
    net, rows, golds = _net().train(), torch.arange(8), torch.arange(4 if objective.gold_trains else 0)
    session = us.Session(net, gold, pool, objective)
    x = torch.cat([gold.x[golds], pool.x[rows]])
    batch = Batch(x, golds, rows, len(golds), len(rows), step_rows=len(x), full=True)
    first, again = session.score(net, batch), session.score(net, batch)
    assert first.total.item() == pytest.approx(again.total.item(), abs=1e-6)
    assert first.weights is not None and again.weights is not None and first.weights.equal(again.weights)


def test_the_steering_rows_are_augmented_as_the_pool_is() -> None:
    """Every row doubled by the augmentation, or beforehand: the same loss."""
    gold, pool = _pool_and_gold()
    doubled = us.Gold(2 * gold.x, gold.y), us.Pool(2 * pool.x, pool.teacher)
    totals = []
    for (some_gold, some_pool), augment in (((gold, pool), lambda x, generator: 2 * x), (doubled, None)):
        net = _net()
        session = us.Session(net, some_gold, some_pool, us.l2rw(gold_rows=5), batch_size=20, augment=augment)
        totals.append([float(session.score(net, batch).total.detach()) for batch in session.batches(0)])
    assert totals[0] == totals[1]


@pytest.mark.parametrize("batch_norm", [False, True])
def test_a_step_scores_as_the_papers_double_backward(batch_norm: bool) -> None:
    """Weights through ∂ (gold loss after one virtual SGD step on Σ ε ℓ) / ∂ε at 0; BatchNorm in train mode."""
    gold, pool = _pool_and_gold()
    net = _net(batch_norm=batch_norm).train()
    session = us.Session(net, gold, pool, us.l2rw())
    session.prepare()
    rows = torch.arange(20)
    noisy = pool.teacher.top1()[rows]  # type: ignore[union-attr]

    exact = copy.deepcopy(net).double()
    parameters = dict(exact.named_parameters())

    def losses(values: dict[str, Tensor], x: Tensor, y: Tensor) -> Tensor:
        state = {**values, **{name: buffer.clone() for name, buffer in exact.named_buffers()}}
        return F.cross_entropy(torch.func.functional_call(exact, state, (x.double(),)), y, reduction="none")

    epsilon = torch.zeros(20, dtype=torch.float64, requires_grad=True)
    on_pool = losses(parameters, pool.x[rows], noisy)
    gradients = torch.autograd.grad((epsilon * on_pool).sum(), list(parameters.values()), create_graph=True)
    moved = {name: p - 0.1 * g for (name, p), g in zip(parameters.items(), gradients, strict=True)}
    meta = -torch.autograd.grad(losses(moved, gold.x, gold.y).mean(), epsilon, retain_graph=True)[0]
    weights = 20 * meta.clamp(min=0) / meta.clamp(min=0).sum()
    assert 0 < int((weights == 0).sum()) < 20
    total = (weights.detach() * on_pool).sum()

    scored = session.score(net, Batch(pool.x[rows], torch.empty(0, dtype=torch.long), rows, 0, len(rows), step_rows=20))
    torch.testing.assert_close(scored.total.double(), total, rtol=1e-5, atol=1e-5)
    # The backward pass of the same forward pass is that of the weighted loss, with the weights constant.
    scored.total.backward()
    for expected, parameter in zip(torch.autograd.grad(total, parameters.values()), net.parameters(), strict=True):
        assert parameter.grad is not None
        torch.testing.assert_close(parameter.grad.double(), expected, rtol=1e-4, atol=1e-4)
    if batch_norm:
        assert int(dict(net.named_buffers())["1.num_batches_tracked"]) == 1


class Nothing(Weight):
    """Stands for an alignment that is negative everywhere."""

    name = "nothing"
    can_vanish = True

    def __call__(self, losses: Tensor, step: Step) -> Tensor:
        return torch.zeros_like(losses)


@pytest.mark.parametrize("optimizer", ["sgd", "adam", "adamw"])
def test_all_zero_weights_leave_the_student_alone(optimizer: str) -> None:
    """Momentum and weight decay would move it: they do in the first epoch, whose weights are not zero."""
    gold, pool = _pool_and_gold()
    options = {"batch_size": 10, "lr": 0.1, "optimizer": optimizer, "weight_decay": 0.1, "progress": False}
    net = _net()
    stays = us.train(net, gold, pool, us.l2rw(weight=Nothing()), epochs=2, **options)
    for before, after in zip(net.parameters(), stays.student.parameters(), strict=True):
        assert before.equal(after)
    one = us.train(net, gold, pool, us.l2rw(), epochs=1, **options)
    halted = us.train(net, gold, pool, us.l2rw(weight=AfterFirstEpoch()), epochs=3, **options)
    for first, last in zip(one.student.parameters(), halted.student.parameters(), strict=True):
        assert first.equal(last)
    assert not next(net.parameters()).equal(next(one.student.parameters()))


class AfterFirstEpoch(Weight):
    name = "first_epoch"
    can_vanish = True

    def __call__(self, losses: Tensor, step: Step) -> Tensor:
        return torch.full_like(losses, float(step.epoch == 0))


def test_an_opposed_gold_set_stops_training_by_itself() -> None:
    """Pool and gold share their rows and have opposite labels: every alignment of a linear model's row is negative."""
    x = torch.ones(8, 1)
    gold, pool = us.Gold(x, [1] * 7 + [0]), us.Pool(x, us.Hard([0] * 8, classes=2))
    net = us.models.linear(1, 2)
    run = us.train(net, gold, pool, us.l2rw(), epochs=2, optimizer="sgd", weight_decay=0.1, lr=1.0, progress=False)
    for before, after in zip(net.parameters(), run.student.parameters(), strict=True):
        assert before.equal(after)
    assert run.columns["refined.weight"].tolist() == [0.0] * 8


def test_gold_steers_but_does_not_train_unless_asked() -> None:
    gold, pool = _pool_and_gold()
    assert us.l2rw().gold_trains is False
    assert us.l2rw(train_on_gold=True).gold_trains is True
    run = us.train(_net(), gold, pool, us.l2rw(), epochs=1, batch_size=10, progress=False)
    assert run.columns["refined.weight"].mean().item() == pytest.approx(1.0, abs=1e-5)


def test_wrong_labels_get_little_weight() -> None:
    gold, pool = _pool_and_gold(rows=400)
    truth = torch.arange(12, 412) % 3
    run = us.train(_net(), gold, pool, us.l2rw(), epochs=10, batch_size=50, lr=0.01, progress=False)
    wrong = pool.teacher.top1() != truth  # type: ignore[union-attr]
    weight = run.columns["refined.weight"]
    assert weight[wrong].mean() < 0.25 * weight[~wrong].mean()


def test_it_is_a_slot_of_other_methods_and_multiplies() -> None:
    gold, pool = _pool_and_gold()
    gold = us.Gold(gold.x, gold.y, us.Hard(gold.y, classes=3))
    objective = us.slam(weight=us.l2rw_weight(gold_rows=6) * Half())
    assert objective.alignment_rows == 6
    run = us.train(_net(batch_norm=True), gold, pool, objective, epochs=2, batch_size=10, progress=False)
    # The weight has mean 1 over a batch's pool rows, halved.
    assert run.columns["refined.weight"].mean().item() == pytest.approx(0.5, abs=1e-5)


class Half(Weight):
    name = "half"

    def __call__(self, losses: Tensor, step: Step) -> Tensor:
        return torch.full_like(losses, 0.5)


def test_bad_input_fails_before_the_first_step() -> None:
    gold, pool = _pool_and_gold()
    with pytest.raises(us.UnderstudyError, match="gold=None; pass gold"):
        us.train(_net(), None, pool, us.l2rw(), epochs=1, progress=False)
    with pytest.raises(us.UnderstudyError, match="student has 2 outputs"):
        us.train(us.models.linear(5, 2), gold, pool, us.l2rw(), epochs=1, progress=False)
    with pytest.raises(us.UnderstudyError, match="gold_rows"):
        us.l2rw(gold_rows=0)
