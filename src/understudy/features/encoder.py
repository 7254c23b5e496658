"""A Hugging Face encoder from a folder or by name: texts in, one vector each out.

    encoder = Encoder.find("sentence-transformers/all-MiniLM-L6-v2")    # or a folder
    encoder.fingerprint                                                 # of its files: names the cache
    encoder.embed(["a text", "another"])                                # (2, 384), float32

Code in a model's folder is never run and pickled weights are never loaded. The weights are read when the first text is
encoded: a run whose texts are all cached does not load them.

A folder of sentence-transformers lists its steps in ``modules.json``: a transformer, a pooling from a vector per token
to one per text, perhaps a normalisation. A plain Hugging Face folder has none: its tokens are averaged. That library
itself gives the same vectors, but accepts a file that lacks weights and takes seconds to import.

Vectors are kept on disk (``vector_cache.py``), so that no text is encoded twice.
"""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import torch
from torch import Tensor

from understudy.data.checks import encoded
from understudy.errors import UnderstudyError, first_line, optional
from understudy.features.installed_encoders import INSTALL, installed
from understudy.features.raw_columns import RawColumns
from understudy.features.tabular import Part
from understudy.features.vector_cache import fetch, keep
from understudy.store.arrow import Array
from understudy.store.console import ProgressBar
from understudy.store.files import cache_path, read_json

BATCH = 32
# Rows per shard of the cache, lost at most when a run is killed: about half a minute of a small encoder on one core.
SHARD_ROWS = 2048
# What an encoder is made of; its README and other formats of its weights are not.
SUFFIXES = (".json", ".txt", ".model", ".safetensors")
MODES = ("mean", "cls", "max")
# Some settings files have a flag for each, in this order.
MODE_FLAGS = {"pooling_mode_cls_token": "cls", "pooling_mode_max_tokens": "max", "pooling_mode_mean_tokens": "mean"}
MODE_FLAGS |= {f"pooling_mode_{name}": name for name in ("mean_sqrt_len_tokens", "weightedmean_tokens", "lasttoken")}


@dataclass(frozen=True)
class Layout:
    """How a folder's texts are tokenized and pooled."""

    transformer: Path
    modes: tuple[str, ...] = ("mean",)
    normalise: bool = False
    max_tokens: int | None = None
    lower: bool = False
    prompt: str = ""

    def pool(self, states: Tensor, mask: Tensor) -> Tensor:
        """``states (B, T, D)``, ``mask (B, T)``: 1 for a token, 0 for padding, which comes last."""
        shown = mask.unsqueeze(-1).bool()
        pooled = torch.cat([_pool(states, shown, mode) for mode in self.modes], dim=-1)
        return torch.nn.functional.normalize(pooled, dim=-1) if self.normalise else pooled


def _pool(states: Tensor, shown: Tensor, mode: str) -> Tensor:
    if mode == "cls":
        return states[:, 0]
    if mode == "max":
        # An empty text has no token to take the largest of.
        return states.masked_fill(~shown, -torch.inf).amax(1).nan_to_num(neginf=0.0)
    return states.masked_fill(~shown, 0).sum(1) / shown.sum(1).clamp(min=1)


def read_layout(folder: Path) -> Layout:
    if not (folder / "modules.json").is_file():
        return Layout(folder)
    try:
        return _sentence_layout(folder)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise UnderstudyError(f"{folder}: the encoder's settings are damaged ({error!r}); fetch it anew") from error


