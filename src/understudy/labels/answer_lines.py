"""One line of a JSONL file of answers: the id of the row and the answers, or why there is none to use.

Known shapes: batch outputs in the OpenAI style (``custom_id``, ``response.body``) of chat completions and of
``/v1/responses``, such a body by itself beside an id, and plain ``{"id": …, "answer": …, "logprobs": …}``.
Answers may be JSON themselves, such as ``{"reason": "…", "label": "pos"}``; ``answer_in`` finds the part that names the
class.
"""

import json
import re
from dataclasses import dataclass
from typing import Any

from understudy.labels import answer_matching
from understudy.labels.answer_matching import AnswerMatcher, Match

# Batch outputs stay far below; a longer line is not read into memory as a whole.
LONGEST_LINE = 1 << 24
_LONGEST_ID = 1000
# Tried in this order where an object has several entries and the user named none.
_USUAL = ("label", "class", "category", "answer", "prediction", "classification", "result")
_FENCE = re.compile(r"\s*```[a-z]*\s*(\{.*\})\s*```\s*", re.DOTALL | re.IGNORECASE)
_DEEPEST = 3


@dataclass(frozen=True, slots=True)
class Reply:
    """One answer. ``cut``: it hit the token limit. ``tokens``: unchecked, as the service returned them."""

    id: str | int
    text: str
    cut: bool = False
    tokens: Any = None


class UnusableError(Exception):
    """A line without an answer to use: of no known shape, or of the category given."""

    def __init__(self, detail: str, category: str = answer_matching.MALFORMED) -> None:
        self.category, self.detail = category, detail


def read_line(line: bytes) -> "list[Reply | UnusableError]":
    """The replies in a line: one, or one for each of several choices (``n=5``)."""
    if len(line) > LONGEST_LINE:
        raise UnusableError(f"longer than {LONGEST_LINE >> 20} MiB")
    if not line.strip():
        raise UnusableError("", answer_matching.BLANK)
    start = line[:200].strip().decode(errors="replace")
    try:
        entry = json.loads(line)
    # Deep nesting ends the parser's recursion; digits by the thousand are a ValueError, as is invalid UTF-8.
    except (ValueError, RecursionError):
        raise UnusableError(f"not JSON: {start}") from None
    if not isinstance(entry, dict):
        raise UnusableError(f"not an object: {start}")
    return replies_in(entry)


def replies_in(entry: dict[str, Any]) -> "list[Reply | UnusableError]":
    """The replies in a line that was read."""
    name = _id(entry)
    if entry.get("error"):
        raise UnusableError(_message(entry["error"]), answer_matching.ERROR)
    body: Any = entry
    if entry.get("response") is not None:
        response = _dict(entry["response"], "response")
        status = response.get("status_code", 200)
        if status != 200:
            raise UnusableError(f"status {status}: {_message(response.get('body'))}", answer_matching.ERROR)
        body = _dict(response.get("body"), "response.body")
        if body.get("error"):
            raise UnusableError(_message(body["error"]), answer_matching.ERROR)
    if "choices" in body:
        return _chat(name, body)
    if "output" in body:
        return [_responses(name, body)]
    if "answer" in entry:
        return [Reply(name, _scalar(entry["answer"]), entry.get("finish_reason") == "length", _content(entry))]
    raise UnusableError("no answer in it: neither 'response', 'choices', 'output' nor 'answer'")


def _id(entry: dict[str, Any]) -> str | int:
    name = entry.get("custom_id")
    name = entry.get("id") if name is None else name
    if isinstance(name, str) and 0 < len(name) <= _LONGEST_ID and name.isprintable():
        return name
    if isinstance(name, int) and not isinstance(name, bool):
        return name
    raise UnusableError("no usable 'custom_id' or 'id' (text without control characters, or a whole number)")


def _chat(name: str | int, body: dict[str, Any]) -> "list[Reply | UnusableError]":
    choices = body["choices"]
    if not isinstance(choices, list) or not choices:
        raise UnusableError("no choice in it")
    replies: list[Reply | UnusableError] = []
    for choice in choices:
        try:
            replies.append(_choice(name, _dict(choice, "choices[]")))
        except UnusableError as error:  # of this one; the others count
            replies.append(error)
    return replies


def _choice(name: str | int, choice: dict[str, Any]) -> Reply:
    message = _dict(choice.get("message"), "message")
    if message.get("refusal"):
        raise UnusableError(_message(message["refusal"]), answer_matching.REFUSED)
    if choice.get("finish_reason") == "content_filter":
        raise UnusableError("content filter", answer_matching.REFUSED)
    text = _parts(message.get("content"))
    calls = message.get("tool_calls")
    if not text and isinstance(calls, list) and len(calls) == 1:
        called = _dict(_dict(calls[0], "tool_calls[0]").get("function"), "function")
        return Reply(name, _scalar(called.get("arguments")), choice.get("finish_reason") == "length")
    return Reply(name, text, choice.get("finish_reason") == "length", _content(choice))


