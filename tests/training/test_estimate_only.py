"""Gold that estimates and never trains, students asked about gold they have not seen, and slots that do nothing."""

from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import understudy as us
from understudy.comparison.candidates import candidates
from understudy.comparison.cells import Job, split_for_seed
from understudy.data.rows import SubsetRows
from understudy.data.splits import fold_rows
from understudy.errors import UnderstudyError, UnderstudyWarning
from understudy.inference.passes import predict
from understudy.objective import Context, Weight
from understudy.training.options import TrainingOptions
from understudy.training.prepare import cross_fit_folds, looks_memorised, predict_out_of_fold

MARKED = torch.arange(40) % 4 == 0


def problem(rows: int = 200, *, marked: Tensor | bool = MARKED) -> tuple[us.Gold, us.Pool, us.Gold]:
    draw = torch.Generator().manual_seed(5)
    x = torch.randn(rows + 140, 6, generator=draw)
    y = x[:, :3].argmax(1)
    teacher_labels = torch.where(torch.rand(len(y), generator=draw) < 0.3, torch.randint(3, y.shape, generator=draw), y)
    probs = 0.7 * torch.eye(3)[teacher_labels] + 0.1
    gold = us.Gold(x[:40], y[:40], probs[:40], estimate_only=marked)
    return gold, us.Pool(x[40 : 40 + rows], probs[40 : 40 + rows]), us.Gold(x[-100:], y[-100:])


def net() -> nn.Module:
    torch.manual_seed(1)
    return us.models.mlp(6, 3, hidden=(16,))


def poisoned(gold: us.Gold) -> us.Gold:
    """The same with other features on the rows that estimate only: whoever is fitted to them ends elsewhere."""
    x = gold.x.clone()
    x[gold.estimate_only] += 100
    return us.Gold(x, gold.y, gold.teacher, estimate_only=gold.estimate_only)


@pytest.mark.parametrize("method", [us.vanilla, us.slam, us.l2rw, us.co_teaching])
def test_no_student_is_fitted_to_rows_that_estimate_only(method: Any) -> None:
    gold, pool, _ = problem()
    options: Any = {"epochs": 2, "pretrain_epochs": 2, "finetune_epochs": 1, "progress": False, "batch_size": 16}
    first, second = (us.train(net(), part, pool, method(), **options) for part in (gold, poisoned(gold)))
    for one, other in zip(first.student.parameters(), second.student.parameters(), strict=True):
        assert torch.equal(one, other)
    assert first.facts["gold_rows"] == 40 and first.facts["estimate_only_rows"] == 10
    assert first.facts["calibration_rows"] == 40


def test_batches_hold_every_other_row_by_its_number_in_gold() -> None:
    gold, pool, _ = problem()
    session = us.Session(net(), gold, pool, us.vanilla(), batch_size=32)
    seen = [(batch.x, batch.gold_rows) for batch in session.batches(0)]
    rows = torch.cat([numbers for _, numbers in seen])
    assert rows.sort().values.tolist() == (~MARKED).nonzero().squeeze(1).tolist()
    for x, numbers in seen:
        assert x[: len(numbers)].equal(gold.x[numbers])


def test_gold_that_only_estimates_serves_a_pool_and_nothing_else() -> None:
    gold, pool, _ = problem(marked=True)
    run = us.train(net(), gold, pool, us.slam(), epochs=1, progress=False)
    alone = us.train(net(), None, pool, us.slam(alpha=run.columns["slam.alpha"], k=2), epochs=1, progress=False)
    assert run.facts["calibration_rows"] == 40 and len(alone.history) == 1
    with pytest.raises(UnderstudyError, match="estimate_only"):
        us.train(net(), gold, None, us.vanilla(), epochs=1, progress=False)
    with pytest.raises(UnderstudyError, match=r"pretrain_epochs.*no row of it may train"):
        us.train(net(), gold, pool, us.vanilla(), epochs=1, pretrain_epochs=1, progress=False)
    with pytest.raises(UnderstudyError, match="gold gradient"):
        us.train(net(), gold, pool, us.l2rw(), epochs=1, progress=False)
    assert "gold only" not in candidates(gold, pool)
    assert "gold only" not in Job(net(), gold, pool, ["slam"], TrainingOptions(epochs=1), None, 0.0).objectives


