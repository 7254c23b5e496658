"""Texts by a Hugging Face encoder: one vector per text, from the cache where it has been encoded before.

A run keeps the encoder's name or folder and the fingerprint of its files, not the encoder: ``predict`` finds it again,
and says so where it has changed.
"""

import sys
from functools import cached_property
from typing import Any, Self

import numpy as np
from rich.console import Console
from rich.progress import track

from understudy.errors import UnderstudyError
from understudy.featurise.encoder import Encoder
from understudy.featurise.part import Part
from understudy.featurise.raw import Raw
from understudy.featurise.store import EmbeddingStore, key_of
from understudy.store.arrow import Array
from understudy.store.files import cache_path

# So many texts are lost at most where a run is killed: about a minute of a small encoder on one core.
SHARD_TEXTS = 2048


class Encoded(Part):
    kind = "encoder"

    def __init__(
        self, name: str, encoder: str, fingerprint: str, width: int, *, revision: str | None, max_tokens: int | None
    ) -> None:
        self.names, self.encoder, self.fingerprint, self.width = (name,), encoder, fingerprint, width
        self.revision, self.max_tokens = revision, max_tokens

    @classmethod
    def fit(cls, raw: Raw, name: str, *, encoder: str, max_tokens: int | None) -> Self:
        """Nothing is learned but how wide a vector is; the first text tells."""
        found = Encoder.find(encoder, max_tokens=max_tokens)
        width = encode(found, raw.texts(name)[:1], where=raw.at(name)).shape[1]
        part = cls(name, found.name, found.fingerprint, width, revision=found.revision, max_tokens=max_tokens)
        part.found = found
        return part

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.width,)

    @cached_property
    def found(self) -> Encoder:
        found = Encoder.find(self.encoder, revision=self.revision, max_tokens=self.max_tokens)
        if found.fingerprint != self.fingerprint:
            raise UnderstudyError(f"the encoder {self.encoder} has changed since training; restore it or train again")
        return found

    def __call__(self, raw: Raw) -> Array:
        (name,) = self.names
        return encode(self.found, raw.texts(name), where=raw.at(name), width=self.width)

    def values(self) -> dict[str, Any]:
        values = {"name": self.names[0], "encoder": self.encoder, "fingerprint": self.fingerprint, "width": self.width}
        return {**values, "revision": self.revision, "max_tokens": self.max_tokens}

    @classmethod
    def restore(cls, values: dict[str, Any], arrays: dict[str, Array]) -> Self:
        keys = ("name", "encoder", "fingerprint", "width")
        return cls(*(values[key] for key in keys), revision=values["revision"], max_tokens=values["max_tokens"])


def encode(encoder: Encoder, texts: list[str], *, where: str, width: int | None = None) -> Array:
    """A vector per text; the encoder sees each distinct text once, and only if the cache does not know it."""
    try:
        keys = [key_of(text) for text in texts]
    except UnicodeEncodeError as error:
        row = next(row for row, text in enumerate(texts) if any("\ud800" <= sign <= "\udfff" for sign in text))
        raise UnderstudyError(f"{where} row {row} holds half a character (a lone surrogate); mend the text") from error
    distinct = dict(zip(keys, texts, strict=True))
    store = EmbeddingStore(cache_path() / "embeddings" / encoder.fingerprint)
    vectors, found = store.fetch(list(distinct), width=width)
    todo = [key for key, known in zip(distinct, found, strict=True) if not known]
    todo.sort(key=lambda key: -len(distinct[key]))
    place = {key: number for number, key in enumerate(distinct)}
    starts = range(0, len(todo), SHARD_TEXTS)
    quiet = len(starts) < 2 or not sys.stderr.isatty()
    for start in track(starts, f"encoding {len(todo)} texts", console=Console(stderr=True), disable=quiet):
        new = todo[start : start + SHARD_TEXTS]
        theirs = encoder.embed([distinct[key] for key in new])
        store.add(new, theirs)
        if not vectors.shape[1]:
            vectors = np.zeros((len(distinct), theirs.shape[1]), dtype=np.float32)
        vectors[[place[key] for key in new]] = theirs
    # No copy where every text is there once.
    return vectors if len(distinct) == len(texts) else vectors[[place[key] for key in keys]]
