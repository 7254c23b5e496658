"""The training loop against a bare PyTorch loop, and each of its promises."""

import copy
import random
import shutil
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from sklearn.metrics import f1_score
from torch import Tensor, nn
from torch.utils.data import Dataset, TensorDataset

import understudy as us
from understudy.data.batches import plan_epoch
from understudy.objective import Columns, Context, Step, Weight

CLASSES, INPUTS = 3, 4


def _tensors(gold: int = 20, pool: int = 45) -> tuple[Tensor, ...]:
    g = torch.Generator().manual_seed(1)
    centres = 2 * torch.randn(CLASSES, INPUTS, generator=g)
    y = torch.arange(gold + pool) % CLASSES
    x = centres[y] + torch.randn(len(y), INPUTS, generator=g)
    probs = (F.one_hot(y, CLASSES) * 2 + torch.randn(len(y), CLASSES, generator=g)).softmax(-1)
    return x[:gold], y[:gold], probs[:gold], x[gold:], probs[gold:]


def _sets(**sizes: int) -> tuple[us.Gold, us.Pool]:
    x, y, teacher_labels, x_pool, pool_labels = _tensors(**sizes)
    return us.Gold(x, y, teacher_labels), us.Pool(x_pool, pool_labels)


def _net(seed: int = 0) -> nn.Module:
    torch.manual_seed(seed)
    return us.models.mlp(INPUTS, hidden=(8,), classes=CLASSES)


def _train(student: Any = None, objective: Any = None, **options: Any) -> us.Run:
    gold, pool = options.pop("sets", None) or _sets()
    settings: dict[str, Any] = {"epochs": 3, "batch_size": 16, "lr": 0.05, "progress": False}
    return us.train(student or _net(), gold, pool, objective or us.vanilla(), **(settings | options))


def _same_bits(a: nn.Module, b: nn.Module) -> bool:
    return all(p.equal(q) for p, q in zip(a.state_dict().values(), b.state_dict().values(), strict=True))


def _assert_close(a: nn.Module, b: nn.Module, atol: float = 1e-6) -> None:
    for p, q in zip(a.parameters(), b.parameters(), strict=True):
        torch.testing.assert_close(p, q, rtol=1e-5, atol=atol)


def _bare_loop(
    net: nn.Module,
    optimizer: Callable[[Iterator[nn.Parameter]], torch.optim.Optimizer],
    *,
    epochs: int = 3,
    batch_size: int = 16,
    gold_repeat: int = 1,
    gold_weight: float = 1.0,
    lr: Callable[[float], float] | None = None,
    clip: float | None = None,
) -> nn.Module:
    """What a user would write by hand for vanilla distillation, over the same batches."""
    x, y, _, x_pool, teacher_labels = _tensors()
    net = copy.deepcopy(net).train()
    stepper = optimizer(net.parameters())
    for epoch in range(epochs):
        plan = plan_epoch(len(x), len(x_pool), batch_size=batch_size, gold_repeat=gold_repeat, seed=0, epoch=epoch)
        for number, (golds, pools) in enumerate(plan):
            if lr is not None:
                for group in stepper.param_groups:
                    group["lr"] = lr((epoch + number / len(plan)) / epochs)
            stepper.zero_grad()
            on_gold = F.cross_entropy(net(x[golds]), y[golds], reduction="sum") if len(golds) else 0.0
            on_pool = F.cross_entropy(net(x_pool[pools]), teacher_labels[pools], reduction="sum") if len(pools) else 0.0
            ((gold_weight * on_gold + on_pool) / (len(golds) + len(pools))).backward()
            if clip is not None:
                nn.utils.clip_grad_norm_(net.parameters(), clip)
            stepper.step()
    return net


@pytest.mark.parametrize(
    "options", [{}, {"gold_repeat": 3}, {"gold_weight": 2.5}, {"gold_repeat": 2, "gold_weight": 0.5}]
)
def test_equals_a_bare_loop(options: dict[str, Any]) -> None:
    bare = _bare_loop(_net(), lambda p: torch.optim.Adam(p, lr=0.05), **options)
    _assert_close(_train(**options).student, bare)


