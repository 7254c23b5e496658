"""``us.lightning.UnderstudyModule`` is bit-identical to ``us.train``, and resumes in the middle of an epoch."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import understudy as us

from ..front_ends import (
    ADAMW,
    BATCH_SIZE,
    CLIP,
    EPOCHS,
    RESUMED,
    SEED,
    assert_same,
    assert_same_run,
    build,
    each_method,
    each_stop,
    needs_fork,
    net,
    trained,
    world,
)
from ..kill_points import forked

pl: Any = pytest.importorskip("lightning.pytorch")
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore:.*isinstance.*")


class Stop(RuntimeError):
    """A power cut."""


class Cut(pl.Callback):  # type: ignore[misc]
    def __init__(self, after: int, path: Path) -> None:
        self.after, self.path = after, path

    def on_train_batch_end(self, trainer: Any, *others: Any) -> None:
        torch.rand(5)  # loggers and samplers of others may draw, too
        if trainer.global_step == self.after:
            trainer.save_checkpoint(self.path)
            raise Stop


def make(student: nn.Module, objective: us.Objective, **options: Any) -> Any:
    settings: dict[str, Any] = {"optimizer": "adamw", "batch_size": BATCH_SIZE, "seed": SEED, **ADAMW}
    return us.lightning.UnderstudyModule(student, *world(student), objective, **(settings | options))


def fit(module: Any, folder: Path, *, path: Path | None = None, **options: Any) -> None:
    settings: dict[str, Any] = {
        "max_epochs": EPOCHS, "gradient_clip_val": CLIP, "accelerator": "cpu", "logger": False,
        "enable_checkpointing": False, "enable_progress_bar": False, "enable_model_summary": False,
        "default_root_dir": folder,
    }  # fmt: skip
    pl.Trainer(**(settings | options)).fit(module, ckpt_path=path)


@each_method
def test_every_method_ends_with_the_bits_of_train(name: str, tmp_path: Path) -> None:
    module = make(net(), build(name))
    fit(module, tmp_path)
    assert_same_run(module.run(), trained(net(), build(name)), net())


@pytest.mark.parametrize("name", RESUMED)
@each_stop
def test_a_cut_in_the_middle_of_an_epoch_leaves_no_trace(name: str, stop: int, tmp_path: Path) -> None:
    """Also at its end. l2rw, whose gold does not train, has two steps an epoch, the others have seven."""
    stop = (stop or 2) if name == "l2rw" else stop + 7
    path = tmp_path / "cut.ckpt"
    with pytest.raises(Stop):
        fit(make(net(), RESUMED[name]()), tmp_path, callbacks=[Cut(stop, path)])
    torch.manual_seed(99)  # another process
    module = make(net(), RESUMED[name]())
    fit(module, tmp_path, path=path)
    assert_same_run(module.run(), trained(net(), RESUMED[name]()), net())


@needs_fork
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Checkpoint directory")
@pytest.mark.parametrize("name", RESUMED)
def test_a_real_kill_leaves_no_trace(name: str, tmp_path: Path) -> None:
    """Between two checkpoints, right before a step."""

    def train(path: Path | None = None) -> Any:
        kept = pl.callbacks.ModelCheckpoint(tmp_path / "kept", every_n_train_steps=2, save_last=True)
        module = make(net(), RESUMED[name]())
        fit(module, tmp_path, path=path, callbacks=[kept], enable_checkpointing=True)
        return module

    assert forked(train, kill=("before a step", 4 if name == "l2rw" else 12)) is None
    module = train(tmp_path / "kept" / "last.ckpt")
    assert_same_run(module.run(), trained(net(), RESUMED[name]()), net())


def test_accumulation_and_schedule_are_those_of_train(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"schedule": "cosine", "warmup": 0.3, "groups": {"3.*": {"lr_scale": 0.3}}}
    module = make(net(), us.s_model(), **settings)
    fit(module, tmp_path, accumulate_grad_batches=3)
    assert_same_run(module.run(), trained(net(), us.s_model(), accumulate=3, **settings), net())


def test_select_rows_are_logged_for_the_callbacks_of_lightning(tmp_path: Path) -> None:
    gold, _ = world(net())
    kept = pl.callbacks.ModelCheckpoint(tmp_path / "best", monitor="select_accuracy", mode="max", save_last=True)
    module = make(net(), us.slam(), select=gold)
    fit(module, tmp_path, callbacks=[kept], enable_checkpointing=True)
    measured = [record["select_accuracy"] for record in module.run().history]
    assert len(measured) == EPOCHS and float(kept.best_model_score) == pytest.approx(max(measured))
    again = us.lightning.UnderstudyModule.load_from_checkpoint(
        kept.last_model_path, student=net(), gold=gold, pool=None, objective=us.slam()
    )
    assert_same(again.student.state_dict(), module.student.state_dict())


def test_unsupported_trainers_are_refused_in_one_line(tmp_path: Path) -> None:
    module = make(net(), us.slam())
    with pytest.raises(us.UnderstudyError, match="there is none yet"):
        module.run()
    with pytest.raises(us.UnderstudyError, match=r"which only us\.train does"):
        make(net(), us.slam(), optimizer="lbfgs")
    with pytest.raises(us.UnderstudyError, match="go by how long training is"):
        fit(make(net(), us.slam(), schedule="cosine"), tmp_path, max_epochs=-1)
    with pytest.raises(us.UnderstudyError, match="accumulate_grad_batches"):
        make(net(), us.slam(), accumulate=2)
    with pytest.raises(us.UnderstudyError, match="the loop is at batch 0 of its epoch, the session at batch 2"):
        fit(module, tmp_path, limit_train_batches=2)
    path = tmp_path / "slam.ckpt"
    with pytest.raises(Stop):
        fit(make(net(), us.slam()), tmp_path, callbacks=[Cut(2, path)])
    with pytest.raises(us.UnderstudyError, match=r"another objective \(slam, now vanilla\)"):
        fit(make(net(), us.vanilla()), tmp_path, path=path)
