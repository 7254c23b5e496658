"""Estimates over shards: those of the whole pool."""

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import understudy as us
from understudy.features.tfidf import choose_terms, term_counts
from understudy.io.labelling import Labelling
from understudy.io.table import read_table
from understudy.maths.dawid_skene import fit_dawid_skene
from understudy.parallel.audit import audit_shards
from understudy.parallel.estimates import Trust, class_counts, fit_votes_over, most_confident, terms_over
from understudy.parallel.executors import InProcess, Processes
from understudy.parallel.shards import list_shards
from understudy.store.arrow import to_parquet

HOW = Labelling(classes=3)
SIZES = [30, 1, 40, 29]


def write_shards(folder: Path, **columns: Any) -> Any:
    folder.mkdir()
    for number, (start, stop) in enumerate(pairwise(np.cumsum([0, *SIZES]).tolist())):
        part = {name: column[start:stop] for name, column in columns.items()}
        (folder / f"{number}.parquet").write_bytes(to_parquet(part))
    return list_shards(folder)


def some_probs(rows: int = sum(SIZES), *, ties: bool = False) -> Any:
    probs = np.random.default_rng(0).dirichlet(np.ones(3), rows).astype(np.float32)
    return probs[np.arange(rows) % 6] if ties else probs


def some_votes() -> Any:
    rng = np.random.default_rng(1)
    truth = rng.integers(0, 3, sum(SIZES))
    votes = np.where(rng.random((len(truth), 4)) < 0.7, truth[:, None], rng.integers(0, 3, (len(truth), 4)))
    return np.where(rng.random(votes.shape) < 0.3, -1, votes).astype(np.int32)


def test_class_counts_add_up(tmp_path: Path) -> None:
    probs = some_probs()
    counts = class_counts(write_shards(tmp_path / "pool", teacher_probs=probs), HOW, InProcess())
    assert counts.tolist() == np.bincount(probs.argmax(1), minlength=3).tolist()


@pytest.mark.parametrize("rules", [False, True], ids=["a crowd", "rules that name one class"])
def test_dawid_skene_is_that_of_all_votes(rules: bool, tmp_path: Path) -> None:
    votes = some_votes()
    if rules:
        votes = np.where(votes == np.arange(4) % 3, votes, -1).astype(np.int32)
    shards = write_shards(tmp_path / "pool", teacher_votes=votes)
    whole = fit_dawid_skene(torch.from_numpy(votes), 3)
    # Processes are started for every step: once is enough.
    found = [
        fit_votes_over(shards, HOW, executor) for executor in (InProcess(), InProcess() if rules else Processes(2))
    ]
    assert whole.abstentions == found[0].abstentions == rules
    torch.testing.assert_close(found[0].confusion, whole.confusion, rtol=1e-9, atol=1e-12)
    torch.testing.assert_close(found[0].posterior_of(torch.from_numpy(votes)), whole.posterior, rtol=1e-9, atol=1e-12)
    assert len(found[0].log_likelihood) == len(whole.log_likelihood)
    assert torch.equal(found[0].confusion, found[1].confusion), "whoever counts"


