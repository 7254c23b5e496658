"""Texts by the words in them: TF-IDF as scikit-learn computes it, over single words and pairs of neighbours.

    value of a term in a text = (1 + ln count) · (ln((1 + texts) / (1 + texts with the term)) + 1), rows of length 1

What is stored is the list of terms and their second factor; the texts of training are not.

What a term is, is scikit-learn's definition: words of two letters or more in lower case, runs of them joined by blanks.
Its own counting looks up a string for every run. Here whole arrays are counted, and only single words are strings; a
run is a number, that of the run without its last word times the number of words, plus that word's.

    terms, texts_with = choose_terms(texts, ngrams=2, most=20_000, rarest=2)
    counts = Terms(terms).count(texts)          # sparse, (texts, terms)
"""

import re
from array import array
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import repeat
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from understudy.errors import UnderstudyError
from understudy.features.part import Part, RawColumns
from understudy.store.arrow import Array

if TYPE_CHECKING:
    from scipy import sparse

WORD = re.compile(r"\b\w\w+\b")
# Keeps what a count needs in passing near 200 MB for reviews of 230 words.
CHUNK = 10_000
# From so many texts on, a term that only one of them has is noise and a waste of a place.
ROWS_FOR_PRUNING = 100


@dataclass(eq=False)
class Tfidf(Part):
    kind = "tfidf"
    name: str
    terms: list[str]
    idf: Array

    def __post_init__(self) -> None:
        if not self.terms or len(self.terms) != len(self.idf) or len(set(self.terms)) != len(self.terms):
            raise ValueError("one weight per term, every term once")
        self.names, self.shape = (self.name,), (len(self.terms),)
        self._counter = Terms(self.terms)

    @classmethod
    def fit(cls, raw: RawColumns, name: str, *, max_terms: int, ngrams: int) -> Self:
        texts = raw.texts(name)
        rarest = 2 if len(texts) >= ROWS_FOR_PRUNING else 1
        terms, texts_with = choose_terms(texts, ngrams=ngrams, most=max_terms, rarest=rarest)
        if not terms:
            raise UnderstudyError(
                f"{raw.at(name)} holds no word of two letters or more in {rarest} of its {len(texts)} texts; check the "
                "column, or use an encoder (--encoder)"
            )
        # In float32 as scikit-learn has it, to the last bit.
        idf = np.log(np.float32(1 + len(texts)) / (texts_with.astype(np.float32) + 1)) + 1
        return cls(name, terms, idf)

    def __call__(self, raw: RawColumns) -> "sparse.csr_matrix[Any]":
        """(1 + log count) · idf, each row of length 1: scikit-learn's sublinear TF-IDF, to the last bit."""
        weights = self._counter.count(raw.texts(self.name))
        values, row = weights.data, np.repeat(np.arange(weights.shape[0]), np.diff(weights.indptr))
        np.log(values, out=values)
        values += 1
        values *= self.idf[weights.indices]
        # A length is added up term by term in float64, which bincount does and a sum over axes does not.
        length = np.sqrt(np.bincount(row, weights=values * values, minlength=weights.shape[0]))
        weights.data = (values / length[row]).astype(values.dtype)
        return weights


def choose_terms(texts: list[str], *, ngrams: int, most: int, rarest: int) -> tuple[list[str], Array]:
    """The ``most`` frequent of the terms that ``rarest`` texts or more have, in alphabetic order; how many texts do.

    Of equally frequent terms the alphabet's first are taken (scikit-learn leaves that to the machine's sorting).
    """
    levels, words = _levels(texts, ngrams, rarest)
    return _most_frequent(levels, words, most)


def term_counts(texts: list[str], *, ngrams: int, words: frozenset[str] | None = None) -> dict[str, tuple[int, int]]:
    """How often each term stands in some of the texts, and in how many of them: what adds up over parts of a pool.

    ``words``: those that longer terms may be made of; the others are not counted.
    """
    levels, known = _levels(texts, ngrams, 1, words)
    return {
        _name(levels, known, level, number): (int(often[number]), int(texts_with[number]))
        for level, (_, often, texts_with) in enumerate(levels)
        for number in range(len(often))
        if level or words is None or known[number] in words
    }


def choose_counted(counts: Mapping[str, tuple[int, int]], *, most: int, rarest: int) -> tuple[list[str], Array]:
    """``choose_terms`` of texts that were counted in parts."""
    common = [(-often, term, texts) for term, (often, texts) in counts.items() if texts >= rarest]
    chosen = sorted((term, texts) for _, term, texts in sorted(common)[:most])
    return [term for term, _ in chosen], np.array([texts for _, texts in chosen], dtype=np.int64)


Levels = list[tuple[Array, Array, Array]]
"""For runs of one word, of two …: their codes, how often each stands there, and in how many texts."""


