"""UPS: what is selected, the signed loss, and that unselected rows leave the student alone."""

import math
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

import understudy as us
from understudy.data.batches import plan_epoch
from understudy.maths import losses
from understudy.objective import Context, Objective, Outputs, Step
from understudy.training.optimizers import make_optimizer
from understudy.training.options import TrainingOptions

F = torch.tensor([[0.5, 0.3, 0.2]])


def _loss(objective: Objective, teacher: list[float], std: list[float] | None = None) -> float:
    columns = {} if std is None else {"ups.std": torch.tensor([std])}
    return float(objective.pool_losses(Step(Outputs(F.log()), torch.tensor([teacher]), torch.tensor([0]), columns)))


def _target(objective: Objective, teacher: Tensor, std: Tensor | None = None) -> Tensor:
    columns = {} if std is None else {"ups.std": std}
    return objective.target(Step(Outputs(teacher), teacher, torch.arange(len(teacher)), columns))


def test_one_positive_and_one_negative_by_hand() -> None:
    # Class 0 is positive, class 2 negative, class 1 neither: half of −log ½ − log(1 − 0.2).
    expected = 0.5 * (-math.log(0.5) - math.log(0.8))
    assert _loss(us.ups(), [0.8, 0.17, 0.03]) == pytest.approx(expected, rel=1e-6)


def test_negatives_alone_by_hand() -> None:
    expected = -0.5 * (math.log(0.7) + math.log(0.8))
    assert _loss(us.ups(positive_above=0.99), [0.96, 0.02, 0.02]) == pytest.approx(expected, rel=1e-6)


def test_hard_is_the_positive_best_class_alone() -> None:
    assert _loss(us.ups(hard=True), [0.8, 0.17, 0.03]) == pytest.approx(-math.log(0.5), rel=1e-6)
    assert _loss(us.ups(hard=True, positive_above=0.3), [0.35, 0.4, 0.25]) == pytest.approx(-math.log(0.3), rel=1e-6)
    assert _loss(us.ups(hard=True), [0.6, 0.4, 0.0]) == 0


@pytest.mark.parametrize(
    ("std", "expected"),
    [
        ([0.05, 0.0, 0.005], [0.5, 0.0, -0.5]),  # at the limits: selected
        ([0.06, 0.0, 0.005], [0.0, 0.0, -1.0]),
        ([0.05, 0.0, 0.006], [1.0, 0.0, 0.0]),
        ([0.06, 0.0, 0.006], [0.0, 0.0, 0.0]),
    ],
)
def test_wavering_classes_are_not_selected(std: list[float], expected: list[float]) -> None:
    found = _target(us.ups(), torch.tensor([[0.8, 0.17, 0.03]]), torch.tensor([std]))
    assert found.tolist() == [expected]


def test_limits_are_inclusive() -> None:
    # 0.75 and 0.0625 are exact in binary.
    objective = us.ups(positive_above=0.75, negative_below=0.0625)
    assert _target(objective, torch.tensor([[0.75, 0.1875, 0.0625]])).tolist() == [[0.5, 0.0, -0.5]]


def test_selection_and_loss_agree_with_a_loop() -> None:
    g = torch.Generator().manual_seed(2)
    rows, classes = 200, 5
    teacher = (4 * torch.randn(rows, classes, generator=g)).softmax(-1)
    std = torch.rand(rows, classes, generator=g) * 0.1 * torch.rand(rows, 1, generator=g)
    logits = 2 * torch.randn(rows, classes, generator=g, dtype=torch.float64)
    objective = us.ups(positive_above=0.6, negative_below=0.1, positive_std=0.03, negative_std=0.02)
    found = objective.pool_losses(Step(Outputs(logits), teacher, torch.arange(rows), {"ups.std": std}))
    counts = []
    for i in range(rows):
        f = logits[i].exp() / logits[i].exp().sum()
        cost, selected = 0.0, 0
        for c in range(classes):
            if teacher[i, c] >= 0.6 and std[i, c] <= 0.03:
                cost, selected = cost - math.log(f[c]), selected + 1
            elif teacher[i, c] <= 0.1 and std[i, c] <= 0.02:
                cost, selected = cost - math.log(1 - f[c]), selected + 1
        counts.append(selected)
        assert found[i].item() == pytest.approx(cost / max(1, selected), rel=1e-5, abs=1e-12)
    assert {0, 1, 2} < set(counts)
    columns = objective.replace(target=_with_std(objective, std)).target.prepare(_context(teacher, classes))
    assert columns["selected"].tolist() == counts


