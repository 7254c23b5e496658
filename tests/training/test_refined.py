"""What training says of the labels: sums by hand, rows never seen, and what the columns of a run hold."""

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from sklearn.metrics import roc_auc_score
from torch import Tensor

import understudy as us
from understudy.comparison.outcome import Outcome
from understudy.data.noise import uniform_flip
from understudy.objective import Step, Weight
from understudy.training import session
from understudy.training.averages import RefinedLabels


def _logits(*probs: float) -> Tensor:
    return torch.tensor([[math.log(p), math.log(1 - p)] for p in probs])


def test_columns_by_hand() -> None:
    """Row 0 says class 0 with 0.9 and 0.3, row 2 with 0.2 once; labels 0 and 0: wrong 1 − 0.6 and 1 − 0.2."""
    refinery = RefinedLabels(3, 2)
    refinery.add(torch.tensor([0, 2]), _logits(0.9, 0.2), torch.tensor([2.0, 0.5]))
    refinery.add(torch.tensor([0]), _logits(0.3), torch.tensor([1.0]))
    columns = refinery.columns(us.Hard([0, 1, 0]))
    torch.testing.assert_close(columns["refined.wrong"], torch.tensor([0.4, math.nan, 0.8]), equal_nan=True)
    assert columns["refined.label"].tolist() == [0, 1, 1]
    torch.testing.assert_close(columns["refined.weight"], torch.tensor([1.5, 0.0, 0.5]))


def test_a_row_twice_in_a_batch_counts_twice() -> None:
    refinery = RefinedLabels(2, 2)
    refinery.add(torch.tensor([1, 1, 0]), _logits(0.8, 0.4, 0.5), None)
    columns = refinery.columns(us.Hard([0, 0]))
    torch.testing.assert_close(columns["refined.wrong"], torch.tensor([0.5, 0.4]))
    assert columns["refined.weight"].tolist() == [1.0, 1.0]


def test_soft_labels_are_judged_by_their_best_class() -> None:
    refinery = RefinedLabels(1, 2)
    refinery.add(torch.tensor([0]), _logits(0.7), None)
    columns = refinery.columns(us.Soft(torch.tensor([[0.4, 0.6]])))
    torch.testing.assert_close(columns["refined.wrong"], torch.tensor([0.7]))


class Recorder(Weight):
    """Keeps the predictions it is shown: an independent account of what training saw."""

    name = "recorder"

    def __init__(self) -> None:
        self.seen: list[tuple[Tensor, Tensor]] = []

    def __call__(self, losses: Tensor, step: Step) -> Tensor:
        self.seen.append((step.rows, step.outputs.logits.detach().softmax(-1)))
        return 1.0 + step.rows.float()


def test_a_run_averages_over_all_of_training() -> None:
    g = torch.Generator().manual_seed(0)
    labels = torch.randint(3, (20,), generator=g)
    recorder = Recorder()
    run = us.train(
        us.models.linear(4, 3), None, us.Pool(torch.randn(20, 4, generator=g), us.Hard(labels, classes=3)),
        us.vanilla(weight=recorder), epochs=3, batch_size=7, progress=False,
    )  # fmt: skip
    mean = torch.zeros(20, 3)
    for rows, probs in recorder.seen:
        for row, prob in zip(rows.tolist(), probs, strict=True):
            mean[row] += prob / 3
    torch.testing.assert_close(run.columns["refined.wrong"], 1 - mean[torch.arange(20), labels])
    assert run.columns["refined.label"].equal(mean.argmax(1))
    torch.testing.assert_close(run.columns["refined.weight"], 1.0 + torch.arange(20.0))


def _blobs() -> tuple[Tensor, Tensor, Tensor, Tensor]:
    g = torch.Generator().manual_seed(0)
    y = torch.arange(1500) % 5
    x = 1.2 * torch.randn(5, 20, generator=g)[y] + torch.randn(1500, 20, generator=g)
    noisy, wrong = uniform_flip(y, 0.4, 5, seed=0)
    return x, y, noisy, wrong


def test_wrong_labels_are_found_better_by_the_average_than_by_the_last_epoch() -> None:
    x, y, noisy, wrong = _blobs()
    pool = us.Pool(x, us.Hard(noisy, classes=5))
    net = us.models.mlp(20, 5, hidden=(256,))
    run = us.train(net, None, pool, us.self_distillation(), epochs=12, lr=5e-3, progress=False)
    assert roc_auc_score(wrong, run.columns["refined.wrong"]) > 0.95
    assert (run.columns["refined.label"] == y).double().mean() > 0.85
    plain = us.train(net, None, pool, us.vanilla(), epochs=20, lr=5e-3, progress=False)
    last = 1 - plain.predict(x).gather(1, noisy.unsqueeze(1)).squeeze(1)
    assert roc_auc_score(wrong, plain.columns["refined.wrong"]) > roc_auc_score(wrong, last) + 0.02


