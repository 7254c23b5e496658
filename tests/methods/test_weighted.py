"""Weighted distillation: its columns are the debiasing weights, refreshed when asked, multiplied when combined."""

from typing import Any

import pytest
import torch
from torch import Tensor

import understudy as us
from understudy.maths.confidence import margin
from understudy.maths.weights import debias_in_plane, distortion_of
from understudy.objective import Columns, Context, Outputs, Slot, Step, Weight

CLASSES = 3


class Problem:
    def __init__(self, *, hard: bool = False) -> None:
        g = torch.Generator().manual_seed(3)
        self.x_gold, self.x_pool = torch.randn(30, 4, generator=g), torch.randn(20, 4, generator=g)
        self.y = torch.randint(CLASSES, (30,), generator=g)
        self.teacher_gold = torch.randn(30, CLASSES, generator=g).mul(2).softmax(-1)
        self.teacher_pool = torch.randn(20, CLASSES, generator=g).mul(2).softmax(-1)
        self.net = us.models.linear(4, CLASSES)
        with torch.no_grad():
            for parameter in self.net.parameters():
                parameter.copy_(torch.randn(parameter.shape, generator=g))
        said = (self.teacher_gold, self.teacher_pool)
        said_gold, said_pool = (p.argmax(1) for p in said) if hard else said
        self.gold, self.pool = us.Gold(self.x_gold, self.y, said_gold), us.Pool(self.x_pool, said_pool)

    def student(self, x: Tensor) -> Tensor:
        with torch.no_grad():
            return self.net(x).softmax(-1)

    def context(self) -> Context:
        def predict(rows: object) -> Tensor:
            return self.student(rows.take(torch.arange(len(rows))))  # type: ignore[attr-defined, arg-type]

        return Context(self.gold, self.pool, classes=CLASSES, predict=predict, features=predict)


def _columns(slot: Slot, context: Context) -> Columns:
    return slot.prepare(context)


@pytest.mark.parametrize("confidence", ["margin", "entropy"])
def test_the_column_is_debias_weights(confidence: str) -> None:
    problem = Problem()
    objective = us.weighted(confidence=confidence)
    assert objective.weight is not None
    found = _columns(objective.weight, problem.context())["weight"]
    expected = us.debias_weights(
        problem.teacher_gold,
        problem.y,
        problem.student(problem.x_gold),
        problem.teacher_pool,
        problem.student(problem.x_pool),
        confidence=confidence,
    )
    torch.testing.assert_close(found, expected.float())
    assert found.min() < 1


@pytest.mark.parametrize("form", ["option", "labels"])
def test_hard_targets_have_hard_distortions(form: str) -> None:
    """With hard=True the loss on the teacher's label is that of its best class; with hard labels there is no other."""
    problem = Problem(hard=form == "labels")
    slot = us.debias_weight(hard=form == "option", confidence="margin", k=4)
    one_hot = torch.nn.functional.one_hot(problem.teacher_gold.argmax(1), CLASSES).float()
    wrong, distortion = distortion_of(one_hot, problem.y, problem.student(problem.x_gold))
    sure = torch.ones(50, dtype=torch.float64)
    on_gold = sure[:30] if form == "labels" else margin(problem.teacher_gold)
    on_pool = sure[:20] if form == "labels" else margin(problem.teacher_pool)
    expected = debias_in_plane(
        torch.stack([on_gold, margin(problem.student(problem.x_gold))], 1),
        wrong,
        distortion,
        torch.stack([on_pool, margin(problem.student(problem.x_pool))], 1),
        4,
    )
    torch.testing.assert_close(_columns(slot, problem.context())["weight"], expected.float())


def test_confidence_of_hard_labels_is_the_given_one() -> None:
    labels = us.Hard([0, 1], [0.3, 0.9])
    assert labels.confidence("margin").tolist() == pytest.approx([0.3, 0.9])
    # Only distances matter, so a mirror image serves as entropy.
    assert labels.confidence("entropy").diff().abs().item() == pytest.approx(0.6)


