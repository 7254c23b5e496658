"""The prompt: a Jinja template that makes the messages of one request, about one row.

    prompt = Prompt(DEFAULT, [Class("neg"), Class("pos", "praise of any kind")], examples=[Example("fine!", "pos")])
    prompt.messages("It broke.", structured=True)        # system, the examples as turns, then the row

A template has a block ``system``, rendered once from ``classes`` and ``structured``, and a block ``user``, rendered for
each row and each example from ``text`` (or ``row``, a row's columns by name) as well. A row is thus never among the
instructions, nor in the prompt of another row. ``delimited`` puts tags around a text that do not occur in it.
A template without blocks is the user's message. Templates run in Jinja's sandbox; a name that is not there is an error.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from jinja2 import StrictUndefined, TemplateError, meta
from jinja2.sandbox import ImmutableSandboxedEnvironment

from understudy.errors import UnderstudyError, first_line

Row = str | Mapping[str, Any]
Message = dict[str, str]
FIELD = "label"
"""The entry of a structured answer that names the class."""


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
