"""TF-IDF of texts, by scikit-learn: single words and runs of neighbouring words.

    value of a term in a text = (1 + ln count) · (ln((1 + texts) / (1 + texts with the term)) + 1), rows of length 1

A run stores the terms and their second factor, not the texts. Terms are chosen here and not by the vectoriser's
``max_features``: of equally frequent terms it keeps whichever its sorting puts first, here the alphabet decides.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from understudy.errors import UnderstudyError
from understudy.features.tabular import Part, RawColumns
from understudy.store.arrow import Array

if TYPE_CHECKING:
    from scipy import sparse

# From this many texts on, a term that occurs in only one of them is dropped as noise.
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

    @classmethod
    def fit(cls, raw: RawColumns, name: str, *, max_terms: int, ngrams: int) -> Self:
        texts = raw.texts(name)
        min_texts = 2 if len(texts) >= ROWS_FOR_PRUNING else 1
        counts = term_counts(texts, ngrams=ngrams, min_texts=min_texts)
        terms, texts_with = choose_terms(counts, most=max_terms, min_texts=min_texts)
        if not terms:
            raise UnderstudyError(
                f"{raw.at(name)} holds no word of two letters or more in {min_texts} of its {len(texts)} texts; check "
                "the column, or use an encoder (--encoder)"
            )
        # In float32, as scikit-learn computes it, to the last bit.
        idf = np.log(np.float32(1 + len(texts)) / (texts_with.astype(np.float32) + 1)) + 1
        return cls(name, terms, idf)

    def __call__(self, raw: RawColumns) -> "sparse.csr_matrix[Any]":
        from scipy import sparse

        return sparse.csr_matrix(self._vectorizer.transform(raw.texts(self.name)))

    @cached_property
    def _vectorizer(self) -> Any:
        from sklearn.feature_extraction.text import TfidfVectorizer

        ngrams = 1 + max(term.count(" ") for term in self.terms)
        vectorizer = TfidfVectorizer(
            vocabulary=self.terms, ngram_range=(1, ngrams), sublinear_tf=True, dtype=self.idf.dtype
        )
        vectorizer.idf_ = self.idf
        return vectorizer


def term_counts(
    texts: list[str], *, ngrams: int, min_texts: int = 1, words: frozenset[str] | None = None
) -> dict[str, tuple[int, int]]:
    """Per term that ``min_texts`` of the texts contain: its occurrences, and the number of texts that contain it.

    The counts of parts of a pool can be added up. ``words``: the words a term may consist of; None: any.
    """
    from sklearn.feature_extraction.text import CountVectorizer

    vectorizer = CountVectorizer(ngram_range=(1, ngrams), min_df=min_texts)
    try:
        counts = vectorizer.fit_transform(texts)
    except ValueError:  # no word is in enough of the texts
        return {}
    occurrences = np.asarray(counts.sum(0)).ravel()
    texts_with = np.bincount(counts.indices, minlength=counts.shape[1])
    del counts  # the larger part of the memory
    return {
        term: (int(occurrences[column]), int(texts_with[column]))
        for term, column in vectorizer.vocabulary_.items()
        if words is None or words.issuperset(term.split(" "))
    }


def choose_terms(counts: Mapping[str, tuple[int, int]], *, most: int, min_texts: int) -> tuple[list[str], Array]:
    """The ``most`` frequent of the terms that ``min_texts`` texts or more contain, in alphabetical order, and how many
    texts contain each."""
    common = [(-often, term, texts) for term, (often, texts) in counts.items() if texts >= min_texts]
    chosen = sorted((term, texts) for _, term, texts in sorted(common)[:most])
    return [term for term, _ in chosen], np.array([texts for _, texts in chosen], dtype=np.int64)