def test_equals_a_bare_loop_with_clipping_and_a_schedule() -> None:
    bare = _bare_loop(
        _net(),
        lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.8, weight_decay=0.01),
        lr=lambda done: 0.1 if done < 0.5 else 0.02,
        clip=0.3,
    )
    run = _train(optimizer="sgd", lr=0.1, momentum=0.8, weight_decay=0.01, schedule=[(0.5, 0.2)], clip=0.3)
    _assert_close(run.student, bare)
    loose = _train(optimizer="sgd", lr=0.1, momentum=0.8, weight_decay=0.01, schedule=[(0.5, 0.2)])
    assert not torch.allclose(next(loose.student.parameters()), next(bare.parameters()), atol=1e-4)


def test_recorded_loss_is_the_mean_over_rows() -> None:
    """With a rate of next to nothing, the loss of an epoch is that of the start."""
    x, y, _, x_pool, teacher_labels = _tensors()
    net = _net()
    expected = torch.cat(
        [F.cross_entropy(net(x), y, reduction="none"), F.cross_entropy(net(x_pool), teacher_labels, reduction="none")]
    )
    run = _train(net, lr=1e-12, epochs=1)
    assert run.history[0]["loss"] == pytest.approx(expected.mean().item(), rel=1e-5)


def test_the_same_seed_gives_the_same_bits() -> None:
    first, again, other = (_train(_dropout(), seed=seed, objective=us.slam()) for seed in (5, 5, 6))
    assert _same_bits(first.student, again.student)
    assert not _same_bits(first.student, other.student)
    numbers = [[record["loss"] for record in run.history] for run in (first, again)]
    assert numbers[0] == numbers[1]


def _dropout() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(INPUTS, 8), nn.ReLU(), nn.Dropout(0.5), nn.Linear(8, CLASSES))


def test_a_function_builds_the_student_under_the_seed() -> None:
    def build() -> nn.Module:
        return us.models.mlp(INPUTS, hidden=(8,), classes=CLASSES)

    torch.manual_seed(123)
    first = _train(build, seed=1)
    torch.manual_seed(456)
    assert _same_bits(first.student, _train(build, seed=1).student)
    assert not _same_bits(first.student, _train(build, seed=2).student)


def test_the_callers_world_is_left_alone() -> None:
    net = _dropout().eval()
    before = copy.deepcopy(net)
    torch.manual_seed(9)
    np.random.seed(9)  # noqa: NPY002 (the global state a user may rely on)
    random.seed(9)
    states = torch.random.get_rng_state(), np.random.get_state()[1].copy(), random.getstate()  # noqa: NPY002
    threads, grad, dtype = torch.get_num_threads(), torch.is_grad_enabled(), torch.get_default_dtype()
    gold, pool = _sets()
    tensors = [gold.x.clone(), gold.y.clone(), pool.x.clone()]
    _train(net, us.slam(), sets=(gold, pool), test=(gold.x, gold.y))
    with pytest.raises(us.UnderstudyError):
        _train(net, us.slam(), sets=(us.Gold(gold.x, gold.y), pool))
    assert _same_bits(net, before)
    assert not net.training
    assert all(p.grad is None for p in net.parameters())
    assert torch.random.get_rng_state().equal(states[0])
    assert (np.random.get_state()[1] == states[1]).all()  # noqa: NPY002
    assert random.getstate() == states[2]
    assert (torch.get_num_threads(), torch.is_grad_enabled(), torch.get_default_dtype()) == (threads, grad, dtype)
    assert all(a.equal(b) for a, b in zip(tensors, (gold.x, gold.y, pool.x), strict=True))