def _levels(
    texts: list[str], ngrams: int, rarest: int, usable: frozenset[str] | None = None
) -> tuple[Levels, list[str]]:
    """The runs that ``rarest`` texts or more have, and the words they are numbered by."""
    numbers: defaultdict[str, int] = defaultdict()
    numbers.default_factory = numbers.__len__
    word, text = _words(texts, lambda words: map(numbers.__getitem__, words))
    levels: list[tuple[Array, Array, Array]] = []
    start, code, is_common = np.arange(len(word)), word, np.zeros(len(numbers), dtype=bool)
    for length in range(1, ngrams + 1):
        # Single words are numbered without gaps already.
        runs, run = (np.arange(len(numbers)), word) if length == 1 else np.unique(code, return_inverse=True)
        texts_with = _texts_with(text[start], run, len(runs))
        common = texts_with >= rarest
        levels.append((runs[common], np.bincount(run, minlength=len(runs))[common], texts_with[common]))
        if length == ngrams:
            break
        if length == 1:
            is_common[runs[common]] = True
            if usable is not None:
                np.logical_and(is_common, [name in usable for name in numbers], out=is_common)
                begins = is_common[run]
                start, run = start[begins], run[begins]
        # A run is no more common than the run it begins with, nor than its words.
        start, run = start[common[run]], (np.cumsum(common) - 1)[run[common[run]]]
        goes_on = _goes_on(start, length, word, text, lambda following: is_common[following])
        start, run = start[goes_on], run[goes_on]
        code = run * len(numbers) + word[start + length]
    return levels, list(numbers)


def _texts_with(text: Array, run: Array, runs: int) -> Array:
    """For each run, in how many texts it is: equal pairs of text and run lie together once sorted."""
    pair = text * runs + run
    pair.sort()
    first = np.ones(len(pair), dtype=bool)
    np.not_equal(pair[1:], pair[:-1], out=first[1:])
    return np.bincount(pair[first] % max(runs, 1), minlength=runs)


def _name(levels: Levels, words: list[str], level: int, number: int) -> str:
    before, last = divmod(int(levels[level][0][number]), len(words))
    return words[last] if level == 0 else f"{_name(levels, words, level - 1, before)} {words[last]}"


def _most_frequent(levels: Levels, words: list[str], most: int) -> tuple[list[str], Array]:
    frequencies = np.concatenate([frequency for _, frequency, _ in levels])
    least = np.partition(frequencies, -most)[-most] if len(frequencies) > most else 0
    frequent = [
        (-int(frequency[number]), _name(levels, words, level, number), int(texts_with[number]))
        for level, (_, frequency, texts_with) in enumerate(levels)
        for number in np.flatnonzero(frequency >= least).tolist()
    ]
    chosen = sorted((term, count) for _, term, count in sorted(frequent)[:most])
    return [term for term, _ in chosen], np.array([count for _, count in chosen], dtype=np.int64)


class Terms:
    """Fixed terms, ready to be counted in texts."""

    def __init__(self, terms: list[str]) -> None:
        split = [term.split(" ") for term in terms]
        words = sorted({word for run in split for word in run})
        self.size, self.numbers = len(terms), {word: number for number, word in enumerate(words)}
        # Per length of runs: their codes, sorted, and the column of each; −1 where only longer terms begin so.
        self.levels: list[tuple[Array, Array]] = []
        before = np.zeros(len(terms), dtype=np.int64)
        for length in range(1, max(map(len, split)) + 1):
            reach = np.array([term for term, run in enumerate(split) if len(run) >= length])
            last = np.array([self.numbers[split[term][length - 1]] for term in reach])
            codes, run = np.unique(before[reach] * len(words) + last, return_inverse=True)
            column = np.full(len(codes), -1)
            ends = np.array([len(split[term]) == length for term in reach])
            column[run[ends]] = reach[ends]
            before[reach] = run
            self.levels.append((codes, column))

    def count(self, texts: list[str]) -> "sparse.csr_matrix[Any]":
        from scipy import sparse

        chunks = [self._count(texts[start : start + CHUNK]) for start in range(0, max(len(texts), 1), CHUNK)]
        return sparse.csr_matrix(sparse.vstack(chunks, format="csr")) if len(chunks) > 1 else chunks[0]

    def _count(self, texts: list[str]) -> "sparse.csr_matrix[Any]":
        from scipy import sparse

        word, text = _words(texts, lambda words: map(self.numbers.get, words, repeat(-1)))
        start = np.arange(len(word))
        run = np.zeros(len(word), dtype=np.int64)
        rows, columns = [], []
        for length, (codes, column) in enumerate(self.levels):
            goes_on = _goes_on(start, length, word, text, lambda following: following >= 0)
            start, run = start[goes_on], run[goes_on]
            code = run * len(self.numbers) + word[start + length]
            run = np.searchsorted(codes, code).clip(max=len(codes) - 1)
            known = codes[run] == code
            start, run = start[known], run[known]
            is_term = column[run] >= 0
            rows.append(text[start[is_term]])
            columns.append(column[run[is_term]])
        cells = (np.concatenate(rows), np.concatenate(columns))
        # What stands in one cell several times is added up.
        ones = np.ones(len(cells[0]), dtype=np.float32)
        counts = sparse.csr_matrix((ones, cells), shape=(len(texts), self.size))
        counts.sort_indices()
        return counts


def _words(texts: list[str], numbered: Callable[[list[str]], Iterable[int]]) -> tuple[Array, Array]:
    """The words of all texts in a row, as numbers, and the text each is in."""
    numbers, lengths = array("q"), array("q")
    for text in texts:
        words = WORD.findall(text.lower())
        numbers.extend(numbered(words))
        lengths.append(len(words))
    return np.frombuffer(numbers, dtype=np.int64), np.repeat(np.arange(len(texts)), lengths)


def _goes_on(start: Array, length: int, word: Array, text: Array, usable: Callable[[Array], Array]) -> Array:
    """Which runs of ``length`` words are followed by a usable word of the same text."""
    goes_on = start + length < len(word)
    after = start[goes_on] + length
    goes_on[goes_on] = (text[after] == text[start[goes_on]]) & usable(word[after])
    return goes_on
