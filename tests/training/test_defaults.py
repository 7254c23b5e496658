"""What suits the features, and the penalty chosen on gold."""

import numpy as np
import pytest
import torch
from scipy import sparse

import understudy as us
from understudy.errors import UnderstudyError
from understudy.training import automatic_options
from understudy.training.automatic_options import GRID, choose_c, default_epochs, fill_defaults, options_for
from understudy.training.options import TrainingOptions


def test_epochs_follow_the_number_of_steps():
    """2,560 rows are 20 steps an epoch: 20 epochs make 400. 30 epochs are the most, 10 the fewest."""
    assert default_epochs(2560) == 20 and default_epochs(2560, batch_size=100) == 16
    assert default_epochs(128) == 30 and default_epochs(128_000) == 10


@pytest.mark.parametrize(
    ("x", "frozen", "name"),
    [
        (sparse.csr_matrix((50, 3000), dtype=np.float32), False, "linear"),
        (np.zeros((50, 384), np.float32), False, "linear"),
        (np.zeros((50, 64), np.float32), False, "mlp:128,128"),
        (np.zeros((50, 64), np.float32), True, "linear"),
        (np.zeros((50, 28, 28), np.float32), False, "mlp:128,128"),
        (np.zeros((3000, 256), np.float32), False, "mlp:128,128"),
    ],
    ids=["text", "wide", "numbers", "encoder", "images", "wide and many"],
)
def test_student_suits_the_features(x, frozen, name):
    build, options = us.default_student(x, 3, frozen=frozen)
    assert build.args == (name,)
    assert options == options_for(name)
    assert build()(torch.from_numpy(x[:2].toarray() if sparse.issparse(x) else x[:2])).shape == (2, 3)


def test_what_is_given_wins():
    defaults = options_for("mlp:8")
    filled = fill_defaults("mlp:8", {"epochs": 7, "lr": None, "clip": 1.0})
    assert filled == defaults | {"epochs": 7, "clip": 1.0}
    assert options_for("mlp:8", optimizer="lbfgs")["optimizer"] == "lbfgs"
    assert "optimizer" not in options_for("linear", optimizer="adam")


def test_train_without_epochs():
    x, y = torch.randn(200, 4), torch.arange(200) % 2
    run = us.train(us.models.linear(4, 2), None, us.Pool(x, y), us.vanilla(), batch_size=8, lr=1e-4, progress=False)
    assert run.config["epochs"] == 16 == len(run.history)
    run = us.train(us.models.linear(4, 2), None, us.Pool(x, y), us.vanilla(), optimizer="lbfgs", progress=False)
    assert run.config["epochs"] == 50 > len(run.history)


def test_a_student_by_its_name_or_none_at_all():
    """Whatever us.default_student returns is taken too."""
    x = torch.randn(90, 4, generator=torch.Generator().manual_seed(0))
    y = (x[:, 0] > 0).long()
    gold, pool = us.Gold(x[:30], y[:30], teacher=y[:30]), us.Pool(x[30:], y[30:])
    quick = {"epochs": 2, "progress": False}

    def trained(student):
        return us.train(student, gold, pool, us.vanilla(), **quick).student

    default, options = us.default_student(pool, 2)
    same = {None: default, "auto": default, "linear": us.models.linear(4, 2), "mlp:3": us.models.mlp(4, 2, hidden=(3,))}
    for name, built in same.items():
        torch.manual_seed(0)
        assert str(trained(name)) == str(trained(built)), name
    short = {"pilot_rows": 20, "folds": 2, "workers": 1, "methods": ["gce"], "progress": False}
    short |= options | {"epochs": 2}
    chosen, given = us.auto(gold=gold, pool=pool, **short), us.auto(default, gold, pool, **short)
    assert torch.equal(chosen.predict(x), given.predict(x))
    assert us.compare("linear", gold, pool, ["vanilla"], seeds=1, select=0.0, workers=1, **quick).sentences
    assert len(us.reconcile("linear", gold, pool, folds=2, workers=1, methods=["vanilla"], **quick).teacher) == 60
    with pytest.raises(UnderstudyError, match="there is no model 'liner'; there are"):
        trained("liner")
    with pytest.raises(UnderstudyError, match="auto"):
        us.auto(pool=pool)