def _sentence_layout(folder: Path) -> Layout:
    steps: dict[str, Path] = {}
    for step in _settings(folder, "modules"):
        kind, name = str(step["type"]).rpartition(".")[2], str(step["path"])
        if kind not in ("Transformer", "Pooling", "Normalize"):
            raise UnderstudyError(f"{folder} has the step {kind!r}; use a transformer, a pooling and a normalisation")
        if name not in ("", Path(name).name) or name == "..":
            raise UnderstudyError(f"{folder}/modules.json names {name!r}, which is no folder beside it; fetch it anew")
        steps[kind] = folder / name
    if "Transformer" not in steps:
        raise UnderstudyError(f"{folder} has no transformer; use an encoder that has one")
    settings = _settings(steps["Transformer"], "sentence_bert_config")
    more = _settings(folder, "config_sentence_transformers")
    prompt, longest = more.get("default_prompt_name"), settings.get("max_seq_length")
    return Layout(
        steps["Transformer"], _modes(_settings(steps["Pooling"], "config")) if "Pooling" in steps else ("mean",),
        normalise="Normalize" in steps, max_tokens=None if longest is None else int(longest),
        lower=bool(settings.get("do_lower_case", False)), prompt=str(more["prompts"][prompt]) if prompt else "",
    )  # fmt: skip


def _modes(settings: dict[str, Any]) -> tuple[str, ...]:
    given = settings.get("pooling_mode") or [mode for key, mode in MODE_FLAGS.items() if settings.get(key)] or "mean"
    modes = (given,) if isinstance(given, str) else tuple(given)
    for mode in modes:
        if mode not in MODES:
            raise UnderstudyError(f"the encoder pools by {mode!r}; use one that pools by {', '.join(MODES)}")
    return modes


def _settings(folder: Path, name: str) -> Any:
    path = folder / f"{name}.json"
    return read_json(path) if path.is_file() else {}


@dataclass(frozen=True)
class Encoder:
    #: As messages name it: a folder, or a name of the hub.
    name: str
    folder: Path
    #: The hub's commit, where it came from there.
    revision: str | None = None
    #: Texts between two signs of life: some seconds.
    step_rows: ClassVar[int] = 256

    @classmethod
    def find(cls, name: str, *, revision: str | None = None) -> "Encoder":
        """A folder, a name of ``installed_encoders``, or one of the hub, which comes last."""
        if Path(name).expanduser().is_dir():
            folder = Path(name).expanduser().resolve()
            return cls(str(folder), folder)
        here = installed().get(name)
        folder = here if here and revision in (None, here.name) else _download(name, revision)
        commit = folder.name if folder.parent.name == "snapshots" else None
        return cls(name, folder, revision=commit)

    @cached_property
    def layout(self) -> Layout:
        return read_layout(self.folder)

    @cached_property
    def fingerprint(self) -> str:
        """A hash of every file that determines the vectors."""
        folders = sorted({self.folder, self.layout.transformer, *self.folder.glob("*_Pooling")})
        return folder_digest(self.folder, folders, "texts")

    def embed(self, texts: list[str]) -> Array:
        """Most tokens first, so that a batch has little padding and too little memory shows at once."""
        tokenizer, _, limit = self.transformer
        if self.layout.lower:
            texts = [text.lower() for text in texts]
        try:
            read = tokenizer([self.layout.prompt + text for text in texts], truncation=True, max_length=limit)
            # By characters alone, reviews of movies take 8% padding; so, 2%.
            order = np.argsort([-len(tokens) for tokens in read["input_ids"]], kind="stable")
            pieces = [
                self._embed_batch({name: [column[row] for row in rows] for name, column in read.items()})
                for rows in np.split(order, range(BATCH, len(order), BATCH))
            ]
        except (AttributeError, IndexError, TypeError, ValueError) as error:
            raise UnderstudyError(f"{self.name} does not encode texts: {first_line(error)}; use an encoder") from error
        vectors = np.empty((len(texts), pieces[0].shape[1]), dtype=np.float32)
        vectors[order] = np.concatenate(pieces)
        return vectors

    def _embed_batch(self, tokens: dict[str, list[Any]]) -> Array:
        """``tokens``: the tokenizer's columns of some texts, not padded yet."""
        tokenizer, model, _ = self.transformer
        with torch.inference_mode():
            batch = tokenizer.pad(tokens, return_tensors="pt").to(model.device)
            vectors = self.layout.pool(model(**batch).last_hidden_state, batch["attention_mask"]).cpu()
        if not bool(vectors.isfinite().all()):
            raise UnderstudyError(f"{self.name} gives NaN or infinity for a text; use another encoder")
        return np.asarray(vectors.numpy(), dtype=np.float32)

    @cached_property
    def transformer(self) -> tuple[Any, Any, int]:
        """Tokenizer, model, and how many tokens it reads."""
        what, folder = f"the encoder {self.name}", self.layout.transformer
        cure = "it must hold a model of transformers, with its tokenizer and weights as safetensors"
        # Weights that the file lacks are drawn at random; the caller's random state stays as it is.
        with loading_model(what, cure) as transformers, torch.random.fork_rng(devices=[]):
            tokenizer = transformers.AutoTokenizer.from_pretrained(folder, **SAFE)
            model, info = transformers.AutoModel.from_pretrained(folder, **SAFE_WEIGHTS)
        check_weights(what, info)
        tokenizer.padding_side = "right"
        # Or else the library advises against padding what has been sorted.
        tokenizer.deprecation_warnings = {"Asking-to-pad-a-fast-tokenizer": True}
        device = "cuda" if torch.cuda.is_available() else "cpu"
        # Some families keep two positions for themselves; a tokenizer that knows its limit has left them out.
        positions = int(getattr(model.config, "max_position_embeddings", None) or 514) - 2
        known = int(tokenizer.model_max_length)
        limit = known if known < 1_000_000 else positions
        return tokenizer, model.float().eval().to(device), min(limit, self.layout.max_tokens or limit)


