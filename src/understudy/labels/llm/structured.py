"""Answers that are JSON themselves, such as ``{"reason": "…", "label": "pos"}``: the part that names the class.

answer_in('{"label": "pos"}')              # ("pos", 11): the value, and where it stands in the text
"""

import json
import re
from typing import Any

# Looked for in this order where an object has several entries and the user named none.
_USUAL = ("label", "class", "category", "answer", "prediction", "classification", "result")
_FENCE = re.compile(r"\s*```[a-z]*\s*(\{.*\})\s*```\s*", re.DOTALL | re.IGNORECASE)
_DEEPEST = 3


def answer_in(text: str, field: str | None = None) -> tuple[str, int | None]:
    """The value and its place (None where it cannot be told); the text itself where it is no JSON object.

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
            key = _key(value, field)
            value = value.get(key)
        elif isinstance(value, list) and len(value) == 1:
            value = value[0]
    if isinstance(value, bool | int | float):
        value = json.dumps(value)
    if not isinstance(value, str) or key is None:
        return "" if value is None else "(several values)", None
    return value, _place(text, key, value)


def _key(entries: dict[str, Any], field: str | None) -> str | None:
    if field is not None and (field in entries or len(entries) != 1):
        return field
    if len(entries) == 1:
        return next(iter(entries))
    usual = [name for name in _USUAL if name in entries]
    texts = [name for name, value in entries.items() if isinstance(value, str)]
    return usual[0] if usual else texts[0] if len(texts) == 1 else None


def _place(text: str, key: str, value: str) -> int | None:
    """Where the value starts, if it is written there letter by letter (without escapes)."""
    for found in re.finditer(re.escape(json.dumps(key, ensure_ascii=False)) + r'\s*:\s*\[?\s*"?', text):
        if text.startswith(value, found.end()):
            return found.end()
    return None
