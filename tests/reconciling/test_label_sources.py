"""Reconciled labels: their formula from what was said, every form of a teacher's labels, no leak, who is believed."""

import math
import warnings
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

import understudy as us
from three_blobs import CLASSES, RECIPE, labels, points, student, world
from understudy.maths.opinion_pool import fit_opinion_pool
from understudy.maths.source_confusion import cross_likelihood, fit_sources, fit_votes
from understudy.parallel.executors import InProcess
from understudy.reconciling import cross_fitting
from understudy.reconciling.base_models import NearestNeighbours, TrainedModel, label_probabilities
from understudy.reconciling.cross_fitting import CrossFit
from understudy.reconciling.label_sources import (
    LEAST,
    SourceScores,
    choose_opinion,
    labels_by_fold,
    opinion_losses,
    reconciled_pool,
    significantly_less,
    sources_in,
    teacher_scores,
)

FORMS = ("hard", "hard_confidence", "soft", "topk", "votes")


def fitted(gold: us.Gold, pool: us.Pool, **members: Any) -> CrossFit:
    return CrossFit(student, gold, pool, members, RECIPE, CLASSES, needed=())


def said(
    crossfit: CrossFit, skill: float = 2.0, seed: int = 5, pool_truth: Tensor | None = None
) -> cross_fitting.OutOfFold:
    """A member that knows the truth so well, everywhere."""
    draw = torch.Generator().manual_seed(seed)
    truth = torch.zeros(len(crossfit.pool)).long() if pool_truth is None else pool_truth
    words = [
        (skill * torch.nn.functional.one_hot(y, CLASSES) + torch.randn(len(y), CLASSES, generator=draw)).softmax(1)
        for y in (crossfit.gold.y, truth)
    ]
    return cross_fitting.OutOfFold({"one": words[0]}, {"one": words[1]}, {"one": [words[1].numpy()] * crossfit.folds})


def test_q_is_the_formula_of_the_sources_and_their_weights() -> None:
    """log q = b · log P(word | y) + b' · log p + a − log Z, with every part made by hand."""
    gold, pool, truth = world()
    crossfit = fitted(gold, pool)
    words = said(crossfit, pool_truth=truth)
    made = reconciled_pool(crossfit, words)
    assert [one.name for one in made.sources] == ["teacher confusion", "one"]
    assert gold.teacher is not None and pool.teacher is not None and made.teacher is not None
    on_gold = cross_likelihood(gold.teacher.answers(), gold.y, CLASSES, crossfit.gold_fold)
    scores = torch.stack([on_gold, words.gold["one"].double().log()])
    opinion = fit_opinion_pool(scores, gold.y, fold=crossfit.gold_fold)
    counted = fit_sources(gold.teacher.answers(), gold.y, CLASSES).log_likelihood(pool.teacher.answers())
    total = opinion.weights[0] * counted + opinion.weights[1] * words.pool["one"].double().log() + opinion.bias
    if opinion.mixing is not None:
        both = torch.stack([counted, words.pool["one"].double().log()])
        total = total + torch.einsum("mck,mnk->nc", opinion.mixing, both)
    q = made.teacher.dense(torch.arange(300), CLASSES)
    torch.testing.assert_close(q, total.softmax(1).float(), atol=1e-5, rtol=1e-4)
    right = [float((words_of.argmax(1) == truth).double().mean()) for words_of in (q, counted, words.pool["one"])]
    assert right[0] > max(right[1:]), "together they know more than each alone"


def test_columns_tell_what_each_source_said() -> None:
    gold, pool, truth = world()
    crossfit = fitted(gold, pool)
    made = reconciled_pool(crossfit, words := said(crossfit, pool_truth=truth))
    columns, facts = made.columns(), made.facts()
    assert made.teacher is not None
    label = made.teacher.top1()
    assert columns["reconciled.label"].equal(label)
    torch.testing.assert_close(columns["one.prob"], words.pool["one"][torch.arange(300), label], atol=1e-3, rtol=0)
    assert columns["one.label"].equal(words.pool["one"].argmax(1))
    assert facts["reconciled.log_loss"] == made.opinion.log_loss < 1
    assert facts["reconciled.weight of one"] == made.sources[1].weight > 0
    assert made.sources[1].accuracy == float((words.gold["one"].argmax(1) == gold.y).double().mean())
    found = sources_in(facts | {"train_seconds": 3.0})
    assert {one["name"] for one in found} == {"teacher confusion", "one"} and found[0]["weight"] >= found[1]["weight"]
    assert found[0]["rows"] == 60 and sources_in({"train_seconds": 3.0}) == []
    assert len(made) == 300 and made.take(torch.arange(5)).teacher is not None


