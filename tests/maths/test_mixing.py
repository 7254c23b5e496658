"""SLaM's mixture and the forward correction: numbers worked by hand, a decimal reference, extreme logits."""

import itertools
from decimal import Decimal, getcontext

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from understudy.maths.losses import cross_entropy
from understudy.maths.mixing import forward_correction, log_one_minus, slam_mix, top_mask

F = torch.tensor([[0.6, 0.3, 0.1]], dtype=torch.float64)
TOP2 = torch.tensor([[True, True, False]])
TOP3 = torch.tensor([[True, True, True]])
# What an outcome the mixture excludes (α = 0 outside the top k) is taken to have: float32's smallest normal number.
TINY = float(torch.finfo(torch.float32).tiny)


@pytest.mark.parametrize(
    ("top", "normalise", "expected"),
    [
        (TOP2, False, [0.56, 0.38, 0.08]),  # 0.8·0.6 + 0.2·0.4, 0.8·0.3 + 0.2·0.7, 0.8·0.1
        (TOP2, True, [0.56, 0.38, 0.08]),  # k − 1 = 1
        (TOP3, False, [0.56, 0.38, 0.26]),
        (TOP3, True, [0.52, 0.31, 0.17]),  # the second terms halved; sums to 1
    ],
)
def test_mixture_worked_by_hand(top: Tensor, normalise: bool, expected: list[float]) -> None:
    mixed = slam_mix(F.log(), torch.tensor([0.8], dtype=torch.float64), top, normalise=normalise).exp()
    assert mixed[0].tolist() == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize(
    ("alpha", "expected"),
    # α = 0.2, normalised with k = 3: β = 0.4, so 0.12 + 0.4·0.4, 0.06 + 0.4·0.7, 0.02 + 0.4·0.9
    [(0.2, [0.28, 0.34, 0.38]), (0.0, [0.2, 0.35, 0.45]), (1.0, [0.6, 0.3, 0.1])],
)
def test_teacher_worse_than_chance_worked_by_hand(alpha: float, expected: list[float]) -> None:
    mixed = slam_mix(F.log(), torch.tensor([alpha], dtype=torch.float64), TOP3, normalise=True).exp()
    assert mixed[0].tolist() == pytest.approx(expected, abs=1e-12)


def test_trusted_teacher_leaves_the_prediction() -> None:
    logits = torch.tensor([[3.0, -2.0, 0.5]])
    torch.testing.assert_close(slam_mix(logits, torch.ones(1), TOP3), logits.log_softmax(-1))


def test_half_trust_says_nothing_about_the_top() -> None:
    logits = torch.randn(1, 3, requires_grad=True)
    mixed = slam_mix(logits, torch.tensor([0.5]), TOP3)
    mixed.sum().backward()
    assert mixed.exp()[0].tolist() == pytest.approx([0.5] * 3)
    assert logits.grad is not None
    assert logits.grad.abs().max() == 0


def test_top_mask_takes_the_lower_class_on_ties() -> None:
    teacher = torch.tensor([[0.25, 0.25, 0.25, 0.25], [0.1, 0.4, 0.1, 0.4], [0.0, 0.0, 0.0, 1.0]])
    mask = top_mask(teacher, torch.tensor([2, 3, 2]))
    assert mask.int().tolist() == [[1, 1, 0, 0], [1, 1, 0, 1], [1, 0, 0, 1]]


def test_log_one_minus() -> None:
    log_f = torch.tensor([[50.0, 0.0, 0.0], [0.0, 0.0, 0.0]]).log_softmax(-1)
    # 1 − f of the sure class is 2 e⁻⁵⁰ although f rounds to 1.
    assert log_one_minus(log_f)[0].tolist() == pytest.approx([np.log(2) - 50, 0.0, 0.0], abs=1e-5)
    assert log_one_minus(log_f)[1].tolist() == pytest.approx([np.log(2 / 3)] * 3, abs=1e-6)


def test_forward_correction_worked_by_hand() -> None:
    transition = torch.tensor([[0.9, 0.1, 0.0], [0.2, 0.8, 0.0], [0.0, 0.3, 0.7]], dtype=torch.float64)
    # 0.9·0.6 + 0.2·0.3, 0.1·0.6 + 0.8·0.3 + 0.3·0.1, 0.7·0.1
    assert forward_correction(F.log(), transition).exp()[0].tolist() == pytest.approx([0.60, 0.33, 0.07], abs=1e-12)
    torch.testing.assert_close(forward_correction(F.log(), torch.eye(3)), F.log())


def test_forward_correction_stays_finite() -> None:
    logits = torch.tensor([[1e4, 0.0, -1e4], [-1e4, -1e4, 1e4]], requires_grad=True)
    corrected = forward_correction(logits, torch.eye(3))
    cross_entropy(corrected, torch.full((2, 3), 1 / 3)).sum().backward()
    assert corrected.isfinite().all()
    assert logits.grad is not None
    assert logits.grad.isfinite().all()


def _simplex(logits: np.ndarray) -> np.ndarray:
    f = np.exp(logits - logits.max(-1, keepdims=True))
    return np.asarray(f / f.sum(-1, keepdims=True))