def test_columns_are_in_pool_order_also_with_unlabelled_rows_and_survive_saving(tmp_path: Path) -> None:
    labels = torch.tensor([0, -1, 1, 0, -1, 1])
    pool = us.Pool(torch.randn(6, 2), us.Hard(labels, classes=2))
    run = us.train(us.models.linear(2, 2), None, pool, us.vanilla(), epochs=1, out=tmp_path / "run", progress=False)
    unlabelled = torch.tensor([False, True, False, False, True, False])
    assert run.columns["refined.wrong"].isnan().equal(unlabelled)
    assert (run.columns["refined.label"] == -1).equal(unlabelled)
    loaded = us.Run.load(tmp_path / "run")
    torch.testing.assert_close(loaded.columns["refined.wrong"], run.columns["refined.wrong"], equal_nan=True)


def test_refine_can_be_left_out() -> None:
    pool = us.Pool(torch.randn(6, 2), us.Hard([0, 1] * 3, classes=2))
    run = us.train(us.models.linear(2, 2), None, pool, us.vanilla(), epochs=1, refine=False, progress=False)
    assert not [name for name in run.columns if name.startswith("refined.")]


def test_too_many_entries_are_left_out_with_a_word(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "MOST_ENTRIES", 11)
    pool = us.Pool(torch.randn(6, 2), us.Hard([0, 1] * 3, classes=2))
    with pytest.warns(us.UnderstudyWarning, match="6 rows × 2 classes are too many"):
        run = us.train(us.models.linear(2, 2), None, pool, us.vanilla(), epochs=1, progress=False)
    assert not [name for name in run.columns if name.startswith("refined.")]


# Early stopping and fine-tuning, alone and together: the options that the noisy-label papers add to every method.


class Sets:
    def __init__(self) -> None:
        x, y, noisy, _ = _blobs()
        self.gold, self.select, self.test = us.Gold(x[:50], y[:50]), us.Gold(x[50:150], y[50:150]), (x[-300:], y[-300:])
        self.pool = us.Pool(x[150:-300], us.Hard(noisy[150:-300], classes=5))
        self.noisy_split = us.Gold(x[50:150], noisy[50:150])
        self.net = us.models.mlp(20, 5, hidden=(128,))

    def train(self, *, epochs: int = 12, **options: object) -> us.Run:
        settings = {"epochs": epochs, "lr": 0.01, "gold_repeat": 0, "test": self.test, "progress": False}
        return us.train(self.net, self.gold, self.pool, us.vanilla(), **(settings | options))  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def sets() -> Sets:
    return Sets()


def test_early_stopping_keeps_the_best_epoch_and_stops_after_patience(sets: Sets) -> None:
    full = sets.train(select=sets.select)
    stopped = sets.train(select=sets.select, patience=2)
    accuracies = [record["select_accuracy"] for record in full.history]
    best, waited = 0, 0
    for epoch, accuracy in enumerate(accuracies):
        best, waited = (epoch, 0) if epoch == 0 or accuracy > accuracies[best] else (best, waited + 1)
        if waited == 2:
            break
    assert len(stopped.history) == epoch + 1 < 12
    assert stopped.selected_epoch == best + 1
    found = us.evaluate(stopped.selected(), us.Gold(*sets.test))["accuracy"]
    assert found == stopped.history[best]["test_accuracy"] == stopped.metrics()["selected"]["accuracy"]


def test_fine_tuning_starts_from_the_last_epoch_and_trains_on_gold_alone(sets: Sets) -> None:
    plain, tuned = sets.train(), sets.train(finetune_epochs=8)
    by_hand = us.train(plain.student, sets.gold, None, us.vanilla(), epochs=8, lr=0.01, progress=False)
    for expected, found in zip(by_hand.student.parameters(), tuned.student.parameters(), strict=True):
        torch.testing.assert_close(found, expected)
    expected_accuracy = us.evaluate(by_hand.student, us.Gold(*sets.test))["accuracy"]
    assert tuned.facts["finetuned_test_accuracy"] == expected_accuracy != tuned.history[-1]["test_accuracy"]
    # A comparison judges the student that the run gives.
    assert tuned.metrics()["finetuned"]["accuracy"] == Outcome.of(tuned).last == expected_accuracy
    assert "finetuned" not in plain.metrics()


