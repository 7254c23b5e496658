"""L-BFGS against scikit-learn's logistic regression, which minimises the same function."""

import itertools

import numpy as np
import pytest
import torch
from scipy import sparse
from sklearn.linear_model import LogisticRegression

import understudy as us
from understudy.errors import UnderstudyError
from understudy.training.optimizers import LBFGS


@pytest.fixture
def tight(monkeypatch):
    """Both solvers go on until nothing but the formula can make them differ."""
    monkeypatch.setattr("understudy.training.optimizers.TOLERANCE", 1e-12)


def made_up(classes, *, rows=400, features=12, seed=0):
    draw = np.random.default_rng(seed)
    x = draw.normal(size=(rows, features)).astype(np.float32)
    y = (x @ draw.normal(size=(features, classes)) + draw.gumbel(size=(rows, classes))).argmax(1)
    return x, y


def as_text(x):
    """A sparse matrix as TF-IDF makes it: most entries absent."""
    return sparse.csr_matrix(np.where(np.abs(x) > 1, x, 0).astype(np.float32))


def fit(x, labels, classes, c, **options):
    student = us.models.linear(x.shape[1], classes)
    options = {"epochs": 50, "weight_decay": us.l2_of_c(c, x.shape[0], classes), "gold": None, **options}
    gold = options.pop("gold")
    pool = us.Pool(x, labels)
    return us.train(student, gold, pool, us.vanilla(), optimizer="lbfgs", progress=False, **options)


def reference(x, y, c, weights=None):
    return LogisticRegression(C=c, tol=1e-7, max_iter=5000).fit(x, y, sample_weight=weights)


def coefficients(run):
    weight = run.student.head.weight.detach().numpy()
    return weight[1:] - weight[:1] if len(weight) == 2 else weight


@pytest.mark.parametrize(
    ("classes", "form", "c", "rows"),
    [*itertools.product([2, 4], [np.asarray, as_text], [0.1, 10.0], [300]), (4, as_text, 1.0, 1500)],
)
@pytest.mark.usefixtures("tight")
def test_matches_scikit_learn(classes, form, c, rows):
    x, y = made_up(classes, rows=rows)
    x = form(x)
    run, there = fit(x, torch.tensor(y), classes, c), reference(x, y, c)
    np.testing.assert_allclose(coefficients(run), there.coef_, atol=1e-3)
    np.testing.assert_allclose(run.predict(x).numpy(), there.predict_proba(x), atol=1e-3)


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.usefixtures("tight")
def test_soft_labels_are_weighted_copies_of_rows(classes):
    x, _ = made_up(classes)
    probs = torch.from_numpy(np.random.default_rng(1).dirichlet(np.ones(classes), len(x))).float()
    run = fit(x, probs, classes, 1.0)
    copies, labels = np.repeat(x, classes, 0), np.tile(np.arange(classes), len(x))
    there = reference(copies, labels, 1.0, probs.numpy().reshape(-1))
    np.testing.assert_allclose(coefficients(run), there.coef_, atol=1e-3)


@pytest.mark.usefixtures("tight")
def test_gold_and_pool_make_one_function_and_gold_weight_counts_as_copies():
    x, y = made_up(3)
    gold = us.Gold(x[:50], y[:50])
    run = us.train(
        us.models.linear(12, 3), gold, us.Pool(x[50:], torch.tensor(y[50:])), us.vanilla(), epochs=50,
        optimizer="lbfgs", gold_weight=3.0, weight_decay=us.l2_of_c(1.0, 400, 3), progress=False,
    )  # fmt: skip
    there = reference(x, y, 1.0, np.r_[np.full(50, 3.0), np.ones(350)])
    np.testing.assert_allclose(coefficients(run), there.coef_, atol=1e-3)


@pytest.mark.usefixtures("tight")
def test_bias_is_not_penalised():
    y = np.r_[np.zeros(90, int), np.ones(10, int)]
    run = fit(np.zeros((100, 2), np.float32), torch.tensor(y), 2, 1e-3)
    np.testing.assert_allclose(run.predict(np.zeros((1, 2), np.float32)), [[0.9, 0.1]], atol=1e-4)


def test_a_parabola_is_minimised_where_the_derivative_vanishes():
    """loss (w − 3)² / 2 and penalty λ w² / 2: w = 3 / (1 + λ) = 2 at λ = 1/2; the loss there is 1/2."""
    w = torch.nn.Parameter(torch.tensor([[10.0]]))
    optimizer = LBFGS([w], penalised=[w], weight_decay=0.5)
    loss = optimizer.minimise(lambda: 0.5 * (w - 3).square().sum())
    assert float(w.detach()) == pytest.approx(2.0, abs=1e-5) and loss == pytest.approx(0.5, abs=1e-5)
    assert not optimizer.idle
    optimizer.minimise(lambda: 0.5 * (w - 3).square().sum())
    assert optimizer.idle


@pytest.mark.usefixtures("tight")
def test_rosenbrock():
    point = torch.nn.Parameter(torch.tensor([-1.2, 1.0], dtype=torch.float64))
    LBFGS([point]).minimise(
        lambda: (1 - point[0]).square() + 100 * (point[1] - point[0].square()).square(), iterations=100
    )
    np.testing.assert_allclose(point.detach(), [1.0, 1.0], atol=1e-5)


def test_stops_when_converged_and_says_how_long_it_took():
    x, y = made_up(2)
    run = fit(x, torch.tensor(y), 2, 1.0, epochs=500, test=(x, y))
    assert 1 <= len(run.history) < 10 and run.metrics()["last"]["accuracy"] > 0.8


