"""Method options typed as name=value, read by the factory's signature."""

from typing import Any

import pytest

import understudy as us
from understudy.errors import UnderstudyError
from understudy.method_options import option_kinds, read_options


def factory(
    share: float = 0.5,
    count: int = 1,
    k: int | str | None = None,
    on: bool = False,
    pair: float | tuple[float, float] = 1.0,
    maybe: bool | None = None,
    either: int | float = 1,
    loss: Any = None,
) -> None: ...


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("share=0.25", 0.25),
        ("share=1", 1.0),
        ("share=1e-3", 0.001),
        ("count=7", 7),
        ("k=3", 3),
        ("k=auto", "auto"),
        ("k=none", None),
        ("on=true", True),
        ("on=False", False),
        ("pair=2", 2.0),
        ("pair=1,2.5", (1.0, 2.5)),
        ("maybe=None", None),
        ("either=3", 3),
        ("either=3.5", 3.5),
        (" share = 2 ", 2.0),
    ],
)
def test_values_take_their_declared_type(text: str, value: Any) -> None:
    (found,) = read_options(factory, [text]).values()
    assert found == value and type(found) is type(value)


@pytest.mark.parametrize(
    ("texts", "said"),
    [
        (["share=much"], "factory: option 'share' is 'much'; it must be a number"),
        (["count=1.5"], "option 'count' is '1.5'; it must be a whole number"),
        (["on=1"], "it must be true or false"),
        (["share=none"], "it must be a number"),
        (["pair=1,2,3"], "it must be a number or two numbers like 1,2"),
        (["shar=1"], "unknown option 'shar' of factory; did you mean 'share'?"),
        (["loss=1"], "unknown option 'loss' of factory; it takes share, count, k, on, pair, maybe, either"),
        (["share"], "'share' is not like name=value"),
        (["share=1", "share=2"], "'share' is given twice"),
    ],
)
def test_mistakes_say_what_would_do(texts: list[str], said: str) -> None:
    with pytest.raises(UnderstudyError) as caught:
        read_options(factory, texts)
    assert said in str(caught.value)


@pytest.mark.parametrize("name", sorted(us.METHODS))
def test_every_method_can_be_asked(name: str) -> None:
    """Signatures of all methods resolve, and no part that is built in Python can be typed."""
    kinds = option_kinds(us.METHODS[name])
    assert not {"loss", "weight", "alpha"} & set(kinds)


def test_slam_from_text() -> None:
    texts = ["lower_bound=0.6", "k=auto", "temperature=1,2", "normalise=true"]
    objective = us.slam(**read_options(us.slam, texts))
    assert objective.temperatures == (1.0, 2.0)
    assert objective == us.slam(lower_bound=0.6, k="auto", temperature=(1.0, 2.0), normalise=True)