@pytest.mark.parametrize(
    ("pool", "batch_size"),
    [
        pytest.param(44, 16, id="four equal batches"),
        pytest.param(45, 13, id="the last step has one batch"),
        pytest.param(45, 11, id="the last batch is smaller"),
    ],
)
def test_two_half_batches_make_one_step(pool: int, batch_size: int) -> None:
    settings: dict[str, Any] = {"optimizer": "sgd", "lr": 0.1, "momentum": 0.0, "epochs": 2, "sets": _sets(pool=pool)}
    whole = _train(batch_size=2 * batch_size, **settings)
    halves = _train(batch_size=batch_size, accumulate=2, **settings)
    _assert_close(halves.student, whole.student)
    single = _train(batch_size=batch_size, **settings)
    assert not torch.allclose(next(single.student.parameters()), next(whole.student.parameters()), atol=1e-3)


class Drift(Weight):
    """Counts how often it prepares, and reads the student."""

    name = "drift"

    def __init__(self) -> None:
        self.epochs: list[int] = []

    def prepare(self, context: Context) -> Columns:
        self.epochs.append(context.epoch)
        seen = context.predict(context.pool.rows).amax(1)
        return {"seen": seen, "round": torch.full((len(context.pool),), context.epoch)}

    def __call__(self, losses: Tensor, step: Step) -> Tensor:
        assert step.columns["drift.seen"].shape == losses.shape
        return torch.ones_like(losses)


def test_columns_are_prepared_again_at_every_refresh() -> None:
    slot = Drift()
    run = _train(objective=us.vanilla(weight=slot).replace(refresh_every=2), epochs=5)
    assert slot.epochs == [0, 2, 4]
    assert run.columns["drift.round"].unique().tolist() == [4]
    once = Drift()
    still = _train(objective=us.vanilla(weight=once), epochs=5)
    assert once.epochs == [0]
    assert not torch.allclose(still.columns["drift.seen"], run.columns["drift.seen"])


def test_columns_of_a_batch_belong_to_its_rows() -> None:
    _, pool = _sets()
    checked = 0

    class Check(Weight):
        name = "check"

        def prepare(self, context: Context) -> Columns:
            return {"row": torch.arange(len(context.pool))}

        def __call__(self, losses: Tensor, step: Step) -> Tensor:
            nonlocal checked
            assert step.columns["check.row"].equal(step.rows)
            assert step.teacher.equal(pool.teacher.dense(step.rows, CLASSES))  # type: ignore[union-attr]
            assert 0 <= step.progress < 1
            checked += len(step.rows)
            return torch.ones_like(losses)

    _train(objective=us.vanilla(weight=Check()), epochs=2)
    assert checked == 2 * len(pool)


def test_weights_of_zero_leave_only_gold() -> None:
    class Nothing(Weight):
        name = "nothing"

        def __call__(self, losses: Tensor, step: Step) -> Tensor:
            return torch.zeros_like(losses)

    options: dict[str, Any] = {"optimizer": "sgd", "momentum": 0.0, "batch_size": 1000, "epochs": 1, "lr": 0.1}
    with_pool = _train(objective=us.vanilla(weight=Nothing()), **options)
    gold, _ = _sets()
    # One batch: the same gradient, divided by all 65 rows instead of 20.
    alone = us.train(_net(), gold, None, us.vanilla(), progress=False, **(options | {"lr": 0.1 * 20 / 65}))
    _assert_close(with_pool.student, alone.student)


def test_selection_picks_the_first_best_epoch_on_select() -> None:
    gold, _ = _sets()
    run = _train(epochs=6, select=gold, test=gold, lr=0.3)
    scores = [record["select_accuracy"] for record in run.history]
    assert run.selected_epoch == 1 + int(np.argmax(scores))
    found = us.evaluate(run.selected(), gold)["accuracy"]
    assert found == max(scores)
    assert run.metrics("test")["selected"]["accuracy"] == max(scores)
    # The student stays the one of the last epoch.
    assert us.evaluate(run.student, gold)["accuracy"] == scores[-1]
    shorter = _train(epochs=run.selected_epoch, lr=0.3)
    assert _same_bits(run.selected(), shorter.student)