@pytest.mark.parametrize("form", FORMS)
def test_the_teachers_word_in_every_form(form: str) -> None:
    gold, pool, truth = world(form)
    crossfit = fitted(gold, pool)
    scores = teacher_scores(gold, pool, crossfit.gold_fold, CLASSES)
    soft = form in ("hard_confidence", "soft", "topk")
    last = "votes" if form == "votes" else "teacher confusion"
    assert list(scores) == (["teacher", last] if soft else [last])
    for on_gold, on_pool in scores.values():
        assert on_gold.shape == (60, CLASSES) and on_pool.shape == (300, CLASSES)
        assert on_gold.isfinite().all() and on_pool.isfinite().all()
    if soft and form != "hard_confidence":
        assert pool.teacher is not None
        probs = pool.teacher.dense(torch.arange(300), CLASSES).double().clamp(min=LEAST)
        torch.testing.assert_close(scores["teacher"][1].exp(), probs / probs.sum(1, keepdim=True), atol=1e-6, rtol=0)
    made = reconciled_pool(crossfit, said(crossfit, skill=0.5, pool_truth=truth))
    assert made.teacher is not None
    assert float((made.teacher.top1() == truth).double().mean()) > 0.5


def test_votes_are_as_sharp_as_gold_shows_and_outweigh_base_models_until_it_tells() -> None:
    gold, pool, _ = world("votes")
    rows, on_gold = gold.calibration()
    assert on_gold is not None and pool.teacher is not None
    model = fit_votes(on_gold.answers(), gold.y[rows], CLASSES)
    on_pool = teacher_scores(gold, pool, torch.arange(60) % 4, CLASSES)["votes"][1]
    spoken = pool.teacher.labelled()
    expected = model.posterior_of(pool.teacher.answers())[spoken]
    with_prior = (on_pool + model.sharpness * model.prior.log())[spoken]
    torch.testing.assert_close(with_prior.softmax(1), expected)
    assert (on_pool[~spoken] == 0).all()
    crossfit = fitted(gold, pool)
    words = said(crossfit, skill=0.0)
    names, fold = ["votes", "one", "two"], torch.arange(60) % 4
    scores = SourceScores(names, torch.zeros(3, 60, CLASSES), gold.y, fold, [])
    # Scores that say nothing leave the weights where the prior has them: 1, and a quarter shared by two.
    assert choose_opinion(scores)[0].weights.tolist() == pytest.approx([1, 0.125, 0.125])
    assert reconciled_pool(crossfit, words).sources[0].name == "votes"
    # Without votes, each source alike.
    plain = replace(scores, names=["teacher confusion", "one", "two"])
    assert choose_opinion(plain)[0].weights.tolist() == pytest.approx([1 / 3] * 3)


def test_a_hard_label_shares_out_what_its_confidence_leaves() -> None:
    """0.7 sure of class 1 of three: 0.15 for each of the others."""
    gold, pool, _ = world("hard_confidence")
    pool = us.Pool(torch.zeros(2, 4), us.Hard([1, -1], confidence=[0.7, 0.7], classes=CLASSES))
    found = teacher_scores(gold, pool, torch.arange(60) % 4, CLASSES)["teacher"][1]
    torch.testing.assert_close(found[0].exp(), torch.tensor([0.15, 0.7, 0.15]).double())
    assert (found[1] == 0).all(), "no label says nothing"


@pytest.mark.parametrize(("form", "source"), [("hard", "teacher confusion"), ("votes", "votes")])
def test_the_word_on_gold_is_counted_on_other_folds(form: str, source: str) -> None:
    """Whatever the truth of a fold is called, its own scores stay the same."""
    gold, pool, _ = world(form)
    fold = torch.arange(60) % 4
    before = teacher_scores(gold, pool, fold, CLASSES)[source][0]
    gold.y = torch.where(fold == 2, (gold.y + 1) % CLASSES, gold.y)
    after = teacher_scores(gold, pool, fold, CLASSES)[source][0]
    assert before[fold == 2].equal(after[fold == 2]) and not before[fold != 2].equal(after[fold != 2])


def test_a_teacher_of_whom_gold_knows_nothing_is_no_source_and_its_labels_still_train_members() -> None:
    gold, pool, truth = world()
    silent = us.Gold(gold.x, gold.y)
    crossfit = fitted(silent, pool)
    made = reconciled_pool(crossfit, said(crossfit, pool_truth=truth))
    assert [one.name for one in made.sources] == ["one"]
    few = us.Gold(gold.x[:5], gold.y[:5], labels(gold.y[:5])).joined_to(us.Gold(gold.x[5:], gold.y[5:]))
    assert teacher_scores(few, pool, torch.arange(60) % 4, CLASSES) == {}


