"""Example weights: hand-worked numbers, an end-to-end brute force, and unbiasedness where the assumptions hold."""

import math
from typing import Any

import numpy as np
import pytest
import torch

import understudy as us
from understudy.maths.weights import debias, debias_in_plane, distortion_of, fidelity, neighbour_count, normalise


@pytest.mark.parametrize(
    ("wrong", "distortion", "weight"),
    [
        (0.5, 3.0, 0.5),  # 1 / (1 + 0.5·2)
        (1.0, 4.0, 0.25),
        (0.2, 6.0, 0.5),
        (0.0, 9.0, 1.0),
        (0.5, 0.5, 1.0),  # 1 / 0.75, clipped
        (1.0, 0.0, 1.0),  # the denominator vanishes
        (1.0, 1.0, 1.0),
    ],
)
def test_debias(wrong: float, distortion: float, weight: float) -> None:
    found = debias(torch.tensor([wrong]).double(), torch.tensor([distortion]).double())
    assert found.tolist() == pytest.approx([weight])


def test_distortion() -> None:
    student = torch.tensor([[0.5, 0.25, 0.25], [0.5, 0.25, 0.25], [0.0, 1.0, 0.0], [1.0, 0.0, 0.0]])
    teacher = torch.tensor([[0.8, 0.1, 0.1], [0.0, 1.0, 0.0], [0.0, 0.6, 0.4], [0.2, 0.8, 0.0]])
    wrong, distortion = distortion_of(teacher, torch.tensor([0, 0, 1, 0]), student)
    assert wrong.tolist() == [0, 1, 0, 1]
    # Row 1: log 4 / log 2. Right rows are 1. Row 3: the student is sure of the truth, whose loss 0 is floored at 1e-3.
    tiny = torch.finfo(torch.float32).tiny
    assert distortion.tolist() == pytest.approx([1, 2, 1, -0.8 * math.log(tiny) / 1e-3], rel=1e-6)


@pytest.mark.parametrize(("rows", "k"), [(2, 1), (4, 1), (5, 2), (100, 5), (101, 6), (400, 10)])
def test_neighbour_count(rows: int, k: int) -> None:
    assert neighbour_count(rows) == k


def test_fidelity() -> None:
    uncertainty = torch.tensor([0.0, 1.0, 2.0])
    assert fidelity(uncertainty).tolist() == pytest.approx([1, math.exp(-1), math.exp(-2)])
    assert fidelity(uncertainty, beta=2.0).tolist() == pytest.approx([1, math.exp(-2), math.exp(-4)])
    # Relative to the mean: neither the unit nor the size of the pool matters.
    torch.testing.assert_close(fidelity(7 * uncertainty), fidelity(uncertainty))
    torch.testing.assert_close(fidelity(uncertainty.repeat(3)), fidelity(uncertainty).repeat(3))
    assert fidelity(torch.zeros(3)).tolist() == [1, 1, 1]


def test_normalise() -> None:
    assert normalise(torch.tensor([2.0, -1.0, 0.0, 1.0])).tolist() == pytest.approx([8 / 3, 0, 0, 4 / 3])
    assert normalise(torch.tensor([0.0, -3.0])).tolist() == [0, 0]


def _random_probs(rng: np.random.Generator, rows: int, classes: int) -> torch.Tensor:
    return torch.from_numpy(rng.dirichlet(np.ones(classes), rows))


@pytest.mark.parametrize("confidence", ["margin", "entropy"])
def test_weights_equal_a_loop_over_the_algorithm(confidence: str, rng: np.random.Generator) -> None:
    gold_rows, pool_rows, classes = 30, 12, 4
    teacher_gold, student_gold = (_random_probs(rng, gold_rows, classes) for _ in range(2))
    teacher_pool, student_pool = (_random_probs(rng, pool_rows, classes) for _ in range(2))
    y = torch.from_numpy(rng.integers(0, classes, gold_rows))

    def measure(p: torch.Tensor) -> float:
        if confidence == "margin":
            first, second = sorted(p.tolist())[:-3:-1]
            return first - second
        return -sum(v * math.log(v) for v in p.tolist())

    expected = []
    for t, s in zip(teacher_pool, student_pool, strict=True):
        near = sorted(
            (math.hypot(measure(tg) - measure(t), measure(sg) - measure(s)), i)
            for i, (tg, sg) in enumerate(zip(teacher_gold, student_gold, strict=True))
        )[: math.ceil(math.sqrt(gold_rows) / 2)]
        wrong = distortion = 0.0
        for _, i in near:
            if int(teacher_gold[i].argmax()) == int(y[i]):
                distortion += 1
            else:
                on_teacher = -sum(
                    a * math.log(b) for a, b in zip(teacher_gold[i].tolist(), student_gold[i].tolist(), strict=True)
                )
                wrong += 1
                distortion += on_teacher / max(-math.log(student_gold[i, y[i]].item()), 1e-3)
        p, d = wrong / len(near), distortion / len(near)
        expected.append(min(1.0, 1 / (1 + p * (d - 1))))
    found = us.debias_weights(teacher_gold, y, student_gold, teacher_pool, student_pool, confidence=confidence)
    assert found.tolist() == pytest.approx(expected, rel=1e-9)
    torch.testing.assert_close(
        found, us.debias_weights(teacher_gold, y, student_gold, teacher_pool, student_pool, confidence)
    )