def _responses(name: str | int, body: dict[str, Any]) -> Reply:
    if body.get("status") in ("failed", "cancelled"):
        raise UnusableError(f"status {body['status']}", answer_matching.ERROR)
    details = body.get("incomplete_details")
    reason = details.get("reason") if isinstance(details, dict) else None
    if reason == "content_filter":
        raise UnusableError("content filter", answer_matching.REFUSED)
    if not isinstance(body["output"], list):
        raise UnusableError("'output' is not a list")
    parts: list[dict[str, Any]] = []
    for item in body["output"]:
        inner = _dict(item, "output[]").get("content") if _dict(item, "output[]").get("type") == "message" else None
        parts += [_dict(part, "content[]") for part in inner] if isinstance(inner, list) else []
    refusals = [part["refusal"] for part in parts if part.get("refusal")]
    if refusals:
        raise UnusableError(_message(refusals[0]), answer_matching.REFUSED)
    texts = [part for part in parts if isinstance(part.get("text"), str)]
    tokens: list[Any] = [part.get("logprobs") for part in texts]
    complete = bool(tokens) and all(isinstance(some, list) and some for some in tokens)
    cut = reason is not None or body.get("status") == "incomplete"
    joined = [token for some in tokens for token in some] if complete else None
    return Reply(name, "".join(part["text"] for part in texts), cut, joined)


def _content(holder: dict[str, Any]) -> Any:
    """``logprobs.content``, or ``logprobs`` where it is the list itself."""
    given = holder.get("logprobs")
    return given.get("content") if isinstance(given, dict) else given


def _parts(content: Any) -> str:
    """A message's content is text, nothing, or a list of parts with text."""
    if isinstance(content, list):
        return "".join(_scalar(_dict(part, "content[]").get("text")) for part in content)
    return _scalar(content)


def _scalar(value: Any) -> str:
    if value is None or isinstance(value, str):
        return value or ""
    if isinstance(value, bool | int | float):
        return json.dumps(value)
    raise UnusableError("the answer is neither text nor a number")


def _dict(value: Any, what: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise UnusableError(f"{what} is not an object")
    return value


def _message(error: Any) -> str:
    """The text of an error or a refusal, wherever it is."""
    for _ in range(3):
        if isinstance(error, dict):
            error = error.get("message") or error.get("error") or error.get("code") or "no message"
    return error[:500] if isinstance(error, str) else str(error)[:500]


def class_in(reply: Reply, matcher: AnswerMatcher, field: str | None = None) -> tuple[Match, int | None]:
    """The class that a reply names, and where in its text the answer starts (None: unknown)."""
    value, start = (reply.text, 0) if field is None and "{" not in reply.text else answer_in(reply.text, field)
    # A JSON object that closes holds its whole name.
    return matcher(value, cut=reply.cut and value == reply.text), start


def answer_in(text: str, field: str | None = None) -> tuple[str, int | None]:
    """The value and where it starts (None: unknown); the text itself where it is not a JSON object.

    ``field``: the entry that holds the class. Without it: the only entry, one of the usual names, or the only text.
    """
    fenced = _FENCE.fullmatch(text) if text.lstrip().startswith("```") else None
    inner = fenced[1] if fenced else text
    if not inner.lstrip().startswith("{"):
        return text, 0
    try:
        value: Any = json.loads(inner)
    except (ValueError, RecursionError):
        return text, 0
    key = None
    for _ in range(_DEEPEST):
        if isinstance(value, dict):
            key = _entry_of(value, field)
            value = value.get(key)
        elif isinstance(value, list) and len(value) == 1:
            value = value[0]
    if isinstance(value, bool | int | float):
        value = json.dumps(value)
    if not isinstance(value, str) or key is None:
        return "" if value is None else "(several values)", None
    return value, _start_of(text, key, value)


def _entry_of(entries: dict[str, Any], field: str | None) -> str | None:
    if field is not None and (field in entries or len(entries) != 1):
        return field
    if len(entries) == 1:
        return next(iter(entries))
    usual = [name for name in _USUAL if name in entries]
    texts = [name for name, value in entries.items() if isinstance(value, str)]
    return usual[0] if usual else texts[0] if len(texts) == 1 else None


def _start_of(text: str, key: str, value: str) -> int | None:
    """Where the value starts, if it is written there letter by letter (without escapes)."""
    for start in re.finditer(re.escape(json.dumps(key, ensure_ascii=False)) + r'\s*:\s*\[?\s*"?', text):
        if text.startswith(value, start.end()):
            return start.end()
    return None
