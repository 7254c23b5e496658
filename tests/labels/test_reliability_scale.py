"""The fast paths of trust give what the plain ones do: partial ranking, deepening, bucketed lookups."""

import importlib
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import understudy as us
import understudy.labels.reliability as module
from understudy.labels.forms import Soft
from understudy.labels.soft import TopK
from understudy.maths.accuracy_curves import LONG_ROW, leading, margins_in_turn, positions


def _teacher(rows: int, classes: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    logits = rng.standard_normal((rows, classes))
    truth = rng.integers(0, classes, rows)
    logits[np.arange(rows), truth] += rng.gamma(2, 1.5, rows)
    probs = np.exp(logits)
    return probs / probs.sum(1, keepdims=True), truth


@given(st.integers(0, 10_000), st.integers(2, 9), st.integers(1, 9), st.sampled_from([torch.float16, torch.float64]))
def test_leading_is_the_head_of_the_full_ranking(seed: int, classes: int, depth: int, dtype: torch.dtype) -> None:
    rng = np.random.default_rng(seed)
    # Coarse values, so that entries tie.
    probs = torch.tensor(rng.integers(0, 4, (5, classes)) / 8).to(dtype)
    depth = min(depth, classes)
    part, whole = leading(probs, depth), probs.double().sort(dim=1, descending=True, stable=True)
    assert part.probs.double().equal(whole.values[:, :depth])
    following = whole.values[:, depth] if depth < classes else torch.zeros(5).double()
    assert part.rest.double().equal(following)
    all_margins = margins_in_turn(leading(probs, classes))
    assert all((mine == theirs).all() for mine, theirs in zip(margins_in_turn(part), all_margins, strict=False))
    labels = torch.tensor(rng.integers(0, classes, 5))
    assert positions(probs, labels).equal((whole.indices == labels.unsqueeze(1)).byte().argmax(1))
    assert Soft(probs, trusted=True).positions(labels).equal(positions(probs, labels))


@given(st.integers(0, 10_000), st.integers(1, 130), st.sampled_from([torch.float32, torch.float64]))
def test_leading_entries_of_long_rows(seed: int, depth: int, dtype: torch.dtype) -> None:
    """One after the other, by lists that are joined, or by a sort; the labels stay as they are."""
    probs = torch.tensor(np.random.default_rng(seed).integers(0, 40, (3, LONG_ROW + seed % 2)) / 64).to(dtype)
    before, whole = probs.clone(), probs.double().sort(dim=1, descending=True).values
    part = leading(probs, depth)
    assert part.probs.double().equal(whole[:, :depth])
    assert part.rest.double().equal(whole[:, depth])
    assert probs.equal(before)


@pytest.mark.parametrize("covariate", ["margin", "entropy"])
@pytest.mark.parametrize("threshold", [0.6, 0.8, 0.95])
def test_deepening_finds_the_same_k_as_looking_at_all(
    covariate: str, threshold: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every curve evaluated for every row, against ranking only as deep as needed, in small pieces."""
    probs, truth = _teacher(400, 60, 0)
    queried, _ = _teacher(150, 60, 1)
    trust = us.Reliability.fit(probs, truth, 0.3, threshold, covariate=covariate)
    accuracies = torch.stack([trust.topk_accuracy(queried, k) for k in range(1, 60)], 1)
    reached = torch.cat([accuracies >= threshold, torch.ones(150, 1, dtype=torch.bool)], 1)
    expected = (reached.byte().argmax(1) + 1).clamp(min=2)
    assert len(expected.unique()) > 2
    assert len(trust.curves) < 59  # no row needs more, and the others were fitted one by one
    assert trust.k(queried).equal(expected)
    monkeypatch.setattr(module, "_BUDGET", 500)
    monkeypatch.setattr(module, "_SECOND_DEPTH", 5)
    monkeypatch.setattr(Soft, "first_depth", 2)
    assert trust.k(queried).equal(expected)
    monkeypatch.setattr(Soft, "first_depth", 1000)
    assert trust.k(queried).equal(expected)


def test_top_k_labels_at_a_hundred_thousand_rows() -> None:
    probs, truth = _teacher(2000, 50, 0)
    queried, _ = _teacher(2000, 50, 1)
    top = torch.tensor(probs).topk(5)
    trust = us.Reliability.fit(TopK(top.indices, top.values, 50), truth, threshold=0.8)
    mine = torch.tensor(queried).topk(5)
    small = TopK(mine.indices, mine.values, 50)
    large = TopK.concatenate([small] * 50)
    assert trust.alpha(large).equal(trust.alpha(small).repeat(50))
    assert trust.k(large).equal(trust.k(small).repeat(50))


@pytest.mark.slow
def test_far_faster_than_a_loop_over_scikit_learn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2]))
    benchmark = importlib.import_module("benchmarks.reliability")
    # The small sets of a test; the benchmark itself is run at full size.
    monkeypatch.setattr(benchmark, "CLASSES", 300)
    monkeypatch.setattr(benchmark, "GOLD", 4_000)
    case = benchmark.top_k_case(20_000, 1, every_k=True)
    assert case.value > 10
    reported = re.search(r"differs by ([\de.+-]+), same k in ([\d.]+)%", case.what)
    assert reported is not None and float(reported[1]) < 1e-6 and float(reported[2]) > 99.9
