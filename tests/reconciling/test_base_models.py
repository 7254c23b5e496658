"""Members: who can testify about which rows, what a label is worth, and whom estimate-only rows never reach."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy import sparse
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import NearestNeighbors

import understudy as us
from three_blobs import CLASSES, RECIPE, Items, labels, points, student, world
from understudy.maths.source_confusion import fit_votes
from understudy.reconciling import base_models as module
from understudy.reconciling.base_models import (
    BoostedTrees,
    Fold,
    NearestNeighbours,
    TrainedModel,
    is_numeric,
    label_probabilities,
    take_numbers,
    vector_models,
)
from understudy.reconciling.cross_fitting import CrossFit


def fold(gold: us.Gold, pool: us.Pool, number: int = 0) -> Fold:
    return CrossFit(student, gold, pool, {}, RECIPE, CLASSES).fold(number)


def test_neighbours_are_scikit_learns_on_gold_and_learned_rows() -> None:
    gold, pool, _ = world("soft")
    asked = fold(gold, pool)
    assert pool.teacher is not None
    known = torch.cat([asked.gold.rows.take(torch.arange(45)), pool.x[asked.training_rows]])  # type: ignore[list-item]
    centre = pool.x.mean(0)
    probs = pool.teacher.dense(asked.training_rows, CLASSES)
    given = torch.cat([torch.nn.functional.one_hot(asked.gold.y, CLASSES).float(), probs]).numpy()
    rows = torch.cat([asked.held_out.rows.take(torch.arange(15)), pool.x]) - centre  # type: ignore[list-item]
    theirs = NearestNeighbors(n_neighbors=5, metric="cosine").fit((known - centre).numpy())
    expected = (given[theirs.kneighbors(rows.numpy(), return_distance=False)].sum(1) + 1 / 3) / 6
    np.testing.assert_allclose(NearestNeighbours(5).predict_out_of_fold([asked])[0].numpy(), expected, atol=1e-5)


def test_a_sparse_row_has_the_neighbours_of_the_same_dense_row(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = points()
    x, said = x.abs(), labels(y)
    parts = [torch.arange(60), torch.arange(60, 360)]
    both = []
    for make in (lambda rows: rows, lambda rows: sparse.csr_matrix(rows.numpy())):
        gold = us.Gold(make(x[parts[0]]), y[parts[0]], said.take(parts[0]))
        pool = us.Pool(make(x[parts[1]]), said.take(parts[1]))
        assert is_numeric(pool.rows) and take_numbers(pool.rows, torch.arange(7)).shape == (7, 4)
        both.append(fold(gold, pool))
    dense, thin = both
    # Sparse rows are not centred, so the dense ones must not be here either.
    monkeypatch.setattr(module, "unit_rows", lambda rows, centre: us.maths.nearest.unit_rows(rows))
    torch.testing.assert_close(
        NearestNeighbours(5).predict_out_of_fold([dense])[0], NearestNeighbours(5).predict_out_of_fold([thin])[0]
    )
    monkeypatch.setattr(module, "MOST_NEIGHBOURS", 30)
    assert NearestNeighbours(5).predict_out_of_fold([thin])[0].shape == (15 + 300, CLASSES)


def test_what_a_label_is_worth() -> None:
    gold, pool, _ = world("soft")
    assert pool.teacher is not None and gold.teacher is not None
    torch.testing.assert_close(
        label_probabilities(pool.teacher, gold, CLASSES), pool.teacher.dense(torch.arange(300), CLASSES).double()
    )
    for form in ("hard", "votes"):
        gold, pool, _ = world(form)
        assert pool.teacher is not None and gold.teacher is not None
        counted = fit_votes(gold.teacher.answers(), gold.y[gold.teacher_rows], CLASSES)
        torch.testing.assert_close(
            label_probabilities(pool.teacher, gold, CLASSES), counted.posterior_of(pool.teacher.answers())
        )
    # Nothing is known of the teacher: its labels are taken as they are.
    silent = us.Gold(gold.x, gold.y)
    hard = labels(gold.y)
    torch.testing.assert_close(
        label_probabilities(hard, silent, CLASSES), hard.dense(torch.arange(60), CLASSES).double()
    )


def test_rows_that_estimate_only_reach_no_member() -> None:
    """Whatever their truth is, members say the same: only what weighs labels by gold may look at it."""
    gold, pool, _ = world("soft", estimate_only=torch.arange(60) % 2 == 0)
    asked = fold(gold, pool)
    other = asked.gold.take(torch.arange(len(asked.gold)))
    other.y = torch.where(other.estimate_only, (other.y + 1) % CLASSES, other.y)
    for member in (NearestNeighbours(), TrainedModel(us.vanilla()), TrainedModel(us.vanilla(), gold_only=True)):
        first, second = (member.predict_out_of_fold([replace(asked, gold=given)])[0] for given in (asked.gold, other))
        assert first.equal(second), member


def test_a_fold_trains_by_a_seed_of_its_own_and_leaves_the_users_student_alone() -> None:
    gold, pool, _ = world()
    net = student()
    before = {name: value.clone() for name, value in net.state_dict().items()}
    asked = replace(fold(gold, pool), student=net)
    first = TrainedModel(us.vanilla()).predict_out_of_fold([asked])[0]
    assert first.shape == (315, CLASSES) and first.equal(TrainedModel(us.vanilla()).predict_out_of_fold([asked])[0])
    assert not first.equal(TrainedModel(us.vanilla()).predict_out_of_fold([replace(asked, number=1)])[0])
    assert all(value.equal(before[name]) for name, value in net.state_dict().items())
    told = TrainedModel(us.vanilla(), options={"lr": 0.0001}).predict_out_of_fold([asked])[0]
    assert not told.equal(first)


def test_a_student_on_labels_that_were_made_for_its_fold() -> None:
    gold, pool, truth = world()
    right, wrong = (torch.nn.functional.one_hot((truth + k) % CLASSES, CLASSES).float() for k in (0, 1))
    asked = replace(fold(gold, pool), recipe=replace(RECIPE, epochs=10, gold_weight=0.01))
    member = TrainedModel(us.vanilla(), labels=[right, wrong])
    accuracy = [
        float((member.predict_out_of_fold([replace(asked, number=k)])[0][15:].argmax(1) == truth).double().mean())
        for k in (0, 1)
    ]
    assert accuracy[0] > 0.8 and accuracy[1] < 0.3


def test_who_needs_flat_rows_stays_away_where_there_are_none(monkeypatch: pytest.MonkeyPatch) -> None:
    gold, pool, _ = world()
    plain = us.vanilla()
    monkeypatch.setattr(module, "FEWEST_FOR_TREES", 300)
    assert list(vector_models(gold, pool, CLASSES, plain, RECIPE)) == [
        "neighbours", "trees", "trees, gold only", "linear", "linear, gold only",
    ]  # fmt: skip
    # The user's own student is a minimum already.
    converged = replace(RECIPE, optimizer="lbfgs")
    assert list(vector_models(gold, pool, CLASSES, plain, converged)) == ["neighbours", "trees", "trees, gold only"]
    only = world(estimate_only=True)[0]
    assert list(vector_models(only, pool, CLASSES, plain, RECIPE)) == ["neighbours", "trees", "linear"]
    # Words and an encoder's vectors are no table.
    wide = [sparse.csr_matrix(torch.ones(300, 9).numpy()), torch.ones(300, 256)]
    for x in wide:
        both = us.Gold(x[:60], gold.y), us.Pool(x, pool.teacher)
        assert "trees" not in vector_models(*both, CLASSES, plain, RECIPE)
    collated = us.Pool(Items(pool.x), pool.teacher, collate=torch.stack)
    assert not is_numeric(collated.rows) and vector_models(gold, collated, CLASSES, plain, RECIPE) == {}
    words = us.Pool(torch.ones(300, 4, dtype=torch.long), pool.teacher)
    assert vector_models(gold, words, CLASSES, plain, RECIPE) == {}
    monkeypatch.setattr(module, "FEWEST_FOR_TREES", 301)
    assert "trees" not in vector_models(gold, pool, CLASSES, plain, RECIPE)
    monkeypatch.setattr(module, "MOST_COLUMNS", 3)
    assert vector_models(gold, pool, CLASSES, plain, RECIPE) == {}


def test_trees_are_scikit_learns_on_gold_and_learned_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    gold, pool, _ = world("votes")
    asked = fold(gold, pool, 1)
    assert pool.teacher is not None
    probs = label_probabilities(pool.teacher.take(asked.training_rows), asked.gold, CLASSES)
    rows = torch.cat([asked.gold.rows.take(torch.arange(45)), pool.x[asked.training_rows]])  # type: ignore[list-item]
    small = {"max_iter": 30, "max_leaf_nodes": 8, "early_stopping": False}
    theirs = HistGradientBoostingClassifier(**small).fit(rows, torch.cat([asked.gold.y, probs.argmax(1)]))
    found = BoostedTrees().predict_out_of_fold([asked])[0]
    np.testing.assert_allclose(found[len(asked.held_out) :].numpy(), theirs.predict_proba(pool.x.numpy()))
    # On gold alone, of which no row has the last class.
    few = replace(asked, gold=asked.gold.take((asked.gold.y < 2).nonzero().squeeze(1)))
    alone = BoostedTrees(gold_only=True).predict_out_of_fold([few])[0]
    assert alone.shape == found.shape and alone[:, 2].eq(0).all() and alone.sum(1).allclose(torch.ones(()).double())
    one = replace(asked, gold=asked.gold.take((asked.gold.y == 0).nonzero().squeeze(1)))
    with pytest.raises(us.UnderstudyError, match="two classes"):
        BoostedTrees(gold_only=True).predict_out_of_fold([one])[0]
    # At most so many cells: 4 columns, 3 trees a round.
    monkeypatch.setattr(module, "MOST_CELLS", 4 * 3 * 50)
    drawn = module._labelled_rows(asked, 50)[1]
    theirs = HistGradientBoostingClassifier(**small).fit(
        torch.cat([rows[:45], pool.x[drawn]]),
        torch.cat([asked.gold.y, probs.argmax(1)[torch.searchsorted(asked.training_rows, drawn)]]),
    )
    assert len(drawn) == 50
    np.testing.assert_allclose(
        BoostedTrees().predict_out_of_fold([asked])[0][15:].numpy(), theirs.predict_proba(pool.x)
    )


def test_a_linear_members_penalty_is_that_of_the_rows_it_learns_from() -> None:
    """scikit-learn's C of the same rows: whatever a fold leaves out of a large pool weakens no penalty."""
    x, y = points(900)
    said = labels(y, noise=0.2)
    gold = us.Gold(x[:60], y[:60], said.take(torch.arange(60)))
    pool = us.Pool(x[60:], said.take(torch.arange(60, 900)))
    asked = CrossFit(student, gold, pool, {}, RECIPE, CLASSES, rows=80).fold(0)
    assert len(asked.training_rows) == 60
    linear = vector_models(gold, pool, CLASSES, us.vanilla(), RECIPE)["linear"]
    assert pool.teacher is not None
    rows = torch.cat([asked.gold.rows.take(torch.arange(45)), pool.x[asked.training_rows]])  # type: ignore[list-item]
    truth = torch.cat([asked.gold.y, pool.teacher.top1()[asked.training_rows]])
    theirs = LogisticRegression(C=10 / float(pool.x.square().sum(1).mean()), max_iter=1000).fit(rows, truth)
    found = linear.predict_out_of_fold([asked])[0][len(asked.held_out) :]
    np.testing.assert_allclose(found.numpy(), theirs.predict_proba(pool.x.numpy()), atol=5e-3)
