"""Texts by an encoder, and the vectors kept on disk so that no text is encoded twice.

    part = Encoded.fit(raw, "review", encoder="sentence-transformers/all-MiniLM-L6-v2", max_tokens=None)
    store = EmbeddingStore(folder)             # one folder per encoder
    vectors, known = store.fetch(keys)         # in the order of the keys; 0 where a key is not known
    store.add(keys, vectors)                   # one more shard; shards are never rewritten

A shard is a safetensors file named after the SHA-256 of its content, so that two processes cannot overwrite each
other's and damage shows in the name. A damaged shard is removed with a warning, and its texts are encoded anew.
"""

import hashlib
import re
import sys
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Self

import numpy as np
import safetensors.numpy
from safetensors import SafetensorError

from understudy.errors import UnderstudyError, warn
from understudy.features.encoder import Encoder
from understudy.features.part import Part, RawColumns
from understudy.store.arrow import Array
from understudy.store.files import cache_path, read_named, write_named

# Texts per shard, lost at most when a run is killed: about a minute of a small encoder on one core.
SHARD_TEXTS = 2048
KEY_BYTES = 32
_SHARD = re.compile(r"[0-9a-f]{64}\.safetensors")


@dataclass(eq=False)
class Encoded(Part):
    """Texts by an encoder: one vector per text, from the cache where it has been encoded before.

    A run stores the encoder's name or folder and the fingerprint of its files, not the encoder: ``predict`` loads it
    again and refuses one that has changed.
    """

    kind = "encoder"
    name: str
    encoder: str
    fingerprint: str
    width: int
    revision: str | None
    max_tokens: int | None

    def __post_init__(self) -> None:
        self.names, self.shape = (self.name,), (self.width,)

    @classmethod
    def fit(cls, raw: RawColumns, name: str, *, encoder: str, max_tokens: int | None) -> Self:
        """Learns only the width of a vector, from the first text."""
        loaded = Encoder.find(encoder, max_tokens=max_tokens)
        width = encode(loaded, raw.texts(name)[:1], where=raw.at(name)).shape[1]
        part = cls(name, loaded.name, loaded.fingerprint, width, revision=loaded.revision, max_tokens=max_tokens)
        part.loaded = loaded
        return part

    @cached_property
    def loaded(self) -> Encoder:
        loaded = Encoder.find(self.encoder, revision=self.revision, max_tokens=self.max_tokens)
        if loaded.fingerprint != self.fingerprint:
            raise UnderstudyError(f"the encoder {self.encoder} has changed since training; restore it or train again")
        return loaded

    def __call__(self, raw: RawColumns) -> Array:
        return encode(self.loaded, raw.texts(self.name), where=raw.at(self.name), width=self.width)


def encode(encoder: Encoder, texts: list[str], *, where: str, width: int | None = None) -> Array:
    """A vector per text; the encoder sees each distinct text once, and only if the cache does not know it."""
    from rich.console import Console
    from rich.progress import track

    try:
        keys = [key_of(text) for text in texts]
    except UnicodeEncodeError as error:
        row = next(row for row, text in enumerate(texts) if any("\ud800" <= sign <= "\udfff" for sign in text))
        raise UnderstudyError(f"{where} row {row} holds half a character (a lone surrogate); mend the text") from error
    distinct = dict(zip(keys, texts, strict=True))
    store = EmbeddingStore(cache_path() / "embeddings" / encoder.fingerprint)
    vectors, is_stored = store.fetch(list(distinct), width=width)
    todo = [key for key, known in zip(distinct, is_stored, strict=True) if not known]
    todo.sort(key=lambda key: -len(distinct[key]))
    row_of = {key: number for number, key in enumerate(distinct)}
    starts = range(0, len(todo), SHARD_TEXTS)
    quiet = len(starts) < 2 or not sys.stderr.isatty()
    for start in track(starts, f"encoding {len(todo)} texts", console=Console(stderr=True), disable=quiet):
        new = todo[start : start + SHARD_TEXTS]
        encoded = encoder.embed([distinct[key] for key in new])
        store.add(new, encoded)
        if not vectors.shape[1]:
            vectors = np.zeros((len(distinct), encoded.shape[1]), dtype=np.float32)
        vectors[[row_of[key] for key in new]] = encoded
    # No copy where every text is there once.
    return vectors if len(distinct) == len(texts) else vectors[[row_of[key] for key in keys]]


def key_of(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()


class EmbeddingStore:
    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def fetch(self, keys: list[bytes], *, width: int | None = None) -> tuple[Array, Array]:
        """``(vectors, known)``. One shard is in memory at a time. ``width``: of a vector, where it is known."""
        index = {key: number for number, key in enumerate(keys)}
        known = np.zeros(len(keys), dtype=bool)
        vectors = np.zeros((len(keys), width or 0), dtype=np.float32)
        for path in sorted(self.folder.glob("*.safetensors")):
            shard = _read_shard(path) if _SHARD.fullmatch(path.name) else None
            if shard is None or width not in (None, shard[1].shape[1]):
                continue
            rows = [row for row, key in enumerate(shard[0]) if key in index]
            if not rows:
                continue
            if width is None:
                width = shard[1].shape[1]
                vectors = np.zeros((len(keys), width), dtype=np.float32)
            wanted = [index[shard[0][row]] for row in rows]
            vectors[wanted], known[wanted] = shard[1][rows], True
        return vectors, known

    def add(self, keys: list[bytes], vectors: Array) -> None:
        names = np.frombuffer(b"".join(keys), dtype=np.uint8).reshape(len(keys), KEY_BYTES)
        content = safetensors.numpy.save({"keys": names, "vectors": np.ascontiguousarray(vectors, dtype=np.float32)})
        try:
            write_named(self.folder / "{digest}.safetensors", content, digits=64)
        except UnderstudyError as error:
            warn(f"embeddings are not kept for next time: {error}")


def _read_shard(path: Path) -> tuple[list[bytes], Array] | None:
    try:
        shard = safetensors.numpy.load(read_named(path))
        names, vectors = shard["keys"].tobytes(), shard["vectors"]
    except (OSError, KeyError, ValueError, SafetensorError) as error:
        warn(f"{path} is damaged ({error}) and removed; its texts are encoded anew")
        path.unlink(missing_ok=True)
        return None
    return [names[start : start + KEY_BYTES] for start in range(0, len(names), KEY_BYTES)], vectors