def _with_std(objective: Objective, std: Tensor) -> Any:
    target: Any = objective.target
    return type(target)(
        target.positive_above, target.negative_below, target.positive_std, target.negative_std, target.hard, std
    )


def _context(teacher: Any, classes: int) -> Context:
    def unused(x: object) -> Tensor:
        raise AssertionError("ups does not look at the student")

    return Context(
        None, us.Pool(torch.zeros(len(teacher), 1), teacher), classes=classes, predict=unused, features=unused
    )


@given(
    st.lists(st.floats(-8, 8), min_size=4, max_size=4), st.lists(st.sampled_from([-1, 0, 1]), min_size=4, max_size=4)
)
def test_the_loss_is_a_binary_cross_entropy_over_the_selected(logits: list[float], signs: list[int]) -> None:
    log_f = torch.tensor([logits], dtype=torch.float64).log_softmax(-1)
    target = torch.tensor([signs], dtype=torch.float64)
    each = torch.nn.functional.binary_cross_entropy(log_f.exp(), (target > 0).double(), reduction="none")
    torch.testing.assert_close(losses.ups(log_f, target), (each * target.abs()).sum(-1), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(("gap", "expected"), [(20.0, 20.0), (50.0, 50.0), (99.0, 99.0), (150.0, 100.0), (1e4, 100.0)])
def test_ruling_out_the_students_favourite_is_exact_and_bounded(gap: float, expected: float) -> None:
    """In float32 f rounds to 1 from a gap of 17 on; the mass of the other classes still knows 1 − f."""
    logits = torch.tensor([[gap, 0.0]], requires_grad=True)
    loss = losses.ups(logits.log_softmax(-1), torch.tensor([[-1.0, 0.0]]))
    loss.sum().backward()
    assert loss.item() == pytest.approx(expected, rel=1e-5)
    slope = 1.0 if gap < 100 else 0.0
    torch.testing.assert_close(logits.grad, torch.tensor([[slope, -slope]]), rtol=1e-5, atol=1e-6)


def test_gold_rows_are_plain_cross_entropy() -> None:
    own = us.ups().gold_losses(F.log(), torch.tensor([[0.0, 1.0, 0.0]]))
    assert own.item() == pytest.approx(-math.log(0.3), rel=1e-6)


def test_temperature_divides_the_students_logits_and_leaves_the_selection() -> None:
    f = F.double().sqrt() / F.double().sqrt().sum()
    expected = -0.5 * (f[0, 0].log() + (1 - f[0, 2]).log())
    found = _loss(us.ups(temperature=2), [0.8, 0.17, 0.03])
    assert found == pytest.approx(expected.item(), rel=1e-6)
    assert _loss(us.ups(temperature=2, temperature_scale=True), [0.8, 0.17, 0.03]) == pytest.approx(4 * found)


def test_unselected_rows_do_not_count() -> None:
    objective = us.ups()
    teacher = torch.tensor([[0.8, 0.17, 0.03], [0.4, 0.3, 0.3], [0.9, 0.06, 0.04], [0.6, 0.2, 0.2]])
    columns = {f"ups.{name}": column for name, column in objective.target.prepare(_context(teacher, 3)).items()}
    assert columns["ups.selected"].tolist() == [2, 0, 2, 0]
    step = Step(Outputs(F.log().expand(4, 3)), teacher, torch.arange(4), columns)
    assert objective.pool_weights(torch.ones(4), step).tolist() == [2, 0, 2, 0]  # type: ignore[union-attr]


def _pool(rows: int = 16) -> tuple[Tensor, Tensor]:
    """Rows with something selected and rows with nothing selected, alternating."""
    g = torch.Generator().manual_seed(5)
    sure = torch.tensor([[0.9, 0.06, 0.04], [0.02, 0.95, 0.03]]).repeat(rows // 2, 1)
    unsure = torch.tensor([0.4, 0.3, 0.3])
    teacher = torch.where(torch.arange(rows).unsqueeze(1) % 4 < 2, sure[:rows], unsure)
    return torch.randn(rows, 3, generator=g), teacher


@pytest.mark.parametrize("weight_decay", [0.0, 0.1])
@pytest.mark.parametrize("optimizer", ["adam", "sgd"])
def test_a_pool_with_nothing_selected_does_not_move_the_student(optimizer: str, weight_decay: float) -> None:
    x, _ = _pool()
    net = us.models.linear(3, 3)
    pool = us.Pool(x, torch.tensor([[0.4, 0.3, 0.3]]).expand(16, 3))
    with pytest.warns(us.UnderstudyWarning, match="no class"):
        run = us.train(
            net,
            None,
            pool,
            us.ups(),
            epochs=3,
            batch_size=4,
            lr=0.5,
            optimizer=optimizer,
            weight_decay=weight_decay,
            progress=False,
        )
    for before, after in zip(net.parameters(), run.student.parameters(), strict=True):
        assert after.equal(before)
    assert run.facts["ups.share_selected"] == 0


def test_unselected_rows_among_others_do_not_move_the_student() -> None:
    """Whole-pool batches: training on all rows is training on the selected ones alone."""
    x, teacher = _pool()
    chosen = teacher.max(1).values > 0.7
    net = us.models.linear(3, 3)
    options: dict[str, Any] = {"epochs": 4, "batch_size": 16, "lr": 0.3, "optimizer": "sgd", "progress": False}
    everything = us.train(net, None, us.Pool(x, teacher), us.ups(), **options)
    selected = us.train(net, None, us.Pool(x[chosen], teacher[chosen]), us.ups(), **options)
    for a, b in zip(everything.student.parameters(), selected.student.parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-6)
    # What the unselected rows look like is of no consequence, to the bit.
    other = torch.where(chosen.unsqueeze(1), x, 100 * x)
    same = us.train(net, None, us.Pool(other, teacher), us.ups(), **options)
    for a, b in zip(everything.student.parameters(), same.student.parameters(), strict=True):
        assert a.equal(b)


def test_a_batch_with_nothing_selected_makes_no_step_between_others() -> None:
    """Adam's momentum and weight decay would still move the student: single-row batches, one of them unselected."""
    g = torch.Generator().manual_seed(7)
    x = torch.randn(4, 3, generator=g)
    teacher = torch.tensor([[0.9, 0.06, 0.04], [0.4, 0.3, 0.3], [0.02, 0.95, 0.03], [0.3, 0.4, 0.3]])
    net = us.models.linear(3, 3)
    options: dict[str, Any] = {"epochs": 5, "batch_size": 1, "lr": 0.2, "weight_decay": 0.1, "progress": False}
    run = us.train(net, None, us.Pool(x, teacher), us.ups(), **options)
    # The same selected rows in the same order, one optimizer step each, written out.
    student = us.models.linear(3, 3)
    student.load_state_dict(net.state_dict())
    optimizer = make_optimizer(TrainingOptions(epochs=5, lr=0.2, weight_decay=0.1), student)
    for epoch in range(5):
        for _, rows in plan_epoch(0, 4, batch_size=1, seed=0, epoch=epoch):
            kept = rows[rows % 2 == 0]
            if len(kept):
                optimizer.zero_grad()
                loss = losses.ups(student(x[kept]).log_softmax(-1), _target(us.ups(), teacher[kept]))
                loss.mean().backward()
                optimizer.step()
    for a, b in zip(run.student.parameters(), student.parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-6)


def test_one_pass_selects_without_nan() -> None:
    x, teacher = _pool()
    net = us.models.linear(3, 3)
    run = us.train(net, None, us.Pool(x, teacher), us.ups(), epochs=1, batch_size=5, progress=False)
    assert math.isfinite(run.history[0]["loss"])
    zero = us.train(
        net, None, us.Pool(x, teacher), us.ups(std=torch.zeros(16, 3)), epochs=1, batch_size=5, progress=False
    )
    assert zero.history[0]["loss"] == run.history[0]["loss"]
    assert zero.columns["ups.std"].shape == (16, 3)


@pytest.mark.parametrize(
    ("std", "message"),
    [
        (torch.zeros(3, 3), "3 rows"),
        (torch.zeros(16, 2), "shape"),
        (torch.zeros(16), "shape"),
        (torch.full((16, 3), math.nan), "row 0"),
        (torch.full((16, 3), -0.1), "row 0"),
    ],
)
def test_std_is_checked(std: Tensor, message: str) -> None:
    _, teacher = _pool()
    with pytest.raises(us.UnderstudyError, match=message):
        us.ups(std=std).target.prepare(_context(teacher, 3))


@pytest.mark.parametrize(
    "options", [{"positive_above": 0.04}, {"positive_above": 1.1}, {"negative_below": -0.1}, {"positive_std": -1.0}]
)
def test_options_are_checked(options: dict[str, float]) -> None:
    with pytest.raises(us.UnderstudyError, match=next(iter(options))):
        us.ups(**options)  # type: ignore[arg-type]
