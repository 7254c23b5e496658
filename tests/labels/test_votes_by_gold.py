"""``us.Votes(by="gold")``: one model for gold and pool, fitted where they meet; gold rows cross-fitted."""

import warnings
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest
import torch
from torch import Tensor
from typer.testing import CliRunner

import understudy as us
from understudy import cli
from understudy.data.examples import weigh_by_gold, weighed
from understudy.labels.votes import Votes
from understudy.maths.source_confusion import cross_posterior
from understudy.store.fingerprints import fingerprint


def _rules(rows: int = 400, seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    """Two good rules that seldom fire and three bad ones that often do: the majority is wrong more often than not."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, rows)
    votes = np.full((rows, 5), -1)
    for j, (speaks, skill) in enumerate([(0.5, 0.95), (0.5, 0.95), (0.8, 0.35), (0.8, 0.35), (0.8, 0.35)]):
        vote = np.where(rng.random(rows) < skill, y, 1 - y)
        votes[:, j] = np.where(rng.random(rows) < speaks, vote, -1)
    x = np.eye(2)[y] + 0.4 * rng.standard_normal((rows, 2))
    return torch.tensor(x).float(), torch.tensor(y), torch.tensor(votes)


def _sets(gold_rows: int = 100) -> tuple[us.Gold, us.Pool, Tensor]:
    x, y, votes = _rules()
    gold = us.Gold(x[:gold_rows], y[:gold_rows], teacher=Votes(votes[:gold_rows], 2, by="gold"))
    return gold, us.Pool(x[gold_rows:], Votes(votes[gold_rows:], 2, by="gold")), y[gold_rows:]


def test_gold_and_pool_are_weighed_where_they_meet() -> None:
    gold, pool, truth = _sets()
    known, labelled = weigh_by_gold(gold, pool)
    assert known is not None and labelled is not None
    assert gold.teacher is not None and gold.teacher.needs_gold  # the caller's sets stay as they are
    spoken = labelled.teacher.labelled()
    right = float((labelled.teacher.top1() == truth)[spoken].double().mean())
    shares = Votes(pool.teacher.votes, 2).top1()
    assert right > 0.7 > 0.55 > float((shares == truth)[spoken].double().mean())
    rows, votes = gold.teacher_rows, gold.teacher.votes
    by_hand = us.fit_votes(votes, gold.y[rows], 2)
    pool_rows = torch.arange(len(pool))
    expected = Votes(pool.teacher.votes, 2, by=by_hand).dense(pool_rows, 2)
    torch.testing.assert_close(labelled.teacher.dense(pool_rows, 2), expected)
    crossed = cross_posterior(votes, gold.y[rows], 2)
    torch.testing.assert_close(known.teacher.dense(torch.arange(len(rows)), 2), crossed.float())
    assert known.teacher.weighed_like(labelled.teacher)
    # Parts keep what each row was given.
    some = torch.tensor([7, 3, 5])
    torch.testing.assert_close(known.take(rows[some]).teacher.dense(torch.arange(3), 2), crossed[some].float())
    both = Votes.concatenate([known.teacher.take(some), known.teacher.take(some)])
    torch.testing.assert_close(both.dense(torch.arange(6), 2), crossed[some].float().repeat(2, 1))


def test_a_part_of_gold_does_not_know_the_rest() -> None:
    """What a fold teaches the pool must not change with the truth of rows outside of it."""
    gold, pool, _ = _sets()
    x, y, votes = _rules()
    turned = us.Gold(x[:100], torch.cat([y[:50], 1 - y[50:100]]), teacher=Votes(votes[:100], 2, by="gold"))
    half = torch.arange(50)
    one, other = (weighed(pool, part.take(half)).teacher for part in (gold, turned))
    assert one.confidence("margin").equal(other.confidence("margin"))
    assert (
        not weighed(pool, gold).teacher.confidence("margin").equal(weighed(pool, turned).teacher.confidence("margin"))
    )


def test_random_truth_gives_labels_at_chance() -> None:
    right, rows = 0, 0
    for seed in range(6):
        rng = torch.Generator().manual_seed(seed)
        votes, y = torch.randint(-1, 2, (80, 10), generator=rng), torch.randint(0, 2, (80,), generator=rng)
        known = weighed(gold := us.Gold(torch.zeros(80, 1), y, teacher=Votes(votes, 2, by="gold")), gold)
        right += int((known.teacher.top1() == y[known.teacher_rows]).sum())
        rows += len(known.teacher_rows)
    assert right / rows < 0.5 + 3 * 0.5 / rows**0.5


def test_chosen_rows_do_not_teach() -> None:
    x, y, votes = _rules()
    chosen = torch.arange(100) >= 60
    labels = Votes(votes[:100], 2, by="gold")
    lied = torch.where(chosen, 1 - y[:100], y[:100])
    golds = [us.Gold(x[:100], truth, teacher=labels, chosen=chosen) for truth in (y[:100], lied)]
    one, other = (weighed(us.Pool(x[100:], Votes(votes[100:], 2, by="gold")), gold).teacher for gold in golds)
    assert one.confidence("margin").equal(other.confidence("margin"))
    assert weighed(golds[0], golds[0]).teacher.confidence("margin").isfinite().all()


def test_rows_without_votes_have_no_label() -> None:
    fit = us.fit_votes([[0, -1], [1, 1], [0, -1]], [0, 1, 0], 2)
    labels = Votes([[-1, -1], [0, -1]], 2, by=fit)
    assert labels.top1().tolist() == [-1, 0]
    assert labels.dense(torch.tensor([0]), 2).tolist() == [[0, 0]]


@pytest.mark.parametrize("method", ["slam", "forward", "weighted"])
def test_methods_that_estimate_train(method: str) -> None:
    gold, pool, _ = _sets()
    run = us.train(us.models.linear(2, 2), gold, pool, us.METHODS[method](), epochs=1, progress=False)
    silent = int((pool.teacher.votes < 0).all(1).sum())
    assert silent and run.facts["pool_rows_without_label"] == silent


def test_compare_and_auto() -> None:
    gold, pool, _ = _sets()
    recipe = {"epochs": 1, "progress": False}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", us.UnderstudyWarning)
        table = us.compare(us.models.linear(2, 2), gold, pool, ["slam"], seeds=2, workers=1, **recipe)
        run = us.auto(us.models.linear(2, 2), gold, pool, methods=["slam"], folds=2, workers=1, **recipe)
    known = weighed(gold, gold)
    right = known.teacher.top1() == gold.y[known.teacher_rows]
    on_row = dict(zip(known.teacher_rows.tolist(), right.tolist(), strict=True))
    for outcome in table.outcomes["teacher"].values():
        assert outcome.judged is not None
        assert outcome.judged.right.tolist() == [on_row[row] for row in outcome.judged.rows.tolist()]
    assert run.config["auto"]["choice"]
    assert us.leaks_between(gold, pool) is not None


def test_trust_is_cross_fitted_through_the_votes() -> None:
    gold, _, _ = _sets()
    alpha = us.cross_fitted_alpha(gold, us.Reliability.fit)
    assert alpha[gold.teacher_rows].isfinite().all()


def test_mistakes_are_one_line() -> None:
    gold, pool, _ = _sets()
    plain = us.Gold(gold.x, gold.y, teacher=Votes(_rules()[2][:100], 2))
    student = us.models.linear(2, 2)
    for given, message in (
        (None, "need gold rows with votes"),
        (us.Gold(gold.x, gold.y), "need gold rows"),
        (plain, "both"),
    ):
        with pytest.raises(us.UnderstudyError, match=message):
            us.train(student, given, pool, us.vanilla(), epochs=1, progress=False)
    with pytest.raises(us.UnderstudyError, match="where gold and pool are used together"):
        pool.teacher.top1()
    with pytest.raises(us.UnderstudyError, match="as many columns"):
        Votes([[0]], 2, by="gold").learn_from(gold.teacher, gold.y[gold.teacher_rows])
    named = Votes([[0, 1]], 2, by="gold", sources=["a", "b"])
    with pytest.raises(us.UnderstudyError, match="'b', 'a'"):
        named.learn_from(Votes([[0, 1]], 2, by="gold", sources=["b", "a"]), torch.tensor([0]))
    with pytest.raises(us.UnderstudyError, match="sources= names 1"):
        Votes([[0, 1]], 2, sources=["a"])
    with pytest.raises(us.UnderstudyError, match="holds class 2"):
        us.fit_votes([[0]], [2], 2)
    with pytest.raises(us.UnderstudyError, match="2 rows"):
        us.fit_votes([[0]], [0, 1], 2)


def test_names_and_cross_fitting_leave_fingerprints_alone() -> None:
    assert fingerprint(Votes([[0, 1]], 2)) == fingerprint(Votes([[0, 1]], 2, sources=["a", "b"]))


def test_files(tmp_path: Path) -> None:
    x, y, votes = _rules(200)
    names = np.array(["ham", "spam", ""], dtype=object)
    pool = {"id": np.arange(200), "a": x[:, 0].numpy(), "b": x[:, 1].numpy()}
    pool |= {f"teacher_vote_rule{j}": names[votes[:, j].numpy()] for j in range(5)}
    pa.csv.write_csv(pa.table(pool), tmp_path / "pool.csv")
    gold = {"id": np.arange(80), "label": names[y[:80].numpy()]}
    pa.csv.write_csv(pa.table(gold), tmp_path / "gold.csv")
    read = us.read_examples(gold=tmp_path / "gold.csv", pool=tmp_path / "pool.csv", votes="gold")
    assert read.gold is not None and read.pool is not None
    assert read.pool.teacher.sources == tuple(f"rule{j}" for j in range(5))
    assert read.gold.teacher.needs_gold and read.gold.teacher.sources == read.pool.teacher.sources
    labels = weighed(read.pool, read.gold).teacher
    spoken = (votes[:80] >= 0).any(1)
    expected = Votes(votes[80:], 2, by=us.fit_votes(votes[:80][spoken], y[:80][spoken], 2))
    assert labels.top1().equal(expected.top1())


def test_one_line_of_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    x, y, votes = _rules(200)
    pool = {"id": np.arange(200), "a": x[:, 0].numpy(), "b": x[:, 1].numpy()}
    pool |= {f"teacher_vote_{j}": votes[:, j].numpy() for j in range(5)}
    pa.csv.write_csv(pa.table(pool), "pool.csv")
    pa.csv.write_csv(pa.table({"id": np.arange(80), "label": y[:80].numpy()}), "gold.csv")
    line = (
        "train --gold gold.csv --pool pool.csv --votes gold --method slam --student linear --epochs 1 --quiet --out run"
    )
    result = CliRunner().invoke(cli.app, line.split())
    assert result.exit_code == 0, result.output
    assert us.Run.load(Path("run")).facts["calibration_rows"] == int((votes[:80] >= 0).any(1).sum())
