"""Votes as labels: shares, the Dawid–Skene posterior, and rows without votes."""

from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch

import understudy as us
from understudy.labels.forms import Hard
from understudy.labels.votes import Votes

VOTES = torch.tensor([[0, 1, 1], [2, -1, -1], [-1, -1, -1], [0, 1, -1]])


def _crowd(rows: int = 300, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, 3, rows)
    skills = np.array([0.95, 0.6, 0.6, 0.5])
    right = rng.random((rows, 4)) < skills
    votes = np.where(right, truth[:, None], (truth[:, None] + rng.integers(1, 3, (rows, 4))) % 3)
    votes[rng.random(votes.shape) < 0.4] = -1
    return torch.tensor(votes), torch.tensor(truth)


def test_majority() -> None:
    votes = Votes(VOTES, classes=3)
    assert votes.top1().tolist() == [1, 2, -1, 0]
    assert votes.labelled().tolist() == [True, True, False, True]
    assert votes.dense(torch.tensor([0, 3]), 3).tolist() == [pytest.approx([1 / 3, 2 / 3, 0]), [0.5, 0.5, 0]]
    assert votes.majority()[2].tolist() == [0, 0, 0]
    assert votes.confidence("margin").tolist() == pytest.approx([1 / 3, 1, 0, 0])
    assert votes.positions(torch.tensor([0, 2, 0, 1])).tolist() == [1, 0, 0, 1]
    assert votes.votes.dtype == torch.int8


def test_rows_keep_the_model_of_their_set() -> None:
    everything, _ = _crowd()
    votes = Votes(everything, 3, by="dawid_skene")
    fit = votes.dawid_skene()
    rows = votes.labelled().nonzero().squeeze(1)[:7]
    torch.testing.assert_close(votes.take(rows).dense(torch.arange(7), 3), fit.posterior[rows].float())
    given = Votes(everything[rows], 3, by=fit)
    assert given.top1().equal(fit.posterior[rows].argmax(1))
    assert Votes.concatenate([given, given]).top1().equal(given.top1().repeat(2))


def test_gold_and_pool_of_one_model_train() -> None:
    votes, truth = _crowd()
    x = torch.eye(3)[truth] + 0.3 * torch.randn(300, 3, generator=torch.Generator().manual_seed(0))
    pool_votes = Votes(votes[100:], 3, by="dawid_skene")
    gold = us.Gold(x[:100], truth[:100], teacher=Votes(votes[:100], 3, by=pool_votes.dawid_skene()))
    run = us.train(
        us.models.mlp(inputs=3, hidden=(8,), classes=3), gold, us.Pool(x[100:], pool_votes), us.slam(), epochs=1,
        progress=False,
    )  # fmt: skip
    silent = int((votes[100:] < 0).all(1).sum())
    assert silent > 0
    assert run.facts["pool_rows_without_label"] == silent
    assert int(run.columns["slam.alpha"].isnan().sum()) == silent
    assert run.facts["calibration_rows"] == 100 - int((votes[:100] < 0).all(1).sum())


@pytest.mark.parametrize("by", ["dawid_skene", "majority"])
def test_gold_weighed_by_another_model_is_pointed_out(by: str) -> None:
    votes, truth = _crowd()
    gold = us.Gold(torch.eye(3)[truth[:100]], truth[:100], teacher=Votes(votes[:100], 3, by=by))
    pool = us.Pool(torch.eye(3)[truth[100:]], Votes(votes[100:], 3, by="dawid_skene"))
    with pytest.warns(us.UnderstudyWarning, match="weighed by different models"):
        us.train(us.models.linear(3, 3), gold, pool, us.slam(), epochs=1, progress=False)


def test_reliability_of_rows_without_votes() -> None:
    votes, truth = _crowd()
    spoken = (votes >= 0).any(1)
    trust = us.Reliability.fit(Votes(votes[spoken], 3), truth[spoken])
    queried = Votes(votes, 3)
    assert trust.alpha(queried).isnan().equal(~spoken)
    assert (trust.k(queried) == -1).equal(~spoken)
    assert trust.topk_accuracy(queried, 3).isnan().equal(~spoken)
    with pytest.raises(us.UnderstudyError, match="has no teacher label"):
        us.Reliability.fit(queried, truth)


def test_one_annotator_gives_hard_labels() -> None:
    plain = Votes([[0], [-1], [2]], 3).simplest()
    assert isinstance(plain, Hard)
    assert plain.labels.tolist() == [0, -1, 2]
    assert isinstance(Votes([[0, 0]], 3).simplest(), Votes)


@pytest.mark.slow
def test_youtube_rules(shared_data) -> None:  # type: ignore[no-untyped-def]
    table = pq.read_table(shared_data("text/weak_youtube.parquet")).to_pydict()
    train = [row for row, part in enumerate(table["split"]) if part == "train"]
    truth = torch.tensor([table["label"][row] for row in train])
    votes = Votes(torch.tensor([table["weak_labels"][row] for row in train]), 2)
    spoken = votes.labelled()
    accuracy = {
        by: float((Votes(votes.votes, 2, by=by).top1() == truth)[spoken].double().mean())
        for by in ("majority", "dawid_skene")
    }
    assert accuracy["majority"] == pytest.approx(0.80, abs=0.01)
    assert accuracy["dawid_skene"] == pytest.approx(0.817, abs=0.01)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([[0, 3]], 3), "row 0, annotator 1 is 3"),
        (([[0, 1], [-2, 0]], 3), "row 1, annotator 0 is -2"),
        (([0, 1], 3), "shape"),
        (([[0.0]], 3), "integers"),
        (([[0]], 1), "whole number, 2 to"),
        (([[0]], 2, "mean"), "majority, dawid_skene"),
        (([[0]], 3, Votes(VOTES, 3).dawid_skene()), "same annotators"),
    ],
)
def test_bad_votes_are_errors(arguments: tuple[object, ...], message: str) -> None:
    with pytest.raises(us.UnderstudyError, match=message):
        Votes(*arguments)  # type: ignore[arg-type]


def test_joining() -> None:
    one = Votes(VOTES, 3)
    assert len(Votes.concatenate([one, one])) == 8
    with pytest.raises(us.UnderstudyError, match="different models"):
        Votes.concatenate([one, Votes(VOTES, 3, by="dawid_skene")])
    with pytest.raises(us.UnderstudyError, match="different models"):
        Votes.concatenate([Votes(VOTES, 3, by=one.dawid_skene()), Votes(VOTES, 3, by=one.dawid_skene())])
    with pytest.raises(us.UnderstudyError, match="different annotators"):
        Votes.concatenate([one, Votes(VOTES[:, :2], 3)])


def test_votes_are_kept_in_a_store(tmp_path: Path) -> None:
    """Annotators that joined later had not voted on the rows before."""
    with us.LabelStore(tmp_path, classes=3, form="votes") as store:
        store.append([1, 2], Votes([[0, 1], [-1, -1]], 3))
        store.append([3], Votes([[2, 2, 1]], 3))
    again = us.LabelStore(tmp_path)
    labels = again.labels([3, 1, 2, 9])
    assert isinstance(labels, Votes)
    assert labels.votes.tolist() == [[2, 2, 1], [0, 1, -1], [-1, -1, -1], [-1, -1, -1]]
    assert again.missing([1, 2, 3, 9], unlabelled=True).tolist() == [2, 9]