@pytest.mark.parametrize("name", sorted(set(us.METHODS) - {"vid"}))
def test_every_method_trains_with_it(name):
    """Each on sparse rows, and with less loss than it began with."""
    x, y = made_up(3, rows=160)
    draw = np.random.default_rng(2)
    noisy = us.Hard(np.where(draw.random(160) < 0.2, (y + 1) % 3, y), draw.uniform(0.4, 1, 160))
    matrix = as_text(x)
    first, rest = torch.arange(60), torch.arange(60, 160)
    gold = us.Gold(matrix[:60], y[:60], teacher=noisy.take(first))
    options = {"oracle": {"truth": y[60:]}}.get(name, {})
    run = us.train(
        us.models.linear(12, 3), gold, us.Pool(matrix[60:], noisy.take(rest)), us.METHODS[name](**options), epochs=8,
        optimizer="lbfgs", weight_decay=0.01, progress=False,
    )  # fmt: skip
    accuracy = float((run.predict(matrix[60:]).argmax(1).numpy() == y[60:]).mean())
    assert accuracy > 0.55


def test_alignment_is_the_same_on_sparse_rows():
    x, y = made_up(3, rows=120)
    matrix, labels = as_text(x), torch.tensor((y + (np.arange(120) % 4 == 0)) % 3)
    student = us.models.linear(12, 3)
    runs = [
        us.train(
            student, us.Gold(form[:40], y[:40]), us.Pool(form[40:], labels[40:]), us.l2rw(), epochs=3,
            optimizer="lbfgs", weight_decay=0.1, seed=1, progress=False,
        )
        for form in (matrix, matrix.toarray())
    ]  # fmt: skip
    np.testing.assert_allclose(*(run.predict(x).numpy() for run in runs), atol=1e-3)


class KilledError(Exception):
    pass


class KillAfter(us.Callback):
    def __init__(self, epoch):
        self.epoch = epoch

    def on_epoch(self, view):
        if view.epoch == self.epoch:
            raise KilledError


@pytest.mark.usefixtures("tight")
@pytest.mark.parametrize(
    "objective", [us.vanilla(), us.slam().replace(refresh_every=2), us.co_teaching(0.2)], ids=lambda o: o.name
)
def test_resumed_ends_with_the_same_bits(tmp_path, objective):
    x, y = made_up(4, rows=300, features=150)
    gold = us.Gold(x[:80], y[:80], teacher=torch.tensor(y[:80]))
    given = {"epochs": 6, "optimizer": "lbfgs", "weight_decay": 1e-6, "progress": False}
    pool = us.Pool(x[80:], torch.tensor(np.roll(y[80:], 1)))
    straight = us.train(start(), gold, pool, objective, **given)
    assert len(straight.history) > 3
    with pytest.raises(KilledError):
        us.train(start(), gold, pool, objective, out=tmp_path / "run", callbacks=[KillAfter(2)], **given)
    resumed = us.train(start(), gold, pool, objective, out=tmp_path / "run", resume=True, **given)
    assert [r["loss"] for r in resumed.history] == [r["loss"] for r in straight.history]
    for name, value in straight.student.state_dict().items():
        assert resumed.student.state_dict()[name].equal(value)


def start():
    torch.manual_seed(3)
    return us.models.linear(150, 4)


@pytest.mark.parametrize("option", [{"clip": 1.0}, {"augment": lambda x, generator: x}])
def test_what_changes_the_function_is_refused(option):
    with pytest.raises(UnderstudyError, match="one fixed function"):
        x, y = made_up(2)
        fit(x, torch.tensor(y), 2, 1.0, **option)


def test_a_net_with_dropout_sees_one_function_per_epoch():
    x, y = made_up(3)
    student = us.models.mlp(12, 3, hidden=(16,), dropout=0.2)
    run = us.train(
        student, None, us.Pool(x, torch.tensor(y)), us.vanilla(), epochs=5, optimizer="lbfgs", progress=False
    )
    assert run.history[-1]["loss"] < 0.6


def test_many_wide_rows_are_multiplied_in_parts(monkeypatch):
    """Logits and gradient are those of the plain product, whose last part is shorter."""
    monkeypatch.setattr("understudy.models.small_nets._MANY_ROWS", 30)
    monkeypatch.setattr("understudy.models.small_nets._MANY_COLUMNS", 12)
    x, head = torch.randn(100, 12), us.models.linear(12, 3).head
    cotangent, parameters = torch.randn(100, 3), list(head.parameters())
    with torch.no_grad():
        head.bias.normal_()
    plain = x @ head.weight.t() + head.bias
    torch.testing.assert_close(head.train()(x), plain)
    assert head(x).stride() == (1, 100), "transposed products, one after another"
    assert head(x.reshape(50, 2, 12)).shape == (50, 2, 3)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert head(x).dtype == torch.bfloat16, "as of any layer"
    found = torch.autograd.grad((head(x) * cotangent).sum(), parameters)
    torch.testing.assert_close(found, torch.autograd.grad((plain * cotangent).sum(), parameters))


def test_rows_in_memory_are_read_where_they_lie():
    """Only where all rows of one set are taken, in their order, by a layer that does not write to them."""
    x, y = made_up(3)
    pool, gold = us.Pool(torch.from_numpy(x), y), us.Gold(torch.from_numpy(x[::-1].copy()), y)

    def batch(student, *sets, **options):
        return next(iter(us.Session(student, *sets, us.vanilla(), full_batch=True, **options).batches(0))).x

    linear, mlp = us.models.linear(12, 3), us.models.mlp(12, 3)
    assert batch(linear, None, pool).data_ptr() == pool.rows.x.data_ptr()
    assert batch(mlp, None, pool).data_ptr() != pool.rows.x.data_ptr()
    assert batch(linear, gold, pool, gold_repeat=0).equal(pool.rows.x)
    assert batch(linear, gold, pool).equal(torch.cat([gold.rows.x, pool.rows.x]))
