"""How long a net trains, chosen on gold rows that did not train."""

import math

import pytest
import torch
from scipy.optimize import minimize_scalar

import understudy as us
from understudy.training.automatic_options import calibrated_losses, choose_epochs, is_less, leave_out


class Says(torch.nn.Module):
    """The truth of every row, class 1, has these odds."""

    def __init__(self, odds):
        super().__init__()
        self.odds = torch.tensor(odds)

    def forward(self, x):
        return torch.stack([torch.zeros(len(x)), self.odds.log() + 0 * x[:, 0]], 1)


def left_out_rows(rows=12):
    return us.Gold(torch.arange(float(rows)).unsqueeze(1), torch.ones(rows, dtype=torch.long))


def search(odds, start):
    """With the odds of the truth after so many epochs; what was tried, in order."""
    tried = []

    def fit(gold, epochs):
        tried.append(epochs)
        return Says(odds(epochs))

    return choose_epochs(fit, None, left_out_rows(), start)[0], tried


@pytest.mark.parametrize(
    ("best", "chosen", "tried"),
    [
        (30, 30, [3, 10, 30, 90]),
        (90, 90, [3, 10, 30, 90]),
        (10, 10, [3, 10, 30]),
        (3, 3, [3, 10]),
        (500, 90, [3, 10, 30, 90]),
    ],
)
def test_shorter_where_that_is_better_else_longer_while_that_is(best, chosen, tried):
    """Every row says the same, so that any difference is significant; all are wrong, which no temperature mends."""
    assert search(lambda epochs: 1 / (2 + abs(math.log(epochs / best))), 10) == (chosen, tried)


def test_longer_is_tried_only_where_shorter_is_worse():
    """30 epochs would be better, but from 3 to 10 nothing was gained; 3 have no fewer to be compared with."""
    assert search(lambda epochs: 1 / 3 if epochs <= 10 else 1 / 2, 10) == (10, [3, 10])
    assert search(lambda epochs: 1 / 3 if epochs <= 3 else 1 / 2, 3) == (9, [3, 9, 27])


def test_better_is_by_more_than_the_standard_error():
    """Gains 2, 0, 0, 0: mean 0.5, deviation 1, error 1 / √4 = 0.5, which 0.5 is not more than. 3, 1, 1, 1 is."""
    none = torch.zeros(4)
    assert not is_less(-torch.tensor([2.0, 0, 0, 0]), none) and is_less(-torch.tensor([3.0, 1, 1, 1]), none)
    assert not is_less(torch.tensor([-9.0]), torch.zeros(1)), "one row tells nothing"


def test_losses_are_those_of_the_best_temperature():
    probs = torch.rand(40, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64).softmax(1) ** 8
    probs, y = probs / probs.sum(1, keepdim=True), torch.arange(40) % 3

    def loss(log_t):
        tempered = probs ** math.exp(-log_t)
        return -float((tempered / tempered.sum(1, keepdim=True)).gather(1, y[:, None]).log().mean())

    least = minimize_scalar(loss, bounds=(-2, 2), method="bounded").fun
    assert float(calibrated_losses(probs, y).mean()) == pytest.approx(least, rel=1e-3)
    assert calibrated_losses(torch.tensor([[0.0, 1.0]]), torch.tensor([0])).isfinite().all()


def test_a_third_is_left_out_and_no_chosen_row():
    gold = us.Gold(torch.arange(40.0).unsqueeze(1), torch.arange(40) % 2)
    gold.chosen[:4] = True
    trains, left = leave_out(gold, 0)
    both = torch.cat([part.rows.take(torch.arange(len(part))).flatten() for part in (trains, left)])
    assert len(left) == 12 and sorted(both.tolist()) == list(range(40))
    assert float(left.rows.take(torch.arange(12)).min()) >= 4
    assert leave_out(gold.take(torch.arange(33)), 0) is None, "29 random rows are too few"
    gold.estimate_only = (torch.arange(40) >= 4) & (torch.arange(40) < 7)
    for seed in range(5):
        _, left = leave_out(gold, seed)
        assert float(left.rows.take(torch.arange(len(left))).min()) >= 7, "rows that only estimate are never left out"


@pytest.fixture(scope="module")
def ring():
    """One class around the other: a short training sees no line between them."""
    draw = torch.Generator().manual_seed(0)
    x = 4 * torch.rand(700, 2, generator=draw) - 2
    y = (x.norm(dim=1) < 1.6).long()
    return us.Gold(x[:200], y[:200]), us.Pool(x[200:], y[200:])


def net():
    return us.models.mlp(inputs=2, classes=2, hidden=(32,))


def test_a_hard_table_trains_longer(ring):
    gold, pool = ring
    run = us.train(net, gold, pool, us.vanilla(), batch_size=350, lr=0.003, progress=False)
    assert run.config["chosen_epochs"]["epochs"] == run.config["epochs"] == len(run.history) > 30
    assert run.config["schedule"] == "cosine" and "30" in run.config["chosen_epochs"]["losses"]


def test_epochs_may_be_left_out(ring):
    gold, pool = ring
    few = gold.take(torch.arange(24))
    given = {"progress": False, "workers": 1, "batch_size": 500}
    run = us.auto(net, few, pool, folds=2, methods=["vanilla"], reconcile=False, **given)
    assert run.config["epochs"] == 30, "24 gold rows choose nothing: 30 epochs are the most"
    table = us.compare(net, few, pool, ["gce"], seeds=1, epochs="auto", **given)
    assert len(table.outcomes["vanilla"][0].history) == 30
    assert len(us.reconcile(net, few, pool, folds=2, **given)) == 500


def test_a_linear_student_needs_no_number_either():
    x = torch.randn(60, 3, generator=torch.Generator().manual_seed(0))
    run = us.train(us.models.linear(3, 2), None, us.Pool(x, (x[:, 0] > 0).long()), us.vanilla(), progress=False)
    assert run.config["optimizer"] == "lbfgs" and "chosen_penalty" in run.config and "chosen_epochs" not in run.config


def test_bad_options_are_refused_before_anything_is_trained(ring, tmp_path):
    gold, pool = ring
    (tmp_path / "other.txt").write_text("")
    built = []

    def student():
        built.append(net())
        return built[-1]

    with pytest.raises(us.UnderstudyError, match="not empty"):
        us.train(student, gold, pool, us.vanilla(), out=tmp_path)
    with pytest.raises(us.UnderstudyError, match="seeds=0"):
        us.compare(student, gold, pool, seeds=0)
    with pytest.raises(us.UnderstudyError, match="workers=0"):
        us.compare(student, gold, pool, workers=0)
    assert not built
