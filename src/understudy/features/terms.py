"""Terms, i.e. words and runs of neighbouring words, and how often each text has them: scikit-learn's TF-IDF to the bit.

    terms, counts = count_terms(texts, ngrams=2, most=20_000, min_texts=2)       # (texts, terms)
    x = weigh_terms(counts, idf)
    x = weigh_terms(count_known(other_texts, terms), idf)

Words are numbers from the start, and a run of words is a pair of numbers: of 100,000 texts, two million different runs
would take 300 MB and ten seconds as strings. Runs that cannot be among the most frequent are left out early, because no
run is more frequent than its parts.
"""

import re
from array import array
from collections import defaultdict
from itertools import chain
from typing import Any

import numpy as np
from scipy import sparse

from understudy.store.arrow import Array

#: As scikit-learn reads words.
WORD = re.compile(r"(?u)\b\w\w+\b")


def count_terms(texts: list[str], *, ngrams: int, most: int, min_texts: int) -> tuple[list[str], Any]:
    """The ``most`` frequent of the terms that ``min_texts`` texts or more contain, of equally frequent ones the first
    of the alphabet; in alphabetical order, and their counts in every text, ``(texts, terms)``."""
    words, ends, spelled = _numbered_words(texts)
    # Where a run begins, and which of the distinct ones it is.
    begins = np.flatnonzero(words >= 0).astype(np.int32)
    run, distinct, shorter = words[begins], np.arange(len(spelled)), spelled
    names, parts = list[str](), list[Any]()
    totals, least = np.zeros(0, np.int64), min_texts
    for length in range(1, ngrams + 1):
        if length > 1:
            following = words[begins + length - 1]
            begins, run, following = (each[following >= 0] for each in (begins, run, following))
            # Its first words and its last one, as one number.
            run, distinct = _frequent(run * np.int64(len(spelled)) + following, least)
            begins, run = begins[run >= 0], run[run >= 0]
        counts = _count(run, np.searchsorted(begins, ends), len(distinct))
        total = np.bincount(run, minlength=len(distinct))
        known = np.bincount(counts.indices, minlength=len(distinct)) >= min_texts
        every = np.concatenate([totals, total[known]])
        least = max(least, int(np.partition(every, -most)[-most])) if len(every) > most else least
        known &= total >= least
        own = [_spelled(key, shorter, spelled, length) for key in distinct[known].tolist()]
        names, totals, parts = names + own, np.concatenate([totals, total[known]]), [*parts, counts[:, known]]
        # Only runs that are terms can begin longer ones, and only such words end them.
        run = np.where(known, known.cumsum() - 1, -1).astype(np.int32)[run]
        begins, run = begins[run >= 0], run[run >= 0]
        if length == 1:
            words[:] = -1
            words[begins], spelled = run, own
        shorter = own
    alphabet = np.array(sorted(range(len(names)), key=names.__getitem__), dtype=np.int64)
    chosen = alphabet[np.sort((-totals[alphabet]).argsort(kind="stable")[:most])]
    found = sparse.csr_matrix(sparse.hstack(parts, format="csr")[:, chosen])
    found.sort_indices()
    return [names[term] for term in chosen.tolist()], found


def _numbered_words(texts: list[str]) -> tuple[Array, Array, list[str]]:
    """The words of all texts as numbers, −1 behind each text; where each text and its −1 begin; the words by number."""
    number_of: defaultdict[str, int] = defaultdict()
    number_of.default_factory = number_of.__len__
    words, ends = array("i"), array("i", [0])
    for text in texts:
        words.extend(map(number_of.__getitem__, WORD.findall(text.lower())))
        words.append(-1)
        ends.append(len(words))
    return np.frombuffer(words, np.int32), np.frombuffer(ends, np.int32), list(number_of)


def _frequent(keys: Array, least: int) -> tuple[Array, Array]:
    """Which of the distinct keys that occur so often each key is, −1 for any other; and these."""
    order = keys.argsort()
    keys = keys[order]
    first = np.flatnonzero(np.concatenate([keys[:1] >= 0, keys[1:] != keys[:-1]]))
    often = np.diff(first, append=len(keys))
    kept = often >= least
    which = np.empty(len(keys), np.int32)
    which[order] = np.repeat(np.where(kept, kept.cumsum(dtype=np.int32) - 1, -1), often)
    return which, keys[first[kept]]


def _count(columns: Array, starts: Array, width: int) -> Any:
    """Entries of rows, which begin at ``starts``, as counts."""
    one = np.ones(len(columns), np.float32)
    counts = sparse.csr_matrix((one, columns.copy(), starts.astype(np.int32)), shape=(len(starts) - 1, width))
    counts.sum_duplicates()
    return counts


def _spelled(key: int, shorter: list[str], words: list[str], length: int) -> str:
    return words[key] if length == 1 else f"{shorter[key // len(words)]} {words[key % len(words)]}"


def count_known(texts: list[str], terms: list[str]) -> Any:
    """Of known terms."""
    place_of = {term: place for place, term in enumerate(terms)}
    longest = 1 + max(term.count(" ") for term in terms)
    places, ends = array("i"), array("i", [0])
    for text in texts:
        words = WORD.findall(text.lower())
        runs = (map(" ".join, zip(*(words[i:] for i in range(n)), strict=False)) for n in range(2, longest + 1))
        places.extend(place for place in map(place_of.get, chain(words, *runs)) if place is not None)
        ends.append(len(places))
    return _count(np.frombuffer(places, np.int32), np.frombuffer(ends, np.int32), len(terms))


def weigh_terms(counts: Any, idf: Array) -> Any:
    """(1 + ln count) · idf, rows of length 1; lengths in float64, and added up from left to right."""
    values = (np.log(counts.data) + 1) * idf[counts.indices]
    row = np.repeat(np.arange(counts.shape[0]), np.diff(counts.indptr))
    length = np.sqrt(np.bincount(row, values * values, minlength=counts.shape[0]))
    values = (values / length[row]).astype(idf.dtype)
    return sparse.csr_matrix((values, counts.indices, counts.indptr), shape=counts.shape)
