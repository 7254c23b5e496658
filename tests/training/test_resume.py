"""A training that was stopped is bit-identical to one that was not; what is damaged is found; one process writes."""

import errno
import json
import os
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import understudy as us
from understudy.store.files import locked
from understudy.training.checkpoint import CheckpointFiles, Checkpoints, unpack

CLASSES = 3


def data() -> tuple[us.Gold, us.Pool]:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(90, 1, 6, 6, generator=generator)
    y = torch.randint(CLASSES, (90,), generator=generator)
    probs = torch.rand(90, CLASSES, generator=generator).softmax(-1)
    return us.Gold(x[:40], y[:40], probs[:40]), us.Pool(x[40:], probs[40:])


def net() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Dropout(0.3), nn.Flatten(), nn.Linear(64, CLASSES)
    )


def channels_last() -> nn.Module:
    return net().to(memory_format=torch.channels_last)


class Stop(Exception):
    """Stands for the end of the process."""


BATCHES = {"left": 0}


def noisy(x: Tensor, generator: torch.Generator) -> Tensor:
    """Noise on the inputs, until no batches are left."""
    BATCHES["left"] -= 1
    if BATCHES["left"] == 0:
        raise Stop
    return x + 0.1 * torch.randn(x.shape, generator=generator)


def train(
    folder: Path | None, *, stop: int = 0, student: Any = net, method: Any = us.vanilla, **options: Any
) -> us.Run:
    gold, pool = data()
    settings: dict[str, Any] = {"epochs": 4, "batch_size": 16, "lr": 0.01, "seed": 5, "checkpoint_every": 2}
    settings |= {"augment": noisy, "select": gold, "progress": False}
    BATCHES["left"] = stop
    return us.train(student, gold, pool, method(), out=folder, **(settings | options))


def assert_same(a: us.Run, b: us.Run) -> None:
    for mine, theirs in ((a.student.state_dict(), b.student.state_dict()), (a.columns, b.columns)):
        assert mine.keys() == theirs.keys()
        for name, value in theirs.items():
            torch.testing.assert_close(mine[name], value, rtol=0, atol=0, equal_nan=True)
    assert a.selected_epoch == b.selected_epoch
    for run in (a, b):
        assert [record["epoch"] for record in run.history] == list(range(1, len(run.history) + 1))
    kept = [[{k: v for k, v in record.items() if k != "seconds"} for record in run.history] for run in (a, b)]
    assert kept[0] == kept[1]
    assert a.selected_state is not None and b.selected_state is not None
    assert all(value.equal(b.selected_state[name]) for name, value in a.selected_state.items())


VARIANTS: dict[str, dict[str, Any]] = {
    "adam": {},
    "sgd": {"optimizer": "sgd", "momentum": 0.9, "weight_decay": 1e-3, "schedule": "cosine"},
    "channels_last": {"student": channels_last},
    "phases": {"pretrain_epochs": 2, "finetune_epochs": 2},
    "patience": {"patience": 1, "finetune_epochs": 1, "epochs": 6},
    "fitted": {"until_accuracy": 0.4, "finetune_epochs": 1, "schedule": "cosine"},
    "accumulate": {"accumulate": 3, "clip": 0.5},
    "refreshed": {"method": lambda: us.weighted(refresh_every=2), "pretrain_epochs": 1},
    "reweighted": {"method": us.l2rw, "optimizer": "sgd"},
    "gold in the pool": {"method": lambda: us.l2rw(gold_in_pool=True), "epochs": 2},
}


@cache
def undisturbed_run(name: str) -> us.Run:
    return train(None, **VARIANTS[name])


def variants_and_stops() -> Iterator[Any]:
    """Every stop of the plain training and three of each other; the rest in ``make torture``."""
    for name in VARIANTS:
        for stop in (1, 2, 4, 7, 12, 20, 27):
            yield pytest.param(name, stop, marks=[] if name == "adam" or stop in (4, 12, 27) else pytest.mark.torture)