def test_fine_tuning_after_early_stopping_starts_from_the_selected_epoch(sets: Sets) -> None:
    stopped = sets.train(select=sets.select, patience=2)
    tuned = sets.train(select=sets.select, patience=2, finetune_epochs=8)
    assert stopped.selected_epoch != len(stopped.history)
    by_hand = us.train(stopped.selected(), sets.gold, None, us.vanilla(), epochs=8, lr=0.01, progress=False)
    for expected, found in zip(by_hand.student.parameters(), tuned.student.parameters(), strict=True):
        torch.testing.assert_close(found, expected)


@pytest.mark.parametrize(
    ("given", "rate"),
    [
        ({"schedule": "step"}, 1e-4),  # 0.01 · 0.01
        ({"schedule": "cosine"}, 0.01 * (1 - math.cos(0.1 * math.pi)) / 2),  # it ends at 0: the rate at nine tenths
        ({"schedule": "step", "finetune_lr": 3e-3}, 3e-3),
    ],
)
def test_fine_tuning_goes_on_at_one_small_rate(sets: Sets, given: dict[str, Any], rate: float) -> None:
    """The independent way: a second training on gold from the first one's student, constant rate."""
    plain = sets.train(schedule=given["schedule"])
    tuned = sets.train(finetune_epochs=3, **given)
    by_hand = us.train(plain.student, sets.gold, None, us.vanilla(), epochs=3, lr=rate, progress=False)
    for expected, found in zip(by_hand.student.parameters(), tuned.student.parameters(), strict=True):
        torch.testing.assert_close(found, expected, rtol=0, atol=1e-7)


def test_a_schedule_at_zero_leaves_no_rate_to_fine_tune_with(sets: Sets) -> None:
    with pytest.raises(us.UnderstudyError, match="pass finetune_lr="):
        sets.train(schedule=[(0.5, 0.0)], finetune_epochs=1)


def test_training_until_its_own_labels_are_learned(sets: Sets) -> None:
    """Gold rows by their label, pool rows by the teacher's; the first epoch that reaches the share is the last."""
    full = sets.train(until_accuracy=1.0, gold_repeat=1)
    shares = [record["train_accuracy"] for record in full.history]
    wanted = sorted(shares)[len(shares) // 2]
    stopped = sets.train(until_accuracy=wanted, gold_repeat=1)
    assert len(stopped.history) == next(n for n, share in enumerate(shares, 1) if share >= wanted) < len(shares)
    labels = torch.cat([sets.gold.y, sets.pool.teacher.top1()])  # type: ignore[union-attr]
    right = stopped.predict(torch.cat([sets.gold.x, sets.pool.x])).argmax(1) == labels
    assert stopped.history[-1]["train_accuracy"] == float(right.double().mean())
    # Rows that only steer do not count.
    steered = sets.train(until_accuracy=1.0, epochs=1)
    right = steered.predict(sets.pool.x).argmax(1) == labels[len(sets.gold) :]
    assert steered.history[-1]["train_accuracy"] == float(right.double().mean())


def test_pretraining_and_fine_tuning_have_their_full_length(sets: Sets) -> None:
    plain = sets.train(pretrain_epochs=2, epochs=1, finetune_epochs=2)
    easy = sets.train(pretrain_epochs=2, epochs=3, finetune_epochs=2, until_accuracy=1e-9)
    assert len(easy.history) == 1
    for expected, found in zip(plain.student.parameters(), easy.student.parameters(), strict=True):
        assert expected.equal(found)


def test_a_noisy_split_selects_by_its_noisy_labels(sets: Sets) -> None:
    run = sets.train(select=sets.noisy_split)
    accuracies = [record["select_accuracy"] for record in run.history]
    assert run.selected_epoch == accuracies.index(max(accuracies)) + 1
    # 40% of the split's labels are wrong, so agreement with them stays far below the true accuracy.
    assert max(accuracies) < 0.75
    selected = run.metrics()["selected"]["accuracy"]
    assert selected > run.metrics()["last"]["accuracy"] - 0.03


def test_options_without_their_rows_are_refused(sets: Sets) -> None:
    with pytest.raises(us.UnderstudyError, match="select=None"):
        sets.train(patience=2)
    with pytest.raises(us.UnderstudyError, match="pass gold"):
        us.train(sets.net, None, sets.pool, us.vanilla(), epochs=1, finetune_epochs=1, progress=False)
