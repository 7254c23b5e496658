"""k-means++ and farthest-first against their plain forms: closed-form probabilities, brute force in float64."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare
from torch import Tensor

from maths_outcomes import sequence_probabilities
from understudy.errors import UnderstudyError
from understudy.maths import spread
from understudy.maths.spread import Factored, factored, nearest_centre, squared_distances


def kmeans_plus_plus(rows: Factored, n: int, *, generator: torch.Generator, available: Tensor | None = None) -> Tensor:
    available = torch.ones(len(rows), dtype=torch.bool) if available is None else available
    return spread.kmeans_plus_plus(rows, n, available=available, generator=generator)


def farthest_first(
    rows: Factored,
    n: int,
    *,
    generator: torch.Generator,
    available: Tensor | None = None,
    centres: Tensor | None = None,
) -> Tensor:
    available = torch.ones(len(rows), dtype=torch.bool) if available is None else available.clone()
    centres = torch.zeros(0, dtype=torch.long) if centres is None else centres
    available[centres] = False
    return spread.farthest_first(rows, n, available=available, centres=centres, generator=generator)


def materialised(left: Tensor | None, right: Tensor) -> Tensor:
    rows = right.double() if left is None else left.double()[:, :, None] * right.double()[:, None, :]
    return rows.flatten(1)


def plain_distances(embedding: Tensor) -> Tensor:
    return (embedding[:, None] - embedding).square().sum(-1)


def make_rows(seed: int, n: int, columns: int, classes: int | None) -> tuple[Tensor | None, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    right = torch.randn(n, columns, generator=generator)
    left = None if classes is None else torch.randn(n, classes, generator=generator)
    return left, right


def chi_square_p(rows: Factored, probabilities: dict[tuple[int, ...], float], draws: int) -> float:
    n = len(next(iter(probabilities)))
    generator = torch.Generator().manual_seed(0)
    counts = dict.fromkeys(probabilities, 0)
    for _ in range(draws):
        counts[tuple(kmeans_plus_plus(rows, n, generator=generator).tolist())] += 1
    likely = [outcome for outcome, p in probabilities.items() if draws * p >= 5]
    observed = [counts[outcome] for outcome in likely]
    expected = [draws * probabilities[outcome] for outcome in likely]
    if len(likely) < len(probabilities):  # the usual pooling of cells that expect fewer than five
        observed.append(draws - sum(observed))
        expected.append(draws - sum(expected))
    return float(chisquare(observed, expected).pvalue)


# Two far points and a cluster: the bounds go stale quickly, so that rejection has something to do.
RIGHT = torch.tensor([[3.0, 0.0], [0.0, 2.0], [1.0, 1.0], [1.2, 0.9], [0.8, 1.3], [-1.0, 0.5]])
LEFT = torch.tensor([[1.0, -1.0], [0.5, -0.5], [0.6, -0.6], [-0.4, 0.4], [0.3, -0.3], [0.9, -0.9]])
SCALE = torch.tensor([1.0, 1.5, 0.5, 2.0, 1.0, 0.7])


@pytest.mark.parametrize(
    ("left", "draws"),
    [
        pytest.param(None, 500, id="plain"),
        pytest.param(SCALE[:, None], 500, id="scaled"),
        pytest.param(LEFT, 500, id="factored"),
        pytest.param(SCALE[:, None] * LEFT, 5_000, id="factored-scaled", marks=pytest.mark.torture),
    ],
)
def test_kmeans_plus_plus_has_the_plain_algorithms_distribution(
    left: Tensor | None, draws: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spread, "_REFRESH_SHARE", 8)  # 48 candidates: usually stale bounds, now and then a refresh
    rows = factored(RIGHT, left=left)
    distances = plain_distances(materialised(left, RIGHT))
    probabilities = sequence_probabilities(distances, int(rows.squared_norms.argmax()), 3)
    assert sum(probabilities.values()) == pytest.approx(1)
    assert chi_square_p(rows, probabilities, draws) > 1e-3


def test_kmeans_plus_plus_second_pick_by_hand() -> None:
    """Rows 0, 1, 3 on a line, first pick 3: squared distances 9, 4, 0, so row 0 comes second in 9 of 13 draws."""
    rows = factored(torch.tensor([[0.0], [1.0], [3.0]]))
    generator = torch.Generator().manual_seed(0)
    draws = torch.stack([kmeans_plus_plus(rows, 2, generator=generator) for _ in range(500)])
    assert (draws[:, 0] == 2).all()
    share = (draws[:, 1] == 0).double().mean().item()
    assert share == pytest.approx(9 / 13, abs=4 * (9 / 13 * 4 / 13 / 500) ** 0.5)


@pytest.mark.parametrize("always_refresh", [False, True])
def test_farthest_first_is_the_plain_greedy(always_refresh: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if always_refresh:
        monkeypatch.setattr(spread, "_REFRESH_SHARE", 0)
    for seed in range(0, 100, 7):
        n_rows = 20 + 7 * seed  # beyond 256 rows, not all of them are candidates at once
        left, right = make_rows(seed, n_rows, 1 + seed % 9, None if seed % 3 == 0 else 1 + seed % 4)
        centres = torch.arange(0, seed % 5)
        embedding = materialised(left, right)
        nearest = torch.full((n_rows,), torch.inf, dtype=torch.float64)
        expected: list[int] = []
        for row in centres.tolist():
            nearest = torch.minimum(nearest, (embedding - embedding[row]).square().sum(1))
        for _ in range(15):
            first = embedding.square().sum(1) if torch.isinf(nearest).all() else nearest
            expected.append(int(first.argmax()))
            nearest = torch.minimum(nearest, (embedding - embedding[expected[-1]]).square().sum(1))
        picks = farthest_first(
            factored(right, left=left), 15, centres=centres, generator=torch.Generator().manual_seed(0)
        )
        assert picks.tolist() == expected, seed


def test_farthest_first_by_hand(generator: torch.Generator) -> None:
    """On the line 0, 1, 4, 10 with centre 0: first 10, then 4 (16 against 1), then 1."""
    rows = factored(torch.tensor([[0.0], [1.0], [4.0], [10.0]]))
    assert farthest_first(rows, 3, centres=torch.tensor([0]), generator=generator).tolist() == [3, 2, 1]


def test_farthest_first_with_centres_and_rows_that_are_neither(generator: torch.Generator) -> None:
    rows = factored(torch.tensor([[0.0], [1.0], [4.0], [10.0]]))
    available = torch.tensor([True, True, True, False])
    assert farthest_first(rows, 2, centres=torch.tensor([0]), available=available, generator=generator).tolist() == [
        2,
        1,
    ]


@pytest.mark.parametrize("classes", [None, 1, 10])
@pytest.mark.parametrize("offset", [0.0, 30.0])
def test_factored_distances_are_the_materialised_ones(classes: int | None, offset: float) -> None:
    left, right = make_rows(0, 90, 32, classes)
    right = right + offset  # far from the origin the norms cancel: 32 · 900 against distances of about 64
    expected = plain_distances(materialised(left, right))
    rows = factored(right, left=left)
    torch.testing.assert_close(squared_distances(rows, rows).double(), expected, rtol=1e-4, atol=0)
    nearest = nearest_centre(rows.take(slice(50, 90)), rows.take(slice(0, 50)), torch.full((50,), torch.inf))
    torch.testing.assert_close(nearest.double(), expected[:50, 50:].amin(1), rtol=1e-4, atol=0)


@pytest.mark.parametrize("gap", [1e-2, 1e-4, 1e-6])
def test_near_duplicates_keep_their_distance_and_duplicates_have_none(gap: float) -> None:
    left, right = make_rows(1, 40, 32, 5)
    assert left is not None
    right[20:] = right[:20]
    left[20:] = left[:20]
    right[30:, 0] += gap * right[30:, 0]
    expected = plain_distances(materialised(left, right))
    rows = factored(right, left=left)
    distances = squared_distances(rows, rows)
    nearest = nearest_centre(rows.take(slice(0, 20)), rows.take(slice(20, 40)), torch.full((20,), torch.inf))
    assert (nearest[:10] == 0).all()
    assert (distances[:10, 20:30].diagonal() == 0).all()
    for found in (distances[10:20, 30:].diagonal(), nearest[10:]):
        torch.testing.assert_close(found.double(), expected[10:20, 30:].diagonal(), rtol=1e-3, atol=0)


def test_the_order_of_rows_within_a_cluster_survives_float32(generator: torch.Generator) -> None:
    """Collapsed features: norms of 1e6, distances of 1 to 25. The float32 formula is off by more than that."""
    right = torch.full((6, 100), 100.0)
    right[:, 0] += torch.tensor([0.0, 1.0, 2.0, 3.0, 4.0, 5.0])
    picks = farthest_first(factored(right), 3, centres=torch.tensor([0]), generator=generator)
    assert picks[0] == 5
    assert set(picks[1:].tolist()) < {1, 2, 3, 4}
    nearest = nearest_centre(factored(right[:1]), factored(right), torch.full((6,), torch.inf))
    assert nearest.tolist() == [0, 1, 4, 9, 16, 25]


@st.composite
def degenerate_rows(draw: st.DrawFn) -> tuple[Factored, int, Tensor]:
    """Few distinct values, many zeros, sometimes everything the same; n up to all that is available."""
    n_rows = draw(st.integers(1, 24))
    columns, classes = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    values = st.sampled_from(draw(st.sampled_from([(0.0,), (1.0,), (0.0, 1.0), (0.0, 1e-22, 1e8), (-1.0, 0.3, 0.31)])))
    right = torch.tensor(draw(st.lists(values, min_size=n_rows * columns, max_size=n_rows * columns)))
    left = torch.tensor(draw(st.lists(values, min_size=n_rows * classes, max_size=n_rows * classes)))
    available = torch.tensor(draw(st.lists(st.booleans(), min_size=n_rows, max_size=n_rows)))
    if draw(st.booleans()):
        available[:] = True
    count = int(available.sum())
    n = draw(st.sampled_from(sorted({count, max(count - 1, 0), count // 2})))
    return factored(right.view(n_rows, columns), left=left.view(n_rows, classes)), n, available


@given(degenerate_rows(), st.integers(0, 3))
def test_always_n_distinct_available_rows(case: tuple[Factored, int, Tensor], seed: int) -> None:
    rows, n, available = case
    generator = torch.Generator().manual_seed(seed)
    for picks in (
        kmeans_plus_plus(rows, n, available=available, generator=generator),
        farthest_first(rows, n, available=available, generator=generator),
        farthest_first(rows, n, centres=(~available).nonzero().squeeze(1), generator=generator),
    ):
        assert picks.dtype == torch.long
        assert len(picks) == n == len(set(picks.tolist()))
        assert available[picks].all()


def test_rows_too_small_for_float32_are_still_picked_once(generator: torch.Generator) -> None:
    """Squared norms near 1e-44 keep one or two bits: a row may seem to be at some distance from itself."""
    rows = factored(1e-22 * torch.randn(300, 3, generator=generator))
    assert 0 < rows.squared_norms.max() < 1e-42
    for n in (100, 299, 300):
        assert len(set(kmeans_plus_plus(rows, n, generator=generator).tolist())) == n
        assert len(set(farthest_first(rows, n, generator=generator).tolist())) == n


def test_distinct_values_come_before_duplicates(generator: torch.Generator) -> None:
    values = torch.tensor([[1.0, 0.0], [0.0, 1.0], [2.0, 2.0], [-1.0, 3.0]]).repeat(25, 1)
    for picks in (
        kmeans_plus_plus(factored(values), 6, generator=generator),
        farthest_first(factored(values), 6, generator=generator),
    ):
        assert sorted((picks[:4] % 4).tolist()) == [0, 1, 2, 3]
        assert len(set(picks.tolist())) == 6


def test_zero_rows_are_drawn_uniformly(generator: torch.Generator) -> None:
    rows = factored(torch.zeros(5, 3))
    draws = torch.stack([kmeans_plus_plus(rows, 1, generator=generator) for _ in range(1000)]).flatten()
    assert chisquare(draws.bincount(minlength=5)).pvalue > 1e-3


def test_blocks_and_refreshes_meet_again_on_many_rows(generator: torch.Generator) -> None:
    """Tight clusters: bounds collapse after a few picks, so several refreshes happen; each cluster is found."""
    centres = 10 * torch.randn(8, 16, generator=generator)
    rows = factored(centres.repeat(250, 1) + 1e-3 * torch.randn(2000, 16, generator=generator))
    picks = kmeans_plus_plus(rows, 40, generator=generator)
    assert sorted((picks[:8] % 8).tolist()) == list(range(8))
    assert len(set(picks.tolist())) == 40


def test_float64_rows_stay_float64(generator: torch.Generator) -> None:
    right = torch.ones(4, 3, dtype=torch.float64)
    right[:, 0] += torch.tensor([0.0, 1.0, 2.0, 4.0], dtype=torch.float64) * 1e-9  # all equal in float32
    assert farthest_first(factored(right), 2, centres=torch.tensor([0]), generator=generator).tolist() == [3, 2]


def test_norms_that_overflow_are_refused() -> None:
    with pytest.raises(UnderstudyError, match=r"row 1 does not fit.*remove NaN"):
        factored(torch.tensor([[1.0], [1e20]]))
