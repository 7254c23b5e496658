"""The small-loss curriculum: the moving percentile by hand, what it keeps, and its state."""

from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import understudy as us
from understudy.objective import Outputs, Step


def _moving() -> nn.Module:
    return us.curriculum_weight().module(None)  # type: ignore[arg-type]


def _kept(losses: list[float], module: nn.Module, progress: float = 0.5, **options: float) -> list[float]:
    step = Step(
        Outputs(torch.zeros(len(losses), 2)), torch.zeros(len(losses), 2), torch.arange(len(losses)),
        modules={"mentornet": module}, progress=progress,
    )  # fmt: skip
    found: Tensor = us.curriculum_weight(**options)(torch.tensor(losses), step)
    return found.tolist()


def test_level_and_kept_rows_by_hand() -> None:
    """First batch: median 2. Second: median 12, so λ = 0.9 · 2 + 0.1 · 12 = 3."""
    module = _moving()
    assert _kept([1.0, 2.0, 8.0], module, percentile=0.5) == [1.0, 1.0, 0.0]
    assert module.level.item() == 2.0
    assert _kept([2.9, 12.0, 15.0, 3.1, 40.0], module, percentile=0.5) == [1.0, 0.0, 0.0, 0.0, 0.0]
    assert module.level.item() == pytest.approx(3.0)


def test_warm_up_keeps_everything_while_the_level_moves() -> None:
    module = _moving()
    assert _kept([1.0, 2.0, 8.0], module, progress=0.05, percentile=0.5) == [1.0, 1.0, 1.0]
    assert module.level.item() == 2.0
    assert _kept([1.0, 2.0, 8.0], module, progress=0.1, percentile=0.5) == [1.0, 1.0, 0.0]


def test_all_rows_at_percentile_one() -> None:
    assert _kept([1.0, 2.0, 8.0], _moving(), percentile=1.0) == [1.0, 1.0, 1.0]


def test_wrong_labels_are_dropped_and_the_level_is_saved(tmp_path: Path) -> None:
    g = torch.Generator().manual_seed(0)
    y = torch.arange(600) % 3
    x = torch.randn(600, 4, generator=g) + 3 * torch.nn.functional.one_hot(y, 4)
    wrong = torch.rand(600, generator=g) < 0.3
    pool = us.Pool(x, us.Hard(torch.where(wrong, (y + 1) % 3, y), classes=3))
    run = us.train(
        us.models.linear(4, 3), None, pool, us.mentornet_pd(0.7), epochs=15, batch_size=50, lr=0.02,
        out=tmp_path / "run", progress=False,
    )  # fmt: skip
    weight = run.columns["refined.weight"]
    assert weight[wrong].mean() < 0.4 < 0.9 < weight[~wrong].mean()
    level = run.modules["mentornet"].level
    assert level.isfinite() and level > 0
    assert (tmp_path / "run" / "modules.safetensors").exists()


@pytest.mark.parametrize("options", [{"percentile": 0.0}, {"decay": 1.0}, {"warmup": -0.1}])
def test_options_are_checked(options: dict[str, float]) -> None:
    with pytest.raises(us.UnderstudyError, match=next(iter(options))):
        us.mentornet_pd(**options)
