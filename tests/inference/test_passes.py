"""Predictions in eval mode, metrics worked by hand."""

import math

import pytest
import torch
from torch import nn

import understudy as us
from understudy.inference.passes import eval_mode, metrics, over_rows, penultimate, predict

PROBS = torch.tensor([[0.81, 0.19], [0.62, 0.38], [0.27, 0.73], [0.45, 0.55]])
LABELS = torch.tensor([0, 1, 1, 1])


def test_metrics_worked_by_hand() -> None:
    found = metrics(PROBS, LABELS)
    assert found["accuracy"] == 0.75
    assert found["worst_class"] == pytest.approx(2 / 3)
    assert found["loss"] == pytest.approx(-sum(map(math.log, [0.81, 0.38, 0.73, 0.55])) / 4, rel=1e-6)


def test_classes_that_do_not_occur_are_not_the_worst() -> None:
    probs = torch.tensor([[0.1, 0.1, 0.8], [0.1, 0.2, 0.7]])
    assert metrics(probs, torch.tensor([2, 2]))["worst_class"] == 1


def test_a_sure_mistake_has_a_finite_loss() -> None:
    assert math.isfinite(metrics(torch.tensor([[1.0, 0.0]]), torch.tensor([1]))["loss"])


class Moody(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.drop, self.head = nn.BatchNorm1d(3), nn.Dropout(0.5), nn.Linear(3, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.drop(self.norm(x)))


def test_predict_is_in_eval_mode_and_restores_every_module(generator: torch.Generator) -> None:
    net, x = Moody(), torch.randn(7, 3, generator=generator)
    net.norm.eval()
    before = {name: value.clone() for name, value in net.state_dict().items()}
    whole, pieces = predict(net, x), predict(net, x, batch_size=2)
    torch.testing.assert_close(whole, pieces)
    assert (net.training, net.norm.training, net.drop.training) == (True, False, True)
    assert all(value.equal(before[name]) for name, value in net.state_dict().items())
    net.eval()
    torch.testing.assert_close(whole, net(x).softmax(-1).detach())
    assert not whole.requires_grad
    (whole * torch.ones(2, requires_grad=True)).sum().backward()


def test_modes_come_back_after_an_error() -> None:
    net = Moody()
    with pytest.raises(RuntimeError), eval_mode(net):
        net(torch.zeros(1, 99))
    assert net.training
    assert net.drop.training


def test_penultimate_features(generator: torch.Generator) -> None:
    net = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
    x = torch.randn(5, 3, generator=generator)
    torch.testing.assert_close(penultimate(net, x, batch_size=2), net[:2](x).detach())


def test_several_results_of_some_rows_in_one_pass(generator: torch.Generator) -> None:
    net, x = Moody(), torch.randn(7, 3, generator=generator)
    seen: list[int] = []

    def look(batch: torch.Tensor, index: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        assert not net.training
        assert torch.is_inference_mode_enabled()
        seen.extend(index.tolist())
        return net(batch), batch.sum(1)

    wanted = torch.tensor([6, 0, 3])
    logits, sums = over_rows(net, x, look, outputs=2, index=wanted, batch_size=2)
    assert seen == [6, 0, 3]
    torch.testing.assert_close(sums, x[wanted].sum(1))
    torch.testing.assert_close(logits.softmax(-1), predict(net, x)[wanted])
    with torch.inference_mode():
        inside = predict(net, x)
    assert (inside * torch.ones(1, requires_grad=True)).sum().requires_grad, "an ordinary tensor there, too"
    assert [len(part) for part in over_rows(net, x[:0], look, outputs=2)] == [0, 0]


def test_a_result_without_a_row_for_each_is_refused() -> None:
    with pytest.raises(us.UnderstudyError, match="one per row"):
        over_rows(None, torch.zeros(4, 2), lambda batch, index: batch[:1])


def test_evaluate_and_empty_input() -> None:
    net = nn.Linear(2, 2)
    found = us.evaluate(net, us.Gold(torch.randn(6, 2), [0, 1, 0, 1, 0, 1]))
    assert set(found) >= {"accuracy", "worst_class", "ece", "loss"}
    assert len(predict(net, torch.empty(0, 2))) == 0


def test_labels_the_model_does_not_know() -> None:
    with pytest.raises(us.UnderstudyError, match="class 5"):
        us.evaluate(nn.Linear(2, 2), us.Gold(torch.randn(2, 2), [0, 5]))
