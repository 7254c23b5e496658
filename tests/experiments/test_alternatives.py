"""Settings in which the library stands beside what a user would pick instead: no row in two sets, and honest tables."""

import numpy as np
import pytest
import torch
from experiments.alternatives_data import HELD_OUT, SETTINGS, Source, unavailable
from scipy import sparse

import understudy as us
from experiments import alternatives_data
from understudy.featurise.featuriser import SparseRows


def source(rows: int = 60) -> Source:
    x = sparse.csr_matrix(np.arange(rows * 3, dtype=np.float32).reshape(rows, 3))
    every = torch.arange(rows)
    return Source(x, every % 3, every[:50], every[50:], {})


def test_no_row_is_in_two_sets_and_every_row_keeps_its_own_features_truth_and_label() -> None:
    given = source()
    labels = us.Hard(torch.arange(60) % 3, classes=3)
    dealt = given.deal(labels, 10, seed=3, without=torch.arange(5))
    gold, pool, test = (set(part.ids.tolist()) for part in (dealt.gold, dealt.pool, dealt.test))
    assert (len(gold), len(pool), len(test)) == (10, 35, 10)
    assert gold | pool == set(range(5, 50)) and test == set(range(50, 60)), "and rows the teacher learned from are out"
    assert isinstance(dealt.pool.rows, SparseRows)
    row = dealt.pool.ids.tolist().index(20)
    assert dealt.pool.rows.take(torch.tensor([row])).tolist() == [[60.0, 61.0, 62.0]]
    assert dealt.truth is not None and int(dealt.truth[row]) == 2 and int(dealt.pool.teacher.top1()[row]) == 2
    assert torch.equal(dealt.gold.y, torch.tensor(dealt.gold.ids.tolist()) % 3)
    other = given.deal(labels, 10, seed=4)
    assert set(other.gold.ids.tolist()) != gold, "another seed deals other rows"


def test_held_out_settings_are_settings_and_missing_nets_are_said(monkeypatch: pytest.MonkeyPatch) -> None:
    assert set(HELD_OUT) < set(SETTINGS)
    monkeypatch.delenv("UNDERSTUDY_MINILM", raising=False)
    assert unavailable("TREC, rules, MiniLM") == "UNDERSTUDY_MINILM is not set"
    assert unavailable("TREC, rules") is None


@pytest.mark.slow
@pytest.mark.parametrize("name", ["SMS, rules", "SST-2, small model", "IMDB, real model"])
def test_real_sets_are_dealt_without_overlap(name: str) -> None:
    try:
        dealt = SETTINGS[name](1)
    except us.UnderstudyError as error:
        pytest.skip(str(error))
    sets = [set(part.ids.tolist()) for part in (dealt.gold, dealt.pool, dealt.test)]
    assert sum(map(len, sets)) == len(set.union(*sets))
    assert len(dealt.truth) == len(dealt.pool)
    alternatives_data.imdb.cache_clear()
