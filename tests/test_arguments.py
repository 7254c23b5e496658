"""Arguments held to their annotations: what passes, what is refused, and the message."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
import torch

import understudy as us
from understudy.store.option_fields import checked, read_kind


@pytest.mark.parametrize(
    ("kind", "right", "wrong"),
    [
        (int, [1, np.int64(3)], [1.0, True, "1", None, torch.tensor(1)]),
        (float, [1, 0.5, np.float32(2)], [True, "1", 3j, torch.tensor(1.0), [1.0]]),
        (bool, [True, np.bool_(False)], [0, 1, "true", None]),
        (str, ["", "a"], [b"a", 1, None, Path("a")]),
        (str | Path, ["a", Path("a")], [1, None, b"a"]),
        (int | None, [None, 1], [1.5, ()]),
        (Literal["a", 1], ["a", 1], ["b", 2, np.zeros(3), True]),
        (Callable[[int], int], [len, lambda: None], [3, None]),
        (Sequence[int], [[1], (), np.arange(3), range(2)], [3, ["a"], "ab", {1}, {}, iter([1]), torch.tensor(1)]),
        (Sequence[str], [["a"], "ab"], [[1], 3, b"ab"]),
        (Iterable[int], [[1], iter([1]), range(2), {1}], [3, ["a"], None]),
        (Mapping[str, int], [{}, {"a": 1}], [[], "a", None]),
        (tuple[float, float], [(1, 2.0), [1, 2]], [(1,), (1, "a"), 3]),
        (us.Gold | None, [None, us.Gold(torch.zeros(2, 1), [0, 1])], [3, torch.zeros(2)]),
        (torch.nn.Module, [torch.nn.Identity()], [torch.nn.Identity, 3]),
        (Any, [3, None, object()], []),
    ],
)
def test_fits(kind: Any, right: list[Any], wrong: list[Any]) -> None:
    assert [value for value in right if not read_kind(kind).fits(value)] == []
    assert [value for value in wrong if read_kind(kind).fits(value)] == []


def test_a_refusal_names_function_argument_and_cure() -> None:
    @checked
    def smooth(amount: float, *, hard: bool = False, names: Sequence[str] | None = None, **more: int) -> float:
        return amount

    assert smooth(1, hard=True) == 1 and smooth.__name__ == "smooth"
    for message, call in (
        (r"smooth\(amount='0.1'\) must be a number", lambda: smooth("0.1")),  # type: ignore[arg-type]
        (r"smooth\(hard=<list>\) must be True or False", lambda: smooth(1, hard=[])),  # type: ignore[arg-type]
        (r"smooth\(names=3\) must be a list of texts or None", lambda: smooth(1, names=3)),  # type: ignore[arg-type]
    ):
        with pytest.raises(us.UnderstudyError, match=message):
            call()
    with pytest.raises(TypeError, match=r"smooth.*missing 1 required positional argument: 'amount'"):
        smooth()  # type: ignore[call-arg]


def test_a_misspelt_option_names_the_function_and_the_nearest_option(tmp_path: Path) -> None:
    student, gold, pool = torch.nn.Linear(1, 2), us.Gold(torch.zeros(2, 1), [0, 1]), us.Pool(torch.zeros(2, 1), [0, 1])
    calls: list[tuple[Any, dict[str, Any], str]] = [
        (us.slam, {"lower_bond": 0.6}, "unknown option 'lower_bond' of slam; did you mean 'lower_bound'?"),
        (us.slam, {"lwr": 0.6}, "unknown option 'lwr' of slam; it takes lower_bound, threshold, k"),
        (us.models.mlp, {"hiden": 3}, "of mlp; did you mean 'hidden'?"),
        (partial(us.train, student, gold, pool, us.vanilla()), {"epoch": 3}, "of train; did you mean 'epochs'?"),
        (partial(us.compare, student, gold, pool), {"seed": 3}, "of compare; did you mean 'seeds'?"),
        (partial(us.auto, student, gold, pool), {"fold": 3}, "of auto; did you mean 'folds'?"),
        (partial(us.reconcile, student, gold, pool), {"epoch": 3}, "of reconcile; did you mean 'epochs'?"),
        (partial(us.Session, student, gold, pool, us.vanilla()), {"batchsize": 3}, "of Session; did you mean 'batch_"),
        (partial(us.active.Loop, student, pool.x, len, out=tmp_path), {"budge": 3}, "of Loop; did you mean 'budget'?"),
        (partial(us.Gold, gold.x, gold.y), {"techer": 3}, "of Gold; did you mean 'teacher'?"),
        (partial(us.Pool, gold.x), {"techer": 3}, "of Pool; did you mean 'teacher'?"),
        (partial(us.Objective, "mine"), {"wieght": 3}, "of Objective; did you mean 'weight'?"),
        (partial(us.text, "minilm"), {"clases": 3}, "of text; did you mean 'classes'?"),
        (partial(us.ask, ["text"], ["a", "b"], out=tmp_path), {"modell": "m"}, "of ask; did you mean 'model'?"),
    ]
    for call, options, message in calls:
        with pytest.raises(us.UnderstudyError) as error:
            call(**options)
        assert message in str(error.value) and isinstance(error.value, TypeError)


@pytest.mark.parametrize(
    ("message", "call"),
    [
        ("1 to 10,000,000 units", lambda: us.models.from_text("mlp:0", shape=(2,), classes=2)),
        ("1 to 10,000,000 units", lambda: us.models.mlp(2, 2, (4, 10**12))),
        ("cannot be built", lambda: us.models.mlp(2, 2, dropout=7.0)),
        (
            "finetune_epochs=10{40} must be a whole number, at most 2,147,483,647",
            lambda: _train(finetune_epochs=10**40),
        ),
        ("epochs=10{40} must be", lambda: _train(epochs=10**40)),
        ("autocast=", lambda: _train(autocast=torch.int8)),
        ("student\\(\\) fails", lambda: _train(student=len)),
        ("student\\(\\) gave a list", lambda: _train(student=list)),
        ("seeds=10{40} must be 1 to 10,000", lambda: _compare(seeds=10**40)),
        ("seeds=", lambda: _compare(seeds=[0.5])),
        ("classes=-1 must be", lambda: us.LabelStore("nowhere", classes=-1)),
    ],
)
def test_what_was_seen(message: str, call: Callable[[], Any]) -> None:
    with pytest.raises(us.UnderstudyError, match=message) as caught:
        call()
    assert "\n" not in str(caught.value)


X, Y = torch.zeros(12, 2), torch.arange(12) % 2


def _train(student: Any = None, **options: Any) -> Any:
    given = {"epochs": 1, "progress": False, **options}
    return us.train(student or us.models.linear(2, 2), us.Gold(X, Y), us.Pool(X, Y), us.vanilla(), **given)


def _compare(**options: Any) -> Any:
    return us.compare(us.models.linear(2, 2), us.Gold(X, Y), us.Pool(X, Y), [], epochs=1, progress=False, **options)
