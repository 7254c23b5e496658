"""Forward correction: the corrected prediction by hand, three ways to the matrix, and clear errors."""

import math

import pytest
import torch
from torch import Tensor

import understudy as us
from understudy.methods.forward import transition_at_anchors
from understudy.objective import Context, Objective, Outputs, Step


def _context(gold: us.Gold | None, teacher: object, classes: int = 2) -> Context:
    pool = us.Pool(torch.zeros(len(teacher), 1), teacher)  # type: ignore[arg-type]
    return Context(gold, pool, classes=classes, predict=lambda x: x, features=lambda x: x)


def _matrix(objective: Objective, context: Context) -> Tensor:
    assert objective.link is not None
    module = objective.link.module(context)
    assert module is not None
    return module.get_buffer("transition")


def _gold(labels: list[int], said: object) -> us.Gold:
    return us.Gold(torch.zeros(len(labels), 1), torch.tensor(labels), said)


def test_loss_by_hand() -> None:
    """f = (¾, ¼), T = ((0.8, 0.2), (0.4, 0.6)): Tᵀ f = (0.7, 0.3)."""
    objective = us.forward(transition=[[0.8, 0.2], [0.4, 0.6]])
    module = objective.link.module(_context(None, torch.tensor([0, 1])))  # type: ignore[union-attr]
    logits = torch.tensor([[math.log(3), 0.0]] * 2)
    step = Step(Outputs(logits), torch.eye(2), torch.arange(2), modules={"transition": module})
    expected = torch.tensor([-math.log(0.7), -math.log(0.3)])
    torch.testing.assert_close(objective.pool_losses(step), expected)


def test_matrix_from_gold_by_hand() -> None:
    """Class 0: labels 0, 0, 1; class 1: labels 1, 0."""
    gold = _gold([0, 0, 1, 0, 1], torch.tensor([0, 0, 1, 1, 0]))
    found = _matrix(us.forward(), _context(gold, torch.tensor([0, 1])))
    torch.testing.assert_close(found, torch.tensor([[2 / 3, 1 / 3], [0.5, 0.5]]))


def test_matrix_from_soft_labels_is_their_mean_or_with_hard_that_of_the_best_class() -> None:
    gold = _gold([0, 0, 1], torch.tensor([[0.9, 0.1], [0.4, 0.6], [0.2, 0.8]]))
    pool = torch.tensor([[0.5, 0.5]])
    torch.testing.assert_close(_matrix(us.forward(), _context(gold, pool)), torch.tensor([[0.65, 0.35], [0.2, 0.8]]))
    found = _matrix(us.forward(hard=True), _context(gold, pool))
    torch.testing.assert_close(found, torch.tensor([[0.5, 0.5], [0.0, 1.0]]))


def test_matrix_from_anchor_points() -> None:
    probs = torch.tensor([[0.1, 0.9], [0.8, 0.2], [0.3, 0.7], [0.6, 0.4]])
    objective = us.forward(transition="anchor", quantile=1.0)
    found = _matrix(objective, _context(None, probs))
    torch.testing.assert_close(found, torch.tensor([[0.8, 0.2], [0.1, 0.9]]))
    # The paper's percentile skips the few most extreme rows.
    torch.testing.assert_close(transition_at_anchors(probs, 2 / 3)[0].float(), torch.tensor([0.6, 0.4]))
    hard = us.forward(transition="anchor", quantile=1.0, noisy_probs=probs)
    torch.testing.assert_close(_matrix(hard, _context(None, torch.tensor([1, 0, 1, 0]))), found)


def test_anchor_points_recover_a_known_matrix() -> None:
    """Predictions Tᵀ p of the noisy label, with rows whose truth is certain among them, give T back."""
    g = torch.Generator().manual_seed(0)
    truth = torch.cat([torch.eye(3).repeat(5, 1), torch.rand(50, 3, generator=g)])
    transition = torch.tensor([[0.7, 0.2, 0.1], [0.1, 0.8, 0.1], [0.2, 0.2, 0.6]])
    noisy_probs = (truth / truth.sum(1, keepdim=True)) @ transition
    torch.testing.assert_close(transition_at_anchors(noisy_probs).float(), transition)


def test_training_with_the_true_matrix_recovers_what_plain_training_does_not() -> None:
    g = torch.Generator().manual_seed(0)
    y = torch.randint(2, (4000,), generator=g)
    x = torch.randn(4000, 2, generator=g) + 1.5 * y.unsqueeze(1)
    # 45% of class 0 is called 1, class 1 never errs: the plain decision boundary moves.
    flipped = (y == 0) & (torch.rand(4000, generator=g) < 0.45)
    noisy = torch.where(flipped, 1, y)
    pool = us.Pool(x, us.Hard(noisy, classes=2))
    options = {"epochs": 15, "lr": 0.05, "progress": False}
    net = us.models.linear(2, 2)
    accuracy = {}
    for objective in (us.vanilla(), us.forward(transition=[[0.55, 0.45], [0.0, 1.0]])):
        run = us.train(net, None, pool, objective, **options)
        accuracy[objective.name] = float((run.predict(x).argmax(1) == y).double().mean())
    assert accuracy["forward"] > accuracy["vanilla"] + 0.03


def test_bad_input_fails_before_the_first_step() -> None:
    x, labels = torch.zeros(4, 1), torch.tensor([0, 1, 2, 0])
    net, pool = us.models.linear(1, 3), us.Pool(x, us.Hard(labels, classes=3))

    def train(objective: Objective, gold: us.Gold | None) -> None:
        us.train(net, gold, pool, objective, epochs=1, progress=False)

    with pytest.raises(us.UnderstudyError, match="gold rows can estimate"):
        train(us.forward(), None)
    with pytest.warns(us.UnderstudyWarning), pytest.raises(us.UnderstudyError, match="class 2; add such rows"):
        train(us.forward(), us.Gold(x[:3], [0, 1, 0], us.Hard([0, 1, 2], classes=3)))
    with pytest.raises(us.UnderstudyError, match=r"shape \(2, 2\)"):
        train(us.forward(transition=torch.eye(2)), None)
    with pytest.raises(us.UnderstudyError, match="a row for each truth, has no distribution in row 1"):
        train(us.forward(transition=torch.tensor([[1.0, 0, 0], [0.5, 0, 0], [0, 0, 1.0]])), None)
    with pytest.raises(us.UnderstudyError, match="noisy_probs"):
        train(us.forward(transition="anchor"), None)
    with pytest.raises(us.UnderstudyError, match="noisy_probs"):
        train(us.forward(transition="anchor", noisy_probs=torch.ones(3, 3) / 3), None)


@pytest.mark.parametrize("options", [{"transition": "gold"}, {"quantile": 2.0}])
def test_options_are_checked(options: dict[str, object]) -> None:
    with pytest.raises(us.UnderstudyError, match=next(iter(options))):
        us.forward(**options)