class Fixed(torch.nn.Module):
    """Says the same of every row: log p = (0, −3 + |log10(C) − 1|) before the softmax, so that C = 10 is best."""

    def __init__(self, c):
        super().__init__()
        self.logits = torch.nn.Parameter(torch.tensor([0.0, 3 - abs(np.log10(c) - 1)]))

    def forward(self, x):
        return self.logits.expand(len(x), 2)


def test_the_least_loss_of_rows_left_out_chooses(monkeypatch):
    """Every fold is fitted once per C, from the strongest penalty on until the loss rises, without its rows; log(1 +
    e⁻³) is the loss. With one fold the pool alone trains."""
    gold = us.Gold(torch.arange(30.0).unsqueeze(1), torch.ones(30, dtype=torch.long))
    seen = []

    def fit(part, start, weight_decay):
        c = 2 / (weight_decay * 100)
        rows = [] if part is None else part.rows.take(torch.arange(len(part))).flatten().tolist()
        seen.append((round(c, 6), start is None, frozenset(rows)))
        return Fixed(c)

    c, losses = choose_c(fit, gold, rows=100, classes=2, seed=0)
    assert c == 10 and losses["10"] == pytest.approx(np.log1p(np.exp(-3)), abs=1e-6)
    assert [entry[0] for entry in seen] == [c for c in GRID for _ in range(3)]
    assert [entry[1] for entry in seen] == [True] * 3 + [False] * 9
    assert {len(entry[2]) for entry in seen} == {20} and len({entry[2] for entry in seen}) == 3
    seen.clear()
    monkeypatch.setattr(automatic_options, "GRID", (*GRID, 1000.0))
    assert choose_c(fit, gold, rows=100, classes=2, seed=0, folds=1) == (10, pytest.approx(losses))
    assert [entry[0] for entry in seen] == list(GRID) and {entry[2] for entry in seen} == {frozenset()}


def test_chosen_penalty_is_told_and_resumed(tmp_path):
    draw = np.random.default_rng(0)
    x = draw.normal(size=(300, 40)).astype(np.float32)
    y = (x[:, 0] + draw.logistic(size=300) > 0).astype(int)
    gold, pool = us.Gold(x[:60], y[:60]), us.Pool(x[60:], torch.tensor(y[60:]))
    given = {"optimizer": "lbfgs", "weight_decay": "auto", "progress": False}
    run = us.train(us.models.linear(40, 2), gold, pool, us.vanilla(), out=tmp_path / "run", **given)
    chosen = run.config["chosen_penalty"]
    assert chosen["c"] == pytest.approx(float(min(chosen["losses"], key=chosen["losses"].get)), rel=1e-5)
    # Rows of squared length 40 in the mean: the grid is that of rows of length 1, divided by it.
    length = float((torch.from_numpy(x[60:]) ** 2).sum(1).mean())
    assert [float(c) * length for c in chosen["losses"]] == pytest.approx(GRID[: len(chosen["losses"])], rel=1e-4)
    assert run.config["weight_decay"] == us.l2_of_c(chosen["c"], 300, 2)
    again = us.train(us.models.linear(40, 2), gold, pool, us.vanilla(), out=tmp_path / "run", resume=True, **given)
    assert again.config["chosen_penalty"] == chosen


def test_of_labels_as_they_are_it_is_chosen_once_for_all_that_share_gold(monkeypatch):
    gold, pool = us.Gold(torch.randn(20, 3), torch.arange(20) % 2), us.Pool(torch.randn(90, 3), torch.arange(90) % 2)
    gold.cache, made, real = {}, [], automatic_options._c_on_gold
    monkeypatch.setattr(automatic_options, "_c_on_gold", lambda *given: made.append(given[2]) or real(*given))
    given = {"optimizer": "lbfgs", "weight_decay": "auto", "progress": False}
    for part, objective in ((pool, us.vanilla()), (pool, us.vanilla()), (pool, us.gce()), (None, us.vanilla())):
        run = us.train(us.models.linear(3, 2), gold, part, objective, **given)
        assert run.config["chosen_penalty"]["under"] == objective.name
    assert made == [pool, None], "gold alone has another; gce chooses for itself"


