"""Public functions called in Python with one argument that is absurd: refused in one line, or taken and right."""

import inspect
import math
import random
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

import understudy as us

ROWS, CLASSES = 12, 3
# Python's own words on a call that does not fit, ours or of a function that was passed.
WRONG_CALL = "unexpected keyword argument|missing .* required|takes no arguments|takes .* positional arguments? but"
Call = tuple[Callable[..., Any], dict[str, Any]]

ABSURD: list[Any] = [
    *(None, True, 0, -1, 7, 10**40, 2**63, 1.5, -0.5, math.nan, math.inf, 1e300, 3j, "", "text", "0", b"bytes", "\0"),
    *([], (), {}, set(), [[]], [None], ["a", "b"], {"a": 1}, [1, [2, 3]], object(), object, int, len, range(3)),
    *(lambda: None, lambda *given: given, print, iter([1]), Path("nowhere"), Ellipsis, NotImplemented, slice(3)),
    *(np.zeros(0), np.zeros((2, 2, 2)), np.array("text"), np.array([None] * ROWS), np.float32("nan"), np.ma.masked),
    *(np.zeros(ROWS, "M8[s]"), np.array([3j] * ROWS), np.zeros(ROWS, dtype=[("a", "f4")]), memoryview(b"abc")),
    *(torch.zeros(0), torch.tensor(1.0), torch.zeros(ROWS, 2, 2), torch.ones(2, 2, device="meta"), torch.float32),
    *(torch.ones(ROWS, CLASSES).to_sparse(), torch.ones(ROWS, dtype=torch.complex64), torch.nn.Identity()),
    *(torch.nn.Linear(2, 2), torch.device("meta"), torch.Generator(), us.vanilla, us.Hard([0, 1]), ValueError("x")),
]


