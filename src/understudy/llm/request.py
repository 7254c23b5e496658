"""Requests to chat-completions servers: the prompt, the plan (which models, which prompt), a body and its tokens.

    prompt = Prompt(DEFAULT, [Class("neg"), Class("pos", "praise of any kind")], examples=[Example("fine!", "pos")])
    prompt.messages("It broke.", structured=True)        # system, the examples as turns, then the row

A prompt is a Jinja template that makes the messages of one request, about one row. It has a block ``system``, rendered
once from ``classes`` and ``structured``, and a block ``user``, rendered for each row and each example from ``text`` (or
``row``, a row's columns by name) as well. A row is thus never among the instructions, nor in the prompt of another row.
``delimited`` puts tags around a text that do not occur in it. A template without blocks is the user's message.
Templates run in Jinja's sandbox; a name that is not there is an error.

A plan is checked before anything is sent, and stays the same for as long as its folder is added to.

Every optional field is sent first; what a server refuses is left out from then on. Servers name the field they refuse
in wordings of their own: where the message names one that was sent, that one goes, and where it names none, one after
the other does, the least important first. Tokens are estimated or bounded from the text, without a tokenizer.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from math import ceil, isfinite
from pathlib import Path
from typing import Any

from jinja2 import StrictUndefined, TemplateError, meta
from jinja2.sandbox import ImmutableSandboxedEnvironment

from understudy.errors import UnderstudyError, first_line
from understudy.labels.llm import FORMS
from understudy.labels.llm.answer_matching import AnswerMatcher
from understudy.llm.ask_options import AskOptions
from understudy.llm.ledger import Price

Row = str | Mapping[str, Any]
Message = dict[str, str]
#: The entry of a structured answer that names the class.
FIELD = "label"


@dataclass(frozen=True)
class Class:
    name: str
    description: str = ""


@dataclass(frozen=True)
class Example:
    """A row whose label is shown."""

    row: Row
    label: str


class Prompt:
    def __init__(self, source: str, classes: Sequence[Class], examples: Sequence[Example] = ()) -> None:
        self.source, self.classes, self.examples = source, tuple(classes), tuple(examples)
        environment = ImmutableSandboxedEnvironment(undefined=StrictUndefined, autoescape=False, trim_blocks=True)
        environment.filters["delimited"] = delimited
        try:
            self._template = environment.from_string(source)
            named = meta.find_undeclared_variables(environment.parse(source))
        except TemplateError as error:
            raise UnderstudyError(f"the prompt is not a Jinja template ({first_line(error)}); correct it") from error
        blocks = set(self._template.blocks)
        if not blocks <= {"system", "user"} or blocks == {"system"}:
            raise UnderstudyError(
                f"the prompt has the blocks {', '.join(sorted(blocks))}; write system and user, or none"
            )
        if not named & {"text", "row"}:
            raise UnderstudyError("the prompt does not show the row; write {{ text | delimited }} where it belongs")
        self._start = lru_cache(2)(self._start_of)
        self._start(True)  # a mistake shows before anything is paid for

    def messages(self, row: Row, *, structured: bool, system: bool = True) -> list[Message]:
        """``system``: whether the server accepts that role; else its text is put before the first message."""
        messages = [*map(dict, self._start(structured)), _turn("user", self._user(row, structured))]
        if not system and messages[0]["role"] == "system":
            instructions = messages.pop(0)["content"]
            messages[0] = _turn("user", f"{instructions}\n\n{messages[0]['content']}")
        return messages

    def _start_of(self, structured: bool) -> list[Message]:
        """What comes before the row, the same for all rows."""
        start = []
        if "system" in self._template.blocks:
            # Without the row: a template that wants it here is refused.
            start.append(_turn("system", self._render("system", structured)))
        for example in self.examples:
            answer = json.dumps({FIELD: example.label}, ensure_ascii=False) if structured else example.label
            start += [_turn("user", self._user(example.row, structured)), _turn("assistant", answer)]
        return start

    def _user(self, row: Row, structured: bool) -> str:
        values = {"text": row} if isinstance(row, str) else {"row": row, "text": row.get("text", StrictUndefined())}
        return self._render("user", structured, **values)

    def _render(self, block: str, structured: bool, **row: Any) -> str:
        values = {"classes": self.classes, "structured": structured, **row}
        try:
            if block not in self._template.blocks:
                return self._template.render(values).strip()
            return "".join(self._template.blocks[block](self._template.new_context(values))).strip()
        except (TemplateError, TypeError, ValueError, KeyError, ArithmeticError) as error:
            cure = "rows belong into the block user" if block == "system" else "check the names in it"
            raise UnderstudyError(f"the prompt, block {block}: {first_line(error)}; {cure}") from error


def _turn(role: str, content: str) -> Message:
    return {"role": role, "content": content}


def delimited(text: Any, tag: str = "text") -> str:
    """The text between tags that it does not hold itself, so that it cannot end early."""
    text, name, number = str(text), tag, 1
    while f"<{name}>" in text or f"</{name}>" in text:
        number += 1
        name = f"{tag}-{number}"
    return f"<{name}>\n{text}\n</{name}>"


def default_prompt() -> str:
    return Path(__file__).with_name("default.jinja").read_text(encoding="utf-8")


OPENAI = "https://api.openai.com/v1"
_NAMED = {
    "structured": re.compile(r"response_format|json_schema|schema|grammar|guided|structured", re.IGNORECASE),
    "logprobs": re.compile(r"logprob", re.IGNORECASE),
    "several": re.compile(r"[`'\"]n[`'\"]|\bn ?(>|=|must|is not|should)|parameter:? n\b|\bbest_of\b|number of choices"),
    "temperature": re.compile(r"temperature", re.IGNORECASE),
    "system": re.compile(r"system (role|message|prompt)|role.{0,20}system", re.IGNORECASE),
}
_LIMIT = re.compile(r"max_completion_tokens")
_TOO_LONG = re.compile(r"context.{0,10}(length|window|size)|too (long|large|many tokens)|maximum.{0,20}tokens", re.I)
# What a chat template may put around a message, and around all of them.
_PER_MESSAGE, _PER_REQUEST = 16, 32


@dataclass(frozen=True)
class RequestOptions:
    """The same for every request of a folder, resolved from ``AskOptions``."""

    votes: int = 1
    temperature: float = 0.0
    max_tokens: int = 32
    retries: int = 8
    #: Seconds before the first retry.
    pause: float = 0.5


@dataclass(frozen=True)
class ServerFeatures:
    """The optional fields of the protocol that a server accepts."""

    #: Answers constrained to a JSON schema that lists the classes.
    structured: bool = True
    #: Alternatives per token; 0: none.
    logprobs: int = 5
    #: Several choices per request (``n``).
    several: bool = True
    temperature: bool = True
    #: A role for instructions.
    system: bool = True
    #: The name of the token limit; newer models of OpenAI's have another.
    limit: str = "max_tokens"

    def without_refused(self, message: str, body: Mapping[str, Any]) -> "ServerFeatures | None":
        """What is left after a server refused this body with this message; None where nothing can be left out."""
        if self.limit == "max_tokens" and _LIMIT.search(message) and "max_completion_tokens" not in body:
            return replace(self, limit="max_completion_tokens")
        sent = [name for name in _NAMED if _was_sent(name, body)]
        named = [name for name in sent if _NAMED[name].search(message)]
        if not named and (_TOO_LONG.search(message) or not sent):
            return None
        gone: dict[str, Any] = {name: 0 if name == "logprobs" else False for name in named or sent[:1]}
        return replace(self, **gone)


@dataclass(frozen=True)
class LabelModel:
    """A model, its address, and its prices."""

    name: str
    base_url: str = OPENAI
    key_env: str | None = None
    price: Price = field(default_factory=Price)


@dataclass(frozen=True)
class AskPlan:
    prompt: Prompt
    models: tuple[LabelModel, ...]
    request: RequestOptions
    #: The fields to send first, before a server refuses any.
    features: ServerFeatures
    form: str
    aliases: Mapping[str, str]

    @property
    def classes(self) -> tuple[str, ...]:
        return tuple(each.name for each in self.prompt.classes)

    def settings(self) -> dict[str, Any]:
        """What may not change between two runs into one folder: the answers to two prompts would mix."""
        return {
            "classes": list(self.classes),
            "descriptions": [each.description for each in self.prompt.classes],
            "prompt": self.prompt.source,
            "examples": [[_plain(each.row), each.label] for each in self.prompt.examples],
            "models": [model.name for model in self.models],
            "votes": self.request.votes,
            "temperature": self.request.temperature,
            "structured": self.features.structured,
        }


#: How to name a change of settings whose values would fill a screen.
HINTS = {"prompt": "its text", "examples": "other rows", "descriptions": "other texts"}


def make_plan(classes: Sequence[str], options: AskOptions) -> AskPlan:
    names, descriptions = AnswerMatcher(classes, options.aliases).names, options.descriptions or {}
    if options.form not in FORMS:
        raise UnderstudyError(f"form={options.form!r} is unknown; use one of {', '.join(FORMS)}")
    for what, given in (("a description", descriptions), ("an example", [label for _, label in options.examples])):
        if unknown := [name for name in given if name not in names]:
            raise UnderstudyError(f"{what} is of {unknown[0]!r}, which is not among the classes ({', '.join(names)})")
    prompt = Prompt(
        default_prompt() if options.prompt is None else options.prompt,
        [Class(name, descriptions.get(name, "")) for name in names],
        [Example(row, label) for row, label in options.examples],
    )
    # With several votes the label is their shares, and log-probabilities of each are not used.
    wanted = min(20, max(5, len(names))) if options.logprobs is None else options.logprobs
    features = ServerFeatures(structured=options.structured, logprobs=0 if options.votes > 1 else wanted)
    form = "shares" if options.votes > 1 else options.form
    longest = max(len(name.encode()) for name in names)
    request = _request_options(options, longest)
    return AskPlan(prompt, _models(options), request, features, form, dict(options.aliases or {}))


def _request_options(options: AskOptions, longest: int) -> RequestOptions:
    """With defaults filled in; ``longest``: bytes of the longest class name."""
    votes, temperature = options.votes, options.temperature
    if temperature is None:
        temperature = 0.0 if votes == 1 else 1.0
    if votes > 1 and temperature == 0:
        raise UnderstudyError(f"votes={votes} at temperature 0 would be the same answer each time; use a temperature")
    tokens = max(32, 24 + longest) if options.max_tokens is None else options.max_tokens
    return RequestOptions(votes, temperature, tokens, options.retries)


def _models(options: AskOptions) -> tuple[LabelModel, ...]:
    names = [options.model] if isinstance(options.model, str) else list(options.model)
    if not names or len(set(names)) < len(names) or not all(name.strip() for name in names):
        raise UnderstudyError("name one model or several different ones; --votes asks one model several times")
    given = ("base_url", "key_env", "price_in", "price_out")
    spread = [_one_each(name, getattr(options, name), len(names)) for name in given]
    prices = [number for numbers in spread[2:] for number in numbers if number is not None]
    if not all(isfinite(number) and number >= 0 for number in prices):
        raise UnderstudyError(f"prices are amounts per million tokens, 0 or more; not {prices}")
    return tuple(
        LabelModel(name, address or OPENAI, key, Price(price or 0.0, other or 0.0))
        for name, address, key, price, other in zip(names, *spread, strict=True)
    )


def _one_each(name: str, given: Any, models: int) -> list[Any]:
    values = [given] if given is None or isinstance(given, str | int | float) else list(given) or [None]
    if len(values) not in (1, models):
        flag = name.replace("_", "-")
        raise UnderstudyError(f"--{flag} is given {len(values)} times for {models} models; give one, or one for each")
    return values * models if len(values) == 1 else values


def _plain(row: Row) -> Any:
    return row if isinstance(row, str) else {str(name): str(value) for name, value in row.items()}


def _was_sent(name: str, body: Mapping[str, Any]) -> bool:
    if name == "system":
        return any(message["role"] == "system" for message in body["messages"])
    return {"structured": "response_format", "several": "n"}.get(name, name) in body


def request_body(
    model: str, prompt: Prompt, options: RequestOptions, features: ServerFeatures, row: Row, choices: int
) -> dict[str, Any]:
    """The JSON body of one request about one row."""
    body: dict[str, Any] = {
        "model": model,
        "messages": prompt.messages(row, structured=features.structured, system=features.system),
        features.limit: options.max_tokens,
    }
    if features.temperature:
        body["temperature"] = options.temperature
    if choices > 1:
        body["n"] = choices
    if features.logprobs:
        body |= {"logprobs": True, "top_logprobs": features.logprobs}
    if features.structured:
        body["response_format"] = schema([each.name for each in prompt.classes])
    return body


def schema(names: list[str]) -> dict[str, Any]:
    """Answers constrained to an object with one entry, which is one of the names."""
    entry = {"type": "string", "enum": names}
    shape = {"type": "object", "properties": {FIELD: entry}, "required": [FIELD], "additionalProperties": False}
    return {"type": "json_schema", "json_schema": {"name": "answer", "strict": True, "schema": shape}}


def estimated_tokens(messages: Iterable[Mapping[str, str]]) -> int:
    """About four letters a token in ASCII text, about one elsewhere."""
    count = 3
    for message in messages:
        text = message["content"]
        plain = sum(letter.isascii() for letter in text) if not text.isascii() else len(text)
        count += 4 + ceil(plain / 4) + len(text) - plain
    return count


def most_tokens(messages: Iterable[Mapping[str, str]], *, extra: int = 0) -> int:
    """An upper bound: no token is shorter than a byte. ``extra``: bytes a server may add (a schema)."""
    return _PER_REQUEST + extra + sum(_PER_MESSAGE + len(message["content"].encode()) for message in messages)