def test_the_epoch_is_selected_by_the_metric_that_is_named() -> None:
    gold, _ = _sets()
    run = _train(epochs=6, select=gold, lr=0.3, metric="f1")
    scores = [record["select_score"] for record in run.history]
    assert run.selected_epoch == 1 + int(np.argmax(scores)) and run.config["metric"] == "macro_f1"
    best = run.selected()(gold.x).argmax(1)
    assert max(scores) == pytest.approx(f1_score(gold.y, best, average="macro"))
    by_loss = _train(epochs=6, select=gold, lr=0.3, metric="log_loss")
    assert all(record["select_score"] < 0 for record in by_loss.history) and by_loss.selected_epoch is not None


def test_looking_at_test_rows_changes_nothing() -> None:
    gold, _ = _sets()
    assert _same_bits(_train(_dropout(), test=gold, select=gold).student, _train(_dropout()).student)


def test_history_has_the_metrics_of_every_epoch() -> None:
    x, y, *_ = _tensors()
    run = _train(test=(x, y), schedule="cosine")
    assert [record["epoch"] for record in run.history] == [1, 2, 3]
    assert {"loss", "test_accuracy", "test_worst_class", "test_ece", "test_loss", "lr", "seconds"} <= set(
        run.history[0]
    )
    assert run.history[-1]["test_accuracy"] == us.evaluate(run.student, us.Gold(x, y))["accuracy"]
    assert run.history[0]["lr"] > run.history[-1]["lr"]


class AsDataset(Dataset[Any]):
    def __init__(self, x: Tensor) -> None:
        self.x = x

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, i: int) -> Tensor:
        return self.x[i]


class Keywords(AsDataset):
    def __getitem__(self, i: int) -> dict[str, Tensor]:  # type: ignore[override]
        return {"x": self.x[i]}


class TakesKeywords(nn.Module):
    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net

    def forward(self, x: Tensor) -> Any:
        return type("Output", (), {"logits": self.net(x)})()


def test_every_source_of_features_trains_to_the_same_bits(tmp_path: Path) -> None:
    x, y, teacher_labels, x_pool, pool_labels = _tensors()
    expected = _train(objective=us.slam()).student
    np.save(tmp_path / "x.npy", x_pool.numpy())
    np.save(tmp_path / "p.npy", pool_labels.numpy())
    mapped, mapped_labels = (np.load(tmp_path / name, mmap_mode="r") for name in ("x.npy", "p.npy"))
    for gold_x, pool_x, teacher in (
        (x.numpy(), x_pool.numpy(), pool_labels.numpy()),
        (AsDataset(x), AsDataset(x_pool), pool_labels),
        (x, TensorDataset(x_pool, pool_labels), pool_labels),
        (x, mapped, mapped_labels),
    ):
        run = _train(objective=us.slam(), sets=(us.Gold(gold_x, y, teacher_labels), us.Pool(pool_x, teacher)))
        assert _same_bits(run.student, expected)
    sets = us.Gold(Keywords(x), y, teacher_labels), us.Pool(Keywords(x_pool), pool_labels)
    run = _train(TakesKeywords(_net()), us.slam(), sets=sets)
    assert _same_bits(run.student, expected)


@pytest.mark.slow
def test_workers_read_the_same_batches() -> None:
    x, y, teacher_labels, x_pool, pool_labels = _tensors()
    sets = us.Gold(AsDataset(x), y, teacher_labels), us.Pool(AsDataset(x_pool), pool_labels)
    assert _same_bits(_train(sets=sets, workers=2, epochs=2).student, _train(sets=sets, epochs=2).student)


def test_rows_without_a_label_are_dropped_counted_and_kept_in_order() -> None:
    x, y, teacher_labels, x_pool, pool_labels = _tensors()
    hard = pool_labels.argmax(1)
    hard[[0, 7, 44]] = -1
    kept = hard >= 0
    gold = us.Gold(x, y, teacher_labels.argmax(1))
    run = _train(objective=us.slam(), sets=(gold, us.Pool(x_pool, hard)))
    alone = _train(objective=us.slam(), sets=(gold, us.Pool(x_pool[kept], hard[kept])))
    assert _same_bits(run.student, alone.student)
    assert run.facts["pool_rows_without_label"] == 3
    assert run.facts["pool_rows"] == 42
    for name, column in run.columns.items():
        assert len(column) == 45
        assert column[kept].equal(alone.columns[name])
        missing = column[~kept]
        assert (missing.isnan() if missing.is_floating_point() else missing == -1).all()
    assert run.columns["slam.alpha"].isnan().sum() == 3


