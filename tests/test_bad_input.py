"""Bad input: an UnderstudyError of one line that names the place and the cure, and nothing half written."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import understudy as us

N, CLASSES = 12, 3
G = torch.Generator().manual_seed(0)
X, Y = torch.randn(N, 4, generator=G), torch.arange(N) % CLASSES
PROBS = torch.randn(N, CLASSES, generator=G).softmax(-1)


def _with(tensor: Tensor, row: int, value: Any) -> Tensor:
    changed = tensor.clone()
    changed[row] = value if not isinstance(value, list) else torch.tensor(value)
    return changed


def _wide() -> Tensor:
    return torch.full((N, CLASSES + 1), 1 / (CLASSES + 1))


def _train(out: Path, **changes: Any) -> us.Run:
    """A training that works, but for what a case changes."""
    gold = changes.pop("gold", lambda: us.Gold(X, Y, PROBS))()
    pool = changes.pop("pool", lambda: us.Pool(X, PROBS))()
    student = changes.pop("student", None) or us.models.linear(4, CLASSES)
    objective = changes.pop("objective", us.slam)()
    return us.train(student, gold, pool, objective, out=out, progress=False, **({"epochs": 1} | changes))


# What is wrong -> (what is changed, what the message must name)
CASES: dict[str, tuple[dict[str, Any], str]] = {
    "NaN in gold features": ({"gold": lambda: us.Gold(_with(X, 3, math.nan), Y, PROBS)}, r"gold\.x row 3.*NaN.*remove"),
    "infinity in pool features": ({"pool": lambda: us.Pool(_with(X, 5, math.inf), PROBS)}, r"pool\.x row 5.*infinity"),
    "NaN in the pool's labels": ({"pool": lambda: us.Pool(X, _with(PROBS, 4, math.nan))}, r"pool\.teacher row 4.*NaN"),
    "NaN in gold's teacher": ({"gold": lambda: us.Gold(X, Y, _with(PROBS, 4, math.nan))}, r"gold\.teacher row 4.*NaN"),
    "NaN in gold's labels": ({"gold": lambda: us.Gold(X, _with(Y.double(), 2, math.nan))}, r"gold\.y row 2.*nan"),
    "rows that do not sum to 1": (
        {"pool": lambda: us.Pool(X, _with(PROBS, 6, [0.3, 0.3, 0.3]))},
        r"pool\.teacher row 6 sums to 0\.9.*softmax",
    ),
    "logits for probabilities": ({"pool": lambda: us.Pool(X, 5 * PROBS.log())}, r"pool\.teacher row 0.*softmax"),
    "negative gold label": ({"gold": lambda: us.Gold(X, _with(Y, 1, -1), PROBS)}, r"gold\.y row 1 is -1.*from 0"),
    "fractional gold label": ({"gold": lambda: us.Gold(X, _with(Y.float(), 1, 0.5))}, r"gold\.y row 1 is 0\.5"),
    "gold label out of the teacher's range": (
        {"gold": lambda: us.Gold(X, _with(Y, 7, 9), PROBS)},
        r"gold\.y row 7 is class 9.*3 classes",
    ),
    "gold label out of the student's range": (
        {"gold": lambda: us.Gold(X, _with(Y, 7, 9)), "objective": us.vanilla},
        r"gold\.y holds class 9.*3 outputs.*last layer",
    ),
    "hard label out of range": (
        {"gold": lambda: us.Gold(X, Y), "pool": lambda: us.Pool(X, _with(Y, 2, 7)), "objective": us.vanilla},
        r"pool\.teacher names class 7.*3 outputs",
    ),
    "hard label below −1": ({"pool": lambda: us.Pool(X, _with(Y, 2, -3))}, r"pool\.teacher row 2 is -3"),
    "labels of another length": ({"gold": lambda: us.Gold(X, Y[:-1])}, r"gold\.y has 11 rows.*gold\.x has 12"),
    "gold teacher of another length": ({"gold": lambda: us.Gold(X, Y, PROBS[1:])}, r"gold\.teacher has 11 rows"),
    "pool teacher of another length": ({"pool": lambda: us.Pool(X, PROBS[1:])}, r"pool\.teacher has 11 rows.*pool\.x"),
    "ids of another length": ({"pool": lambda: us.Pool(X, PROBS, ids=[1])}, r"pool\.ids has 1 rows"),
    "an id twice": ({"pool": lambda: us.Pool(X, PROBS, ids=[1] * N)}, r"pool\.ids holds .*1.* more than once"),
    "chosen of another length": (
        {"gold": lambda: us.Gold(X, Y, PROBS, chosen=torch.zeros(3, dtype=torch.bool))},
        r"gold\.chosen",
    ),
    "empty gold": ({"gold": lambda: us.Gold(X[:0], Y[:0], PROBS[:0])}, "gold is empty.*at least one"),
    "empty pool": ({"pool": lambda: us.Pool(X[:0], PROBS[:0])}, "pool is empty|pool .*no rows"),
    "no gold and no pool": ({"gold": lambda: None, "pool": lambda: None}, "nothing to train on"),
    "pool without labels": ({"pool": lambda: us.Pool(X)}, r"pool has no teacher labels.*us\.teach"),
    "pool with no label in any row": (
        {"gold": lambda: us.Gold(X, Y, Y), "pool": lambda: us.Pool(X, torch.full((N,), -1))},
        "no pool row has a teacher label",
    ),
    "gold's teacher knows more classes than the pool's": (
        {"gold": lambda: us.Gold(X, Y, _wide())},
        r"gold\.teacher knows 4 classes.*3",
    ),
    "the pool's teacher knows more classes than gold's": (
        {"pool": lambda: us.Pool(X, _wide())},
        r"pool\.teacher knows 4 classes.*3",
    ),
    "gold soft, pool hard": ({"pool": lambda: us.Pool(X, Y)}, "gold.teacher holds Soft.*pool.teacher Hard.*one form"),
    "no estimate rows": ({"gold": lambda: us.Gold(X, Y)}, r"0 gold rows.*at least 2.*teacher="),
    "one estimate row": (
        {"gold": lambda: us.Gold(X, Y, _with(torch.full((N,), -1), 0, 1)), "pool": lambda: us.Pool(X, Y)},
        r"1 gold rows.*at least 2.*teacher=",
    ),
    "one estimate row for the weights": (
        {
            "gold": lambda: us.Gold(X, Y, _with(torch.full((N,), -1), 0, 1)),
            "pool": lambda: us.Pool(X, Y),
            "objective": us.weighted,
        },
        r"1 gold rows.*at least 2",
    ),
    "only chosen rows": ({"gold": lambda: us.Gold(X, Y, PROBS, chosen=True)}, "0 gold rows.*at least 2"),
    "no gold for slam": ({"gold": lambda: None}, "0 gold rows.*vanilla"),
    "test rows that are not a pair": ({"test": X}, "test is a Tensor.*tuple"),
    "test labels out of range": ({"test": (X, _with(Y, 0, 8))}, r"test\.y holds class 8"),
    "NaN in test rows": ({"test": (_with(X, 2, math.nan), Y)}, r"test\.x row 2.*NaN"),
    "student that takes other rows": ({"student": us.models.linear(7, CLASSES)}, r"cannot take rows of shape \(4,\)"),
    "pool of other rows": ({"pool": lambda: us.Pool(X[:, :3], PROBS)}, r"rows of shape \(3,\) \(pool\.x\)"),
    "test of other rows": ({"test": (X[:, :3], Y)}, r"rows of shape \(3,\) \(test\.x\)"),
    "gold as a pair": ({"gold": lambda: (X, Y)}, r"gold is a tuple; pass us\.Gold"),
    "pool as a pair": ({"pool": lambda: (X, PROBS)}, r"pool is a tuple; pass us\.Pool"),
    "student with other outputs": ({"student": us.models.linear(4, 5)}, "3 classes.*5 outputs"),
    "student without parameters": ({"student": nn.Flatten()}, "parameters"),
    "frozen student": ({"student": us.models.linear(4, 3).requires_grad_(False)}, "requires_grad"),
    "no epochs": ({"epochs": 0}, "epochs=0"),
    "a fraction of an epoch": ({"epochs": 1.5}, "epochs=1.5"),
    "no batch": ({"batch_size": 0}, "batch_size=0"),
    "negative rate": ({"lr": -0.1}, "lr=-0.1"),
    "rate that is no number": ({"lr": math.nan}, "lr=nan"),
    "negative clip": ({"clip": -1.0}, "clip=-1"),
    "negative pretraining": ({"pretrain_epochs": -1}, "pretrain_epochs=-1"),
    "negative gold weight": ({"gold_weight": -1.0}, "gold_weight=-1"),
    "negative gold repeat": ({"gold_repeat": -1}, "gold_repeat=-1"),
    "pretraining without gold": (
        {"gold": lambda: None, "pretrain_epochs": 2, "objective": us.vanilla},
        "pretrain_epochs.*gold",
    ),
    "unknown optimizer": ({"optimizer": "lion"}, "optimizer='lion'.*adam"),
    "negative weight decay": ({"weight_decay": -0.1}, "weight_decay=-0.1"),
    "negative momentum": ({"momentum": -0.1}, "momentum=-0.1"),
    "seed that is no whole number": ({"seed": 0.5}, "seed=0.5"),
    "schedule without its pairs": ({"schedule": [0.5, 0.1]}, r"schedule=\[0\.5, 0\.1\].*pairs"),
    "unknown schedule": ({"schedule": "cosinus"}, "schedule='cosinus'.*cosine"),
    "a loss that explodes": (
        {"lr": 3e38, "epochs": 4, "optimizer": "sgd", "objective": us.vanilla},
        "loss became.*lower lr",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_bad_input(case: str, tmp_path: Path) -> None:
    changes, message = CASES[case]
    out = tmp_path / "run"
    with pytest.raises(us.UnderstudyError, match=message) as caught:
        _train(out, **dict(changes))
    assert "\n" not in str(caught.value)
    if case == "a loss that explodes":  # after an epoch or more: their checkpoint stays, but it is not a run
        assert not (out / "config.json").exists()
        return
    assert not out.exists()
    assert list(tmp_path.iterdir()) == []


def test_good_input_passes(tmp_path: Path) -> None:
    _train(tmp_path / "run")
    assert (tmp_path / "run" / "config.json").exists()


def test_an_existing_folder_is_never_mixed_with(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    _train(tmp_path / "run")
    before = {path.name: path.read_bytes() for path in (tmp_path / "run").iterdir()}
    with pytest.raises(us.UnderstudyError, match="already exists"):
        _train(tmp_path / "run", lr=0.5)
    assert {path.name: path.read_bytes() for path in (tmp_path / "run").iterdir()} == before
    (tmp_path / "file").write_text("mine")
    with pytest.raises(us.UnderstudyError, match=r"exists|cannot"):
        _train(tmp_path / "file")
    assert (tmp_path / "file").read_text() == "mine"


def test_nan_in_a_memory_map_is_found_while_training(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", _with(X, 3, math.nan).numpy())
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    with pytest.raises(us.UnderstudyError, match="NaN"):
        _train(tmp_path / "run", pool=lambda: us.Pool(mapped, PROBS), objective=us.vanilla)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: us.Reliability.fit(PROBS[:1], Y[:1]), "1 gold rows|only 1.*at least 2"),
        (lambda: us.Reliability.fit(PROBS, Y[:-1]), "11 rows"),
        (lambda: us.Reliability.fit(_with(PROBS, 2, math.nan), Y), "row 2.*NaN"),
        (lambda: us.Reliability.fit(PROBS, _with(Y, 0, 9)), "class 9.*3 classes"),
        (lambda: us.Reliability.fit(PROBS, _with(Y, 3, -1)), "row 3 is -1"),
        (lambda: us.debias_weights(PROBS, Y, PROBS, PROBS, PROBS, confidence="variance"), "confidence='variance'"),
        (lambda: us.debias_weights(PROBS, Y, PROBS, PROBS, PROBS, k=0), "k"),
        (lambda: us.debias_weights(PROBS, Y[:-1], PROBS, PROBS, PROBS), "11"),
        (lambda: us.debias_weights(PROBS, Y, PROBS[:-1], PROBS, PROBS), "11"),
        (lambda: us.debias_weights(PROBS, Y, PROBS, PROBS, PROBS[:-1]), "11"),
        (lambda: us.debias_weights(PROBS, _with(Y, 2, 9), PROBS, PROBS, PROBS), "9"),
        (lambda: us.debias_weights(_with(PROBS, 2, math.nan), Y, PROBS, PROBS, PROBS), "NaN"),
        (lambda: us.debias_weights(PROBS, Y, PROBS, PROBS, _with(PROBS, 2, math.nan)), "NaN"),
        (lambda: us.debias_weights(PROBS[:0], Y[:0], PROBS[:0], PROBS, PROBS), "at least"),
    ],
)
def test_bad_input_of_the_estimators(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(us.UnderstudyError, match=message):
        call()


def test_two_slots_of_one_name_are_refused() -> None:
    with pytest.raises(us.UnderstudyError, match=r"two slots.*name="):
        us.weighted(weight=us.debias_weight())
    us.weighted(weight=us.debias_weight(name="second"))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: us.vanilla(temperature=[1.0, 2.0]), r"temperature=\[1\.0, 2\.0\] must be a number"),
        (lambda: us.vanilla(temperature=(1.0, 2.0, 3.0)), "a pair"),
        (lambda: us.vanilla(temperature=(1.0, 0.0)), "greater than 0"),
        (
            lambda: us.vanilla(weight=torch.ones(N)),
            r"weight= holds a Tensor; pass a weight, e\.g\. us\.fidelity_weight",
        ),
        (lambda: us.weighted(weight=2.0), "multiplied by a float"),
        (lambda: us.slam(weight=us.fidelity()), "weight= holds a Objective"),
        (lambda: us.slam(loss=us.taylor()), r"loss= holds a Objective.*us\.taylor_loss"),
        (lambda: us.slam(terms=us.fidelity_weight()), r"terms= holds a FidelityWeight.*us\.vid_term"),
        (lambda: us.slam(k=3.0), r"slam\(k=3\.0\)"),
        (lambda: us.self_distillation(schedule=0.5), "function of progress"),
    ],
)
def test_what_does_not_fit_a_slot_is_refused(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(us.UnderstudyError, match=message):
        call()


def test_objective_must_be_an_objective(tmp_path: Path) -> None:
    with pytest.raises(us.UnderstudyError, match=r"objective.*us\.slam\(\)|slam"):
        us.train(us.models.linear(4, 3), us.Gold(X, Y), us.Pool(X, PROBS), us.slam, epochs=1, out=tmp_path / "run")  # type: ignore[arg-type]
    assert not (tmp_path / "run").exists()