def test_rows_without_a_label_get_one_from_the_rest() -> None:
    gold, pool, truth = world()
    assert isinstance(pool.teacher, us.Hard)
    named = pool.teacher.labels.clone()
    named[:100] = -1
    some = us.Pool(pool.x, us.Hard(named, classes=CLASSES))
    crossfit = fitted(gold, some, neighbours=NearestNeighbours())
    made = reconciled_pool(crossfit, crossfit.run(InProcess()))
    assert made.teacher is not None and made.teacher.labelled().all() and len(made) == 300
    assert float((made.teacher.top1()[:100] == truth[:100]).double().mean()) > 0.6


def test_one_source_is_taken_alone_where_all_together_are_worse_on_gold() -> None:
    """A source that is always right beside 12 that know nothing."""
    gold, pool, truth = world(gold=30)
    crossfit = fitted(us.Gold(gold.x, gold.y), pool)
    words = said(crossfit, skill=30.0, pool_truth=truth)
    for number in range(12):
        noise = said(crossfit, skill=0.0, seed=100 + number, pool_truth=truth)
        words.gold[f"noise {number}"], words.pool[f"noise {number}"] = noise.gold["one"], noise.pool["one"]
        words.by_fold[f"noise {number}"] = noise.by_fold["one"]
    made = reconciled_pool(crossfit, words)
    assert {one.name for one in made.sources if one.weight} == {"one"}
    assert made.opinion.mixing is None
    assert made.opinion.log_loss == pytest.approx(min(one.log_loss for one in made.sources)), "in every fold too"
    assert made.teacher is not None and made.teacher.top1().equal(truth)


def test_one_source_is_held_against_the_pool_that_would_be_taken() -> None:
    """A source that turns the classes round: mixed classes undo that, and no scalar weight could."""
    y = world(gold=300)[0].y
    turned = torch.nn.functional.one_hot((y + 1) % CLASSES, CLASSES) * 4.0 + torch.rand(300, CLASSES)
    plain = torch.nn.functional.one_hot(y, CLASSES) * 1.0 + torch.rand(300, CLASSES)
    both = fit_opinion_pool(torch.stack([plain, turned]), y)
    single = fit_opinion_pool(plain.unsqueeze(0), y, full=False)
    assert both.mixing is not None and both.log_loss < single.log_loss
    losses = [opinion_losses(one, y, "accuracy") for one in (both, single)]
    assert significantly_less(*losses) and not significantly_less(*reversed(losses))


def test_random_labels_are_reconciled_to_nothing() -> None:
    """Truth is random: reconciled labels of gold rows, as a fold's own are made, are right as often as a guess."""
    draw = torch.Generator().manual_seed(0)
    x, y = torch.randn(400, 60, generator=draw), torch.randint(CLASSES, (400,), generator=draw)
    wrong = torch.randint(CLASSES, (400,), generator=draw)
    gold = us.Gold(x[:200], y[:200], us.Hard(wrong[:200], classes=CLASSES))
    pool = us.Pool(x[200:], us.Hard(wrong[200:], classes=CLASSES))
    recipe = replace(RECIPE, epochs=2, optimizer="lbfgs")
    members: Any = {"gold only": TrainedModel(us.vanilla(), gold_only=True), "neighbours": NearestNeighbours()}
    crossfit = CrossFit(us.models.linear(60, CLASSES), gold, pool, members, recipe, CLASSES)
    words = crossfit.run(InProcess())
    made = reconciled_pool(crossfit, words)
    assert made.opinion.log_loss > math.log(CLASSES) - 0.03
    scores = SourceScores.of(crossfit, words.gold, words.pool, crossfit.evaluation_rows)
    assert float((scores.gold.argmax(2) == gold.y).double().mean(1).max()) < 0.45
    assert all(one.accuracy < 0.45 for one in made.sources)


def test_labels_of_a_fold_do_not_know_its_gold_rows() -> None:
    """Whatever the fold's truth is, its labels of the pool are the same bits; others' change."""
    gold, pool, truth = world()
    crossfit = fitted(gold, pool)
    words = said(crossfit, pool_truth=truth)
    before = labels_by_fold(crossfit, words, reconciled_pool(crossfit, words).opinions)
    assert len(before) == 4 and all(each.shape == (300, CLASSES) for each in before)
    other = fitted(gold, pool)
    mine = crossfit.gold_fold == 2
    other.__dict__["gold_fold"] = crossfit.gold_fold
    other.gold = gold.take(torch.arange(60))
    other.gold.y = torch.where(mine, (gold.y + 1) % CLASSES, gold.y)
    after = labels_by_fold(other, words, reconciled_pool(other, words).opinions)
    assert before[2].equal(after[2]) and not before[0].equal(after[0])


