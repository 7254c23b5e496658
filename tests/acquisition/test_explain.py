"""The reasons given are the quantities the strategies looked at, by hand and in float64."""

import torch

from understudy.acquisition.select import select
from understudy.acquisition.strategies import STRATEGIES
from understudy.active import Scores, explain

PROBS = torch.tensor([[0.5, 0.3, 0.2], [0.4, 0.35, 0.25], [0.9, 0.05, 0.05]])
HIDDEN = torch.tensor([[3.0, 4.0], [0.0, 1.0], [3.0, 0.0]])
AVERAGE = torch.tensor([[3.5, 4.1], [0.0, 1.0], [3.0, 0.4]])
SCORES = Scores(PROBS, HIDDEN, torch.tensor([[0.4, 0.4, 0.2], [0.4, 0.35, 0.25], [0.8, 0.1, 0.1]]), AVERAGE)
NONE = torch.tensor([], dtype=torch.long)


def test_ranked_quantities() -> None:
    picks = torch.tensor([1, 0])
    assert explain("confidence", picks, SCORES, NONE)[1] == [
        "only 40.0% for its top class 0",
        "only 50.0% for its top class 0",
    ]
    numbers, phrases = explain("margin", picks, SCORES, NONE)
    torch.testing.assert_close(torch.tensor(numbers), torch.tensor([0.05, 0.2]))
    assert phrases[0] == "class 0 at 40.0%, class 1 at 35.0%"
    named = explain("margin", picks, SCORES, NONE, names=["cat", "dog", "owl"])[1]
    assert named[0] == "class cat at 40.0%, class dog at 35.0%"
    numbers, phrases = explain("entropy", torch.tensor([0]), SCORES, NONE)
    assert abs(numbers[0] - 1.0297) < 1e-4 and phrases == ["entropy 1.03 of at most 1.10"]


def test_coreset_distance() -> None:
    numbers, phrases = explain("coreset", torch.tensor([0, 2]), SCORES, torch.tensor([1]))
    # Row 0 is √(9 + 9) from row 1; row 2 is √(9 + 1) from row 1 and 4 from row 0.
    torch.testing.assert_close(torch.tensor(numbers), torch.tensor([18.0, 10.0]).sqrt())
    assert phrases[1] == "3.16 from the nearest labelled or picked row"
    assert explain("coreset", torch.tensor([0]), SCORES, NONE)[1] == ["largest features, first pick"]


def test_gradients_against_materialised_ones() -> None:
    picks = torch.tensor([0, 2, 1])
    gradient = PROBS.double() - torch.tensor([[1.0, 0, 0]])
    full = (gradient[:, :, None] * HIDDEN.double()[:, None, :]).flatten(1)[picks]
    numbers, phrases = explain("badge", picks, SCORES, NONE)
    torch.testing.assert_close(torch.tensor(numbers).double(), full.norm(dim=1), rtol=1e-5, atol=1e-6)
    nearest = torch.cdist(full[2:], full[:2]).min()
    assert phrases[0].endswith("the largest") and f"{nearest:.3g} from the nearest earlier pick" in phrases[2]
    scale = (AVERAGE - HIDDEN).abs().double().mean(1)[picks]
    numbers, phrases = explain("s_badge", picks, SCORES, NONE)
    torch.testing.assert_close(torch.tensor(numbers).double(), full.norm(dim=1) * scale, rtol=1e-5, atol=1e-6)
    assert phrases[0].startswith("features 0.3 off their average, scaled gradient")


def test_every_strategy_has_reasons() -> None:
    generator = torch.Generator().manual_seed(0)
    probs, probs_ema = torch.rand(2, 40, 3, generator=generator).softmax(-1)
    hidden, hidden_ema = torch.rand(2, 40, 5, generator=generator)
    scores = Scores(probs, hidden, probs_ema, hidden_ema)
    for strategy in STRATEGIES:
        picks = select(strategy, 6, **scores.arrays(), labelled=torch.arange(3))  # type: ignore[arg-type]
        numbers, phrases = explain(strategy, picks, scores, torch.arange(3))
        assert len(numbers) == len(phrases) == 6 and all(phrases)