@pytest.mark.parametrize("ngrams", [1, 2, 3])
@pytest.mark.parametrize("most", [5, 1000])
def test_terms_are_those_of_all_texts(ngrams: int, most: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    words = np.array(["red", "green", "blue", "stone", "river", "old", "a", "über"])
    texts = [" ".join(rng.choice(words, rng.integers(1, 9))) for _ in range(sum(SIZES) - 4)]
    # Just as rare as is allowed, in two shards; and too rare.
    texts = ["a rare pair", *texts, "", "unique words here", "a rare pair"]
    shards = write_shards(tmp_path / "pool", text=np.array(texts, dtype=object))
    terms, texts_with = terms_over(shards, "text", InProcess(), ngrams=ngrams, most=most, rarest=2)
    expected = choose_terms(term_counts(texts, ngrams=ngrams), most=most, min_texts=2)
    assert terms == expected[0] and texts_with.tolist() == expected[1].tolist()


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("measure", ["margin", "entropy"])
def test_the_most_confident_are_those_that_training_would_keep(ties: bool, measure: str, tmp_path: Path) -> None:
    probs = some_probs(ties=ties)
    shards = write_shards(tmp_path / "pool", teacher_probs=probs)
    confidence = us.Soft(torch.from_numpy(probs)).confidence(measure)
    order = (-confidence if measure == "entropy" else confidence).argsort(descending=True, stable=True)
    for share in (0.003, 0.25, 0.5, 1.0):
        kept = most_confident(shards, HOW, share, InProcess(), measure=measure)
        us.map_shards(kept, tmp_path / "pool", tmp_path / f"kept-{share}", progress=False)
        expected = torch.zeros(sum(SIZES)).index_fill_(0, order[: max(1, round(share * sum(SIZES)))], 1.0)
        assert read_table(tmp_path / f"kept-{share}").columns["confident.kept"].tolist() == expected.tolist()


def test_rows_without_a_label_are_not_among_the_most_confident(tmp_path: Path) -> None:
    """Training leaves them out first: half of the others are kept, not half of all."""
    rng = np.random.default_rng(4)
    labels = np.where(rng.random(sum(SIZES)) < 0.4, -1, rng.integers(0, 3, sum(SIZES)))
    sure = np.where(labels < 0, 0.99, rng.integers(4, 9, sum(SIZES)) / 10).astype(np.float32)
    shards = write_shards(tmp_path / "pool", teacher_label=labels, teacher_confidence=sure)
    kept = most_confident(shards, HOW, 0.5, InProcess())
    us.map_shards(kept, tmp_path / "pool", tmp_path / "kept", progress=False)
    said = np.flatnonzero(labels >= 0)
    order = said[np.argsort(-sure[said], kind="stable")]
    expected = np.isin(np.arange(sum(SIZES)), order[: round(0.5 * len(said))])
    assert read_table(tmp_path / "kept").columns["confident.kept"].tolist() == expected.tolist()
    nothing = write_shards(tmp_path / "none", teacher_label=0 * labels - 1, teacher_confidence=sure)
    with pytest.raises(us.UnderstudyError, match="no row has a teacher's label"):
        most_confident(nothing, HOW, 0.5, InProcess())


def test_trust_measured_on_gold_is_sent_to_every_shard(tmp_path: Path) -> None:
    probs, gold = some_probs(), torch.from_numpy(some_probs(200))
    truth = torch.multinomial(gold.double(), 1, generator=torch.Generator().manual_seed(0)).squeeze(1)
    curve = us.Reliability.fit(gold, truth)
    write_shards(tmp_path / "pool", teacher_probs=probs)
    out = us.map_shards(Trust(curve, HOW), tmp_path / "pool", tmp_path / "trust", workers=2, progress=False)
    made = read_table(out).columns
    assert made["slam.alpha"].tolist() == curve.alpha(probs).tolist()
    assert made["slam.k"].tolist() == curve.k(probs).tolist()


def test_shards_without_labels_are_refused(tmp_path: Path) -> None:
    shards = write_shards(tmp_path / "pool", x=np.zeros((100, 2)))
    with pytest.raises(us.UnderstudyError, match="has no column of a teacher's labels"):
        class_counts(shards, HOW, InProcess())
    votes = write_shards(tmp_path / "votes", teacher_votes=some_votes())
    with pytest.raises(us.UnderstudyError, match="is a part; fit it first"):
        class_counts(votes, Labelling(classes=3, votes="dawid_skene"), InProcess())
    with pytest.raises(us.UnderstudyError, match="has no column 'text'"):
        terms_over(shards, "text", InProcess(), ngrams=1, most=5, rarest=1)


@pytest.mark.parametrize("form", ["teacher_probs", "teacher_label", "one-hot", "one shard one-hot"])
def test_an_audit_of_shards_is_that_of_the_pool(form: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    truth = rng.integers(0, 3, sum(SIZES) + 80)
    probs = rng.dirichlet(np.ones(3), len(truth)) * 0.6 + 0.4 * np.eye(3)[truth]
    named = torch.from_numpy(probs.argmax(1))
    if "one-hot" in form:
        certain = slice(None) if form == "one-hot" else slice(80, 80 + SIZES[0])
        probs[certain] = np.eye(3)[named[certain]]
    probs = probs.astype(np.float32)
    name, column, labels = (
        ("teacher_label", named.numpy(), us.Hard(named, classes=3)) if form == "teacher_label"
        else ("teacher_probs", probs, us.Soft(torch.from_numpy(probs)))
    )  # fmt: skip
    shards = write_shards(tmp_path / "pool", **{name: column[80:]})
    x = torch.zeros(len(truth), 1)
    gold = us.Gold(x[:80], torch.from_numpy(truth[:80]), teacher=labels.take(torch.arange(80)))
    pool = us.Pool(x[80:], labels.take(torch.arange(80, len(truth))))
    found = [audit_shards(gold, shards, HOW, executor) for executor in (InProcess(), Processes(2))]
    whole = us.audit(gold, pool, rows_wrong=0)
    assert found[0].to_dict() == whole.to_dict() == found[1].to_dict()
