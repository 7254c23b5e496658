"""``us.text``: a sequence classifier of transformers as a student, with its tokenizer.

    student = us.text("sentence-transformers/all-MiniLM-L6-v2", classes=["neg", "pos"])       # or a folder
    run = us.train(student, us.Gold(texts, y, teacher=probs), us.Pool(pool_texts, pool_probs), us.slam(), out="runs/a")
    run.predict(["a text"])                                                    # runs/a/model is for transformers

What it returns builds a student whenever it is called: ``us.train`` calls it under the seed of the training, so that
the new last layer is drawn anew for each. Texts are tokenised once (``TextReader``), and a batch is padded to its own
longest text. Code that comes with a model is never run and pickled weights are never loaded.

A run keeps such a student as a folder that transformers loads: settings, weights, tokenizer and model card.

    write_model(run.student, folder, "model", run.config, run.facts, metrics)
    load_student(folder, base=…, max_tokens=64)                   # the net again, with fresh weights
    AutoModelForSequenceClassification.from_pretrained("runs/a/model")

The weights are those of the run's ``student.safetensors``, under the name that transformers looks for.
"""

import copy
import hashlib
import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import jinja2
import numpy as np
import torch
from torch import Tensor, nn

from understudy.data.checks import check_class_count, encoded
from understudy.data.inputs import Tokens
from understudy.errors import UnderstudyError, first_line
from understudy.features.encoder import SAFE, SAFE_WEIGHTS, Encoder, check_weights, loading_model
from understudy.models.registry import note_drawn, note_reader, reader_of
from understudy.store.files import appearing_whole, write_bytes
from understudy.store.option_fields import checked_plainly
from understudy.training.options import StudentBuilder

__all__ = ["text"]

#: ``freeze`` this: all but the last layer.
EVERYTHING = "encoder"
NEEDED = "students that read texts"
CURE = "it must hold a model of transformers that can classify texts, with its tokenizer and weights as safetensors"
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


@dataclass(frozen=True)
class TextStudent(StudentBuilder):
    """Builds the student; made by ``text``."""

    name: str
    classes: int
    class_names: tuple[str, ...] | None = None
    max_tokens: int | None = None
    freeze: int | str = 0
    checkpointing: bool = False

    def __post_init__(self) -> None:
        if self.freeze != EVERYTHING and (not isinstance(self.freeze, int) or self.freeze < 0):
            raise UnderstudyError(f"freeze={self.freeze!r} is a number of layers, or {EVERYTHING!r}: all but the last")

    @cached_property
    def source(self) -> Encoder:
        return Encoder.find(self.name)

    @cached_property
    def reader(self) -> TextReader:
        folder, layout = self.source.layout.transformer, self.source.layout
        with loading_model(self.name, CURE, needed=NEEDED) as library:
            config = library.AutoConfig.from_pretrained(folder, **SAFE)
        positions = int(getattr(config, "max_position_embeddings", None) or 514)
        limit = min(positions, layout.max_tokens or positions)
        base = self.source.name if self.source.revision else self.source.folder.name
        return TextReader.find(folder, base, max_tokens=self.max_tokens, limit=limit)

    def __call__(self) -> nn.Module:
        """A student with the pretrained weights; the new last layer is drawn from PyTorch's random state."""
        folder = self.source.layout.transformer
        with loading_model(self.name, CURE, needed=NEEDED) as library:
            kind = library.AutoModelForSequenceClassification
            model, info = kind.from_pretrained(folder, num_labels=self.classes, **SAFE_WEIGHTS)
        check_weights(self.name, info, f"{model.base_model_prefix}.")
        model = model.float()
        # Where the weights came from is no setting of the student: it is the same wherever the folder lies.
        model.config._name_or_path = model.name_or_path = ""
        names = self.class_names or tuple(f"LABEL_{number}" for number in range(self.classes))
        model.config.id2label, model.config.label2id = dict(enumerate(names)), {n: i for i, n in enumerate(names)}
        if self.checkpointing:
            model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
        _freeze(model, self.freeze)
        note_reader(model, self.reader)
        note_drawn(model, [name for name, _ in model.named_children() if name != model.base_model_prefix])
        return model  # type: ignore[no-any-return]

    def options(self, device: Any = None) -> dict[str, Any]:
        """Default options for fine-tuning a pretrained net (Devlin et al., 2019, section A.3)."""
        options = {
            "epochs": 3, "batch_size": 32, "lr": 5e-5, "optimizer": "adamw", "schedule": "linear", "warmup": 0.1,
            "clip": 1.0,
        }  # fmt: skip
        # Only on a GPU: on processors without it bfloat16 is slow, or dies.
        on_gpu = device is not None and torch.device(device).type == "cuda" and torch.cuda.is_available()
        return options | ({"autocast": "bfloat16"} if on_gpu and torch.cuda.is_bf16_supported() else {})


