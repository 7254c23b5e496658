"""SLaM: its columns, its target and its loss, worked by hand or taken from Reliability."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor

import understudy as us
from understudy.maths.losses import taylor
from understudy.objective import Columns, Context, Objective, Outputs, Step

CLASSES = 4


def _problem(rows: int = 60, pool: int = 25) -> tuple[us.Gold, us.Pool]:
    g = torch.Generator().manual_seed(8)
    probs = torch.randn(rows + pool, CLASSES, generator=g).mul(1.5).softmax(-1)
    truth = torch.multinomial(probs, 1, generator=g).squeeze(1)
    x = torch.randn(rows + pool, 3, generator=g)
    return us.Gold(x[:rows], truth[:rows], probs[:rows]), us.Pool(x[rows:], probs[rows:])


def _context(gold: us.Gold | None, pool: us.Pool, classes: int = CLASSES) -> Context:
    def unused(x: object) -> Tensor:
        raise AssertionError("SLaM does not look at the student")

    return Context(gold, pool, classes=classes, predict=unused, features=unused)


def _columns(objective: Objective, context: Context) -> Columns:
    assert objective.link is not None
    return objective.link.prepare(context)


def test_columns_come_from_reliability() -> None:
    gold, pool = _problem()
    context = _context(gold, pool)
    columns = _columns(us.slam(lower_bound=0.6, threshold=0.8), context)
    trust = us.Reliability.fit(gold.teacher, gold.y, 0.6, 0.8)
    torch.testing.assert_close(columns["alpha"], trust.alpha(pool.teacher).float())
    assert columns["k"].tolist() == trust.k(pool.teacher).tolist()
    assert context.facts["slam.share_at_lower_bound"] == pytest.approx(
        float((trust.alpha(pool.teacher) <= 0.6).double().mean())
    )
    assert 0 < context.facts["slam.share_at_lower_bound"] < 1


@pytest.mark.parametrize(
    ("options", "alpha", "expected"),
    [
        ({}, [0.5, 0.5, 0.7], 2 / 3),
        ({"tail": "keep"}, [0.5, 0.5, 0.7], 0.0),  # the tail's mass has one
        ({"tail": "keep", "hard": True}, [0.5, 0.5, 0.7], 2 / 3),
        ({"k": 3, "normalise": True}, [0.5, 1 / 3, 0.7], 1 / 3),  # α = (1 − α) / 2
        ({"k": CLASSES, "tail": "keep"}, [0.5, 0.6, 0.7], 1 / 3),  # k = C leaves no tail
    ],
)
def test_rows_without_a_gradient_are_counted(options: dict[str, Any], alpha: list[float], expected: float) -> None:
    """Against autograd: the loss of those rows does not depend on the logits."""
    _, pool = _problem(pool=3)
    objective, context = us.slam(alpha=torch.tensor(alpha), **{"k": 2} | options), _context(None, pool)
    columns = {f"slam.{name}": values for name, values in _columns(objective, context).items()}
    assert context.facts["slam.share_without_gradient"] == pytest.approx(expected)
    logits = torch.randn(3, CLASSES, generator=torch.Generator().manual_seed(1)).requires_grad_()
    assert pool.teacher is not None
    step = Step(Outputs(logits), pool.teacher.dense(torch.arange(3), CLASSES), torch.arange(3), columns)
    objective.pool_losses(step).sum().backward()
    assert logits.grad is not None
    still = (logits.grad.abs().amax(1) < 1e-6).double().mean()
    assert float(still) == pytest.approx(expected)


def test_chosen_gold_does_not_estimate() -> None:
    gold, pool = _problem()
    half = us.Gold(gold.x, gold.y, gold.teacher, chosen=torch.arange(60) >= 30)
    first = gold.take(torch.arange(30))
    found, expected = (_columns(us.slam(), _context(g, pool))["alpha"] for g in (half, first))
    assert found.equal(expected)
    assert not found.equal(_columns(us.slam(), _context(gold, pool))["alpha"])


@pytest.mark.parametrize(("k", "expected"), [(2, 2), (3, 3), (99, CLASSES)])
def test_one_k_for_all(k: int, expected: int) -> None:
    gold, pool = _problem()
    assert _columns(us.slam(k=k), _context(gold, pool))["k"].unique().tolist() == [expected]


def test_automatic_k() -> None:
    gold, pool = _problem()
    trust = us.Reliability.fit(gold.teacher, gold.y)
    assert _columns(us.slam(k="auto"), _context(gold, pool))["k"].unique().tolist() == [trust.fixed_k()]


def test_two_classes_have_k_two() -> None:
    g = torch.Generator().manual_seed(1)
    probs = torch.rand(20, 1, generator=g)
    probs = torch.cat([probs, 1 - probs], 1)
    x = torch.zeros(20, 1)
    y = (torch.rand(20, generator=g) < 0.5).long()
    columns = _columns(us.slam(), _context(us.Gold(x, y, probs), us.Pool(x, probs), 2))
    assert columns["k"].unique().tolist() == [2]


@pytest.mark.parametrize("form", ["hard", "one-hot"])
def test_hard_labels_use_accuracy_per_class_and_every_class(form: str) -> None:
    said, truth = torch.tensor([0, 0, 0, 1, 1]), [0, 0, 1, 1, 0]
    x = torch.zeros(5, 1)
    labels = said if form == "hard" else torch.eye(3)[said]
    columns = _columns(us.slam(), _context(us.Gold(x, truth, labels), us.Pool(x, labels), 3))
    assert columns["alpha"].tolist() == pytest.approx([8 / 13] * 3 + [7 / 12] * 2)
    assert columns["k"].tolist() == [3] * 5


def test_known_accuracies_need_no_gold() -> None:
    _, pool = _problem()
    alpha = torch.linspace(0.5, 1, len(pool))
    columns = _columns(us.slam(alpha=alpha, k=3), _context(None, pool))
    torch.testing.assert_close(columns["alpha"], alpha)
    assert columns["k"].unique().tolist() == [3]
    with pytest.raises(us.UnderstudyError, match="gold"):
        _columns(us.slam(alpha=alpha), _context(None, pool))


def test_one_known_accuracy_serves_all_rows() -> None:
    _, pool = _problem()
    columns = _columns(us.slam(alpha=0.8, k=3), _context(None, pool))
    torch.testing.assert_close(columns["alpha"], torch.full((len(pool),), 0.8))
    with pytest.raises(us.UnderstudyError, match=r"shape \(5, 2\)"):
        _columns(us.slam(alpha=torch.ones(5, 2), k=3), _context(None, pool))


def test_known_accuracies_cover_the_whole_pool_also_where_rows_have_no_label() -> None:
    x = torch.randn(6, 2, generator=torch.Generator().manual_seed(0))
    pool = us.Pool(x, [0, -1, 1, 1, -1, 0])
    alpha = torch.tensor([0.6, 0.65, 0.7, 0.75, 0.8, 0.85])
    run = us.train(us.models.linear(2, 2), None, pool, us.slam(alpha=alpha), epochs=1, progress=False)
    found = run.columns["slam.alpha"]
    assert found.isnan().tolist() == [False, True, False, False, True, False]
    torch.testing.assert_close(found[[0, 2, 3, 5]], alpha[[0, 2, 3, 5]])


def _step(**columns: Tensor) -> Step:
    """f = (½, ¼, ⅛, ⅛)"""
    logits = torch.tensor([[4.0, 2.0, 1.0, 1.0]]).log()
    return Step(Outputs(logits), torch.tensor([[0.4, 0.3, 0.2, 0.1]]), torch.tensor([0]), columns)


def _trust(alpha: float, k: int) -> dict[str, Tensor]:
    return {"slam.alpha": torch.tensor([alpha]), "slam.k": torch.tensor([k])}


def test_loss_worked_by_hand() -> None:
    # α = 0.8, k = 2: 0.4 + 0.2·0.5, 0.2 + 0.2·0.75, 0.1, 0.1
    mix, q = [0.5, 0.35, 0.1, 0.1], [0.4, 0.3, 0.2, 0.1]
    expected = -sum(b * math.log(a) for a, b in zip(mix, q, strict=True))
    assert us.slam(tail="keep").pool_losses(_step(**_trust(0.8, 2))).item() == pytest.approx(expected, rel=1e-6)
    # k = 3, normalised: the second term halves and covers the third class.
    mix = [0.4 + 0.05, 0.2 + 0.075, 0.1 + 0.0875, 0.1]
    expected = -sum(b * math.log(a) for a, b in zip(mix, q, strict=True))
    assert us.slam(normalise=True, tail="keep").pool_losses(_step(**_trust(0.8, 3))).item() == pytest.approx(
        expected, rel=1e-6
    )


def test_dropping_the_tail() -> None:
    # q = (4/7, 3/7) on the top 2.
    expected = -4 / 7 * math.log(0.5) - 3 / 7 * math.log(0.35)
    assert us.slam().pool_losses(_step(**_trust(0.8, 2))).item() == pytest.approx(expected, rel=1e-6)


def test_hard_target_and_another_loss() -> None:
    loss = us.slam(hard=True, loss=taylor).pool_losses(_step(**_trust(0.8, 2)))
    assert loss.item() == pytest.approx(0.5 + 0.5**2 / 2, rel=1e-6)


def test_temperature_scales_the_mixture_only_where_asked() -> None:
    scaled = us.slam(temperature=2, temperature_scale=True).pool_losses(_step(**_trust(0.8, 2)))
    plain = us.slam(temperature=2).pool_losses(_step(**_trust(0.8, 2)))
    assert scaled.item() == pytest.approx(4 * plain.item(), rel=1e-6)


@pytest.mark.parametrize(
    ("options", "message"),
    [({"lower_bound": 0.4}, "normalise=True"), ({"k": 1}, "k=1"), ({"k": "all"}, "auto"), ({"tail": "cut"}, "keep")],
)
def test_options_are_checked(options: dict[str, object], message: str) -> None:
    with pytest.raises(us.UnderstudyError, match=message):
        us.slam(**options)
    us.slam(lower_bound=0.4, normalise=True)


@pytest.mark.parametrize(
    ("alpha", "message"),
    [(torch.full((25,), 1.5), r"\[0, 1\]"), (torch.full((25,), 0.3), "normalise"), (torch.ones(3), "25")],
)
def test_known_accuracies_are_checked(alpha: Tensor, message: str) -> None:
    _, pool = _problem()
    with pytest.raises(us.UnderstudyError, match=message):
        _columns(us.slam(alpha=alpha, k=2), _context(None, pool))


def test_nan_accuracies_are_refused() -> None:
    _, pool = _problem()
    with pytest.raises(us.UnderstudyError, match="alpha"):
        _columns(us.slam(alpha=torch.full((25,), math.nan), k=2), _context(None, pool))


def test_bad_estimation_options_are_refused() -> None:
    gold, pool = _problem()
    for options in ({"covariate": "variance"}, {"estimator": "spline"}, {"threshold": 0.0}):
        with pytest.raises(us.UnderstudyError, match=next(iter(options))):
            _columns(us.slam(**options), _context(gold, pool))  # type: ignore[arg-type]
