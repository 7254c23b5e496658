"""Requests to chat-completions servers: the prompt, the plan (which models, which prompt), a body and its tokens.

    prompt = Prompt(DEFAULT, ["neg", "pos"], {"pos": "praise of any kind"}, examples=[("fine!", "pos")])
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
from dataclasses import dataclass, replace
from functools import lru_cache
from math import ceil, isfinite
from pathlib import Path
from typing import Any, NamedTuple

from jinja2 import StrictUndefined, TemplateError, meta
from jinja2.sandbox import ImmutableSandboxedEnvironment

from understudy.errors import UnderstudyError, first_line
from understudy.labels import ANSWER_FORMS
from understudy.labels.answer_matching import AnswerMatcher
from understudy.llm.ask_options import AskOptions
from understudy.llm.ledger import Price

Row = str | Mapping[str, Any]
Message = dict[str, str]
#: The entry of a structured answer that names the class.
FIELD = "label"


class Prompt:
    """``examples``: rows and the labels that are shown with them."""

    def __init__(
        self, source: str, classes: Sequence[str], descriptions: Mapping[str, str] | None = None,
        examples: Sequence[tuple[Row, str]] = (),
    ) -> None:  # fmt: skip
        self.classes, self.examples = tuple(classes), tuple(examples)
        self._described = [{"name": name, "description": (descriptions or {}).get(name, "")} for name in classes]
        environment = ImmutableSandboxedEnvironment(undefined=StrictUndefined, autoescape=False, trim_blocks=True)
        environment.filters["delimited"] = delimited
        try:
            self._template = environment.from_string(source)
            named = meta.find_undeclared_variables(environment.parse(source))
        except TemplateError as error:
            raise UnderstudyError(f"the prompt is not a Jinja template ({first_line(error)}); correct it") from error
        blocks = set(self._template.blocks)
        if not blocks <= {"system", "user"} or blocks == {"system"}:
            raise UnderstudyError(f"the prompt has blocks {', '.join(sorted(blocks))}; write system and user, or none")
        if not named & {"text", "row"}:
            raise UnderstudyError("the prompt does not show the row; write {{ text | delimited }} where it belongs")
        self._start = lru_cache(2)(self._start_of)
        self._start(True)  # a mistake shows before anything is paid for

    def messages(self, row: Row, *, structured: bool, system: bool = True) -> list[Message]:
        """``system``: whether the server accepts that role; else its text is put before the first message."""
        messages = [*self._start(structured), _turn("user", self._user(row, structured))]
        if not system and messages[0]["role"] == "system":
            instructions, first, *rest = messages
            messages = [_turn("user", f"{instructions['content']}\n\n{first['content']}"), *rest]
        return messages

    def _start_of(self, structured: bool) -> list[Message]:
        """What comes before the row, the same for all rows."""
        # Without the row: a template that wants it here is refused.
        start = [_turn("system", self._render("system", structured))] if "system" in self._template.blocks else []
        for row, label in self.examples:
            answer = json.dumps({FIELD: label}, ensure_ascii=False) if structured else label
            start += [_turn("user", self._user(row, structured)), _turn("assistant", answer)]
        return start

    def _user(self, row: Row, structured: bool) -> str:
        values = {"text": row} if isinstance(row, str) else {"row": row, "text": row.get("text", StrictUndefined())}
        return self._render("user", structured, **values)

    def _render(self, block: str, structured: bool, **row: Any) -> str:
        values = {"classes": self._described, "structured": structured, **row}
        try:
            if block not in self._template.blocks:
                return self._template.render(values).strip()
            return "".join(self._template.blocks[block](self._template.new_context(values))).strip()
        except (TemplateError, TypeError, ValueError, KeyError, ArithmeticError) as error:
            cure = "rows belong into the block user" if block == "system" else "check the names in it"
            raise UnderstudyError(f"the prompt, block {block}: {first_line(error)}; {cure}") from error


def _turn(role: str, content: str) -> Message:
    """Half a surrogate pair cannot be sent; it becomes the sign for an unknown letter."""
    return {"role": role, "content": content.encode("utf-16", "surrogatepass").decode("utf-16", "replace")}


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
        fields = {*body, *(message["role"] for message in body["messages"])}
        sent = [name for name in _NAMED if {"structured": "response_format", "several": "n"}.get(name, name) in fields]
        named = [name for name in sent if _NAMED[name].search(message)]
        if not named and (_TOO_LONG.search(message) or not sent):
            return None
        gone: dict[str, Any] = {name: 0 if name == "logprobs" else False for name in named or sent[:1]}
        return replace(self, **gone)


class LabelModel(NamedTuple):
    """A model, its address, and its prices."""

    name: str
    base_url: str
    key_env: str | None
    price: Price

    def __str__(self) -> str:
        return f"{self.name} at {self.base_url}"


class AskPlan(NamedTuple):
    prompt: Prompt
    models: tuple[LabelModel, ...]
    #: With defaults filled in.
    options: AskOptions
    #: The fields to send first, before a server refuses any.
    features: ServerFeatures
    #: Of an answer.
    max_tokens: int

    def settings(self) -> dict[str, Any]:
        """What may not change between two runs into one folder: the answers to two prompts would mix."""
        return {"classes": self.prompt.classes, **{name: getattr(self.options, name) for name in _SETTINGS}}


_SETTINGS = ("prompt", "descriptions", "examples", "model", "votes", "temperature", "structured")
#: How to name a change of settings whose values would fill a screen.
HINTS = {"prompt": "its text", "examples": "other rows", "descriptions": "other texts"}


def make_plan(classes: Sequence[str], options: AskOptions) -> AskPlan:
    names, votes, temperature = AnswerMatcher(classes, options.aliases).names, options.votes, options.temperature
    if options.form not in ANSWER_FORMS:
        raise UnderstudyError(f"form={options.form!r} is unknown; use one of {', '.join(ANSWER_FORMS)}")
    shown = [label for _, label in options.examples]
    for what, given in (("a description", options.descriptions or ()), ("an example", shown)):
        if unknown := [name for name in given if name not in names]:
            raise UnderstudyError(f"{what} is of {unknown[0]!r}, which is not among the classes ({', '.join(names)})")
    if votes > 1 and temperature == 0:
        raise UnderstudyError(f"votes={votes} at temperature 0 would be the same answer each time; use a temperature")
    models = _models(options)
    options = replace(
        options,
        model=[model.name for model in models],
        prompt=default_prompt() if options.prompt is None else options.prompt,
        temperature=float(votes > 1) if temperature is None else temperature,
        form="shares" if votes > 1 else options.form,
    )
    # With several votes the label is their shares, and log-probabilities of each are not used.
    wanted = min(20, max(5, len(names))) if options.logprobs is None else options.logprobs
    features = ServerFeatures(structured=options.structured, logprobs=0 if votes > 1 else wanted)
    prompt = Prompt(str(options.prompt), names, options.descriptions, options.examples)
    most = options.max_tokens or max(32, 24 + max(len(name.encode()) for name in names))
    return AskPlan(prompt, models, options, features, most)


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
        LabelModel(name, (address or OPENAI).rstrip("/"), key, Price(price or 0.0, other or 0.0))
        for name, address, key, price, other in zip(names, *spread, strict=True)
    )


def _one_each(name: str, given: Any, models: int) -> list[Any]:
    values = [given] if given is None or isinstance(given, str | int | float) else list(given) or [None]
    if len(values) not in (1, models):
        flag = name.replace("_", "-")
        raise UnderstudyError(f"--{flag} is given {len(values)} times for {models} models; give one, or one for each")
    return values * models if len(values) == 1 else values


def request_body(plan: AskPlan, model: str, features: ServerFeatures, row: Row, choices: int) -> dict[str, Any]:
    """The JSON body of one request about one row."""
    body: dict[str, Any] = {
        "model": model,
        "messages": plan.prompt.messages(row, structured=features.structured, system=features.system),
        features.limit: plan.max_tokens,
    }
    if features.temperature:
        body["temperature"] = plan.options.temperature
    if choices > 1:
        body["n"] = choices
    if features.logprobs:
        body |= {"logprobs": True, "top_logprobs": features.logprobs}
    if features.structured:
        body["response_format"] = schema(plan.prompt.classes)
    return body


def schema(names: Sequence[str]) -> dict[str, Any]:
    """Answers constrained to an object with one entry, which is one of the names."""
    entry = {"type": "string", "enum": list(names)}
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