@checked_plainly
def text(
    name: str | Path,
    *,
    classes: int | Sequence[str],
    max_tokens: int | None = None,
    freeze: int | str = 0,
    checkpointing: bool = False,
) -> TextStudent:
    """A function that builds students which read texts: the net in a folder (or of that name on the hub), with a new
    last layer for ``classes`` (how many, or their names in order).

    ``max_tokens``: longer texts are cut (None: what the net can read). ``freeze``: so many layers from below stay as
    they are, and the embeddings with them; ``"encoder"``: all but the last layer. ``checkpointing``: activations are
    computed again in the backward pass instead of kept: less memory, a third more time. It brings its own defaults for
    ``us.train``: 3 epochs, batches of 32, AdamW at 5e-5 with a warm-up, bfloat16 on a GPU that has it.
    """
    names = None if isinstance(classes, int) else tuple(map(str, classes))
    count = check_class_count(classes if names is None else len(names), "us.text")
    return TextStudent(str(name), count, names, max_tokens, freeze, checkpointing)


def _layers(model: Any) -> tuple[str, int]:
    """What the layers' parameters begin with, up to their number, and how many layers there are."""
    wanted = int(getattr(model.config, "num_hidden_layers", 0) or 0)
    for name, part in model.named_modules():
        if isinstance(part, nn.ModuleList) and len(part) == wanted:
            return f"{name}.", wanted
    raise UnderstudyError(f"{type(model).__name__} does not show its layers; leave out freeze=")


def _freeze(model: Any, layers: int | str) -> None:
    if not layers:
        return
    prefix = f"{model.base_model_prefix}."
    before, most = _layers(model)
    if isinstance(layers, int) and layers > most:
        raise UnderstudyError(f"freeze={layers}: there are {most} layers; use freeze={EVERYTHING!r} for all of them")
    for key, parameter in model.named_parameters():
        number = key.removeprefix(before).partition(".")[0] if key.startswith(before) else ""
        below = int(number) < int(layers) if number and layers != EVERYTHING else "embed" in key
        parameter.requires_grad_(not (key.startswith(prefix) and (layers == EVERYTHING or below)))


def text_spec(student: nn.Module) -> dict[str, Any]:
    """What a run's ``config.json`` says of such a student: with the folder, all it takes to build it again."""
    reader = _reader(student)
    return {"name": "text", "args": {"base": reader.base, "max_tokens": reader.max_tokens}}


def _reader(student: nn.Module) -> TextReader:
    reader = reader_of(student)
    assert isinstance(reader, TextReader)
    return reader


def write_model(
    student: Any, run: Path, name: str, config: Mapping[str, Any], facts: Mapping[str, float], metrics: Any
) -> dict[str, bytes]:
    """Write the folder ``name`` of a run whose weights are there; its other files, for the run's checksums.

    ``config``: the run's; ``metrics``: by set, then by moment, then by name.
    """
    settings, names = copy.deepcopy(student.config), config.get("class_names")
    if names is not None:
        settings.id2label, settings.label2id = dict(enumerate(names)), {name: i for i, name in enumerate(names)}
    settings.architectures, settings.problem_type = [type(student).__name__], "single_label_classification"
    reader = _reader(student)
    with tempfile.TemporaryDirectory() as scratch:
        settings.save_pretrained(scratch)
        reader.tokenizer.save_pretrained(scratch)
        files = {path.name: path.read_bytes() for path in sorted(Path(scratch).iterdir()) if path.is_file()}
    labels = [settings.id2label[number] for number in sorted(settings.id2label)]
    files["README.md"] = model_card(reader, labels, config, facts, metrics).encode()
    for file, content in files.items():
        write_bytes(run / name / file, content)
    # The run's weights here too: one file under two names where the disk can, else a copy.
    with appearing_whole(run / name / "model.safetensors") as temporary:
        temporary.unlink()
        try:
            os.link(run / "student.safetensors", temporary)
        except OSError:
            shutil.copyfile(run / "student.safetensors", temporary)
    return {f"{name}/{file}": content for file, content in files.items()}


def load_student(folder: Path, *, base: str, max_tokens: int) -> nn.Module:
    """The net that a run's model folder describes, weights yet to be loaded, with its reader."""
    # Weights that are replaced at once need none of the caller's random numbers.
    what = f"the model in {folder}"
    with loading_model(what, "restore it", needed=NEEDED) as library, torch.random.fork_rng(devices=[]):
        config = library.AutoConfig.from_pretrained(folder, **SAFE)
        model = library.AutoModelForSequenceClassification.from_config(config)
    model.config._name_or_path = model.name_or_path = ""
    note_reader(model, TextReader.find(folder, base, max_tokens=max_tokens, limit=max_tokens + 2))
    return model.float()  # type: ignore[no-any-return]


def model_card(
    made: TextReader, labels: list[str], config: Mapping[str, Any], facts: Mapping[str, float],
    metrics: Mapping[str, Mapping[str, Mapping[str, float]]],
) -> str:  # fmt: skip
    """README.md of the folder, from what the run's report tells."""
    template = Path(__file__).with_name("model_card.md.jinja").read_text(encoding="utf-8")
    card: str = jinja2.Template(template, trim_blocks=True, keep_trailing_newline=True).render(
        base=made.base, max_tokens=made.max_tokens, labels=labels, config=config,
        measured=[
            (role, moment, found)
            for role, moments in metrics.items() for moment, found in moments.items() if "accuracy" in found
        ],
        temperature=facts.get("temperature"),
        options={name: config[name] for name in ("epochs", "batch_size", "lr", "optimizer", "seed") if name in config},
        trained=[f"{int(facts[n]):,} {n.replace('_', ' ')}" for n in ("gold_rows", "pool_rows") if facts.get(n)],
    )  # fmt: skip
    return card
