"""Passages of a text that a reader's eye should find: words that were named, or those the file has for each row.

    marked("It was good.", words=["good"])            # [["It was ", False], ["good", True], [".", False]]

A file's column ``highlights`` holds, for each row, words or phrases (a list, or one text with ``|`` between them), or
pairs of places in the text (``[[7, 11]]``: from the first character to before the second, counted from 0).
"""

import re
from collections.abc import Sequence
from typing import Any

from understudy.errors import UnderstudyError

Marked = list[tuple[str, bool]]


def marked(text: str, words: Sequence[str] = (), given: Any = None, where: str = "highlights") -> Marked:
    """The text in pieces, and which of them are marked; together they are the text."""
    phrases, spans = _read(given, len(text), where)
    wanted = sorted({*words, *phrases} - {""}, key=len, reverse=True)
    if wanted:
        # A word is found as a word: "art" is not in "start". Phrases that begin or end in signs have no such border.
        pattern = "|".join(rf"{_edge(phrase[0])}{re.escape(phrase)}{_edge(phrase[-1])}" for phrase in wanted)
        spans += [found.span() for found in re.finditer(pattern, text, re.IGNORECASE)]
    pieces: Marked = []
    end = 0
    for start, stop in _merged(spans):
        pieces += [(text[end:start], False), (text[start:stop], True)]
        end = stop
    pieces.append((text[end:], False))
    return [piece for piece in pieces if piece[0]] or [("", False)]


def _edge(sign: str) -> str:
    return r"\b" if re.match(r"\w", sign) else ""


def _read(given: Any, length: int, where: str) -> tuple[list[str], list[tuple[int, int]]]:
    if given is None or isinstance(given, float):  # an empty cell
        return [], []
    if isinstance(given, str):
        return [phrase.strip() for phrase in given.split("|")], []
    items = given.tolist() if hasattr(given, "tolist") else list(given)
    if all(isinstance(item, str) for item in items):
        return items, []
    spans: list[tuple[int, int]] = []
    for item in items:
        pair = item.tolist() if hasattr(item, "tolist") else item
        if not (isinstance(pair, list | tuple) and len(pair) == 2 and all(isinstance(place, int) for place in pair)):
            raise UnderstudyError(f"{where} holds {item!r}; write words, or pairs of places like [7, 11]")
        if not 0 <= pair[0] <= pair[1] <= length:
            raise UnderstudyError(f"{where} marks {pair[0]} to {pair[1]} of a text of {length} characters; correct it")
        spans.append((pair[0], pair[1]))
    return [], spans


def _merged(spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    merged: list[tuple[int, int]] = []
    for start, stop in sorted(span for span in spans if span[0] < span[1]):
        if merged and start <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(stop, merged[-1][1])
        else:
            merged.append((start, stop))
    return merged