def test_gold_alone_and_pool_alone() -> None:
    gold, pool = _sets()
    for sets in ((gold, None), (None, pool)):
        run = us.train(_net(), *sets, us.vanilla(), epochs=2, progress=False)
        assert len(run.history) == 2
    assert us.train(_net(), gold, None, us.slam(), epochs=1, progress=False).columns == {}


def test_pretraining_is_training_on_gold_first() -> None:
    gold, _ = _sets()
    before = us.train(_net(), gold, None, us.vanilla(), epochs=4, batch_size=16, lr=0.05, progress=False).student
    assert _same_bits(_train(pretrain_epochs=4).student, _train(before).student)
    # Weights then read the pretrained student, where gold rows that it was not fitted to are there to ask about.
    x, y, teacher_labels, x_pool, pool_labels = _tensors()
    gold = us.Gold(x[::2], y[::2], teacher_labels[::2], estimate_only=True) + us.Gold(x[1::2], y[1::2])
    sets = gold, us.Pool(x_pool, pool_labels)
    before = us.train(_net(), gold, None, us.vanilla(), epochs=4, batch_size=16, lr=0.05, progress=False).student
    given, weighted = [
        _train(student, us.weighted(), sets=sets, pretrain_epochs=epochs).columns["debias.weight"]
        for student, epochs in ((before, 0), (None, 4))
    ]
    assert given.equal(weighted)


def test_batch_norm_survives_a_last_batch_of_one_row() -> None:
    net = nn.Sequential(nn.Linear(INPUTS, 8), nn.BatchNorm1d(8), nn.Linear(8, CLASSES))
    # 65 rows in batches of 16 leave one.
    run = _train(net)
    assert all(value.isfinite().all() for value in run.student.state_dict().values())
    assert not run.student.training


def test_augmentation_sees_training_batches_only_and_repeats() -> None:
    seen: list[int] = []

    def augment(x: Tensor, generator: torch.Generator) -> Tensor:
        seen.append(len(x))
        return x + 0.1 * torch.randn(x.shape, generator=generator)

    gold, _ = _sets()
    first = _train(augment=augment, test=gold)
    assert sum(seen) == 3 * 65
    assert _same_bits(first.student, _train(augment=augment).student)
    assert not _same_bits(first.student, _train().student)