def test_marked_rows_may_select_and_judge() -> None:
    gold, _, _ = problem()
    tested = torch.cat(
        [torch.from_numpy(split_for_seed(gold, test=None, select=0.0, seed=seed).rows) for seed in range(5)]
    )
    assert tested.sort().values.tolist() == list(range(40))
    part = split_for_seed(gold, test=None, select=0.2, seed=1)
    assert 0 < int(part.gold.estimate_only.sum()) < 10


class Recorded(Weight):
    """Keeps what the student teacher_labels of gold when it was asked."""

    name = "recorded"
    predicts_gold = True
    teacher_labels: list[Tensor]

    def __init__(self) -> None:
        self.teacher_labels = []

    def prepare(self, context: Context) -> dict[str, Tensor]:
        self.teacher_labels.append(context.student_on_calibration)
        return {"weight": torch.full((len(context.pool),), 0.5)}


def test_a_pretrained_student_is_asked_about_rows_it_has_not_seen() -> None:
    gold, pool, _ = problem(marked=False)
    options: Any = {"epochs": 1, "lr": 0.02, "progress": False}
    weight = Recorded()
    run = us.train(net(), gold, pool, us.vanilla(weight=weight), pretrain_epochs=60, **options)
    (teacher_labels,) = weight.teacher_labels
    assert run.facts["cross_fitted_folds"] == 5
    fitted = us.train(net(), gold, None, us.vanilla(), epochs=60, lr=0.02, progress=False)
    assert float((fitted.predict(gold.x).argmax(1) == gold.y).double().mean()) == 1.0
    assert 0.4 < float((teacher_labels.argmax(1) == gold.y).double().mean()) < 1.0
    # Independent: one row's fold is found by brute force, and a student trained by hand without it says the same.
    rest, held_out = fold_rows(gold.y, 5, 0)[0]
    without = us.train(net(), gold.take(rest), None, us.vanilla(), epochs=60, lr=0.02, progress=False)
    torch.testing.assert_close(teacher_labels[held_out], without.predict(gold.x[held_out]))


def test_copies_of_a_linear_student_are_pretrained_as_it_is_on_all_rows_at_once() -> None:
    gold, pool, _ = problem(marked=False)
    build, weight = partial(us.models.linear, gold.x.shape[1], 3), Recorded()
    options: Any = {"optimizer": "lbfgs", "weight_decay": 0.01, "batch_size": 8, "progress": False}
    us.train(build, gold, pool, us.vanilla(weight=weight), epochs=1, pretrain_epochs=3, **options)
    rest, held_out = fold_rows(gold.y, 5, 0)[0]
    without = us.train(build, gold.take(rest), None, us.vanilla(), epochs=3, **options)
    torch.testing.assert_close(weight.teacher_labels[0][held_out], without.predict(gold.x[held_out]))


def test_only_rows_that_were_trained_on_are_asked_of_copies() -> None:
    gold, _, _ = problem()
    student, asked = net().eval(), []

    def pretrained_on(part: us.Gold) -> nn.Module:
        asked.append(part)
        return nn.Sequential(student, _Constant())

    teacher_labels = predict_out_of_fold(student, gold, pretrained_on, seed=0)
    own = predict(student, SubsetRows(gold.rows, torch.arange(40)))
    assert teacher_labels[MARKED].equal(own[MARKED]) and bool((teacher_labels[~MARKED] == 1 / 3).all())
    assert cross_fit_folds(gold) == len(asked) == 5 and cross_fit_folds(problem(marked=True)[0]) == 0
    assert all(len(part) == 24 and not bool(part.estimate_only.any()) for part in asked)


