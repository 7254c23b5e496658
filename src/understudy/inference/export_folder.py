"""A run as a folder that predicts raw rows where neither this package nor torch is installed.

    export(run, "model")                    # a name without a suffix

    model/predict.py                        reads rows and predicts: numpy and onnxruntime alone (``standalone.py``)
    model/features.json                     the classes, and what each part of the features learned in training
    model/deferral.json, combination.safetensors    student and teacher together, for ``understudy serve``
    model/model.onnx                        the student: features in, class probabilities out
    model/encoder.onnx, tokenizer.json      where an encoder, or the student itself, reads texts
    model/image_encoder.onnx                where an encoder reads images
    model/README.md, Dockerfile             how to use and to serve it

Before the folder appears, its ``predict.py`` is run on some rows and compared with the run itself.
"""

import copy
import importlib.util
import json
import warnings
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import jinja2
import numpy as np
import torch
from torch import Tensor, nn

from understudy.data.inputs import as_rows
from understudy.data.rows import Rows
from understudy.errors import UnderstudyError, UnderstudyWarning, first_line
from understudy.features.encoder import Encoded, Encoder
from understudy.features.featuriser import VALUES_FILE, Featuriser
from understudy.features.image_encoder import EncodedImages
from understudy.features.images import Images, png_bytes
from understudy.features.raw_columns import DERIVED
from understudy.features.tabular import Arrays, Categories, Numbers, Part, Texts, Tfidf
from understudy.inference import standalone
from understudy.inference.cascade import COMBINATION
from understudy.inference.export_formats import Probabilities, difference, example_inputs, onnx_bytes
from understudy.inference.passes import predict
from understudy.models.registry import reader_of
from understudy.store.files import folder_appearing_whole
from understudy.training.run import Run

TEXTS = ["A first text, to see that it runs.", "another one", "", "Über 3,000 ways to (re)set a pin: don't panic!"]
TOKENS = ("input_ids", "attention_mask")


class Vectors(nn.Module):
    """An encoder and its pooling: token numbers in, a vector per text out."""

    def __init__(self, encoder: Encoder) -> None:
        super().__init__()
        self.pool, self.model = encoder.layout.pool, copy.deepcopy(encoder.transformer[1]).cpu()

    def forward(self, *inputs: Tensor) -> Tensor:
        states = self.model(**dict(zip(TOKENS, inputs, strict=True))).last_hidden_state
        return self.pool(states, inputs[1])


class ImageVectors(nn.Module):
    """Images in, a vector per image out."""

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = copy.deepcopy(net).to("cpu", memory_format=torch.contiguous_format)  # type: ignore[call-overload]

    def forward(self, *inputs: Tensor) -> Tensor:
        vectors: Tensor = self.net(inputs[0])
        return vectors


def export_folder(run: Run, folder: Path, *, rows: Mapping[str, Sequence[Any]] | None = None) -> Path:
    """``rows``: columns of real rows to check the folder with; made-up ones if None."""
    student, theirs = copy.deepcopy(run.student).cpu().eval(), run.config.get("columns") or {}
    featuriser, reader = _featuriser(run, student), reader_of(student)
    with folder_appearing_whole(folder) as new:
        parts = [_under_file_names(_describe(part, student, new), theirs) for part in featuriser.parts]
        if reader is None:
            names, inputs = example_inputs(student, _read(featuriser, _made_up(featuriser)), needed=True)
        else:
            names, inputs = TOKENS, _tokens(reader.tokenizer)
        model = Probabilities(student, names, run.temperature).eval()
        (new / "model.onnx").write_bytes(onnx_bytes(model, inputs, {}, names=names or ("x",)))
        with torch.no_grad():
            count = model(*inputs).shape[1]
        classes = run.config.get("class_names") or [str(number) for number in range(count)]
        kinds = {theirs.get(name, name): kind for name, kind in featuriser.types.items()}
        special = {name: kind for name, kind in kinds.items() if kind == "flags" or kind.startswith("dates")}
        rule, combination = run.rule, run.cascade.combination
        thresholds = {} if rule is None else dict(zip(classes, rule.thresholds * count, strict=False))
        settings = {
            "classes": list(classes), "parts": parts, "kinds": special, "thresholds": thresholds,
            "beside": featuriser.beside,
        }  # fmt: skip
        if rule is not None:
            rule.save(new)
        if combination is not None:
            (new / COMBINATION).write_bytes(combination.to_bytes())
        (new / "features.json").write_text(json.dumps(settings, ensure_ascii=False), encoding="utf-8")
        source = Path(standalone.__file__).read_text(encoding="utf-8")
        (new / "predict.py").write_text(source, encoding="utf-8")
        _write_texts(new, run, featuriser, classes)
        rows = rows or _made_up(featuriser)
        named = {theirs.get(name, name): values for name, values in rows.items()}
        _check(new, folder, named, predict(student, _read(featuriser, rows), temperature=run.temperature))
    return folder


