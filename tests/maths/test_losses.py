"""Each loss against a number worked by hand, its limits, and its behaviour at the ends of float32."""

import functools
import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from understudy.maths import losses

PREDICTION = torch.tensor([[0.7, 0.2, 0.1]], dtype=torch.float64)
HARD = torch.tensor([[1.0, 0.0, 0.0]], dtype=torch.float64)
SOFT = torch.tensor([[0.5, 0.5, 0.0]], dtype=torch.float64)
CASES = [
    (losses.cross_entropy, HARD, 0.35667494),
    (losses.cross_entropy, SOFT, 0.98305643),  # (0.35667494 + 1.60943791) / 2
    (functools.partial(losses.taylor, degree=1), HARD, 0.3),
    (losses.taylor, HARD, 0.345),  # 0.3 + 0.09/2
    (functools.partial(losses.taylor, degree=3), HARD, 0.354),  # + 0.027/3
    (losses.taylor, SOFT, 0.7325),  # (0.345 + 0.8 + 0.64/2) / 2
    (losses.poly, HARD, 0.65667494),  # 0.35667494 + 0.3
    (functools.partial(losses.poly, epsilon=2.0), SOFT, 2.08305643),  # 0.98305643 + 2 (0.5·0.3 + 0.5·0.8)
    (losses.gce, HARD, 0.31563441),  # (1 − 0.7^0.7) / 0.7 = (1 − 0.77905589) / 0.7
    (losses.truncated_gce, HARD, 0.31563441),
    (losses.truncated_gce, torch.tensor([[0.0, 1.0, 0.0]], dtype=torch.float64), 0.54918256),  # (1 − 0.5^0.7) / 0.7
    (losses.truncated_gce, SOFT, 0.43240849),
]
ALL = [losses.cross_entropy, losses.taylor, losses.poly, losses.gce, losses.truncated_gce]


@pytest.mark.parametrize(("loss", "target", "value"), CASES)
def test_hand_worked(loss: functools.partial[Tensor], target: Tensor, value: float) -> None:
    assert loss(PREDICTION.log(), target).tolist() == pytest.approx([value], abs=1e-8)


@pytest.mark.parametrize("loss", ALL)
def test_one_number_per_example(loss: functools.partial[Tensor], generator: torch.Generator) -> None:
    log_prediction = torch.randn(5, 4, generator=generator).log_softmax(-1)
    target = torch.randn(5, 4, generator=generator).softmax(-1)
    whole = loss(log_prediction, target)
    rows = torch.cat([loss(log_prediction[i : i + 1], target[i : i + 1]) for i in range(5)])
    assert whole.shape == (5,)
    torch.testing.assert_close(whole, rows)


@pytest.mark.parametrize("loss", ALL)
def test_finite_where_the_label_is_impossible(loss: functools.partial[Tensor]) -> None:
    logits = torch.tensor([[1e4, -1e4, 0.0]], requires_grad=True)
    value = loss(logits.log_softmax(-1), torch.tensor([[0.0, 1.0, 0.0]]))
    value.sum().backward()
    assert value.isfinite().all()
    assert logits.grad is not None
    assert logits.grad.isfinite().all()


@pytest.mark.parametrize("loss", ALL)
def test_sure_predictions_keep_their_small_loss(loss: functools.partial[Tensor]) -> None:
    # 1 − f = 1e-6: written as 1 − exp(log f) in float32 its relative error would be about 5%.
    log_f = torch.tensor([[math.log1p(-1e-6), math.log(1e-6)]])
    found = loss(log_f, torch.tensor([[1.0, 0.0]])).double()
    exact = loss(log_f.double(), torch.tensor([[1.0, 0.0]], dtype=torch.float64))
    torch.testing.assert_close(found, exact, rtol=1e-5, atol=0)


@given(st.floats(0.05, 1.0))
def test_families_meet_at_their_ends(f: float) -> None:
    log_f, one = torch.tensor([[f]], dtype=torch.float64).log(), torch.ones(1, 1, dtype=torch.float64)
    ce = -math.log(f)
    assert losses.taylor(log_f, one, degree=1).item() == pytest.approx(1 - f, abs=1e-12)
    assert losses.taylor(log_f, one, degree=600).item() == pytest.approx(ce, abs=1e-6)
    assert losses.gce(log_f, one, g=1.0).item() == pytest.approx(1 - f, abs=1e-12)
    assert losses.gce(log_f, one, g=1e-7).item() == pytest.approx(ce, abs=1e-5)
    assert losses.poly(log_f, one, epsilon=0.0).item() == pytest.approx(ce, abs=1e-12)
    assert losses.truncated_gce(log_f, one, threshold=0.0).item() == pytest.approx(losses.gce(log_f, one).item())


def test_truncation_stops_the_pull() -> None:
    log_f = torch.tensor([[0.4, 0.6]], dtype=torch.float64).log().requires_grad_()
    losses.truncated_gce(log_f, torch.tensor([[1.0, 0.0]], dtype=torch.float64)).sum().backward()
    assert log_f.grad is not None
    assert log_f.grad.abs().sum() == 0