def folder_digest(root: Path, folders: Iterable[Path], settings: str) -> str:
    """Of the settings and of every file that makes an encoder."""
    total = hashlib.sha256(settings.encode())
    for path in (path for folder in folders for path in sorted(folder.iterdir()) if path.suffix in SUFFIXES):
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        total.update(f"{path.relative_to(root)} {digest}\n".encode())
    return total.hexdigest()


def _download(name: str, revision: str | None) -> Path:
    """The folder a name of the hub is kept in, fetched where it is not there yet."""
    if name.startswith((".", "/", "~")) or name.count("/") > 1:
        raise UnderstudyError(f"there is no encoder in {name}: no such folder; check the path")
    optional("transformers", "encoders need transformers", "hf")
    from huggingface_hub import snapshot_download

    wanted, skipped = [f"*{suffix}" for suffix in SUFFIXES], ["onnx/*", "openvino/*"]
    try:
        return Path(snapshot_download(name, revision=revision, allow_patterns=wanted, ignore_patterns=skipped))
    except Exception as error:
        # No network, no such name, no permission: each has an exception of its own, in versions of their own.
        raise UnderstudyError(f"no encoder {name!r} here or on the hub: {first_line(error)}; check the name") from error


#: No code of a model is run, and no pickled weights are loaded.
SAFE = {"trust_remote_code": False, "local_files_only": True}
SAFE_WEIGHTS = {"use_safetensors": True, "output_loading_info": True, **SAFE}


@contextmanager
def loading_model(what: str, cure: str, *, needed: str = "encoders") -> Iterator[Any]:
    """The library, without its own bars and remarks on stderr; what goes wrong is one line."""
    transformers = optional("transformers", f"{needed} need transformers", "hf")
    log = transformers.utils.logging
    level, bars = log.get_verbosity(), log.is_progress_bar_enabled()
    log.set_verbosity_error()
    log.disable_progress_bar()
    try:
        yield transformers
    except Exception as error:
        # A damaged folder makes the library raise nearly everything.
        raise UnderstudyError(f"cannot load {what}: {first_line(error)}; {cure}") from error
    finally:
        log.set_verbosity(level)
        if bars:
            log.enable_progress_bar()


