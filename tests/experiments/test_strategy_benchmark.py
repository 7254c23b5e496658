"""The benchmark end to end on tiny images: shares, resuming, table and plot."""

import json
from pathlib import Path

import pytest
import torch
from experiments.strategy_benchmark import Benchmark, Cell, benchmark
from torch import Tensor

import understudy as us
from understudy.training.averages import EMA


def images(rows: int, seed: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    y = torch.randint(3, (rows,), generator=generator)
    return (torch.eye(3)[y][:, :, None, None] + 0.3 * torch.rand(rows, 3, 4, 4, generator=generator)).clamp(0, 1), y


def student() -> torch.nn.Module:
    return us.models.mlp((3, 4, 4), 3, hidden=(8,))


def run(out: Path, done: list[Cell] | None = None, **changes: object) -> Benchmark:
    settings: dict[str, object] = {
        "kinds": ["clean", "noisy_blank"], "strategies": ["random", "badge"], "seeds": range(2), "rows": 60,
        "start": 20, "batch": 10, "budget": 40, "epochs": 3, "batch_size": 16, "lr": 1e-2,
    }  # fmt: skip
    x, y = images(100, 0)
    return benchmark(
        student, x, y, test=images(50, 1), out=out, on_done=[].append if done is None else done.append,
        **settings | changes,
    )  # type: ignore[arg-type]  # fmt: skip


def test_cells_table_plot_and_continuing(tmp_path: Path) -> None:
    done: list[Cell] = []
    found = run(tmp_path / "work", done)
    assert len(found.cells) == len(done) == 8
    for cell in found.cells:
        assert cell.labels == [20, 30, 40] and len(cell.accuracy) == 3 and len(cell.clean) == 2
    assert all(cell.clean_share == 1 for cell in found.cells if cell.kind == "clean")
    assert found.clean_share("noisy_blank", "random").mean < 0.5
    first, second = (found.of(kind, "badge")[0] for kind in found.kinds)
    assert first.accuracy[0] != second.accuracy[0]
    starts = [found.of("noisy_blank", name)[0].accuracy[0] for name in found.strategies]
    assert starts[0] == starts[1]  # the same pool, start and weights

    text = found.markdown()
    assert "**noisy_blank**" in text and "| badge | " in text and "| 0/4 |" in text
    found.plot(tmp_path / "curves.png")
    assert (tmp_path / "curves.png").stat().st_size > 10_000

    (tmp_path / "work" / "clean-badge-1.json").unlink()
    again: list[Cell] = []
    repeated = run(tmp_path / "work", again)
    assert [(cell.kind, cell.strategy, cell.seed) for cell in again] == [("clean", "badge", 1)]
    for one, other in zip(found.cells, repeated.cells, strict=True):
        assert (one.accuracy, one.clean, one.watched) == (other.accuracy, other.clean, other.watched)
    with pytest.raises(us.UnderstudyError, match=r"begun with another epochs \(3, now 4\)"):
        run(tmp_path / "work", epochs=4)
    assert sorted(path.suffix for path in (tmp_path / "work").iterdir()) == [".json"] * 8
    assert json.loads((tmp_path / "work" / "clean-badge-1.json").read_text())["settings"]["rows"] == 60


def test_the_clean_share_counts_every_pick_once() -> None:
    """A last batch of 50 with 20 clean after one of 100 with 80 clean: 100 of 150."""
    cell = Cell("clean", "badge", 0, [300, 400, 450], [0.1, 0.2, 0.3], [0.8, 0.4], [0, 0], [0, 0], 0, 1.0)
    assert cell.clean_share == pytest.approx(100 / 150)


class Recorded(EMA):
    """An average that also keeps every iterate it was shown."""

    def __init__(self, model: torch.nn.Module) -> None:
        super().__init__(model)
        self.iterates: list[list[Tensor]] = []

    def update(self, model: torch.nn.Module) -> None:
        super().update(model)
        self.iterates.append([value.detach().double().clone() for value in model.parameters()])


def test_the_average_follows_every_step_of_training() -> None:
    x, y = images(40, 0)
    ema = Recorded(student())
    for _ in range(2):  # the second training starts it anew
        ema.iterates.clear()
        result = us.train(
            student, us.Gold(x, y), None, us.vanilla(), epochs=2, batch_size=10, lr=1e-2, ema=ema, progress=False
        )
    assert ema.updates == len(ema.iterates) == 8
    for average, *values, last in zip(ema.module.parameters(), *ema.iterates, result.student.parameters(), strict=True):
        # Below 1,000 steps the warmed-up average is the mean of all iterates.
        torch.testing.assert_close(average.double(), torch.stack(values).mean(0), rtol=1e-5, atol=1e-7)
        assert torch.equal(values[-1], last.double())
    assert not ema.module.training