@given(st.lists(st.floats(-8, 8), min_size=2, max_size=6), st.floats(0, 1), st.data(), st.booleans())
def test_mixture_equals_the_formula_as_printed(
    logits: list[float], alpha: float, data: st.DataObject, normalise: bool
) -> None:
    classes = len(logits)
    k = data.draw(st.integers(2, classes))
    f = _simplex(np.array([logits]))
    top = np.arange(classes) < k
    naive = alpha * f + (1 - alpha) * top * (1 - f) / (k - 1 if normalise else 1)
    found = slam_mix(
        torch.tensor([logits], dtype=torch.float64),
        torch.tensor([alpha], dtype=torch.float64),
        torch.from_numpy(top)[None],
        normalise=normalise,
    ).exp()
    np.testing.assert_allclose(found.numpy(), naive, rtol=1e-9, atol=1e-12 + 1.01 * TINY)
    assert float(found.max()) <= max(alpha, 1 - alpha) + 1e-12
    if normalise and k == classes:
        assert float(found.sum()) == pytest.approx(1, abs=1e-9)


def _decimal_reference(
    logits: list[float], alpha: float, top: list[bool], q: list[float], normalise: bool
) -> tuple[float, list[float]]:
    """Loss and gradient of ce(q, mix(f)) with 60 digits and unbounded exponents: no trick is needed there."""
    getcontext().prec = 60
    z = [Decimal(v) for v in logits]
    e = [(v - max(z)).exp() for v in z]
    f = [v / sum(e) for v in e]
    # 1 − f as the others' mass: at a gap of 2e4 it is far below 60 digits of 1.
    rest = [sum(f[:c] + f[c + 1 :], Decimal(0)) for c in range(len(f))]
    a = Decimal(alpha)
    beta = (1 - a) / (max(sum(top) - 1, 1) if normalise else 1)
    loss, gradient = Decimal(0), [Decimal(0)] * len(f)
    for c, weight in enumerate(map(Decimal, q)):
        if top[c]:
            mix, slope = a * f[c] + beta * rest[c], a - beta
        else:
            mix, slope = max(a, Decimal(TINY)) * f[c], max(a, Decimal(TINY))
        loss -= weight * mix.ln()
        for j in range(len(f)):
            change = f[c] * rest[c] if j == c else -f[c] * f[j]
            gradient[j] -= weight * slope * change / mix
    return float(loss), [float(g) for g in gradient]


LOGITS = [
    [1e4, -1e4, 0.0, 5.0],
    [-1e4, 1e4, 1e4, -1e4],
    [0.0, 0.0, 0.0, 0.0],
    [20.0, -20.0, 19.5, 0.0],
    [100.0, 0.0, 99.0, -100.0],
    [-1e4, -9999.5, -1e4, -9990.0],
    [0.3, -1.2, 2.5, 0.9],
    [16.0, 0.0, 1.0, -3.0],
]
ALPHAS = [0.0, 1e-30, 1e-6, 0.2, 1 / 3, 0.4999, 0.5, 0.500001, 0.75, 0.9999999, 1.0]


@pytest.mark.parametrize("normalise", [False, True])
@pytest.mark.parametrize("k", [2, 3, 4])
def test_float32_loss_and_gradient_agree_with_exact_arithmetic(k: int, normalise: bool) -> None:
    q = torch.tensor([0.5, 0.3, 0.15, 0.05])
    cases = list(itertools.product(LOGITS, ALPHAS))
    logits = torch.tensor([row for row, _ in cases], requires_grad=True)
    alpha = torch.tensor([a for _, a in cases])
    target = q.expand(len(cases), 4)
    loss = cross_entropy(
        slam_mix(logits, alpha, top_mask(target, torch.full((len(cases),), k)), normalise=normalise), target
    )
    loss.sum().backward()
    assert logits.grad is not None
    top = [c < k for c in range(4)]
    for i, row in enumerate(logits.detach()):
        value, gradient = _decimal_reference(row.tolist(), alpha[i].item(), top, q.tolist(), normalise)
        where = f"logits {cases[i][0]}, alpha {cases[i][1]}"
        assert loss[i].item() == pytest.approx(value, rel=1e-5, abs=1e-6), where
        assert logits.grad[i].tolist() == pytest.approx(gradient, rel=1e-5, abs=1e-5), where


@given(
    st.lists(st.floats(-1e4, 1e4, width=32), min_size=2, max_size=6),
    st.floats(0, 1, width=32) | st.sampled_from([0.0, 0.5, 1.0, 2.0**-100]),
    st.data(),
    st.booleans(),
)
def test_loss_and_gradient_are_finite(logits: list[float], alpha: float, data: st.DataObject, normalise: bool) -> None:
    k = data.draw(st.integers(2, len(logits)))
    q = torch.arange(len(logits), 0, -1.0).softmax(-1)[None]
    for dtype in (torch.float32, torch.float64):
        z = torch.tensor([logits], dtype=dtype, requires_grad=True)
        mixed = slam_mix(z, torch.tensor([alpha], dtype=dtype), top_mask(q, torch.tensor([k])), normalise=normalise)
        loss = cross_entropy(mixed, q.to(dtype))
        loss.sum().backward()
        assert loss.isfinite().all()
        assert z.grad is not None
        assert z.grad.isfinite().all()


def test_rows_with_and_without_trust_may_share_a_batch() -> None:
    logits = torch.tensor([[30.0, -30.0, 0.0], [30.0, -30.0, 0.0]], dtype=torch.float64)
    alpha = torch.tensor([0.9, 0.1], dtype=torch.float64)
    top = torch.ones(2, 3, dtype=torch.bool)
    both = slam_mix(logits, alpha, top, normalise=True)
    alone = [slam_mix(logits[i : i + 1], alpha[i : i + 1], top[:1], normalise=True) for i in range(2)]
    torch.testing.assert_close(both, torch.cat(alone))
