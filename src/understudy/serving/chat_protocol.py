"""OpenAI's chat completions for a classifier: the row is in the last message of the user, the answer is its class.

The message's content is the row: a text; or that text between the tags that ``understudy ask`` puts around it; or,
where a pattern is given, the part of it that the pattern's group matches (named groups: columns); or a JSON object of
columns, where a row has several. Other messages, the model's name and sampling options are ignored.

A request for JSON (``response_format``) is answered by an object whose entry is the schema's, or ``label``.
"""

import json
import re
import secrets
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

_TAG = re.compile(r"<(text(?:-\d+)?)>\n")
MOST_CHOICES = 16


def row_in(body: Mapping[str, Any], names: Sequence[str], pattern: re.Pattern[str] | None) -> Any:
    """The row of a request; raises ValueError where there is none."""
    messages = body.get("messages")
    if not isinstance(messages, list) or not all(isinstance(each, dict) for each in messages):
        raise ValueError("'messages' is a list of objects")
    content = next((each.get("content") for each in reversed(messages) if each.get("role") == "user"), None)
    if isinstance(content, list):
        parts = [part["text"] for part in content if isinstance(part, dict) and isinstance(part.get("text"), str)]
        content = "\n".join(parts) if len(parts) == len(content) else None
    if not isinstance(content, str):
        raise ValueError("the last message of the role 'user' holds the row, as text; there is none")
    if pattern is not None:
        found = pattern.search(content)
        if found is None:
            raise ValueError("the user's message does not match the server's --pattern")
        return found.groupdict() or found[1]
    if (tag := _TAG.match(content.strip())) and content.strip().endswith(f"\n</{tag[1]}>"):
        return content.strip()[tag.end() : -len(f"\n</{tag[1]}>")]
    if len(names) == 1:
        return content
    row = json.loads(content) if content.lstrip().startswith("{") else None
    if not isinstance(row, dict):
        raise ValueError(f"a row has the columns {', '.join(names)}; write them as a JSON object in the message")
    return row


def completion(body: Mapping[str, Any], label: str, model: str, version: str, more: Any) -> dict[str, Any]:
    """The response to a request. ``more``: what a client of this server may want to know beside."""
    content, count = _content(body, label), body.get("n") or 1
    if not isinstance(count, int) or not 1 <= count <= MOST_CHOICES:
        raise ValueError(f"'n' is a number from 1 to {MOST_CHOICES}")
    message = {"role": "assistant", "content": content, "refusal": None}
    choices = [{"index": n, "message": message, "logprobs": None, "finish_reason": "stop"} for n in range(count)]
    # About four letters a token: there is no tokenizer here, and nothing is charged.
    tokens = len(json.dumps(body["messages"], ensure_ascii=False)) // 4, -(-len(content) // 4) * count
    usage = {"prompt_tokens": tokens[0], "completion_tokens": tokens[1], "total_tokens": sum(tokens)}
    return {
        "id": f"chatcmpl-{secrets.token_hex(12)}",
        "object": "chat.completion",
        "created": int(time.time()),
        "model": model,
        "system_fingerprint": version,
        "choices": choices,
        "usage": usage,
        "understudy": more,
    }


def events(body: Mapping[str, Any], whole: Mapping[str, Any]) -> Iterator[bytes]:
    """A completion as server-sent events: the role, the content, the end, and the usage where it is wanted."""
    common = {name: whole[name] for name in ("id", "created", "model", "system_fingerprint")}
    options = body.get("stream_options")
    wants_usage = isinstance(options, dict) and options.get("include_usage") is True

    def event(**more: Any) -> bytes:
        empty = {"usage": None} if wants_usage else {}
        return f"data: {json.dumps({**common, 'object': 'chat.completion.chunk', **empty, **more})}\n\n".encode()

    for choice in whole["choices"]:
        steps: list[tuple[dict[str, Any], str | None]] = [
            ({"role": "assistant", "content": ""}, None),
            ({"content": choice["message"]["content"]}, None),
            ({}, "stop"),
        ]
        for delta, end in steps:
            part = {"index": choice["index"], "delta": delta, "logprobs": None, "finish_reason": end}
            yield event(choices=[part], **({"understudy": whole["understudy"]} if end else {}))
    if wants_usage:
        yield event(choices=[], usage=whole["usage"])
    yield b"data: [DONE]\n\n"


def _content(body: Mapping[str, Any], label: str) -> str:
    wanted = body.get("response_format")
    kind = wanted.get("type") if isinstance(wanted, dict) else None
    if kind not in ("json_schema", "json_object"):
        return label
    properties: Any = wanted
    for name in ("json_schema", "schema", "properties"):
        properties = properties.get(name) if isinstance(properties, dict) else None
    entries = properties if isinstance(properties, dict) and properties else {"label": {}}
    listed = [name for name, each in entries.items() if isinstance(each, dict) and label in (each.get("enum") or ())]
    return json.dumps({(listed or list(entries))[0]: label}, ensure_ascii=False)