def _featuriser(run: Run, student: nn.Module) -> Featuriser:
    if run.path is not None and (run.path / VALUES_FILE).exists():
        return Featuriser.load(run.path)
    if reader_of(student) is not None:
        return Featuriser([Texts("text")], {})
    if isinstance(names := run.config.get("features"), list):
        zeros = np.zeros(len(names))
        return Featuriser([Numbers(tuple(names), zeros, zeros, scale=False, missing="error")], {})
    _, (x,) = example_inputs(student, None, needed=True)
    return Featuriser([Arrays("x", tuple(x.shape[1:]))], {})


def _describe(part: Part, student: nn.Module, folder: Path) -> dict[str, Any]:
    """What ``predict.py`` needs to know of a part; nets and tokenizers are written beside."""
    values, arrays = part.learned()
    described = {"kind": part.kind, **values, **{name: array.tolist() for name, array in arrays.items()}}
    if isinstance(part, EncodedImages):
        size, net = (part.side, part.side), ImageVectors(part.loaded.net).eval()
        (folder / "image_encoder.onnx").write_bytes(onnx_bytes(net, (torch.zeros(2, 3, *size),), {}, names=("x",)))
        return {"kind": part.kind, "name": part.name, "size": size, "mode": "RGB", "net": "image_encoder.onnx"}
    if isinstance(part, Encoded):
        tokenizer, _, limit = part.loaded.transformer
        content = onnx_bytes(Vectors(part.loaded).eval(), _tokens(tokenizer), {}, names=TOKENS)
        (folder / "encoder.onnx").write_bytes(content)
        layout = part.loaded.layout
        described = {"kind": part.kind, "name": part.name, "prompt": layout.prompt, "lower": layout.lower}
        described |= {"net": "encoder.onnx"}
    elif isinstance(part, Texts):
        reader = reader_of(student)
        tokenizer, limit = reader.tokenizer, reader.max_tokens
        described |= {"prompt": "", "lower": False}
    else:
        return described
    try:
        (folder / "tokenizer.json").write_text(tokenizer.backend_tokenizer.to_str(), encoding="utf-8")
    except AttributeError as error:
        raise UnderstudyError("the encoder's tokenizer is slow (no tokenizer.json); export .onnx instead") from error
    return described | {"max_tokens": limit, "pad": tokenizer.pad_token_id or 0}


def _under_file_names(part: dict[str, Any], theirs: Mapping[str, str]) -> dict[str, Any]:
    """Columns as the user's files call them."""

    def renamed(name: str) -> str:
        of_date = DERIVED.fullmatch(name)
        return theirs.get(name) or (f"{of_date[1]} of {theirs.get(of_date[2], of_date[2])}" if of_date else name)

    if "known" in part:
        part["known"] = [[renamed(name), values] for name, values in part["known"]]
    part |= {key: list(map(renamed, part[key])) for key in ("names", "gaps") if key in part}
    return part | ({"name": theirs.get(part["name"], part["name"])} if "name" in part else {})


def _tokens(tokenizer: Any) -> tuple[Tensor, Tensor]:
    batch = tokenizer(TEXTS, padding=True, return_tensors="pt")
    return batch["input_ids"], batch["attention_mask"]