@pytest.mark.parametrize(("name", "stop"), list(variants_and_stops()))
def test_resumed_equals_undisturbed(name: str, stop: int, tmp_path: Path) -> None:
    options, undisturbed = VARIANTS[name], undisturbed_run(name)
    try:
        train(tmp_path / "run", stop=stop, **options)
    except Stop:
        assert not (tmp_path / "run" / "config.json").exists()
    resumed = train(tmp_path / "run", resume=True, **options)
    assert_same(resumed, undisturbed)
    lines = (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()
    assert [json.loads(line)["epoch"] for line in lines] == list(range(1, len(undisturbed.history) + 1))
    assert not (tmp_path / "run" / "checkpoint").exists()
    # Called again, a finished run is read, not trained.
    assert_same(train(tmp_path / "run", resume=True, stop=1, **options), undisturbed)


@pytest.mark.parametrize("more", [{}, {"finetune_epochs": 2, "epochs": 2}], ids=["training", "fine-tuning"])
def test_a_moving_average_goes_on_too(tmp_path: Path, more: dict[str, Any]) -> None:
    undisturbed, stopped, resumed = (us.EMA(net()) for _ in range(3))
    train(None, ema=undisturbed, **more)
    with pytest.raises(Stop):
        train(tmp_path / "run", stop=13, ema=stopped, **more)
    train(tmp_path / "run", resume=True, ema=resumed, **more)
    assert undisturbed.updates == resumed.updates > 0
    assert more or resumed.updates > stopped.updates
    for name, value in undisturbed.module.state_dict().items():
        assert value.equal(resumed.module.state_dict()[name])


@cache
def stopped_files() -> dict[str, bytes]:
    with tempfile.TemporaryDirectory() as home:
        folder = Path(home) / "run"
        with pytest.raises(Stop):
            train(folder, stop=14)
        return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def stopped(folder: Path) -> list[Path]:
    """A run that was stopped at its fourteenth batch; its checkpoints."""
    for name, content in stopped_files().items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    found = sorted((folder / "checkpoint").glob("0*.safetensors"))
    assert len(found) == 2
    return found


@pytest.mark.parametrize("damage", ["torn", "flipped", "empty", "gone"])
def test_a_damaged_checkpoint_gives_way_to_the_one_before(damage: str, tmp_path: Path) -> None:
    newest = stopped(tmp_path / "run")[-1]
    content = bytearray(newest.read_bytes())
    if damage == "torn":
        newest.write_bytes(content[: len(content) // 2])
    elif damage == "flipped":
        content[len(content) // 2] ^= 1
        newest.write_bytes(content)
    elif damage == "empty":
        newest.write_bytes(b"")
    else:
        newest.unlink()
    if damage == "gone":
        resumed = train(tmp_path / "run", resume=True)
    else:
        with pytest.warns(us.UnderstudyWarning, match="damaged or missing"):
            resumed = train(tmp_path / "run", resume=True)
    assert_same(resumed, undisturbed_run("adam"))


def test_when_every_checkpoint_is_damaged_it_says_so(tmp_path: Path) -> None:
    for path in stopped(tmp_path / "run"):
        path.write_bytes(b"nonsense")
    with pytest.warns(us.UnderstudyWarning), pytest.raises(us.UnderstudyError, match="is intact; train again"):
        train(tmp_path / "run", resume=True)


def test_damaged_columns_count_as_damage(tmp_path: Path) -> None:
    checkpoints = CheckpointFiles(tmp_path)
    first = checkpoints.write_columns({"": {"a": torch.ones(3)}})
    checkpoints.write({"columns": first, "number": 1})
    second = checkpoints.write_columns({"": {"a": torch.zeros(3)}})
    checkpoints.write({"columns": second, "number": 2})
    (tmp_path / second).write_bytes(b"")
    with pytest.warns(us.UnderstudyWarning, match="columns"):
        found = checkpoints.latest()
    assert found is not None and found[0]["number"] == 1


def test_checkpoints_are_written_every_so_many_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Steps of 3 batches, a checkpoint every 2: at each step, not only at every sixth batch."""
    at: list[int] = []
    real = Checkpoints.save

    def save(self: Checkpoints, parts: Any, session: us.Session) -> None:
        at.append(parts["progress"].batch)
        real(self, parts, session)

    monkeypatch.setattr(Checkpoints, "save", save)
    train(tmp_path / "run", accumulate=3, epochs=1)
    assert at == [3, 0]  # six batches: after the second step the epoch is over


def test_old_checkpoints_and_columns_are_dropped(tmp_path: Path) -> None:
    checkpoints = CheckpointFiles(tmp_path)
    for number in range(5):
        columns = checkpoints.write_columns({"": {"a": torch.full((3,), float(number // 2))}})
        checkpoints.write({"w": torch.ones(2), "columns": columns, "number": number})
    assert len(list(tmp_path.glob("0*.safetensors"))) == 2
    assert len(list(tmp_path.glob("columns-*"))) == 2
    found = checkpoints.latest()
    assert found is not None and found[0]["number"] == 4


def test_a_full_disk_is_reported_and_the_last_checkpoint_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stopped(tmp_path / "run")
    before = {path.name for path in (tmp_path / "run" / "checkpoint").iterdir()}
    real = os.fsync

    def full(handle: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(us.UnderstudyError, match="No space left on device; check the folder and the free space"):
        train(tmp_path / "run", resume=True)
    monkeypatch.setattr(os, "fsync", real)
    assert {path.name for path in (tmp_path / "run" / "checkpoint").iterdir()} == before
    assert_same(train(tmp_path / "run", resume=True), undisturbed_run("adam"))


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"lr": 0.02}, "lr"),
        ({"epochs": 9}, "epochs"),
        ({"method": us.slam}, "objective"),
        ({"seed": 6}, "seed"),
        ({"refine": False}, "refine"),
        ({"ema": us.EMA(net())}, "ema"),
        ({"student": lambda: nn.Sequential(*net()[:-1], nn.Linear(64, CLASSES, bias=False))}, "student"),
        ({"method": lambda: us.vanilla(loss=lambda log_p, q: -(q * log_p).sum(-1))}, "method"),
        ({"augment": lambda x, draw: x}, "augment"),
        ({"schedule": [(0.5, 0.1)]}, "schedule"),
        ({"feature_layer": "0"}, "feature_layer"),
    ],
)
def test_other_arguments_are_refused(change: dict[str, Any], named: str, tmp_path: Path) -> None:
    stopped(tmp_path / "run")
    with pytest.raises(us.UnderstudyError, match=f"begun with another {named}"):
        train(tmp_path / "run", resume=True, **change)


def test_other_data_are_refused(tmp_path: Path) -> None:
    stopped(tmp_path / "run")
    gold, pool = data()
    gold.y[0] = (gold.y[0] + 1) % CLASSES
    with pytest.raises(us.UnderstudyError, match="another gold"):
        us.train(net, gold, pool, us.vanilla(), epochs=4, batch_size=16, lr=0.01, seed=5, augment=noisy,
                 out=tmp_path / "run", resume=True, progress=False)  # fmt: skip


def test_other_probabilities_of_the_same_classes_are_refused(tmp_path: Path) -> None:
    stopped(tmp_path / "run")
    gold, pool = data()
    assert isinstance(pool.teacher, us.Soft)
    flatter = us.Pool(pool.rows, (pool.teacher.probs + 1) / (1 + CLASSES))
    assert flatter.teacher is not None and flatter.teacher.top1().equal(pool.teacher.top1())
    with pytest.raises(us.UnderstudyError, match="another pool"):
        us.train(net, gold, flatter, us.vanilla(), epochs=4, batch_size=16, lr=0.01, seed=5, augment=noisy,
                 out=tmp_path / "run", select=gold, resume=True, progress=False)  # fmt: skip


def test_other_select_rows_are_refused(tmp_path: Path) -> None:
    stopped(tmp_path / "run")
    gold, pool = data()
    with pytest.raises(us.UnderstudyError, match="another select"):
        us.train(net, gold, pool, us.vanilla(), epochs=4, batch_size=16, lr=0.01, seed=5, augment=noisy,
                 out=tmp_path / "run", select=gold.take(torch.arange(20)), resume=True, progress=False)  # fmt: skip


def test_killed_after_the_last_write_nothing_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def die(folder: Path) -> None:
        raise Stop

    undisturbed, resumed = us.EMA(net()), us.EMA(net())
    monkeypatch.setattr(sys.modules["understudy.training.train"], "drop_checkpoints", die)
    with pytest.raises(Stop):
        train(tmp_path / "run", ema=undisturbed, notes={"class_names": ["a", "b", "c"]})
    monkeypatch.undo()
    assert (tmp_path / "run" / "checkpoint").exists()
    run = train(tmp_path / "run", resume=True, ema=resumed)
    assert run.config["class_names"] == ["a", "b", "c"]
    assert resumed.updates == undisturbed.updates > 0
    for name, value in undisturbed.module.state_dict().items():
        assert value.equal(resumed.module.state_dict()[name])
    assert not (tmp_path / "run" / "checkpoint").exists()


def test_a_damaged_checkpoint_takes_no_place(tmp_path: Path) -> None:
    before = CheckpointFiles(tmp_path)
    for number in range(2):
        before.write({"columns": "", "number": number})
    sorted(tmp_path.glob("0*"))[1].write_bytes(b"torn")
    after = CheckpointFiles(tmp_path)
    with pytest.warns(us.UnderstudyWarning):
        after.latest()
    after.write({"columns": "", "number": 2})
    sorted(tmp_path.glob("0*"))[-1].write_bytes(b"torn as well")
    with pytest.warns(us.UnderstudyWarning):
        found = CheckpointFiles(tmp_path).latest()
    assert found is not None and found[0]["number"] == 0


def test_damaged_columns_are_written_again(tmp_path: Path) -> None:
    checkpoints = CheckpointFiles(tmp_path)
    name = checkpoints.write_columns({"": {"a": torch.ones(3)}})
    (tmp_path / name).write_bytes(b"torn")
    assert checkpoints.write_columns({"": {"a": torch.ones(3)}}) == name
    assert unpack((tmp_path / name).read_bytes(), tmp_path)[""]["a"].equal(torch.ones(3))


def test_a_folder_that_can_be_resumed_is_named(tmp_path: Path) -> None:
    stopped(tmp_path / "run")
    with pytest.raises(us.UnderstudyError, match="resume=True"):
        train(tmp_path / "run")
    with pytest.raises(us.UnderstudyError, match="pass out="):
        train(None, resume=True)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "letter.txt").write_text("mine")
    with pytest.raises(us.UnderstudyError, match="no run to resume"):
        train(tmp_path / "other", resume=True)


def test_two_processes_cannot_write_one_run(tmp_path: Path) -> None:
    with locked(tmp_path):
        code = (
            "import sys, pathlib; from understudy.store.files import locked\n"
            "try:\n    locked(pathlib.Path(sys.argv[1])).__enter__()\nexcept Exception as error:\n    print(error)"
        )
        command = [sys.executable, "-c", code, str(tmp_path)]
        printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert f"being written by another process ({os.getpid()})" in printed
    with locked(tmp_path):  # and free again
        pass


def test_a_channels_last_student_can_be_saved(tmp_path: Path) -> None:
    run = train(tmp_path / "run", student=channels_last)
    loaded = us.Run.load(tmp_path / "run", student=channels_last())
    assert all(value.equal(run.student.state_dict()[name]) for name, value in loaded.student.state_dict().items())


def test_nothing_is_written_without_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        train(None)
    assert not list(tmp_path.iterdir())
