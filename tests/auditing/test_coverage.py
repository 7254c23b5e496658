"""The noise interval holds the truth as often as it says; the full table is experiments/audit_coverage.py."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

import understudy as us
from understudy.auditing.measures import audit_data, pool_noise


@pytest.fixture
def reviews(shared_data: Callable[[str], Path]) -> tuple[np.ndarray, np.ndarray]:
    """The truth of movie-review sentences, and the labels of an LLM."""
    table = pq.read_table(shared_data("text/mr_chatgpt.parquet"))
    truth, named = (table[name].to_numpy().astype(np.int64) for name in ("label", "chatgpt_label"))
    return truth[named >= 0], named[named >= 0]


def test_two_hundred_gold_rows_are_enough_for_an_honest_interval(reviews: tuple[np.ndarray, np.ndarray]) -> None:
    truth, named = reviews
    noise, rng = float((truth != named).mean()), np.random.default_rng(1)
    assert noise == pytest.approx(0.063, abs=5e-4)
    held, widths = 0, []
    for _ in range(200):
        gold, pool = np.split(rng.permutation(len(truth)), [200])
        given = us.Gold(np.zeros((200, 1)), truth[gold], teacher=named[gold])
        found = pool_noise(audit_data(given, us.Pool(np.zeros((len(pool), 1)), named[pool]), None))[0].pool
        held += found.low <= noise <= found.high
        widths.append(found.width)
    assert held / 200 >= 0.9
    assert np.median(widths) <= 0.08


def test_errors_of_the_llm_lean_to_neg(reviews: tuple[np.ndarray, np.ndarray]) -> None:
    truth, named = reviews
    gold, pool = np.split(np.random.default_rng(0).permutation(len(truth)), [1000])
    found = us.audit(
        us.Gold(np.zeros((1000, 1)), truth[gold], teacher=named[gold]),
        us.Pool(np.zeros((len(pool), 1)), named[pool]),
        class_names=["neg", "pos"],
        rows_wrong=0,
    )
    assert any("Asymmetric confusion: 49 gold rows pos→neg vs 14" in sentence for sentence in found.verdict)
    pair = found.confusion.pairs[0]
    assert (pair.truth, pair.predicted) == (1, 0)
    wrong = ((truth == 1) & (named == 0))[pool].sum()
    assert pair.pool_wrong is not None and pair.pool_wrong.low <= wrong <= pair.pool_wrong.high


@pytest.mark.parametrize(("noise", "gold_rows"), [(0.02, 60), (0.2, 150)])
def test_it_also_holds_where_gold_is_of_another_mix(noise: float, gold_rows: int) -> None:
    """Class 0 is wrong three times as often and fills half of gold, but a fifth of the pool; confidence tells too."""
    rng, held, plain = np.random.default_rng(0), 0, 0
    for _ in range(150):
        named = np.concatenate([rng.integers(0, 2, gold_rows), (rng.random(4000) < 0.8).astype(np.int64)])
        sure = rng.random(len(named))
        chance = noise * np.where(named == 0, 3, 1) / 1.4 * (2 - 2 * sure)
        wrong = rng.random(len(named)) < chance
        truth = np.where(wrong, 1 - named, named)
        gold, pool = np.split(np.arange(len(named)), [gold_rows])
        found, _ = pool_noise(
            audit_data(
                us.Gold(np.zeros((gold_rows, 1)), truth[gold], teacher=us.Hard(named[gold], sure[gold])),
                us.Pool(np.zeros((4000, 1)), us.Hard(named[pool], sure[pool])),
                None,
            )
        )
        real = float(wrong[pool].mean())
        held += found.pool.low <= real <= found.pool.high
        plain += found.gold.low <= real <= found.gold.high
    assert held / 150 >= 0.91
    if noise == 0.2:
        assert plain / 150 < 0.75