class _Constant(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.zeros_like(x)


def test_a_comparison_cross_fits_what_asks_the_student() -> None:
    gold, pool, test = problem(marked=False)
    weight = Recorded()
    methods = {"asks": us.vanilla(weight=weight), "plain": us.slam()}
    us.compare(
        net(), gold, pool, methods, seeds=[0], test=test, epochs=1, pretrain_epochs=10, lr=0.02, select=0.0,
        workers=1, progress=False,
    )  # fmt: skip
    alone = Recorded()
    us.train(
        net(), gold, pool, us.vanilla(weight=alone), epochs=1, pretrain_epochs=10, lr=0.02, refine=False, progress=False
    )
    assert weight.teacher_labels[0].equal(alone.teacher_labels[0])


def test_memory_is_told_from_skill() -> None:
    """100 rows of two classes, the teacher right on 80%. By hand: a student that is right on all gold and agrees with
    the teacher on 70% of the pool cannot be right there as often, for it would agree on 80% − 2 · 4.7% at least."""
    y = torch.zeros(100, dtype=torch.long)
    teacher = (torch.arange(100) >= 80).long()
    sure = torch.tensor([[0.9, 0.1]]).repeat(100, 1)
    pool_teacher = torch.zeros(1000, dtype=torch.long)

    def pool_student(agree: int, top: float = 0.9) -> Tensor:
        probs = torch.tensor([[top, 1 - top]]).repeat(1000, 1)
        probs[agree:] = probs[agree:].flip(1)
        return probs

    assert looks_memorised(sure, y, teacher, pool_student(700), pool_teacher)
    assert not looks_memorised(sure, y, teacher, pool_student(720), pool_teacher)
    # Right on 90% of gold: nobody knows that by heart.
    assert not looks_memorised(sure.clone().index_copy_(0, torch.arange(10), sure[:10].flip(1)), y, teacher,
                               pool_student(500), pool_teacher)  # fmt: skip
    # Doubt of 0.1 on gold and 0.21 on the pool is less than half; 0.19 is not.
    assert looks_memorised(sure, y, teacher, pool_student(900, 0.79), pool_teacher)
    assert not looks_memorised(sure, y, teacher, pool_student(900, 0.81), pool_teacher)


def test_a_student_that_knows_gold_by_heart_is_warned_about() -> None:
    gold, pool, _ = problem(marked=False)
    wide = us.models.mlp(6, 3, hidden=(128,))
    noisy = us.Gold(gold.x, torch.randint(3, (40,), generator=torch.Generator().manual_seed(0)), gold.teacher)
    fitted = us.train(wide, noisy, None, us.vanilla(), epochs=150, lr=0.05, progress=False).student
    with pytest.warns(UnderstudyWarning, match="memorised"):
        run = us.train(fitted, noisy, pool, us.weighted(), epochs=1, progress=False)
    assert run.facts["gold_memorised"] == 1
    only = us.Gold(noisy.x, noisy.y, noisy.teacher, estimate_only=True)
    run = us.train(wide, only, pool, us.weighted(), epochs=1, progress=False)
    assert run.facts["gold_memorised"] == 0


def test_a_slot_that_changes_nothing_says_so() -> None:
    gold, pool, _ = problem()
    ones, half = torch.ones(200), torch.ones(200).index_fill(0, torch.arange(50), 0.5)
    with pytest.warns(UnderstudyWarning, match="every weight of 'given' is 1"):
        run = us.train(net(), gold, pool, us.vanilla(weight=us.given_weight(ones)), epochs=1, progress=False)
    assert run.facts["mean_weight"] == run.facts["share_weight_1"] == 1
    with pytest.warns(UnderstudyWarning, match="every alpha of 'slam' is 1"):
        us.train(net(), gold, pool, us.slam(alpha=1.0, k=2), epochs=1, progress=False)
    run = us.train(net(), gold, pool, us.slam(weight=us.given_weight(half)), epochs=1, progress=False)
    assert run.facts["mean_weight"] == 0.875 and run.facts["share_weight_1"] == 0.75
    assert run.facts["given.mean_weight"] == 0.875
    assert run.facts["mean_alpha"] == pytest.approx(float(run.columns["slam.alpha"].double().mean()))
    assert run.facts["mean_k"] == pytest.approx(float(run.columns["slam.k"].double().mean()))
    weight = us.given_weight(half) * us.given_weight(half.flip(0), name="other")
    run = us.train(net(), gold, pool, us.vanilla(weight=weight), epochs=1, progress=False)
    assert run.facts["mean_weight"] == 0.75 and run.facts["share_weight_1"] == 0.5


def test_every_run_tells_its_mean_weight() -> None:
    gold, pool, _ = problem()
    assert us.train(net(), gold, pool, us.vanilla(), epochs=1, progress=False).facts["mean_weight"] == 1
    run = us.train(net(), gold, pool, us.l2rw(), epochs=2, progress=False, batch_size=16)
    assert run.facts["mean_weight"] == pytest.approx(float(run.columns["refined.weight"].double().mean()))