def test_chosen_rows_do_not_weigh() -> None:
    x, y = points()
    said_of = labels(y)
    chosen = torch.arange(60) < 20
    gold = us.Gold(x[:60], y[:60], said_of.take(torch.arange(60)), chosen=chosen)
    pool = us.Pool(x[60:], said_of.take(torch.arange(60, 360)))
    crossfit = fitted(gold, pool)
    words = said(crossfit, pool_truth=y[60:])
    words.gold["one"][:20] = math.nan
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        made = reconciled_pool(crossfit, words)
    rest = words.gold["one"][20:].argmax(1) == y[20:60]
    assert made.sources[1].accuracy == float(rest.double().mean())


def test_accuracy_is_of_rows_that_a_source_spoke_of() -> None:
    gold, pool, truth = world()
    some = us.Gold(gold.x[:30], gold.y[:30], labels(gold.y[:30])).joined_to(us.Gold(gold.x[30:], gold.y[30:]))
    crossfit = fitted(some, pool)
    word = reconciled_pool(crossfit, said(crossfit, pool_truth=truth)).sources[0]
    assert some.teacher is not None and word.rows == 30
    counted = cross_likelihood(some.teacher.answers(), some.y[:30], CLASSES, crossfit.gold_fold[:30])
    assert word.accuracy == float((counted.argmax(1) == some.y[:30]).double().mean())


def test_labels_of_gold_rows_do_not_know_their_truth() -> None:
    """q on gold is nested: weights, form and the teacher's confusion all come from the other folds."""
    gold, pool, truth = world()
    crossfit = fitted(gold, pool)
    words = said(crossfit, pool_truth=truth)
    made, fold = reconciled_pool(crossfit, words), crossfit.gold_fold
    assert gold.teacher is not None
    for number in range(4):
        rest, mine = fold != number, fold == number
        part, answers = gold.take(rest.nonzero().squeeze(1)), gold.teacher.answers()
        counted = cross_likelihood(answers[rest], part.y, CLASSES, fold[rest])
        others = torch.stack([counted, words.gold["one"][rest].double().log()])
        opinion = fit_opinion_pool(others, part.y, fold=fold[rest])
        likelihood = fit_sources(answers[rest], part.y, CLASSES).log_likelihood(answers[mine])
        expected = opinion(torch.stack([likelihood, words.gold["one"][mine].double().log()]))
        torch.testing.assert_close(made.on_gold[mine], expected.exp().float(), atol=1e-4, rtol=1e-3)
    assert made.accuracy_on_gold == (float((made.on_gold.argmax(1) == gold.y).double().mean()), 60)
    loss = -made.on_gold.double().log().gather(1, gold.y.unsqueeze(1)).mean()
    assert made.opinion.log_loss == pytest.approx(float(loss), abs=1e-4)
    gold.y = torch.where(fold == 2, (gold.y + 1) % CLASSES, gold.y)
    other = fitted(gold, pool)
    other.__dict__["gold_fold"] = fold
    again = reconciled_pool(other, words)
    assert made.on_gold[fold == 2].equal(again.on_gold[fold == 2]), "whatever the truth of a fold is"
    assert not made.on_gold[fold == 1].equal(again.on_gold[fold == 1])


def test_a_single_annotator_weighed_by_gold_is_a_word() -> None:
    """As bare hard labels are: there are no probabilities until gold has weighed it."""
    gold, pool, _ = world()
    assert gold.teacher is not None and pool.teacher is not None
    one = [us.Votes(part.top1().unsqueeze(1), CLASSES, by="gold") for part in (gold.teacher, pool.teacher)]
    hard = [us.Hard(part.top1(), classes=CLASSES) for part in (gold.teacher, pool.teacher)]
    by_gold, plain = (
        (us.Gold(gold.x, gold.y, teacher=on_gold), us.Pool(pool.x, on_pool)) for on_gold, on_pool in (one, hard)
    )
    fold = torch.arange(len(gold)) % 4
    found, expected = teacher_scores(*by_gold, fold, CLASSES), teacher_scores(*plain, fold, CLASSES)
    assert list(found) == list(expected) == ["teacher confusion"]
    for mine, theirs in zip(found["teacher confusion"], expected["teacher confusion"], strict=True):
        assert mine.equal(theirs)
    assert label_probabilities(one[1], by_gold[0], CLASSES).equal(label_probabilities(hard[1], plain[0], CLASSES))
