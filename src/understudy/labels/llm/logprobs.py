"""Token log-probabilities as class probabilities, with an explicit tail.

*Reading.* Begin at the token in which the answer names its class. Every alternative listed there (and the token itself)
is put behind what was written of the name so far, and belongs to a class if that class alone still fits: the text is
the beginning of its name (" Pos", "pos"), or its name and then something that is no letter or digit ("positive."). Its
probability is added to that class. If the token that was written fits several classes ("ne" of negative and neutral),
the reading goes on with the next token, all probabilities there times that of the path so far; otherwise it ends. An
answer that ends while a longer name was still possible ("spam" of "spam" and "spam advert") gives the path to the class
it named. Alternatives that fit no class, or several and were not written, and whatever was not listed, are the tail:
1 − Σ masses. Words before the name ("The answer is") are a condition: their own probabilities do not enter.

*An example*, classes negative, neutral, positive. First token "ne" 0.6; listed besides: " pos" 0.2, "Pos" 0.1, "The"
0.04. "ne" fits two classes and was written: go on. Next token "gative" 0.75, listed besides: "utral" 0.2, "ws" 0.03.

    positive 0.2 + 0.1 = 0.3     negative 0.6 · 0.75 = 0.45     neutral 0.6 · 0.2 = 0.12     tail 0.13

*From masses to a label* (``spread``). The tail is what the classes that were not seen share, but none of them can have
more than the least class that was; what is left over belongs to no class and is divided out. With m the masses seen, u
the number of classes not seen: t = min(1 − Σ m, u · min m), everything divided by Σ m + t. All classes seen (as above):
u = 0, so 0.3, 0.45 and 0.12 are divided by 0.87.
"""

import re
import unicodedata
from collections.abc import Mapping
from functools import lru_cache
from math import exp
from typing import Any

import numpy as np

from understudy.labels.llm.answer_matching import JUNK
from understudy.store.arrow import Array

# Log-probabilities come rounded.
_OVER_ONE = 1e-3
_CACHE = 1 << 17
_CACHED_LENGTH = 100
_NONE, _SEVERAL = -1, -2
_GAP = re.compile(r"(?<=\w)[\s_-]+")
_WORD = re.compile(r"[^\W_]")


class TokenReader:
    """``surfaces``: names and aliases with their class numbers."""

    def __init__(self, surfaces: Mapping[str, int]) -> None:
        self._names = [(_key(name), number) for name, number in surfaces.items()]
        self._cached = lru_cache(_CACHE)(self._class_of)

    def masses(self, tokens: Any, text: str, start: int, label: int) -> dict[int, float] | None:
        """Probability seen per class; None where the log-probabilities are absent, broken or of another text."""
        begun = _begin(tokens, text, start)
        if begun is None:
            return None
        first, lead = begun
        masses: dict[int, float] = {}
        so_far, path = "", 1.0
        for entry in tokens[first:]:
            alternatives = _alternatives(entry)
            if alternatives is None:
                return None
            written, onward = entry["token"], 0.0
            for token, chance in alternatives:
                text = so_far + token.removeprefix(lead)
                fits = (self._cached if len(text) <= _CACHED_LENGTH else self._class_of)(text)
                if fits >= 0:
                    masses[fits] = masses.get(fits, 0.0) + path * chance
                elif fits == _SEVERAL and token == written:
                    onward += path * chance
            if not onward:
                break
            so_far, path, lead = so_far + written.removeprefix(lead), onward, ""
        else:
            masses[label] = masses.get(label, 0.0) + path
        seen = {number: mass for number, mass in masses.items() if mass > 0}
        # The token that was written must have counted for the class that was read.
        return seen if label in seen else None

    def _class_of(self, token: str) -> int:
        """The class a text alone fits; below 0 where there is none, or several."""
        text = _key(token)
        fitting = [(name, number) for name, number in self._names if text and _fits(name, text)]
        longest = max((len(name) for name, _ in fitting), default=0)
        # "spam adv" is on its way to "spam advert", not "spam" and something more.
        classes = {number for name, number in fitting if len(name) == longest or not _WORD.search(text[len(name) :])}
        return _NONE if not classes else classes.pop() if len(classes) == 1 else _SEVERAL


def _fits(name: str, text: str) -> bool:
    return name.startswith(text) or (text.startswith(name) and not text[len(name)].isalnum())


def _key(text: str) -> str:
    return _GAP.sub(" ", unicodedata.normalize("NFKC", text).casefold().lstrip(JUNK))


def _begin(tokens: Any, text: str, start: int) -> tuple[int, str] | None:
    """The number of the token the name begins in, and what of that token stands before the name."""
    if not isinstance(tokens, list):
        return None
    try:
        whole = "".join([entry["token"] for entry in tokens])
    except (TypeError, KeyError, IndexError):
        return None
    # Some services strip the text but not the tokens, or list the end-of-text token.
    before, there, after = whole.partition(text)
    if not there or before.strip() or after[:1].isalnum():
        return None
    begins = len(before) + start
    end = 0
    for number, entry in enumerate(tokens):
        end += len(entry["token"])
        if end > begins:
            return number, whole[end - len(entry["token"]) : begins]
    return None


def _alternatives(entry: Any) -> list[tuple[str, float]] | None:
    """Tokens and their probabilities, the written token included; None where a number cannot be one."""
    try:
        # e^−9999, as services write "practically never", and e^−∞ are 0. Two tokens that read alike are two tokens.
        listed = [(other["token"], exp(other["logprob"])) for other in entry.get("top_logprobs") or ()]
        if not any(token == entry["token"] for token, _ in listed):
            listed.append((entry["token"], exp(entry["logprob"])))
        # False for NaN too.
        sound = sum([chance for _, chance in listed]) <= 1 + _OVER_ONE and all(
            type(token) is str for token, _ in listed
        )
        return listed if sound else None
    except (TypeError, KeyError, IndexError, OverflowError, AttributeError):
        return None


def spread(masses: list[dict[int, float]], classes: int) -> tuple[Array, Array, Array, Array]:
    """Masses of N answers as ``indices (N, K)``, ``probs (N, K)``, ``tail (N,)`` and the mass not seen ``(N,)``.

    Rows are in descending order of probability and padded with index −1.
    """
    depth = max(map(len, masses), default=1)
    indices, seen = np.full((len(masses), depth), -1), np.zeros((len(masses), depth))
    lengths = np.array([len(row) for row in masses], dtype=np.int64)
    rows = np.repeat(np.arange(len(masses)), lengths)
    ranks = np.arange(len(rows)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    indices[rows, ranks] = [number for row in masses for number in row]
    seen[rows, ranks] = [mass for row in masses for mass in row.values()]
    outside = np.clip(1 - seen.sum(1), 0, 1)
    least = np.where(indices >= 0, seen, np.inf).min(1, initial=np.inf)
    tail = np.minimum(outside, (classes - lengths) * least)
    total = seen.sum(1) + tail
    order = np.argsort(-seen, axis=1, kind="stable")
    probs = np.take_along_axis(seen, order, 1) / total[:, None]
    return np.take_along_axis(indices, order, 1), probs, tail / total, outside
