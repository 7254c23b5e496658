"""Texts by the words in them: TF-IDF as scikit-learn computes it, over single words and pairs of neighbours.

    value of a term in a text = (1 + ln count) · (ln((1 + texts) / (1 + texts with the term)) + 1), rows of length 1

What is kept is the list of terms and their second factor; the texts of training are not.
"""

from typing import Any, Self

import numpy as np
from scipy import sparse

from understudy.errors import UnderstudyError
from understudy.featurise.part import Part
from understudy.featurise.raw import Raw
from understudy.featurise.terms import Terms, choose_terms
from understudy.store.arrow import Array

# From so many texts on, a term that only one of them has is noise and a waste of a place.
ROWS_FOR_PRUNING = 100


class Tfidf(Part):
    kind = "tfidf"

    def __init__(self, name: str, terms: list[str], idf: Array) -> None:
        if not terms or len(terms) != len(idf) or len(set(terms)) != len(terms):
            raise ValueError("one weight per term, every term once")
        self.names, self.terms, self.idf = (name,), terms, idf
        self._counter = Terms(terms)

    @classmethod
    def fit(cls, raw: Raw, name: str, *, max_terms: int, ngrams: int) -> Self:
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

    @property
    def shape(self) -> tuple[int, ...]:
        return (len(self.terms),)

    def __call__(self, raw: Raw) -> sparse.csr_matrix[Any]:
        from sklearn.feature_extraction.text import TfidfTransformer

        weights = TfidfTransformer(sublinear_tf=True)
        weights.idf_ = self.idf
        return sparse.csr_matrix(weights.transform(self._counter.count(raw.texts(self.names[0])), copy=False))

    def values(self) -> dict[str, Any]:
        return {"name": self.names[0], "terms": self.terms}

    def arrays(self) -> dict[str, Array]:
        return {"idf": self.idf}

    @classmethod
    def restore(cls, values: dict[str, Any], arrays: dict[str, Array]) -> Self:
        return cls(str(values["name"]), [str(term) for term in values["terms"]], arrays["idf"])
