"""A student that reads texts, as a folder that transformers loads: settings, weights, tokenizer and model card.

    write_model(run.student, folder, "model", run.config, run.facts, metrics)
    load_student(folder, base=…, max_tokens=64)                   # the net again, with fresh weights
    AutoModelForSequenceClassification.from_pretrained("runs/a/model")

The weights are those of the run's ``student.safetensors``, under the name that transformers looks for.
"""

import copy
import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import nn

from understudy.data.texts import note_reader, reader_of
from understudy.errors import UnderstudyError, first_line
from understudy.features.encoder import quiet, transformers_library
from understudy.hf.text import NEEDS, SAFE
from understudy.hf.text_reader import TextReader
from understudy.store.files import appearing_whole, write_bytes

WEIGHTS = "model.safetensors"


def model_files(student: Any, config: Mapping[str, Any], facts: Mapping[str, float], metrics: Any) -> dict[str, bytes]:
    """Everything but the weights. ``config``: the run's; ``metrics``: by set, then by moment, then by name."""
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
    card = model_card(reader, labels, config, facts, metrics)
    return files | {"README.md": card.encode()}


def text_spec(student: nn.Module) -> dict[str, Any]:
    """What a run's ``config.json`` says of such a student: with the folder, all it takes to build it again."""
    reader = _reader(student)
    return {"name": "text", "args": {"base": reader.base, "max_tokens": reader.max_tokens}}


def _reader(student: nn.Module) -> TextReader:
    reader = reader_of(student)
    assert isinstance(reader, TextReader)
    return reader


def write_model(
    student: nn.Module, run: Path, name: str, config: Mapping[str, Any], facts: Mapping[str, float], metrics: Any
) -> dict[str, bytes]:
    """Write the folder ``name`` of a run whose weights are there; its other files, for the run's checksums."""
    files = model_files(student, config, facts, metrics)
    for file, content in files.items():
        write_bytes(run / name / file, content)
    _place_weights(run / "student.safetensors", run / name / WEIGHTS)
    return {f"{name}/{file}": content for file, content in files.items()}


def _place_weights(stored: Path, path: Path) -> None:
    """The run's weights in the model's folder too: one file under two names where the disk can, else a copy."""
    with appearing_whole(path) as temporary:
        temporary.unlink()
        try:
            os.link(stored, temporary)
        except OSError:
            shutil.copyfile(stored, temporary)


def load_student(folder: Path, *, base: str, max_tokens: int) -> nn.Module:
    """The net that a run's model folder describes, weights yet to be loaded, with its reader."""
    library = transformers_library(NEEDS)
    try:
        # Weights that are replaced at once need none of the caller's random numbers.
        with quiet(library), torch.random.fork_rng(devices=[]):
            config = library.AutoConfig.from_pretrained(folder, **SAFE)
            model = library.AutoModelForSequenceClassification.from_config(config)
    except Exception as error:
        # A damaged folder makes the library raise nearly everything.
        raise UnderstudyError(f"cannot load the model in {folder}: {first_line(error)}; restore it") from error
    model.config._name_or_path = model.name_or_path = ""
    note_reader(model, TextReader.find(folder, base, max_tokens=max_tokens, limit=max_tokens + 2))
    student: nn.Module = model.float()
    return student


def model_card(
    made: TextReader, labels: list[str], config: Mapping[str, Any], facts: Mapping[str, float],
    metrics: Mapping[str, Mapping[str, Mapping[str, float]]],
) -> str:  # fmt: skip
    """README.md of the folder, from what the run's report tells."""
    base, counted = made.base, {name: facts.get(name) for name in ("gold_rows", "pool_rows")}
    rows = [
        f"| {role} | {moment} | {found['accuracy']:.1%} | {found['worst_class']:.1%} | {found['ece']:.3f} |"
        for role, moments in metrics.items()
        for moment, found in moments.items()
        if "accuracy" in found
    ]
    table = ["| rows | epoch | accuracy | worst class | calibration error |", "| --- | --- | --- | --- | --- |", *rows]
    options = {name: config[name] for name in ("epochs", "batch_size", "lr", "optimizer", "seed") if name in config}
    trained = [f"{int(count):,} {name.replace('_', ' ')}" for name, count in counted.items() if count]
    return "\n".join(
        [
            "---",
            "library_name: transformers",
            "pipeline_tag: text-classification",
            *([f"base_model: {base}"] if "/" in base else []),
            "tags: [understudy, text-classification]",
            "---",
            "",
            f"# {' or '.join(labels)}: a text classifier",
            "",
            f"{base}, fine-tuned with Understudy's method `{config.get('objective')}` on "
            f"{' and '.join(trained) or 'labelled texts'}. Gold rows have trusted labels; the labels of pool rows are "
            "a teacher's, and some of them are wrong.",
            "",
            f"- Classes: {', '.join(f'{number} {name}' for number, name in enumerate(labels))}",
            f"- Texts longer than {made.max_tokens} tokens are cut.",
            f"- Training: {', '.join(f'{name} {value}' for name, value in options.items())}",
            "",
            "## How good it is",
            "",
            *(table if rows else ["It was not measured: the training had no test and no select rows."]),
            "",
            "It is as good as that on texts like those it was measured on; nothing is known of others.",
            "",
            "## Use",
            "",
            "```python",
            "from transformers import pipeline",
            "",
            'classify = pipeline("text-classification", model="FOLDER")',
            'classify(["a text"])',
            "```",
            "",
        ]
    )
