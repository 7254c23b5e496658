"""VID: the Gaussian by hand and against SciPy, a variance that stays positive, a head that is saved with the run."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.stats
import torch
from torch import Tensor, nn

import understudy as us
from understudy.methods.vid import centred_logits
from understudy.objective import Outputs, Step

# The contract's pool has 12 rows.
CONTRACT = {"build": lambda: us.vid(torch.randn(12, 3, generator=torch.Generator().manual_seed(9)), strength=0.3)}


def _raw(variance: float) -> float:
    """The parameter that gives this variance."""
    return math.log(math.expm1(variance - 1e-5))


def _head() -> Any:
    head = us.VidHead(1, 2)
    head.load_state_dict(
        {
            "projection.weight": torch.tensor([[1.0], [2.0]]),
            "projection.bias": torch.zeros(2),
            "raw_variance": torch.tensor([_raw(4.0), _raw(1.0)]),
        }
    )
    return head


def test_the_gaussian_by_hand() -> None:
    # Mean (1, 2) for the feature 1; the teacher's (2, 0) is off by 1 and −2; variances 4 and 1.
    found = _head()(torch.tensor([[1.0]]), torch.tensor([[2.0, 0.0]]))
    expected = 0.5 * (1 / 4 + math.log(4) + 4 / 1 + math.log(1) + 2 * math.log(2 * math.pi))
    assert found.item() == pytest.approx(expected, rel=1e-5)


def test_the_gaussian_against_scipy() -> None:
    torch.manual_seed(0)
    head = us.VidHead(4, 3).double()
    nn.init.normal_(head.raw_variance)
    student, teacher = torch.randn(6, 4).double(), torch.randn(6, 3).double()
    weight, bias = head.projection.weight.detach().numpy(), head.projection.bias.detach().numpy()
    variance = np.log1p(np.exp(head.raw_variance.detach().numpy())) + 1e-5
    density = scipy.stats.norm.logpdf(teacher.numpy(), student.numpy() @ weight.T + bias, np.sqrt(variance))
    np.testing.assert_allclose(head(student, teacher).detach().numpy(), -density.sum(1), rtol=1e-6)


def test_variance_starts_at_one() -> None:
    torch.testing.assert_close(us.VidHead(2, 3).variance, torch.ones(3), rtol=0, atol=2e-5)


@pytest.mark.parametrize("raw", [-3e38, -1e4, -200.0, -104.0, -20.0, 0.0, 20.0, 200.0, 1e4])
def test_variance_is_positive_in_float32_for_any_parameter(raw: float) -> None:
    head = us.VidHead(2, 3)
    nn.init.constant_(head.raw_variance, raw)
    assert head.variance.dtype == torch.float32
    assert (head.variance > 0).all()
    loss = head(torch.randn(5, 2), torch.randn(5, 3)).sum()
    loss.backward()
    assert loss.isfinite()
    assert all(parameter.grad.isfinite().all() for parameter in head.parameters())


def _step(objective: us.Objective, head: nn.Module) -> Step:
    features = torch.tensor([[2.0, 0.0]])
    outputs = Outputs(torch.tensor([[math.log(3.0), 0.0]]), torch.tensor([[1.0]]))
    return Step(
        outputs, torch.tensor([[0.8, 0.2]]), torch.tensor([0]), {"vid.teacher_features": features}, {"vid": head},
        temperature=objective.temperatures[1],
    )  # fmt: skip


def test_strength_multiplies_the_term_and_temperature_leaves_it() -> None:
    head = _head()
    term = head(torch.tensor([[1.0]]), torch.tensor([[2.0, 0.0]])).item()
    plain = -0.8 * math.log(0.75) - 0.2 * math.log(0.25)
    for strength in (0.0, 0.1, 2.0):
        objective = us.vid(strength=strength)
        assert objective.pool_losses(_step(objective, head)).item() == pytest.approx(plain + strength * term, rel=1e-5)
    hard = us.vid(hard=True)
    assert hard.pool_losses(_step(hard, head)).item() == pytest.approx(-math.log(0.75) + term, rel=1e-5)
    warm, vanilla = us.vid(temperature=2), us.vanilla(temperature=2)
    found = warm.pool_losses(_step(warm, head)).item()
    assert found == pytest.approx(vanilla.pool_losses(_step(vanilla, head)).item() + term, rel=1e-5)


class Problem:
    def __init__(self) -> None:
        g = torch.Generator().manual_seed(6)
        self.x = torch.randn(24, 5, generator=g)
        self.teacher = torch.randn(24, 3, generator=g).softmax(-1)
        self.features = torch.randn(24, 4, generator=g)
        self.net = us.models.mlp(5, 3, hidden=(7,))
        self.pool = us.Pool(self.x, self.teacher)
        self.gold = us.Gold(self.x[:6], [0, 1, 2, 0, 1, 2])

    def train(self, objective: us.Objective, **options: Any) -> us.Run:
        settings: dict[str, Any] = {"epochs": 2, "batch_size": 8, "lr": 0.05, "progress": False}
        return us.train(self.net, self.gold, self.pool, objective, **(settings | options))


def _same(a: dict[str, Tensor], b: dict[str, Tensor]) -> bool:
    return a.keys() == b.keys() and all(a[name].equal(b[name]) for name in a)


def test_the_head_learns_and_is_no_part_of_the_student() -> None:
    problem = Problem()
    first, last = (problem.train(us.vid(problem.features), epochs=epochs) for epochs in (1, 20))
    assert first.modules["vid"].projection.weight.shape == (4, 7)  # type: ignore[union-attr]
    assert not _same(first.modules["vid"].state_dict(), last.modules["vid"].state_dict())
    assert last.history[-1]["loss"] < last.history[0]["loss"]
    assert last.student.state_dict().keys() == problem.net.state_dict().keys()


def test_without_strength_the_student_is_vanillas() -> None:
    problem = Problem()
    assert _same(
        problem.train(us.vid(problem.features, strength=0.0)).student.state_dict(),
        problem.train(us.vanilla()).student.state_dict(),
    )
    assert not _same(
        problem.train(us.vid(problem.features, strength=0.1)).student.state_dict(),
        problem.train(us.vanilla()).student.state_dict(),
    )


def test_the_head_is_saved_and_restored_with_the_run(tmp_path: Path) -> None:
    problem = Problem()
    run = problem.train(us.vid(problem.features), out=tmp_path / "run")
    loaded = us.Run.load(tmp_path / "run")
    assert loaded.module_states.keys() == {"vid"}
    assert _same(loaded.module_states["vid"], run.modules["vid"].state_dict())
    head = us.VidHead.from_state(loaded.module_states["vid"])
    student = torch.randn(3, 7)
    assert head(student, problem.features[:3]).equal(run.modules["vid"](student, problem.features[:3]))
    assert loaded.predict(problem.x).equal(run.predict(problem.x))
    # A loaded run can be saved again without losing it.
    loaded.save(tmp_path / "copy")
    assert _same(us.Run.load(tmp_path / "copy").module_states["vid"], loaded.module_states["vid"])


def test_a_run_without_modules_has_no_states(tmp_path: Path) -> None:
    problem = Problem()
    problem.train(us.vanilla(), out=tmp_path / "run")
    assert us.Run.load(tmp_path / "run").module_states == {}
    assert not (tmp_path / "run" / "modules.safetensors").exists()


def test_half_precision_features_are_taken() -> None:
    problem = Problem()
    run = problem.train(us.vid(problem.features.half()))
    assert math.isfinite(run.history[-1]["loss"])


@pytest.mark.parametrize(
    ("features", "message"),
    [(torch.zeros(5, 4), "5 rows"), (torch.zeros(24), "shape"), (torch.full((24, 2), math.nan), "row 0")],
)
def test_features_are_checked(features: Tensor, message: str) -> None:
    with pytest.raises(us.UnderstudyError, match=message):
        Problem().train(us.vid(features))


@pytest.mark.parametrize("strength", [-0.1, math.nan, math.inf])
def test_strength_is_checked(strength: float) -> None:
    with pytest.raises(us.UnderstudyError, match="strength"):
        us.vid(strength=strength)


def test_without_features_the_teachers_logits_are_predicted() -> None:
    """By hand: labels (0.8, 0.2) have the centred logits ±½ log 4; mean (1, 2) for the feature 1, variances 4 and 1."""
    half = 0.5 * math.log(4)
    off = ((half - 1) ** 2 / 4 + math.log(4) + (-half - 2) ** 2) / 2 + math.log(2 * math.pi)
    head = _head()
    for temperature in (1.0, 2.0):
        outputs = Outputs(torch.zeros(1, 2), torch.tensor([[1.0]]))
        step = Step(outputs, torch.tensor([[0.8, 0.2]]), torch.tensor([0]), {}, {"vid": head}, temperature=temperature)
        assert us.vid_term()(step).item() == pytest.approx(off, rel=1e-5)


def test_the_logits_of_a_net_come_back_centred() -> None:
    logits = torch.randn(50, 7, generator=torch.Generator().manual_seed(2)).double() * 3
    expected = logits - logits.mean(1, keepdim=True)
    torch.testing.assert_close(centred_logits(logits.softmax(1)), expected)
    # What softmax forgets does not matter, and a zero is a finite number.
    torch.testing.assert_close(centred_logits((logits + 5).softmax(1)), expected)
    assert centred_logits(torch.tensor([[1.0, 0.0]]))[0].tolist() == pytest.approx([8.059, -8.059], abs=1e-3)


def test_logits_train_a_head_of_one_channel_per_class() -> None:
    problem = Problem()
    by_labels = problem.train(us.vid(strength=0.1))
    assert by_labels.modules["vid"].projection.weight.shape == (3, 7)  # type: ignore[union-attr]
    assert "vid.teacher_features" not in by_labels.columns
    given = problem.train(us.vid(centred_logits(problem.teacher), strength=0.1))
    assert _same(by_labels.student.state_dict(), given.student.state_dict())


def test_hard_labels_have_no_logits() -> None:
    problem = Problem()
    problem.pool = us.Pool(problem.x, problem.teacher.argmax(1))
    with pytest.raises(us.UnderstudyError, match="teacher_features="):
        problem.train(us.vid())
