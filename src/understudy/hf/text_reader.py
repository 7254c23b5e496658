"""A tokenizer of transformers as a student's reader: texts in, padded batches of token numbers out.

    reader = TextReader.find(folder, "all-MiniLM-L6-v2", max_tokens=64, limit=512)
    tokens = reader.tokens(["a text", "another"])
    reader.pad(tokens.take(torch.tensor([0, 1])))               # {"input_ids": (2, 4), "attention_mask": (2, 4)}

Parts of a set, folds and epochs share the tokens (``data/inputs.py``).
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from understudy.data.checks import encoded
from understudy.data.inputs import Tokens
from understudy.errors import UnderstudyError, first_line
from understudy.features.encoder import SAFE, loading_model

AT_ONCE = 10_000
FILES = ("tokenizer.json", "tokenizer_config.json", "vocab.txt", "vocab.json", "merges.txt", "special_tokens_map.json")


@dataclass(frozen=True)
class TextReader:
    #: Where the tokenizer's files are.
    folder: Path
    #: Longer texts are cut.
    max_tokens: int
    #: Of those files and that length.
    key: str
    #: What the net is called that it reads for.
    base: str
    pad_id: int = 0

    @classmethod
    def find(cls, folder: Path, base: str, *, max_tokens: int | None, limit: int) -> "TextReader":
        """``limit``: how many tokens the net can read."""
        tokenizer = load_tokenizer(folder)
        known = int(tokenizer.model_max_length)
        # Some families keep two positions for themselves; a tokenizer that knows its limit has left them out.
        most = min(limit, known) if known < 1_000_000 else limit - 2
        if max_tokens is not None and not 3 <= max_tokens <= most:
            raise UnderstudyError(f"max_tokens={max_tokens}: {folder} reads 3 to {most} tokens of a text")
        length = max_tokens or most
        files = sorted(path for path in folder.iterdir() if path.name in FILES or path.suffix == ".model")
        total = hashlib.sha256(f"1 {length}".encode())
        for path in files:
            total.update(path.name.encode() + b"\0" + hashlib.sha256(path.read_bytes()).digest())
        pad = tokenizer.pad_token_id
        reader = cls(folder, length, total.hexdigest(), base, 0 if pad is None else int(pad))
        reader.__dict__["tokenizer"] = tokenizer
        return reader

    def __deepcopy__(self, memo: Any) -> "TextReader":
        return self  # nothing in it changes: copies of a student share it

    def __reduce__(self) -> Any:
        # Other processes load the tokenizer themselves.
        return TextReader, (self.folder, self.max_tokens, self.key, self.base, self.pad_id)

    @cached_property
    def tokenizer(self) -> Any:
        return load_tokenizer(self.folder)

    def tokens(self, texts: Sequence[str]) -> Tokens:
        encoded(texts, "x")  # of half a character the tokenizer would say something else
        found: list[list[int]] = []
        for start in range(0, len(texts), AT_ONCE):
            some = list(texts[start : start + AT_ONCE])
            try:
                read = self.tokenizer(some, truncation=True, max_length=self.max_tokens, return_attention_mask=False)
            except (TypeError, ValueError, OverflowError) as error:
                raise UnderstudyError(f"the tokenizer in {self.folder} fails: {first_line(error)}") from error
            found += read["input_ids"]
        return Tokens.of(found)

    def pad(self, items: list[Any]) -> dict[str, Tensor]:
        """Padding comes last, and is masked. A text without a single token has one of padding, which is seen."""
        lengths = np.array([max(1, len(item)) for item in items])
        mask = np.arange(int(lengths.max())) < lengths[:, None]
        ids = np.full(mask.shape, self.pad_id, dtype=np.int64)
        ids[mask] = np.concatenate([item if len(item) else [self.pad_id] for item in items])
        return {"input_ids": torch.from_numpy(ids), "attention_mask": torch.from_numpy(mask.astype(np.int64))}


def load_tokenizer(folder: Path) -> Any:
    with loading_model(f"the tokenizer in {folder}", "fetch it anew") as library:
        tokenizer = library.AutoTokenizer.from_pretrained(folder, **SAFE)
    tokenizer.padding_side = tokenizer.truncation_side = "right"
    if tokenizer.pad_token_id is None:
        tokenizer.pad_token = tokenizer.eos_token
    return tokenizer
