"""The papers' own settings, with their nets, schedules and augmentation, on a CIFAR-10 of a hundred random images."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from experiments.datasets import load
from experiments.experiment import Experiment
from experiments.registry import find

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::understudy.UnderstudyWarning")]


@pytest.fixture
def tiny_cifar10(data_folder: Path) -> Iterator[None]:
    folder = data_folder / "cifar-10-batches-bin"
    folder.mkdir()
    rng = np.random.default_rng(0)
    for name in (*(f"data_batch_{number}" for number in range(1, 6)), "test_batch"):
        records = rng.integers(0, 256, (20, 3073), dtype=np.uint8)
        records[:, 0] = np.arange(20) % 10
        (folder / f"{name}.bin").write_bytes(records.tobytes())
    load.cache_clear()
    yield
    load.cache_clear()


def one_step(training: Any) -> Any:
    return replace(training, epochs=1, steps=0, batch_size=10, warmup_epochs=0)


def test_a_distillation_setting_runs(tiny_cifar10: None) -> None:
    setting: Any = find("slam_table1").parts[0].full
    chosen = [method for method in setting.methods if method.kind in ("vid", "slam")]
    methods = tuple(replace(method, options=method.options[:1]) for method in chosen)
    training = one_step(setting.training)
    small = replace(setting, labelled=(10,), validation=10, select=5, unlabelled=10, methods=methods, training=training,
                    teacher_training=training, pretraining=training, test_rows=10)  # fmt: skip
    cells = small.measure("10", 0)
    assert [cell.row for cell in cells] == ["Teacher", "Gold only", "VID", "SLaM"]
    assert all(0 <= cell.value <= 1 for cell in cells)


@pytest.mark.parametrize(("name", "methods"), [
    ("reweight_table2", ("Baseline +ES +FT", "S-Model +Conf", "Learning to reweight")),
    ("air_table1", ("Co-teaching", "Self-distillation")),
])  # fmt: skip
def test_a_setting_with_noisy_labels_runs(tiny_cifar10: None, name: str, methods: tuple[str, ...]) -> None:
    experiment: Experiment = find(name)
    setting: Any = experiment.parts[0].full
    small = replace(setting, methods=methods, training=one_step(setting.training), watched=10 if setting.watched else 0,
                    gold=(2,) if setting.gold[0] else (0,), rows=20, finetune=1, test_rows=10)  # fmt: skip
    assert [cell.row for cell in small.measure("40%", 0) if ":" not in cell.row] == list(methods)


def test_the_kernel_of_a_deep_net(tiny_cifar10: None) -> None:
    setting: Any = find("air_fig02").parts[0].full
    # Two steps of ten random images at 0.1 end anywhere: BatchNorm's statistics are those of the start.
    training = replace(one_step(setting.training), lr=1e-4)
    cells = replace(setting, training=training, batch=8, rows=20).measure(setting.columns[0], 0)
    assert {f"{level:.0%} flipped" for level in setting.noise} < {cell.row for cell in cells}
    assert all(0 <= cell.value <= 1 for cell in cells)
