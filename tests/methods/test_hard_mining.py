"""Hard mining: which rows are kept, by hand; batches without rare rows; balanced pools."""

import torch

import understudy as us
from understudy.methods.hard_mining import mined
from understudy.objective import Context, Outputs, Step


def _prepared(labels: list[int], classes: int) -> torch.Tensor:
    pool = us.Pool(torch.zeros(len(labels), 1), us.Hard(labels, classes=classes))
    context = Context(None, pool, classes=classes, predict=lambda x: x, features=lambda x: x)
    return us.hard_mining_weight().prepare(context)["rare"]


def test_kept_rows_by_hand() -> None:
    """Two rare rows, so the two hardest of the others."""
    losses = torch.tensor([0.1, 5.0, 0.3, 2.0, 9.0, 0.2])
    rare = torch.tensor([True, False, False, False, False, True])
    assert mined(losses, rare).tolist() == [1.0, 1.0, 0.0, 0.0, 1.0, 1.0]


def test_weights_have_mean_one_over_the_batch() -> None:
    step = Step(
        Outputs(torch.zeros(5, 2)), torch.zeros(5, 2), torch.arange(5),
        {"hard_mining.rare": torch.tensor([True, False, False, False, False])},
    )  # fmt: skip
    found = us.hard_mining_weight()(torch.tensor([1.0, 2.0, 3.0, 4.0, 0.5]), step)
    assert found.tolist() == [2.5, 0.0, 0.0, 2.5, 0.0]


def test_fewer_frequent_rows_than_rare_ones_are_all_kept() -> None:
    assert mined(torch.tensor([1.0, 2.0, 3.0]), torch.tensor([True, True, False])).tolist() == [1.0, 1.0, 1.0]


def test_rare_classes_are_those_below_the_average() -> None:
    """Counts 4, 1, 0, 1: the average of the classes that occur is 2."""
    assert _prepared([0, 0, 0, 0, 1, 3], 4).tolist() == [False] * 4 + [True] * 2


def test_nothing_is_dropped_from_a_balanced_pool() -> None:
    rare = _prepared([0, 1, 0, 1], 2)
    assert mined(torch.tensor([1.0, 2.0, 3.0, 4.0]), rare).tolist() == [1.0] * 4


def test_a_batch_without_rare_rows_makes_no_step() -> None:
    """One rare row among 40, batches of 10: three of four batches must not move the student, momentum included."""
    g = torch.Generator().manual_seed(0)
    x, net = torch.randn(40, 3, generator=g), us.models.linear(3, 2)
    pool = us.Pool(x, us.Hard([1] + [0] * 39, classes=2))
    run = us.train(net, None, pool, us.hard_mining(), epochs=1, batch_size=10, optimizer="sgd", lr=0.1, progress=False)
    weights = run.columns["refined.weight"]
    assert sorted(weights.tolist())[-3:] == [0.0, 5.0, 5.0]
    chosen = weights.nonzero().squeeze(1)
    losses = torch.nn.functional.cross_entropy(net(x[chosen]), pool.teacher.top1()[chosen])  # type: ignore[union-attr]
    gradients = torch.autograd.grad(losses, list(net.parameters()))
    for before, gradient, after in zip(net.parameters(), gradients, run.student.parameters(), strict=True):
        torch.testing.assert_close(after, before - 0.1 * gradient)
