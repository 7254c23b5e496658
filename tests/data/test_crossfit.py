"""Folds that never meet, and estimates that never saw the row they speak of."""

from functools import partial

import numpy as np
import pytest
import torch

import understudy as us
from understudy.data.splits import cross_fit, cross_fitted_alpha


def _gold(rows: int = 103, seed: int = 0, form: str = "soft") -> us.Gold:
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 3, rows)
    logits = rng.standard_normal((rows, 3)) + 1.5 * np.eye(3)[y]
    probs = torch.tensor(logits).softmax(1)
    return us.Gold(torch.arange(rows).float()[:, None], y, probs if form == "soft" else probs.argmax(1))


def test_every_row_is_held_out_once_and_never_estimates_itself() -> None:
    gold = _gold()
    held = []
    for estimate, judged in cross_fit(gold, folds=4, seed=1):
        mine, theirs = ({float(row) for row in part.rows.take(torch.arange(len(part)))} for part in (estimate, judged))
        assert not mine & theirs
        assert len(mine | theirs) == len(gold)
        assert len(judged) in (25, 26)
        held += sorted(theirs)
        # Stratified: a fold has each class's share to within one row.
        for label in range(3):
            assert abs(int((judged.y == label).sum()) - int((gold.y == label).sum()) / 4) <= 1
    assert sorted(held) == list(range(103))


def test_seeded() -> None:
    gold = _gold()
    first, again, other = ([part[1].y.tolist() for part in cross_fit(gold, seed=seed)] for seed in (0, 0, 1))
    assert first == again
    assert first != other


@pytest.mark.parametrize("form", ["soft", "hard"])
def test_alpha_equals_a_fit_without_the_fold(form: str) -> None:
    gold = _gold(form=form)
    alpha = cross_fitted_alpha(gold, partial(us.Reliability.fit, lower_bound=0.4), folds=5, seed=2)
    for estimate, judged in cross_fit(gold, folds=5, seed=2):
        trust = us.Reliability.fit(estimate.teacher, estimate.y, lower_bound=0.4, classes=3)
        rows = judged.rows.take(torch.arange(len(judged))).long().squeeze(1)
        assert alpha[rows].equal(trust.alpha(judged.teacher))


def test_a_rows_own_truth_does_not_move_its_alpha() -> None:
    gold = _gold(60)
    fit = partial(us.Reliability.fit, lower_bound=0.0)
    before = cross_fitted_alpha(gold, fit, folds=60)
    # The surest row the teacher got right: its truth matters to the others.
    right = gold.teacher.top1() == gold.y  # type: ignore[union-attr]
    row = int((gold.teacher.confidence("margin") * right).argmax())  # type: ignore[union-attr]
    changed = us.Gold(gold.x, gold.y.clone(), gold.teacher)
    changed.y[row] = (gold.y[row] + 1) % 3
    after = cross_fitted_alpha(changed, fit, folds=60)
    assert after[row] == before[row]
    assert not after.equal(before)


def test_calibrated_where_fitting_on_itself_flatters() -> None:
    """A curve judged on its own rows explains them too well; out of fold it does not."""
    loss = {"own": [], "crossed": []}
    for seed in range(20):
        gold = _gold(60, seed)
        right = (gold.teacher.top1() == gold.y).double()  # type: ignore[union-attr]
        own = us.Reliability.fit(gold.teacher, gold.y, lower_bound=0.0).alpha(gold.teacher)
        crossed = cross_fitted_alpha(gold, partial(us.Reliability.fit, lower_bound=0.0))
        loss["own"].append(float(((own - right) ** 2).mean()))
        loss["crossed"].append(float(((crossed - right) ** 2).mean()))
    assert np.mean(loss["crossed"]) > np.mean(loss["own"]) + 0.01


def test_silent_and_chosen_rows() -> None:
    gold = _gold(60, form="hard")
    labels = gold.teacher.top1().clone()  # type: ignore[union-attr]
    labels[3] = -1
    chosen = torch.zeros(60, dtype=torch.bool)
    chosen[5] = True
    alpha = cross_fitted_alpha(us.Gold(gold.x, gold.y, labels, chosen=chosen), us.Reliability.fit)
    assert alpha.isnan().nonzero().flatten().tolist() == [3]
    flipped = gold.y.clone()
    flipped[5] = (flipped[5] + 1) % 3
    # Same folds need the same classes; only the chosen row's agreement changes.
    other = us.Gold(gold.x, gold.y, labels.clone().index_fill_(0, torch.tensor([5]), int(flipped[5])), chosen=chosen)
    keep = torch.arange(60) != 5
    assert cross_fitted_alpha(other, us.Reliability.fit)[keep].nan_to_num().equal(alpha[keep].nan_to_num())


def test_bad_folds_are_errors() -> None:
    with pytest.raises(us.UnderstudyError, match="folds=1"):
        list(cross_fit(_gold(10), folds=1))
    with pytest.raises(us.UnderstudyError, match="between 2 and the 10"):
        list(cross_fit(_gold(10), folds=11))
    with pytest.raises(us.UnderstudyError, match="pass teacher="):
        cross_fitted_alpha(us.Gold(torch.zeros(10, 1), torch.arange(10) % 2), us.Reliability.fit)
