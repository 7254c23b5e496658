"""How many tokens a request takes: a guess for plans, and a bound for budgets. No tokenizer is asked."""

from collections.abc import Iterable, Mapping
from math import ceil

# What a chat template may put around a message, and around all of them.
_PER_MESSAGE, _PER_REQUEST = 16, 32


def guessed(messages: Iterable[Mapping[str, str]]) -> int:
    """About four letters a token in plain text, about one elsewhere."""
    count = 3
    for message in messages:
        text = message["content"]
        plain = sum(letter.isascii() for letter in text) if not text.isascii() else len(text)
        count += 4 + ceil(plain / 4) + len(text) - plain
    return count


def at_most(messages: Iterable[Mapping[str, str]], *, beside: int = 0) -> int:
    """No token is shorter than a byte. ``beside``: bytes a server may put before the messages (a schema)."""
    return _PER_REQUEST + beside + sum(_PER_MESSAGE + len(message["content"].encode()) for message in messages)
