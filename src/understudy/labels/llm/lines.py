"""One line of a JSONL file of answers: who was asked (the id) and what was said, or why there is nothing to use.

Known shapes: batch outputs in the OpenAI style (``custom_id``, ``response.body``) of chat completions and of
``/v1/responses``, such a body by itself beside an id, and plain ``{"id": …, "answer": …, "logprobs": …}``.
"""

import json
from dataclasses import dataclass
from typing import Any

from understudy.labels.llm import report

# Batch outputs stay far below; a longer line is not read into memory as a whole.
LONGEST_LINE = 1 << 24
_LONGEST_ID = 1000


@dataclass(frozen=True, slots=True)
class Said:
    """``cut``: the answer hit the token limit. ``tokens``: as the service gave them, not yet looked at."""

    id: str | int
    text: str
    cut: bool = False
    tokens: Any = None


@dataclass(frozen=True, slots=True)
class Unusable:
    category: str
    detail: str


def read_line(line: bytes) -> Said | Unusable:
    if len(line) > LONGEST_LINE:
        return Unusable(report.MALFORMED, f"longer than {LONGEST_LINE >> 20} MiB")
    if not line.strip():
        return Unusable(report.BLANK, "")
    try:
        entry = json.loads(line)
        if not isinstance(entry, dict):
            return Unusable(report.MALFORMED, f"not an object: {_text(line)}")
        return _entry(entry)
    except _WrongShapeError as error:
        return Unusable(report.MALFORMED, str(error))
    # Deep nesting ends the parser's recursion; digits by the thousand are a ValueError, as is invalid UTF-8.
    except (ValueError, RecursionError):
        return Unusable(report.MALFORMED, f"not JSON: {_text(line)}")


class _WrongShapeError(Exception):
    """Valid JSON of no known shape."""


def _entry(entry: dict[str, Any]) -> Said | Unusable:
    name = _id(entry)
    if entry.get("error"):
        return Unusable(report.ERROR, _message(entry["error"]))
    body: Any = entry
    if entry.get("response") is not None:
        response = _dict(entry["response"], "response")
        status = response.get("status_code", 200)
        if status != 200:
            return Unusable(report.ERROR, f"status {status}: {_message(response.get('body'))}")
        body = _dict(response.get("body"), "response.body")
        if body.get("error"):
            return Unusable(report.ERROR, _message(body["error"]))
    if "choices" in body:
        return _chat(name, body)
    if "output" in body:
        return _responses(name, body)
    if "answer" in entry:
        return Said(name, _scalar(entry["answer"]), entry.get("finish_reason") == "length", _content(entry))
    raise _WrongShapeError("no answer in it: neither 'response', 'choices', 'output' nor 'answer'")


def _id(entry: dict[str, Any]) -> str | int:
    name = entry.get("custom_id")
    name = entry.get("id") if name is None else name
    if isinstance(name, str) and 0 < len(name) <= _LONGEST_ID and name.isprintable():
        return name
    if isinstance(name, int) and not isinstance(name, bool):
        return name
    raise _WrongShapeError("no usable 'custom_id' or 'id' (text without control characters, or a whole number)")


def _chat(name: str | int, body: dict[str, Any]) -> Said | Unusable:
    choices = body["choices"]
    if not isinstance(choices, list) or len(choices) != 1:
        raise _WrongShapeError("not exactly one choice; ask with n=1")
    choice = _dict(choices[0], "choices[0]")
    message = _dict(choice.get("message"), "message")
    if message.get("refusal"):
        return Unusable(report.REFUSED, _message(message["refusal"]))
    if choice.get("finish_reason") == "content_filter":
        return Unusable(report.REFUSED, "content filter")
    text = _parts(message.get("content"))
    calls = message.get("tool_calls")
    if not text and isinstance(calls, list) and len(calls) == 1:
        called = _dict(_dict(calls[0], "tool_calls[0]").get("function"), "function")
        return Said(name, _scalar(called.get("arguments")), choice.get("finish_reason") == "length")
    return Said(name, text, choice.get("finish_reason") == "length", _content(choice))


def _responses(name: str | int, body: dict[str, Any]) -> Said | Unusable:
    if body.get("status") in ("failed", "cancelled"):
        return Unusable(report.ERROR, f"status {body['status']}")
    details = body.get("incomplete_details")
    reason = details.get("reason") if isinstance(details, dict) else None
    if reason == "content_filter":
        return Unusable(report.REFUSED, "content filter")
    if not isinstance(body["output"], list):
        raise _WrongShapeError("'output' is not a list")
    parts: list[dict[str, Any]] = []
    for item in body["output"]:
        inner = _dict(item, "output[]").get("content") if _dict(item, "output[]").get("type") == "message" else None
        parts += [_dict(part, "content[]") for part in inner] if isinstance(inner, list) else []
    refusals = [part["refusal"] for part in parts if part.get("refusal")]
    if refusals:
        return Unusable(report.REFUSED, _message(refusals[0]))
    said = [part for part in parts if isinstance(part.get("text"), str)]
    tokens = [part.get("logprobs") for part in said]
    complete = bool(tokens) and all(isinstance(some, list) and some for some in tokens)
    return Said(
        name,
        "".join(part["text"] for part in said),
        cut=reason is not None or body.get("status") == "incomplete",
        tokens=[token for some in tokens for token in some] if complete else None,  # type: ignore[union-attr]
    )


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
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if isinstance(value, bool | int | float):
        return json.dumps(value)
    raise _WrongShapeError("the answer is neither text nor a number")


def _dict(value: Any, what: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise _WrongShapeError(f"{what} is not an object")
    return value


def _message(error: Any) -> str:
    """The text of an error or a refusal, wherever it is."""
    for _ in range(3):
        if isinstance(error, dict):
            error = error.get("message") or error.get("error") or error.get("code") or "no message"
    return error[:500] if isinstance(error, str) else str(error)[:500]


def _text(line: bytes) -> str:
    return line[:200].strip().decode(errors="replace")
