"""Every strategy through the same properties, and each formula against one worked by hand or brute force."""

import re
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from understudy.acquisition.select import select
from understudy.acquisition.strategies import STRATEGIES
from understudy.acquisition.strategies.badge import logit_gradient
from understudy.acquisition.strategies.lhd import loss_difference
from understudy.acquisition.strategies.s_badge import mean_absolute_difference
from understudy.errors import UnderstudyError, UnderstudyWarning
from understudy.maths.spread import factored, kmeans_plus_plus

NAMES = list(STRATEGIES)


def arrays(rows: int = 60, classes: int = 4, columns: int = 5, seed: int = 0) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return {
        "probs": (2 * torch.randn(rows, classes, generator=generator)).softmax(1),
        "probs_ema": (2 * torch.randn(rows, classes, generator=generator)).softmax(1),
        "hidden": torch.randn(rows, columns, generator=generator),
        "hidden_ema": torch.randn(rows, columns, generator=generator),
    }


def test_the_documented_names_are_there() -> None:
    assert set(NAMES) >= {"random", "confidence", "margin", "entropy", "coreset", "badge", "s_badge", "lhd"}
    assert NAMES[0] == "random"


@pytest.mark.parametrize("strategy", NAMES)
def test_contract(strategy: str) -> None:
    data = arrays()
    labelled = torch.tensor([3, 5, 59])
    picks = select(strategy, 20, labelled=labelled, seed=1, **data)
    assert picks.dtype == torch.long and picks.shape == (20,)
    assert len(set(picks.tolist())) == 20
    assert not set(picks.tolist()) & {3, 5, 59}
    assert torch.equal(picks, select(strategy, 20, labelled=labelled, seed=1, **data))
    mask = np.isin(np.arange(60), [3, 5, 59])
    as_numpy = {name: value.numpy() for name, value in data.items()}
    assert torch.equal(picks, select(strategy, 20, labelled=mask, seed=1, **as_numpy))
    assert sorted(select(strategy, 57, labelled=labelled, **data).tolist()) == np.flatnonzero(~mask).tolist()
    assert len(select(strategy, 0, **data)) == 0


@pytest.mark.parametrize("strategy", ["random", "badge", "s_badge", "lhd"])
def test_the_seed_matters_where_chance_does(strategy: str) -> None:
    data = arrays()
    assert not torch.equal(select(strategy, 20, seed=0, **data), select(strategy, 20, seed=1, **data))


@pytest.mark.filterwarnings("ignore:the student's features are those")
@given(
    st.sampled_from(NAMES),
    st.integers(1, 30),
    st.integers(1, 3),
    st.sampled_from(["identical", "zero", "two values", "ordinary"]),
    st.integers(0, 2),
    st.integers(0, 5),
)
def test_always_n_distinct(strategy: str, rows: int, classes: int, kind: str, short: int, seed: int) -> None:
    data = arrays(rows, classes, 3, seed)
    if kind == "identical":
        data = {name: value[:1].repeat(rows, 1) for name, value in data.items()}
    if kind == "zero":
        data |= {name: torch.zeros(rows, 3) for name in ("hidden", "hidden_ema")}
    if kind == "two values":
        data = {name: value[torch.arange(rows) % min(2, rows)] for name, value in data.items()}
    labelled = torch.arange(rows)[torch.arange(rows) % 4 == seed]
    n = max(rows - len(labelled) - short, 0)
    picks = select(strategy, n, labelled=labelled, seed=seed, **data)
    assert len(picks) == n == len(set(picks.tolist()))
    assert not set(picks.tolist()) & set(labelled.tolist())


PROBS = torch.tensor([[0.5, 0.5, 0.0], [0.4, 0.3, 0.3], [0.98, 0.01, 0.01], [0.6, 0.2, 0.2]])


@pytest.mark.parametrize(
    ("strategy", "order"),
    [
        ("confidence", [1, 0, 3, 2]),  # largest probabilities 0.4, 0.5, 0.6, 0.98
        ("margin", [0, 1, 3, 2]),  # margins 0, 0.1, 0.4, 0.97
        ("entropy", [1, 3, 0, 2]),  # entropies 1.089, 0.950, 0.693, 0.112
    ],
)
def test_uncertainty_by_hand(strategy: str, order: list[int]) -> None:
    assert select(strategy, 4, probs=PROBS).tolist() == order


def test_ties_do_not_favour_the_first_rows() -> None:
    probs = torch.full((1000, 2), 0.5)
    picks = select("margin", 100, probs=probs)
    assert 350 < picks.double().mean() < 650


