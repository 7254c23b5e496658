"""One vector per text from one per token, by hand."""

from pathlib import Path

import pytest
import torch

from understudy.features.encoder import Layout


def test_masked_pooling_by_hand() -> None:
    states = torch.tensor([[[1.0, -4], [3, -2], [100, 100]]])
    mask = torch.tensor([[1, 1, 0]])
    pooled = Layout(Path(), modes=("mean", "cls", "max")).pool(states, mask)
    assert pooled.tolist() == [[2, -3, 1, -4, 3, -2]]
    assert Layout(Path(), normalise=True).pool(states[:, :1] * 0 + 2, mask[:, :1])[0].norm().item() == pytest.approx(1)
    assert Layout(Path(), modes=("mean", "max")).pool(states, mask * 0).tolist() == [[0, 0, 0, 0]]