class Precision(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(INPUTS, CLASSES)
        self.seen: set[bool] = set()

    def forward(self, x: Tensor) -> Tensor:
        self.seen.add(torch.is_autocast_enabled("cpu"))
        return self.head(x)


def test_autocast_is_off_by_default() -> None:
    run = _train(Precision())
    assert run.student.seen == {False}
    lower = _train(Precision(), autocast=torch.float16, epochs=1)
    assert True in lower.student.seen
    assert all(p.dtype == torch.float32 for p in lower.student.parameters())


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # the compiler's own modules use deprecated parts of torch
@pytest.mark.parametrize("backend", ["aot_eager", pytest.param("inductor", marks=pytest.mark.torture)])
def test_compiling_changes_nothing_that_matters(backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The graphs of the training, run by torch; ``make torture`` also has them made C++, for half a minute."""
    monkeypatch.setattr(torch, "compile", partial(torch.compile, backend=backend))
    if shutil.which("g++") is None and shutil.which("clang++") is None:
        pytest.skip("torch.compile needs a C++ compiler")
    try:
        run = _train(compile=True, epochs=2)
    except Exception as error:
        if "Compil" in type(error).__name__ + str(error):
            pytest.skip(f"no working compiler: {type(error).__name__}")
        raise
    _assert_close(run.student, _train(epochs=2).student, atol=1e-4)
    assert type(run.student) is type(_net())


def test_the_facts_of_a_run() -> None:
    run = _train(objective=us.slam())
    assert run.facts["gold_rows"] == run.facts["calibration_rows"] == 20
    assert 0 <= run.facts["slam.share_at_lower_bound"] <= 1
    assert run.facts["train_seconds"] > run.facts["fit_seconds"] > 0 and "evaluation_seconds" not in run.facts
    assert run.config["objective"] == "slam"


def test_a_gold_class_that_is_missing_is_a_warning() -> None:
    x, y, teacher_labels, x_pool, pool_labels = _tensors()
    keep = y != 2
    sets = us.Gold(x[keep], y[keep], teacher_labels[keep]), us.Pool(x_pool, pool_labels)
    with pytest.warns(us.UnderstudyWarning, match="class 2") as caught:
        _train(sets=sets)
    assert len(caught) == 1
    with pytest.warns(us.UnderstudyWarning, match="class 2") as caught:
        _train(sets=sets, pretrain_epochs=1)
    assert len(caught) == 1


def test_progress_is_one_plain_line_per_epoch(capsys: pytest.CaptureFixture[str]) -> None:
    gold, _ = _sets()
    _train(progress=True, test=gold)
    captured = capsys.readouterr()
    assert captured.out == ""
    lines = captured.err.splitlines()
    assert len(lines) == 3
    assert "epoch 3/3" in lines[-1] and "test_accuracy" in lines[-1]
    _train()
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("optimizer", ["adam", "adamw", "sgd"])
def test_training_learns(optimizer: str) -> None:
    gold, _ = _sets()
    start = us.evaluate(_net(), gold)["accuracy"]
    run = _train(optimizer=optimizer, epochs=15)
    assert us.evaluate(run.student, gold)["accuracy"] > start + 0.3
    assert run.history[-1]["loss"] < run.history[0]["loss"]


def test_numpys_numbers_are_numbers(tmp_path: Path) -> None:
    x, y = torch.randn(8, 2, generator=torch.Generator().manual_seed(0)), torch.arange(8) % 2
    settings: Any = {"epochs": 1, "progress": False}
    mine, plain = (
        us.train(
            lambda: us.models.linear(2, 2), us.Gold(x, y), None, us.vanilla(), out=tmp_path / name, **settings, **some
        )
        for name, some in (
            ("a", {"seed": np.int64(3), "lr": np.float64(0.1), "gold_weight": np.float32(0.5)}),
            ("b", {"seed": 3, "lr": 0.1, "gold_weight": 0.5}),
        )
    )
    assert mine.config == plain.config and mine.history[0]["loss"] == plain.history[0]["loss"]


@pytest.mark.parametrize("objective", [us.vanilla(), us.reconciled(folds=2)])
def test_a_student_that_ends_in_softmax_is_warned_of_once(objective: us.Objective) -> None:
    student, (gold, pool) = nn.Sequential(_net(), nn.Softmax(-1)), _sets(gold=40)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        _train(student, objective, sets=(gold, pool), test=gold, select=gold, epochs=1)
    told = [str(each.message) for each in caught if "return logits" in str(each.message)]
    assert told == [
        "the student returns probabilities (they sum to 1), and training applies softmax again; return logits"
    ]


@pytest.mark.parametrize("last", [nn.Identity(), nn.LogSoftmax(-1), nn.Sigmoid(), nn.ReLU()])
def test_a_student_that_returns_scores_is_not_warned_of(last: nn.Module) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", us.UnderstudyWarning)
        _train(nn.Sequential(_net(), last), epochs=1)


def test_a_class_that_gold_misses_is_named() -> None:
    x, names = torch.randn(12, 2, generator=torch.Generator().manual_seed(0)), ["cat", "dog", "rare owl"]
    gold = us.Gold(x[:6], ["cat", "dog"] * 3, classes=names)
    pool = us.Pool(x[6:], names * 2, classes=names)
    with pytest.warns(us.UnderstudyWarning, match="no example of class rare owl"):
        us.train(us.models.linear(2, 3), gold, pool, us.vanilla(), epochs=1, progress=False)