def test_coreset_starts_from_the_labelled_rows() -> None:
    hidden = torch.tensor([[0.0], [1.0], [4.0], [10.0]])
    assert select("coreset", 3, hidden=hidden, labelled=[0]).tolist() == [3, 2, 1]
    assert select("coreset", 2, hidden=hidden, labelled=[3]).tolist() == [0, 2]
    assert select("coreset", 1, hidden=hidden).tolist() == [3]


def test_logit_gradient_by_hand_and_by_autograd() -> None:
    expected = torch.tensor([[-0.6, 0.3, 0.3], [0.01, -0.02, 0.01]])
    torch.testing.assert_close(logit_gradient(torch.tensor([[0.4, 0.3, 0.3], [0.01, 0.98, 0.01]])), expected)

    layer = torch.nn.Linear(5, 3, bias=False)
    h = torch.randn(5, generator=torch.Generator().manual_seed(0))
    logits = layer(h)
    (-logits.log_softmax(0)[logits.argmax()]).backward()
    outer = logit_gradient(logits.detach().softmax(0)[None]).T * h
    torch.testing.assert_close(outer, layer.weight.grad)


def brute_force(embedding: Tensor, seed: int) -> list[int]:
    """The same draws on the materialised embedding: same generator, plain rows."""
    generator = torch.Generator().manual_seed(seed)
    return kmeans_plus_plus(
        factored(embedding), 10, available=torch.ones(len(embedding), dtype=torch.bool), generator=generator
    ).tolist()


def test_gradient_strategies_use_their_embeddings() -> None:
    data = {name: value.double() for name, value in arrays().items()}
    gradient = data["probs"] - torch.nn.functional.one_hot(data["probs"].argmax(1), 4)
    badge = (gradient[:, :, None] * data["hidden"][:, None]).flatten(1)
    scale = (data["hidden_ema"] - data["hidden"]).abs().mean(1, keepdim=True)
    pseudo = data["probs_ema"].argmax(1)
    losses = [torch.nn.functional.nll_loss(data[p].log(), pseudo, reduction="none") for p in ("probs_ema", "probs")]
    lhd = (losses[0] - losses[1]).abs()[:, None] * (data["hidden_ema"] - data["hidden"])
    for seed in range(5):
        assert select("badge", 10, seed=seed, **data).tolist() == brute_force(badge, seed)
        assert select("s_badge", 10, seed=seed, **data).tolist() == brute_force(scale * badge, seed)
        assert select("lhd", 10, seed=seed, **data).tolist() == brute_force(lhd, seed)


def test_first_pick_has_the_largest_norm() -> None:
    probs = torch.tensor([[0.5, 0.5], [0.9, 0.1], [0.6, 0.4]])
    hidden = torch.tensor([[1.0, 0.0], [0.0, 4.0], [0.0, 2.0]])
    # ‖f − onehot‖ = 0.5√2, 0.1√2, 0.4√2; times ‖h‖ = 1, 4, 2: the third row's 0.8√2 is the largest
    assert select("badge", 1, probs=probs, hidden=hidden).tolist() == [2]
    # a scale of 10 on the first row makes it 5√2
    hidden_ema = hidden + torch.tensor([[10.0, -10.0], [1.0, 1.0], [1.0, 1.0]])
    assert select("s_badge", 1, probs=probs, hidden=hidden, hidden_ema=hidden_ema).tolist() == [0]


def test_scales_by_hand() -> None:
    x, y = torch.tensor([[1.0, -2.0], [0.0, 0.0]]), torch.tensor([[0.0, 1.0], [0.5, 0.0]])
    assert mean_absolute_difference(x, y).tolist() == [2.0, 0.25]
    # pseudo-label 1: |log 0.8 − log 0.2| = log 4; a probability of 0 stays finite
    found = loss_difference(torch.tensor([[0.8, 0.2], [1.0, 0.0]]), torch.tensor([[0.2, 0.8], [0.2, 0.8]]))
    assert found[0].item() == pytest.approx(np.log(4))
    assert found[1].item() == pytest.approx(87.1, abs=0.1)


def test_rows_where_the_models_agree_are_avoided() -> None:
    data = arrays(200)
    data["hidden_ema"][:150] = data["hidden"][:150]
    for strategy in ("s_badge", "lhd"):  # the 150 rows share one point, the origin: worth one pick at most
        assert (select(strategy, 50, **data) < 150).sum() <= 1