def calls(folder: Path) -> dict[str, Call]:
    """Every public function with arguments that are right, as keywords."""
    draw = torch.Generator().manual_seed(0)
    y = torch.arange(ROWS) % CLASSES
    x = torch.randn(ROWS, 2, generator=draw) + y[:, None]
    probs = (torch.rand(ROWS, CLASSES, generator=draw) + torch.nn.functional.one_hot(y, CLASSES)).softmax(1)
    net = us.models.mlp(inputs=2, classes=CLASSES, hidden=(4,), dropout=0.1)
    gold, pool = us.Gold(x, y, teacher=probs), us.Pool(x, probs)
    short: dict[str, Any] = {"epochs": 1, "batch_size": 8, "lr": 0.1, "progress": False}
    data: dict[str, Any] = {"student": net, "gold": gold, "pool": pool}
    found: dict[str, Call] = {
        "Gold": (us.Gold, {"x": x, "y": y, "teacher": probs, "ids": None, "chosen": False}),
        "Pool": (us.Pool, {"x": x, "teacher": probs, "ids": None}),
        "Hard": (us.Hard, {"labels": y, "confidence": torch.ones(ROWS), "classes": None}),
        "Soft": (us.Soft, {"probs": probs}),
        "TopK": (us.TopK, {"indices": y[:, None], "probs": torch.full((ROWS, 1), 0.5), "classes": CLASSES}),
        "Votes": (us.Votes, {"votes": torch.stack([y, y], 1), "classes": CLASSES, "by": "majority", "sources": None}),
        "fit_votes": (us.fit_votes, {"votes": torch.stack([y, y], 1), "y": y, "classes": CLASSES}),
        "Reliability.fit": (us.Reliability.fit, {"probs": probs, "labels": y, "lower_bound": 0.5, "threshold": 0.9,
                                                 "covariate": "margin", "estimator": "isotonic", "classes": None}),
        "Session": (us.Session, {**data, "objective": us.vanilla(), "batch_size": 8, "seed": 0}),
        "train": (us.train, {**data, "objective": us.vanilla(), **short, "seed": 0, "test": gold, "select": gold,
                             "out": folder / "run", "optimizer": "adam", "schedule": "cosine", "patience": 1,
                             "pretrain_epochs": 1, "finetune_epochs": 1, "finetune_lr": 0.1, "clip": 1.0,
                             "gold_repeat": 1, "gold_weight": 1.0, "momentum": 0.9, "weight_decay": 0.0, "workers": 0,
                             "accumulate": 1, "augment": None, "device": None, "autocast": None, "compile": False,
                             "ema": None, "callbacks": (), "notes": None, "resume": False, "refine": True,
                             "pass_batch_size": 4, "until_accuracy": 0.9, "feature_layer": None}),
        "compare": (us.compare, {**data, **short, "methods": (), "seeds": 1, "test": gold, "select": 0.0, "workers": 1,
                                 "out": None, "executor": None, "callbacks": ()}),
        "auto": (us.auto, {**data, **short, "methods": ("gce",), "folds": 2, "seed": 0, "pilot_rows": 8, "workers": 1,
                           "pilot_epochs": 1, "reconcile": False, "test": None, "out": None}),
        "reconcile": (us.reconcile, {**data, **short, "methods": ("gce",), "folds": 2, "rows": 8, "seed": 0,
                                     "workers": 1, "out": None}),
        "split": (us.split, {"gold": gold, "estimate": 3, "select": 0.2, "test": 0.2, "train": None, "seed": 0,
                             "stratify": True}),
        "cross_fit": (lambda **given: list(us.cross_fit(**given)), {"gold": gold, "folds": 3, "seed": 0}),
        "teach": (us.teach, {"teacher": net, "x": x, "batch_size": 4, "output": None, "ids": None, "cache": None,
                             "store": None, "save_every": 1}),
        "teacher_features": (us.teacher_features, {"teacher": net, "x": x, "layer": None, "batch_size": 4}),
        "stochastic_passes": (us.stochastic_passes, {"teacher": net, "x": x, "passes": 2, "augment": None, "seed": 0,
                                                     "batch_size": 4}),
        "evaluate": (us.evaluate, {"model": net, "gold": gold, "batch_size": 4}),
        "export": (us.export, {"run_or_student": net, "path": folder / "net.safetensors", "format": None,
                               "example": None, "check": True}),
        "l2_of_c": (us.l2_of_c, {"c": 1.0, "rows": 10, "classes": 3}),
        "EMA": (us.EMA, {"model": net, "decay": 0.99, "warmup": True}),
        "LabelStore": (us.LabelStore, {"folder": folder / "labels", "classes": ["a", "b"], "form": "hard"}),
        "audit": (us.audit, {"gold": gold, "pool": pool}),
        "select": (us.select, {"strategy": "margin", "n": 3, "probs": probs, "labelled": None, "seed": 0}),
        "models.linear": (us.models.linear, {"inputs": 2, "classes": CLASSES}),
        "models.mlp": (us.models.mlp, {"inputs": 2, "classes": CLASSES, "hidden": (4,), "dropout": 0.1}),
        "models.lenet": (us.models.lenet, {"inputs": (1, 12, 12), "classes": CLASSES}),
        "models.cnn5": (us.models.cnn5, {"inputs": (1, 8, 8), "classes": CLASSES, "dropout": 0.5}),
        "models.mobilenet": (us.models.mobilenet, {"inputs": (3, 32, 32), "classes": CLASSES}),
        "models.from_text": (us.models.from_text, {"text": "mlp:4", "shape": (2,), "classes": CLASSES}),
        "models.build": (us.models.build, {"spec": {"name": "linear", "args": {"inputs": 2, "classes": 2}}}),
    }  # fmt: skip
    for name, method in us.METHODS.items():
        shown = inspect.signature(method).parameters.values()
        found[f"method {name}"] = (method, {p.name: p.default for p in shown if p.default is not p.empty})
    return {name: (function, _fitting(function, good)) for name, (function, good) in found.items()}


def _fitting(function: Callable[..., Any], good: dict[str, Any]) -> dict[str, Any]:
    shown = inspect.signature(function).parameters
    if any(each.kind is each.VAR_KEYWORD for each in shown.values()):
        return good
    return {name: value for name, value in good.items() if name in shown}


def absurd_argument(draw: random.Random, given: Path, made: Path) -> None:
    table = calls(made)
    function, good = table[draw.choice([name for name, (_, arguments) in table.items() if arguments])]
    changed = draw.choice(sorted(good))
    value = draw.choice(ABSURD)
    try:
        function(**{**good, changed: value})
    except TypeError as error:
        if re.search(WRONG_CALL, str(error)) is None:
            raise
        raise us.UnderstudyError(str(error)) from error
    except us.UnderstudyError:
        # What has begun can be resumed.
        for path in made.iterdir():
            if (path / "checkpoint").exists():
                shutil.rmtree(path)
        raise
