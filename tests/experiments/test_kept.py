"""Nets that settings share are trained once."""

from pathlib import Path

import pytest
import torch
from experiments.kept import kept, kept_in
from torch import nn


def build() -> nn.Module:
    return nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))


def test_a_net_is_trained_once_for_each_setting(tmp_path: Path) -> None:
    trained = []

    def train() -> nn.Module:
        trained.append(build())
        return trained[-1]

    with kept_in(tmp_path / "nets"):
        first, again, other = kept(build, train, "a", 0), kept(build, train, "a", 0), kept(build, train, "a", 1)
    assert len(trained) == 2 and first is trained[0] and other is trained[1]
    assert again is not first and not again.training
    for name, value in first.state_dict().items():
        assert torch.equal(value, again.state_dict()[name])


def test_outside_of_a_run_nothing_is_kept(tmp_path: Path) -> None:
    made = build()
    with kept_in(tmp_path), pytest.raises(ZeroDivisionError):
        kept(build, lambda: 1 / 0, "a")  # type: ignore[arg-type, return-value]
    assert kept(build, lambda: made, "a") is made and not list(tmp_path.iterdir())
