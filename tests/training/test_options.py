"""The table of training options: complete, typed, and the same wherever it is read."""

import inspect
from dataclasses import fields
from pathlib import Path
from typing import Any, get_type_hints

import numpy as np
import pytest
import torch
from torch import nn

import understudy as us
from understudy.data.augment import Augment
from understudy.store.option_fields import known
from understudy.training.options import SESSION, SHARED, TrainingOptions, option_names

FIELDS = {each.name: each for each in fields(TrainingOptions)}


@pytest.mark.parametrize(
    ("function", "names"), [(us.train, option_names()), (us.Session.__init__, SESSION), (us.compare, SHARED)]
)
def test_signatures_show_every_option_with_its_type_and_default(function: Any, names: tuple[str, ...]) -> None:
    shown = inspect.signature(function).parameters
    named = {"torch": torch, "Augment": Augment, "EMA": us.EMA}
    types = get_type_hints(TrainingOptions, localns=named) | {"epochs": int | str | None}
    for name in names:
        assert shown[name].annotation == types[name] and shown[name].default == FIELDS[name].default, name
    assert inspect.Parameter.VAR_KEYWORD not in {each.kind for each in shown.values()}


def test_options_are_checked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the user gave them; not in the copies for pretraining, choosing epochs or the penalty."""
    checks: list[TrainingOptions] = []
    check = TrainingOptions.__post_init__
    monkeypatch.setattr(TrainingOptions, "__post_init__", lambda self: (checks.append(self), check(self)))
    gold = us.Gold(torch.randn(60, 3), [0, 1] * 30)
    us.train(us.models.linear(3, 2), gold, None, us.vanilla(), pretrain_epochs=1, progress=False)
    us.train(us.models.mlp(3, 2), gold, None, us.vanilla(), finetune_epochs=1, progress=False)
    assert len(checks) == 2


def test_every_option_says_what_it_does() -> None:
    for name, each in FIELDS.items():
        text = known(each).help
        assert text.endswith((".", "…")) and len(text) > 5, name


def test_a_misspelt_option_is_an_error() -> None:
    with pytest.raises(TypeError, match="unknown option 'lrr' of train; did you mean 'lr'"):
        us.train(nn.Linear(2, 2), us.Gold(torch.zeros(2, 2), [0, 1]), None, us.vanilla(), lrr=0.1)


def test_a_session_refuses_what_only_a_loop_can_use() -> None:
    with pytest.raises(TypeError, match="unknown option 'lr' of Session"):
        us.Session(nn.Linear(2, 2), us.Gold(torch.zeros(2, 2), [0, 1]), None, us.vanilla(), lr=0.1)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"epochs": 0}, "epochs=0 must be a whole number, at least 1"),
        ({"epochs": 2.5}, "epochs=2.5 must be a whole number"),
        ({"epochs": True}, "epochs=True must be a whole number"),
        ({"epochs": 1, "lr": 0}, "lr=0 must be a number greater than 0"),
        ({"epochs": 1, "until_accuracy": 99}, "until_accuracy=99 must be at most 1, or None"),
        ({"epochs": 1, "finetune_lr": 0}, "finetune_lr=0 must be a number greater than 0, or None"),
        ({"epochs": 1, "clip": -1}, "clip=-1 must be a number greater than 0, or None"),
        ({"epochs": 1, "weight_decay": -1}, "weight_decay=-1 must be a number and not negative"),
        ({"epochs": 1, "seed": 1 << 63}, "must be a whole number of 64 bits"),
        ({"epochs": 1, "optimizer": "newton"}, "use one of adam, adamw, sgd"),
        ({"epochs": 1, "checkpoint_every": 0}, "checkpoint_every=0 must be a whole number, at least 1"),
    ],
)
def test_limits(given: dict[str, Any], message: str) -> None:
    with pytest.raises(us.UnderstudyError, match=message):
        TrainingOptions(**given)


def test_numbers_of_numpy_count_as_numbers() -> None:
    options = TrainingOptions(epochs=np.int64(3), lr=np.float32(0.5))  # type: ignore[arg-type]
    assert type(options.epochs) is int and type(options.lr) is float
    assert TrainingOptions(**options.arguments()) == options


def test_what_changes_no_result_may_differ_when_resumed_and_nothing_else(tmp_path: Path) -> None:
    """Another number of workers is fine; compile=True would end with other bits."""
    assert {name for name, each in FIELDS.items() if known(each).may_differ} == {
        "checkpoint_every", "device", "pass_batch_size", "workers",
    }  # fmt: skip
    gold = us.Gold(torch.randn(20, 3), [0, 1] * 10)

    def train(**more: Any) -> us.Run:
        return us.train(
            nn.Linear(3, 2), gold, None, us.vanilla(), epochs=2, out=tmp_path / "run", progress=False, **more
        )

    class Stop(us.Callback):
        def on_epoch(self, view: Any) -> None:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(callbacks=[Stop()])
    with pytest.raises(us.UnderstudyError, match=r"begun with another compile \(False, now True\)"):
        train(resume=True, compile=True)
    assert len(train(resume=True, workers=2, checkpoint_every=1, pass_batch_size=7).history) == 2


def test_metrics_by_name() -> None:
    assert TrainingOptions(epochs=1, metric="f1").metric == "macro_f1"
    with pytest.raises(us.UnderstudyError, match="use one of accuracy, balanced_accuracy, macro_f1, log_loss, auc"):
        TrainingOptions(epochs=1, metric="mcc")
