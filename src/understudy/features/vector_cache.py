"""Vectors kept on disk, so that nothing is encoded twice: one folder per encoder, shared by all commands and processes.

    vectors, known = fetch(folder, keys, None)  # keys: SHA-256 of what was encoded; 0 where a key is not known
    keep(folder, keys, vectors)                 # one more shard

A shard is a safetensors file named after the SHA-256 of its content, so that two processes cannot overwrite each
other's and damage shows in the name. A damaged shard is removed with a warning, and its rows are encoded anew. A
thousand vectors of 384 numbers are 1.6 MB; the folder may be removed at any time.
"""

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


def fetch(folder: Path, keys: list[bytes], width: int | None) -> tuple[Array, Array]:
    """``(vectors, known)`` from the cache of an encoder, one shard in memory at a time. ``width``: of a vector, where
    it is known."""
    index = {key: number for number, key in enumerate(keys)}
    known = np.zeros(len(keys), dtype=bool)
    vectors = np.zeros((len(keys), width or 0), dtype=np.float32)
    for path in sorted(folder.glob("*.safetensors")):
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


def keep(folder: Path, keys: list[bytes], vectors: Array) -> None:
    """One more shard; shards are never rewritten. Without space for it, a warning."""
    names = np.frombuffer(b"".join(keys), dtype=np.uint8).reshape(len(keys), KEY_BYTES)
    arrays: dict[str, Array] = {"keys": names, "vectors": np.ascontiguousarray(vectors, dtype=np.float32)}
    try:
        write_named(folder / "{digest}.safetensors", safetensors.numpy.save(arrays), digits=64)
    except UnderstudyError as error:
        warn(f"embeddings are not kept for next time: {error}")


def _read_shard(path: Path) -> tuple[list[bytes], Array] | None:
    """Keys and vectors; None of a damaged file, which is removed."""
    try:
        stored = safetensors.numpy.load(read_named(path))
        names, vectors = stored["keys"].tobytes(), stored["vectors"]
    except (OSError, KeyError, ValueError, SafetensorError) as error:
        warn(f"{path} is damaged ({error}) and removed; its rows are encoded anew")
        path.unlink(missing_ok=True)
        return None
    return [names[start : start + KEY_BYTES] for start in range(0, len(names), KEY_BYTES)], vectors