def test_without_gold_it_is_scikit_learns_own():
    x, y = torch.randn(50, 3), torch.arange(50) % 2
    run = us.train(
        us.models.linear(3, 2),
        None,
        us.Pool(x, y),
        us.vanilla(),
        optimizer="lbfgs",
        weight_decay="auto",
        progress=False,
    )
    chosen = run.config["chosen_penalty"]
    assert chosen["c"] == pytest.approx(1 / float((x**2).sum(1).mean())) and not chosen["losses"]
    assert run.config["weight_decay"] == us.l2_of_c(chosen["c"], 50, 2)


def test_auto_is_for_lbfgs():
    with pytest.raises(UnderstudyError, match="chosen for optimizer='lbfgs'"):
        us.train(us.models.linear(3, 2), None, us.Pool(torch.randn(9, 3), torch.arange(9) % 2), us.vanilla(),
                 optimizer="adam", weight_decay="auto")  # fmt: skip


def test_votes_that_gold_weighs_keep_some_of_gold_for_the_penalty():
    """With many pool rows all of gold is left out, of which the weights of such votes would be made."""
    x = torch.randn(640, 5, generator=torch.Generator().manual_seed(0))
    y = (x[:, 0] > 0).long()
    options = TrainingOptions(epochs=5, optimizer="lbfgs", weight_decay=0.0)
    for by in ("gold", "majority"):
        votes = us.Votes(torch.stack([y, y, 1 - y], 1), 2, by=by)
        gold = us.Gold(x[:40], y[:40], teacher=votes.take(torch.arange(40)))
        pool = us.Pool(x[40:], votes.take(torch.arange(40, 640)))
        chosen = automatic_options.c_on_gold(us.models.linear(5, 2), gold, pool, options)
        assert chosen["under"] == "vanilla" and min(chosen["losses"].values()) < 0.6


@pytest.mark.parametrize(
    ("objective", "fitted"), [(us.weighted(), {0}), (us.gce(), {0}), (us.slam(), {26, 27}), (us.l2rw(), {26, 27})]
)
def test_beside_many_pool_rows_gold_only_estimates(monkeypatch, objective, fitted):
    """A C is one training then, not three; links and weights that gold steers by need some of it that trains."""
    x = torch.randn(240, 5, generator=torch.Generator().manual_seed(0))
    y, seen, real = (x[:, 0] > 0).long(), [], automatic_options.fit_students
    gold, pool = us.Gold(x[:40], y[:40], teacher=y[:40]), us.Pool(x[40:], y[40:])
    monkeypatch.setattr(automatic_options, "fit_students", lambda *given: seen.append(given[1][0].gold) or real(*given))
    given = {"optimizer": "lbfgs", "weight_decay": "auto", "progress": False}
    chosen = us.train(us.models.linear(5, 2), gold, pool, objective, **given).config["chosen_penalty"]
    assert chosen["under"] == objective.name and {len(each.training_rows()) for each in seen} == fitted
    assert len(seen) == len(chosen["losses"]) * (1 if fitted == {0} else 3)
    assert {len(each.calibration_rows()) for each in seen} == (fitted if len(fitted) > 1 else {40})


def test_classes_without_a_name_are_numbers():
    x, y = torch.zeros(4, 2), torch.tensor([0, 1, 0, 1])
    gold = us.Gold(x, y, classes=["a", "b"])
    with pytest.warns(us.UnderstudyWarning, match=r"no example of class 2 \(1 of 3\)"):
        us.train(us.models.linear(2, 3), gold, None, us.vanilla(), epochs=1, progress=False)
