"""The page's distortions are those the method uses, and the true ones are the pool's."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from experiments.engines.distil import Distillation, deal
from experiments.sweep import Training
from experiments.weighted_page import distortions, draw, look, page

from understudy.maths.weights import debias

SETTING = Distillation(
    "digits", "mlp:64", "mlp:32", (60,), 100, (), Training(epochs=3, batch_size=32),
    Training(epochs=20, batch_size=32), Training(epochs=10, batch_size=32), unlabelled=300, drawn=True,
)  # fmt: skip

pytestmark = pytest.mark.filterwarnings("ignore::understudy.UnderstudyWarning")


def test_the_estimates_give_the_weights_that_were_used(tmp_path: Path) -> None:
    estimated, on_gold, true = distortions(deal(SETTING, 60, 0))
    looked = look(SETTING, 0)
    assert torch.allclose(debias(*estimated.unbind(1)).float(), torch.from_numpy(looked.weights), atol=1e-5)
    assert looked.tenths[:, 0].mean() == pytest.approx(float(estimated[:, 0].mean()))
    assert looked.tenths[:, 3].mean() == pytest.approx(float(true[:, 1].mean()))
    assert (np.diff(looked.tenths[:, 2]) >= 0).all(), "in the order of the estimated distortion"
    assert bool((true[true[:, 0] == 0, 1] == 1).all()), "a right label distorts nothing"
    assert len(on_gold) == 100
    wrong = true[true[:, 0] == 1, 1]
    assert looked.quantiles[1, 2] == pytest.approx(float(np.median(wrong.numpy())))
    seeds = [replace(looked, weighted=looked.unweighted + 0.01 + 0.001 * seed) for seed in range(3)]
    draw(tmp_path / "weighted.png", seeds)
    text = page(seeds, SETTING)
    assert "difference +1.10 points, +0.53 to +1.67" in text and "| 10 |" in text