def test_one_neighbour_is_the_nearest() -> None:
    plane = torch.tensor([[0.0, 0.0], [1.0, 1.0]])
    weights = debias_in_plane(plane, torch.tensor([0.0, 1.0]), torch.tensor([1.0, 5.0]), plane + 0.1, k=1)
    assert weights.tolist() == pytest.approx([1.0, 0.2])


def _noisy_world(rng: np.random.Generator, rows: int) -> tuple[np.ndarray, ...]:
    """A fixed student f on x ~ U(0, 1); the teacher errs with chance p(x), and then names the student's last choice.

    Returns the clean loss, the loss on the teacher's label, p(x) and the distortion, which is at least 1.
    """
    x = rng.random(rows)
    p = 0.1 + 0.5 * x
    truth_prob, other_prob = 0.4 + 0.4 * x, 0.15 * (1 - x) + 0.02
    clean, wrong = -np.log(truth_prob), -np.log(other_prob)
    noisy = np.where(rng.random(rows) < p, wrong, clean)
    return clean, noisy, p, wrong / clean


def test_reweighted_risk_is_unbiased(rng: np.random.Generator) -> None:
    """Proposition 2.1: with p and the distortion known, the mean weighted loss is the clean risk."""
    clean, noisy, p, distortion = _noisy_world(rng, 200_000)
    weight = debias(torch.from_numpy(p), torch.from_numpy(distortion)).numpy()
    assert weight.max() <= 1
    for values, unbiased in ((weight * noisy, True), (noisy, False)):
        gap = values - clean
        standard_error = gap.std() / math.sqrt(len(gap))
        assert bool(abs(gap.mean()) < 3 * standard_error) == unbiased


def test_wrong_knowledge_is_not_unbiased(rng: np.random.Generator) -> None:
    clean, noisy, p, distortion = _noisy_world(rng, 200_000)
    gap = debias(torch.from_numpy(p / 2), torch.from_numpy(distortion)).numpy() * noisy - clean
    assert abs(gap.mean()) > 3 * gap.std() / math.sqrt(len(gap))


def test_distortion_is_of_the_training_loss_at_its_temperature() -> None:
    """By hand: the student says (0.8, 0.2), the truth is 0, the teacher says 1 (and, softly, (0.1, 0.9))."""
    student, truth, hard = torch.tensor([[0.8, 0.2]]), torch.tensor([0]), torch.tensor([[0.0, 1.0]])

    def ratio(teacher: torch.Tensor, **options: Any) -> float:
        return float(distortion_of(teacher, truth, student, **options)[1])

    # GCE with g = 1 is 1 − f: 0.8 / 0.2. Taylor 2: (0.8 + 0.32) / (0.2 + 0.02).
    assert ratio(hard, loss=us.gce_loss(1.0)) == pytest.approx(4.0)
    assert ratio(hard, loss=us.taylor_loss(2)) == pytest.approx(1.12 / 0.22)
    # T = 2: odds 4 become 2, so f = (2/3, 1/3).
    assert ratio(hard, temperature=2.0) == pytest.approx(math.log(3) / math.log(1.5))
    # The teacher's odds 9 become 3: q = (1/4, 3/4).
    expected = (0.25 * math.log(1.5) + 0.75 * math.log(3)) / math.log(1.5)
    assert ratio(torch.tensor([[0.1, 0.9]]), temperature=2.0) == pytest.approx(expected)


def test_public_weights_take_loss_and_temperature() -> None:
    rng = np.random.default_rng(4)
    teacher, student = _random_probs(rng, 40, 3), _random_probs(rng, 40, 3)
    y = torch.from_numpy(rng.integers(0, 3, 40))
    options: dict[str, Any] = {"loss": us.taylor_loss(2), "temperature": 2.0}
    found = us.debias_weights(teacher, y, student, teacher, student, k=40, **options)
    wrong, distortion = distortion_of(teacher, y, student, **options)
    # All rows are neighbours of all.
    torch.testing.assert_close(found, debias(wrong.mean(), distortion.mean()).repeat(40))
    assert float(found[0]) != float(us.debias_weights(teacher, y, student, teacher, student, k=40)[0])
    with pytest.raises(us.UnderstudyError, match="temperature"):
        us.debias_weights(teacher, y, student, teacher, student, temperature=0.0)