def check_weights(what: str, info: Mapping[str, Any], body: str = "") -> None:
    """Refuses a model that lacks weights, but for the pooler's and those outside ``body``, which are new."""
    absent = sorted(key for key in info["missing_keys"] if key.startswith(body) and "pooler" not in key)
    if absent:
        raise UnderstudyError(f"{what} lacks the weights {absent[0]!r}; fetch it anew")


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

    def __post_init__(self) -> None:
        self.names, self.shape = (self.name,), (self.width,)

    @classmethod
    def fit(cls, raw: RawColumns, name: str, *, encoder: str) -> Self:
        """Learns only the width of a vector, from the first text."""
        loaded = Encoder.find(encoder)
        width = encode(loaded, raw.texts(name)[:1], where=raw.at(name)).shape[1]
        part = cls(name, loaded.name, loaded.fingerprint, width, loaded.revision)
        part.loaded = loaded
        return part

    @cached_property
    def loaded(self) -> Any:
        """The encoder of the training, known by its content: under its own name, or any other that is installed."""
        own, missing = [], None
        try:
            own = [self._find(self.encoder, self.revision)]
        except UnderstudyError as error:
            missing = error
        others = map(self._find, self._others())
        for encoder in chain(own, others):
            if encoder.fingerprint == self.fingerprint:
                return encoder
        if own:
            raise UnderstudyError(f"the encoder {self.encoder} has changed since training; restore it or train again")
        needed = f"this run needs the encoder {self.encoder} (content {self.fingerprint[:12]}), which is not here"
        cure = f"restore it, install it ({INSTALL}), or train again with --encoder none"
        raise UnderstudyError(f"{needed}; {cure}") from missing

    def _find(self, name: str, revision: str | None = None) -> Any:
        return Encoder.find(name, revision=revision)

    def _others(self) -> Iterable[str]:
        return installed()

    def __call__(self, raw: RawColumns) -> Array:
        return encode(self.loaded, raw.texts(self.name), where=raw.at(self.name), width=self.width)


def encode(encoder: Encoder, texts: list[str], *, where: str, width: int | None = None) -> Array:
    """A vector per text; the encoder sees each distinct text once, and only if the cache does not know it."""
    keys = [hashlib.sha256(text).digest() for text in encoded(texts, where)]
    return encode_new(encoder, keys, texts, "texts", width=width, size=len)


def encode_new(
    encoder: Any, keys: list[bytes], items: Sequence[Any], what: str, *, width: int | None,
    size: Callable[[Any], int] = lambda item: 0,
) -> Array:  # fmt: skip
    """A vector per item; ``encoder.embed`` sees each distinct one once, the largest first, and only if the cache does
    not know it. ``keys``: SHA-256 of their content."""
    distinct = dict(zip(keys, items, strict=True))
    cache = cache_path() / "embeddings" / encoder.fingerprint
    vectors, is_stored = fetch(cache, list(distinct), width)
    todo = [key for key, known in zip(distinct, is_stored, strict=True) if not known]
    todo.sort(key=lambda key: -size(distinct[key]))
    row_of = {key: number for number, key in enumerate(distinct)}
    step_rows = encoder.step_rows
    steps = range(0, len(todo), step_rows)
    with ProgressBar(f"encoding {what}", len(steps), shown=len(steps) > 1) as bar:
        bar.show(f"{len(todo):,} {what}, kept in {cache.parent}")
        for start in range(0, len(todo), SHARD_ROWS):
            new, pieces = todo[start : start + SHARD_ROWS], []
            for step in range(0, len(new), step_rows):
                pieces.append(encoder.embed([distinct[key] for key in new[step : step + step_rows]]))
                bar.advance("")
            encoded = np.concatenate(pieces)
            keep(cache, new, encoded)
            if not vectors.shape[1]:
                vectors = np.zeros((len(distinct), encoded.shape[1]), dtype=np.float32)
            vectors[[row_of[key] for key in new]] = encoded
    # No copy where every item is there once.
    return vectors if len(distinct) == len(items) else vectors[[row_of[key] for key in keys]]