def test_weights_are_refreshed_every_so_many_epochs() -> None:
    problem = Problem()
    options = {"epochs": 4, "batch_size": 10, "lr": 0.1, "progress": False}
    once = us.train(problem.net, problem.gold, problem.pool, us.weighted(), **options)
    often = us.train(problem.net, problem.gold, problem.pool, us.weighted(refresh_every=1), **options)
    before = _columns(us.weighted().weight, problem.context())["weight"]  # type: ignore[arg-type]
    torch.testing.assert_close(once.columns["debias.weight"], before)
    assert not torch.allclose(often.columns["debias.weight"], before)
    # The last refresh came before the last epoch: the student after 3 epochs made these weights.
    three = us.train(problem.net, problem.gold, problem.pool, us.weighted(refresh_every=1), **(options | {"epochs": 3}))
    expected = us.debias_weights(
        problem.teacher_gold,
        problem.y,
        three.predict(problem.x_gold),
        problem.teacher_pool,
        three.predict(problem.x_pool),
    )
    torch.testing.assert_close(often.columns["debias.weight"], expected.float(), rtol=1e-4, atol=1e-5)


class Half(Weight):
    name = "half"

    def __call__(self, losses: Tensor, step: Step) -> Tensor:
        return torch.full_like(losses, 0.5)


def test_another_weight_multiplies() -> None:
    problem = Problem()
    run = us.train(problem.net, problem.gold, problem.pool, us.weighted(weight=Half()), epochs=1, progress=False)
    objective = us.weighted(weight=Half())
    rows = torch.arange(4)
    step = Step(
        Outputs(torch.randn(4, CLASSES)),
        problem.teacher_pool[:4],
        rows,
        {"debias.weight": run.columns["debias.weight"][:4]},
    )
    found = objective.pool_weights(torch.ones(4), step)
    assert found is not None
    torch.testing.assert_close(found, 0.5 * run.columns["debias.weight"][:4])


def test_facts_tell_the_mean_weight() -> None:
    problem = Problem()
    context = problem.context()
    weight = _columns(us.debias_weight(), context)["weight"]
    assert context.facts["debias.mean_weight"] == pytest.approx(float(weight.mean()))


@pytest.mark.parametrize("options", [{"confidence": "variance"}, {"k": 0}, {"refresh_every": 0}])
def test_options_are_checked(options: dict[str, object]) -> None:
    with pytest.raises(us.UnderstudyError, match=next(iter(options))):
        us.weighted(**options)


def test_the_column_follows_loss_and_temperature() -> None:
    problem = Problem()
    for objective, options in (
        (us.weighted(temperature=(1.0, 3.0)), {"temperature": 3.0}),
        (us.weighted(loss=us.taylor_loss(2)), {"loss": us.taylor_loss(2)}),
    ):
        run = us.train(problem.net, problem.gold, problem.pool, objective, epochs=1, progress=False)
        expected = us.debias_weights(
            problem.teacher_gold, problem.y, problem.student(problem.x_gold), problem.teacher_pool,
            problem.student(problem.x_pool), **options,
        )  # fmt: skip
        torch.testing.assert_close(run.columns["debias.weight"], expected.float())


def test_given_weights_train_as_the_method_would() -> None:
    problem = Problem()
    options: dict[str, Any] = {"epochs": 2, "progress": False, "batch_size": 8}
    run = us.train(problem.net, problem.gold, problem.pool, us.weighted(), **options)
    given = us.given_weight(run.columns["debias.weight"])
    again = us.train(problem.net, problem.gold, problem.pool, us.vanilla(weight=given), **options)
    for one, other in zip(run.student.parameters(), again.student.parameters(), strict=True):
        assert torch.equal(one, other)


def test_given_weights_are_in_the_order_of_the_users_pool() -> None:
    problem = Problem(hard=True)
    said = problem.teacher_pool.argmax(1)
    said[[0, 5]] = -1
    pool = us.Pool(problem.x_pool, said)
    weights = torch.arange(20.0)
    weights[0] = float("nan")
    run = us.train(problem.net, None, pool, us.vanilla(weight=us.given_weight(weights)), epochs=1, progress=False)
    kept = [row for row in range(20) if row not in (0, 5)]
    assert run.columns["given.weight"][kept].tolist() == [float(row) for row in kept]
    assert run.columns["given.weight"][[0, 5]].isnan().all()


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (torch.ones(19), "19"),
        (torch.ones(20, 1), "shape"),
        (0.5, "shape"),
        (torch.arange(20.0) - 3, "row 0 is negative"),
        (torch.zeros(20), "nothing"),
        (["a"] * 20, "given_weight"),
    ],
)
def test_given_weights_are_checked(weights: Any, message: str) -> None:
    problem = Problem()
    with pytest.raises(us.UnderstudyError, match=message):
        us.train(problem.net, None, problem.pool, us.vanilla(weight=us.given_weight(weights)), epochs=1, progress=False)
