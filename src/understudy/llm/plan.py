"""What is asked, of whom and how: checked before anything is sent, and the same for as long as a folder is added to."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from understudy.errors import UnderstudyError
from understudy.labels.llm import FORMS
from understudy.labels.llm.matching import AnswerMatcher
from understudy.llm.endpoint import OPENAI
from understudy.llm.features import Features
from understudy.llm.ledger import Price
from understudy.llm.prompt import Class, Example, Prompt, Row, default_prompt
from understudy.llm.voter import Manner, checked_manner


@dataclass(frozen=True)
class Source:
    """A model, where it is, and what it costs."""

    model: str
    base_url: str = OPENAI
    key_env: str | None = None
    price: Price = field(default_factory=Price)


@dataclass(frozen=True)
class Plan:
    prompt: Prompt
    sources: tuple[Source, ...]
    manner: Manner
    wished: Features
    """What is asked for, where a server takes it."""
    form: str
    aliases: Mapping[str, str]

    @property
    def classes(self) -> tuple[str, ...]:
        return tuple(each.name for each in self.prompt.classes)

    def settings(self) -> dict[str, Any]:
        """What may not change between two runs into one folder: it would mix the answers to two questions."""
        return {
            "classes": list(self.classes),
            "descriptions": [each.description for each in self.prompt.classes],
            "prompt": self.prompt.source,
            "examples": [[_plain(each.row), each.label] for each in self.prompt.examples],
            "models": [source.model for source in self.sources],
            "votes": self.manner.votes,
            "temperature": self.manner.temperature,
            "structured": self.wished.structured,
        }


HINTS = {"prompt": "its text", "examples": "other rows", "descriptions": "other words"}
"""Said of settings whose values would fill a screen."""


def make_plan(
    classes: Sequence[str],
    model: str | Sequence[str],
    *,
    base_url: str | Sequence[str] | None = None,
    key_env: str | Sequence[str] | None = None,
    price_in: float | Sequence[float] = 0.0,
    price_out: float | Sequence[float] = 0.0,
    descriptions: Mapping[str, str] | None = None,
    examples: Sequence[tuple[Row, str]] = (),
    prompt: str | None = None,
    prompt_name: str = "the prompt",
    votes: int = 1,
    temperature: float | None = None,
    max_tokens: int | None = None,
    logprobs: int | None = None,
    structured: bool = True,
    retries: int = 8,
    form: str = "auto",
    aliases: Mapping[str, str] | None = None,
) -> Plan:
    names = AnswerMatcher(classes, aliases).names
    if form not in FORMS:
        raise UnderstudyError(f"form={form!r} is unknown; use one of {', '.join(FORMS)}")
    _check_known(names, descriptions or {}, [label for _, label in examples])
    described = [Class(name, (descriptions or {}).get(name, "")) for name in names]
    shown = [Example(row, label) for row, label in examples]
    made = Prompt(default_prompt() if prompt is None else prompt, described, shown, where=prompt_name)
    manner = checked_manner(votes, temperature, max_tokens, retries, max(len(name.encode()) for name in names))
    if logprobs is not None and not 0 <= logprobs <= 20:
        raise UnderstudyError(f"logprobs={logprobs} must be 0 to 20")
    # Of votes the shares are kept, and nobody looks at the chances of each.
    listed = 0 if votes > 1 else min(20, max(5, len(names))) if logprobs is None else logprobs
    return Plan(
        made, _sources(model, base_url, key_env, price_in, price_out), manner,
        Features(structured=structured, logprobs=listed), "shares" if votes > 1 else form, dict(aliases or {}),
    )  # fmt: skip


def _sources(model: Any, base_url: Any, key_env: Any, price_in: Any, price_out: Any) -> tuple[Source, ...]:
    models = [model] if isinstance(model, str) else list(model)
    if not models or len(set(models)) < len(models) or not all(name.strip() for name in models):
        raise UnderstudyError("name one model or several different ones; --votes asks one model several times")
    given = {"base-url": base_url, "key-env": key_env, "price-in": price_in, "price-out": price_out}
    spread = [_each(name, values, len(models)) for name, values in given.items()]
    prices = [number for numbers in spread[2:] for number in numbers if number is not None]
    if not all(0 <= number < float("inf") for number in prices):
        raise UnderstudyError(f"prices are amounts per million tokens, 0 or more; not {prices}")
    return tuple(
        Source(name, address or OPENAI, key, Price(price or 0.0, other or 0.0))
        for name, address, key, price, other in zip(models, *spread, strict=True)
    )


def _each(name: str, given: Any, models: int) -> list[Any]:
    """One for all, or one for each."""
    values = [given] if given is None or isinstance(given, str | int | float) else list(given) or [None]
    if len(values) not in (1, models):
        raise UnderstudyError(f"--{name} is given {len(values)} times for {models} models; give one, or one for each")
    return values * models if len(values) == 1 else values


def _check_known(names: Sequence[str], descriptions: Mapping[str, str], labels: Sequence[str]) -> None:
    for what, given in (("a description is of", descriptions), ("an example is of", labels)):
        unknown = [name for name in given if name not in names]
        if unknown:
            raise UnderstudyError(f"{what} {unknown[0]!r}, which is not among the classes ({', '.join(names)})")


def _plain(row: Row) -> Any:
    return row if isinstance(row, str) else {str(name): str(value) for name, value in row.items()}
