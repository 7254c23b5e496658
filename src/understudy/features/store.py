"""Embeddings kept on disk by what they are embeddings of, so that no text is encoded twice.

    store = EmbeddingStore(folder)             # one folder per encoder
    vectors, known = store.fetch(keys)         # in the order of the keys; what is not known is 0
    store.add(keys, vectors)                   # one more shard; nothing is ever rewritten

A shard is a safetensors file named after the SHA-256 of its content: two processes cannot spoil each other's, and a
damaged one is known by its name. It is then warned about, removed, and its texts are encoded anew.
"""

import hashlib
import re
from pathlib import Path

import numpy as np
import safetensors.numpy
from safetensors import SafetensorError

from understudy.errors import UnderstudyError, warn
from understudy.store.arrow import Array
from understudy.store.files import read_named, write_named

KEY_BYTES = 32
_SHARD = re.compile(r"[0-9a-f]{64}\.safetensors")


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