def test_random_learns_the_size_from_anything() -> None:
    assert sorted(select("random", 7, size=7).tolist()) == list(range(7))
    assert len(select("random", 2, labelled=np.array([True, False, False]))) == 2
    assert len(select("random", 5, hidden=np.zeros((5, 1)))) == 5
    counts = torch.stack([select("random", 2, size=4, seed=s) for s in range(400)]).flatten().bincount()
    assert ((counts > 150) & (counts < 250)).all()


def test_inputs_are_neither_changed_nor_copied_needlessly(tmp_path: Path) -> None:
    data = arrays()
    before = {name: value.clone() for name, value in data.items()}
    for strategy in NAMES:
        select(strategy, 10, **data)
    assert all(torch.equal(data[name], before[name]) for name in data)

    np.save(tmp_path / "hidden.npy", data["hidden"].numpy())
    mapped = np.load(tmp_path / "hidden.npy", mmap_mode="r")
    assert torch.equal(select("coreset", 5, hidden=mapped), select("coreset", 5, hidden=data["hidden"]))
    backwards = data["hidden"].numpy()[::-1]
    assert (59 - select("coreset", 5, hidden=backwards)).tolist() == select("coreset", 5, hidden=mapped).tolist()


@pytest.mark.parametrize("dtype", [np.float16, np.float64, np.int32])
def test_other_number_types(dtype: type) -> None:
    hidden = np.array([[0], [1], [4], [10]], dtype=dtype)
    assert select("coreset", 3, hidden=hidden, labelled=[0]).tolist() == [3, 2, 1]
    probs = PROBS.numpy().astype(np.float16)
    assert len(select("badge", 4, probs=probs, hidden=hidden)) == 4


NAN = torch.tensor([[1.0, 2.0], [torch.nan, 0.0], [0.0, 0.0]])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"strategy": "bagde", "size": 5}, "unknown strategy 'bagde': use one of random, confidence"),
        ({"strategy": "badge", "probs": PROBS}, "strategy 'badge' needs hidden: pass hidden="),
        ({"strategy": "lhd", "probs": PROBS, "hidden": PROBS}, "needs probs_ema and hidden_ema"),
        ({"strategy": "random"}, "size is unknown: pass size="),
        ({"strategy": "random", "labelled": [0]}, "size is unknown"),
        ({"strategy": "margin", "probs": PROBS, "n": 5}, "n = 5, but 4 of 4 rows"),
        ({"strategy": "margin", "probs": PROBS, "n": 4, "labelled": [1]}, "n = 4, but 3 of 4 rows"),
        ({"strategy": "margin", "probs": PROBS, "n": -1}, "n = -1"),
        ({"strategy": "coreset", "hidden": NAN}, "hidden row 1 holds NaN"),
        ({"strategy": "badge", "probs": PROBS, "hidden": NAN[:1]}, "probs: 4, hidden: 1"),
        ({"strategy": "random", "size": 3, "probs": PROBS}, "probs: 4, size: 3"),
        ({"strategy": "margin", "probs": 3 * PROBS}, "probs row 0 is not a distribution (sum 3"),
        ({"strategy": "margin", "probs": torch.tensor([[1.5, -0.5]])}, "smallest entry -0.5"),
        ({"strategy": "margin", "probs": PROBS[0]}, "probs has shape (3,)"),
        ({"strategy": "coreset", "hidden": torch.zeros(3, 0)}, "hidden has shape (3, 0)"),
        ({"strategy": "random", "size": 3, "labelled": [3]}, "row number 3, the pool has rows 0 to 2"),
        ({"strategy": "random", "size": 3, "labelled": [-1]}, "row number -1"),
        ({"strategy": "random", "size": 3, "labelled": [0.5]}, "labelled has shape (1,)"),
        ({"strategy": "random", "size": 3, "labelled": [True]}, "labelled: 1, size: 3"),
        (
            {"strategy": "s_badge", "probs": PROBS, "hidden": PROBS, "hidden_ema": PROBS[:, :2]},
            "hidden has 3 columns, hidden_ema has 2",
        ),
    ],
)
def test_mistakes_are_explained_in_one_line(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(UnderstudyError, match=re.escape(message)) as caught:
        select(**{"n": 1, **arguments})  # type: ignore[arg-type]
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("strategy", ["s_badge", "lhd"])
def test_no_difference_to_the_average_is_told(strategy: str) -> None:
    probs = torch.full((6, 2), 0.5)
    hidden = torch.randn(6, 3, generator=torch.Generator().manual_seed(0))
    with pytest.warns(UnderstudyWarning, match="picks at random"):
        picks = select(strategy, 2, probs=probs, probs_ema=probs, hidden=hidden, hidden_ema=hidden)
    assert len(picks.unique()) == 2