def _write_texts(folder: Path, run: Run, featuriser: Featuriser, classes: Sequence[str]) -> None:
    kinds = {part.kind for part in featuriser.parts}
    file = folder / "tokenizer.json"
    tokenizers = file.exists() and not isinstance(standalone.tokenizer(file, 8), standalone.WordPiece)
    images = bool(kinds & {"image", "image encoder"})
    needs = ["numpy", "onnxruntime", *(["pillow"] if images else []), *(["tokenizers"] if tokenizers else [])]
    theirs = run.config.get("columns") or {}
    known = {
        "needs": needs, "names": [theirs.get(name, name) for name in featuriser.names], "classes": classes,
        "config": run.config, "run": run, "images": images, "reads_texts": bool(kinds & {"tfidf", "encoder", "texts"}),
    }  # fmt: skip
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("understudy.inference", "."), trim_blocks=True, keep_trailing_newline=True,
        autoescape=False,
    )  # fmt: skip
    for name in ("README.md", "Dockerfile"):
        content = environment.get_template(f"folder_{name}.jinja".lower()).render(known)
        (folder / name).write_text(content, encoding="utf-8")


def _made_up(featuriser: Featuriser) -> dict[str, list[Any]]:
    """A few rows of the kind that the features were learned from."""
    rng, rows = np.random.default_rng(0), len(TEXTS)
    columns: dict[str, list[Any]] = {}
    for part in featuriser.parts:
        if isinstance(part, Numbers):
            spread = np.where(part.deviation > 0, part.deviation, 1.0)
            drawn = part.mean + spread * rng.standard_normal((rows, len(part.mean)))
            columns |= dict(zip(part.names, drawn.T.tolist(), strict=True))
        elif isinstance(part, Categories):
            columns |= {name: rng.choice(np.array(known, object), rows).tolist() for name, known in part.known}
        elif isinstance(part, Arrays):
            columns[part.name] = list(rng.standard_normal((rows, *part.shape)).astype(np.float32))
        elif isinstance(part, Tfidf):
            columns[part.name] = [f"{text} {' '.join(rng.choice(part.terms, 9))}" for text in TEXTS]
        elif isinstance(part, Images):
            columns[part.name] = [_image(part.size, part.mode, rng) for _ in range(rows)]
        elif isinstance(part, EncodedImages):
            columns[part.name] = [_image((part.side, part.side), "RGB", rng) for _ in range(rows)]
        else:
            columns[part.names[0]] = list(TEXTS)
    for name, kind in featuriser.types.items():
        if kind.startswith("dates"):
            written = kind.removeprefix("dates").removeprefix(" ISO").strip() or "%Y-%m-%dT%H:%M:%S"
            dates = [datetime(2024, 2, 29, 12, 30) + timedelta(day) for day in (0, 9.4, 99)]
            columns[name] = ["", *(f"{date:{written}}" for date in dates)]
    return {name: columns[name] for name in featuriser.names}


def _image(size: tuple[int, int], mode: str, rng: np.random.Generator) -> bytes:
    from PIL import Image

    height, width = size
    shape = (height + 3, width + 5) if mode == "L" else (height + 3, width + 5, 3)
    return png_bytes(Image.fromarray(rng.integers(0, 256, shape).astype(np.uint8)))


def _read(featuriser: Featuriser, rows: Mapping[str, Sequence[Any]]) -> Rows:
    """The student's input, by the package's own code."""
    columns = {}
    for name, values in rows.items():
        simple = isinstance(values[0], int | float | list | np.ndarray)
        columns[name] = np.array(values) if simple else np.array([*values, None], object)[:-1]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnderstudyWarning)  # a month that training had no date of
        return as_rows(featuriser(columns, where="the check's rows"), "the check's rows")


def _check(new: Path, folder: Path, rows: Mapping[str, Sequence[Any]], expected: Tensor) -> None:
    """Raises unless the folder's own code gives these probabilities, for the rows together and for the first alone."""
    spec = importlib.util.spec_from_file_location("exported_predict", new / "predict.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
        found = module.Model(new)
        first = {name: values[:1] for name, values in rows.items()}
        for given, wanted in ((rows, expected), (first, expected[:1])):
            if differs := difference(torch.from_numpy(found.predict_proba(given)), wanted):
                raise UnderstudyError(f"its predict.py {differs}")
    except UnderstudyError as error:
        raise UnderstudyError(f"{folder} was not written: {error}") from error
    except Exception as error:  # whatever another runtime raises
        raise UnderstudyError(f"{folder} was not written: its predict.py fails: {first_line(error)}") from error
