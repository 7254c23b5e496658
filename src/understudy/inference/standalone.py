"""Predictions of this model for rows as they are: texts, or columns by name. numpy and onnxruntime are all it needs.

from predict import Model; model = Model("model")       # the folder that this file lies in
model.predict(["How do I reset my pin?"])               # class names
model.predict_proba([{"age": 31, "job": "clerk"}])      # (rows, classes), in the order of model.classes
python predict.py rows.csv > predictions.csv            # label, confidence and the probability of each class
python predict.py --serve 8000                          # POST /predict with {"rows": [row, …]}; images as base64
"""

import argparse
import base64
import csv
import io
import json
import math
import re
import sys
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np

BATCH, MOST_BYTES, ROW = 64, 16_000_000, ""  # ROW: beside the columns, the number of each row
WORD = re.compile(r"(?u)\b\w\w+\b")  # as scikit-learn reads words
DECIMAL = re.compile(r"\s*[+-]?(\d+,(\d\d?|\d{4,})|0,\d+)\s*")  # 1,234 may be a thousand
Columns = Mapping[str, Sequence[Any]]
FLAGS = {"true": True, "yes": True, "1": True, "1.0": True, "false": False, "no": False, "0": False, "0.0": False}
#: Of a date: days since 2000, hours since midnight, month and weekday (Monday: 1).
DATE_PARTS: dict[str, Any] = {
    "day": lambda at: (at - datetime(2000, 1, 1)).days, "month": lambda at: at.month, "weekday": datetime.isoweekday,
    "hour": lambda at: (at - datetime(at.year, at.month, at.day)).total_seconds() / 3600,
}  # fmt: skip


class Model:
    def __init__(self, folder: str | Path | None = None, *, threads: int = 1) -> None:
        self.folder, self.threads = Path(folder or Path(__file__).parent), threads
        settings = json.loads((self.folder / "features.json").read_text(encoding="utf-8"))
        self.classes, self.thresholds = settings["classes"], settings["thresholds"]  # of understudy defer
        self.parts: list[Any] = [PARTS[part["kind"]](part, self) for part in settings["parts"]]
        self.beside: float = settings["beside"]  # of columns beside a text
        self.kinds: dict[str, str] = settings["kinds"]  # of flags, and of dates: "dates %d.%m.%Y"
        made = {f"{part} of {name}": name for name in self.kinds for part in DATE_PARTS}
        #: The columns that a row must have.
        self.names = list(dict.fromkeys(made.get(name, name) for part in self.parts for name in part.names))
        self.net = self.session("model.onnx")

    def session(self, name: str) -> Any:
        return open_net(self.folder / name, self.threads)

    def predict(self, rows: Any) -> list[str]:
        return [self.classes[best] for best in self.predict_proba(rows).argmax(1)]

    def predict_proba(self, rows: Any) -> Any:
        """``rows``: texts, mappings of column to value, or one mapping (or frame) of column to values."""
        columns: Columns = self._columns(rows)
        columns = {**columns, ROW: range(len(columns[self.names[0]]))}
        found = [self._batch({name: cells[start : start + BATCH] for name, cells in columns.items()})
                 for start in columns[ROW][::BATCH]]  # fmt: skip
        probs = np.concatenate(found) if found else np.zeros((0, len(self.classes)), np.float32)
        if not np.isfinite(probs).all():
            row = int(np.isnan(probs).any(1).argmax())
            raise ValueError(f"row {row} gives no probabilities; its numbers are too large")
        return probs

    def _batch(self, columns: Columns) -> Any:
        columns, first = dict(columns), columns[ROW][0]
        for name, kind in self.kinds.items():
            cells = columns[name] = [as_kind(value, kind, name, row) for row, value in enumerate(columns[name], first)]
            for part, of in DATE_PARTS.items() if kind != "flags" else ():
                columns[f"{part} of {name}"] = [None if cell is None else of(cell) for cell in cells]
        blocks = [part(columns) for part in self.parts]
        blocks[1:] = [self.beside * block for block in blocks[1:]]
        if isinstance(blocks[0], dict):
            return first_output(self.net, blocks[0])
        flat = blocks[0] if len(blocks) == 1 else np.concatenate([each.reshape(len(each), -1) for each in blocks], 1)
        return first_output(self.net, {"x": flat.astype(np.float32)})

    def sent_rows(self, rows: Any) -> list[dict[str, Any]]:
        """Rows of a request, by column. Images are base64, never paths: who sends requests may not open files here."""
        columns = self._columns(rows)
        for name in [part.names[0] for part in self.parts if isinstance(part, ImagePart)]:
            columns[name] = [base64.b64decode(cell, validate=True) for cell in columns[name]]
        return [dict(zip(columns, cells, strict=True)) for cells in zip(*columns.values(), strict=True)]

    def _columns(self, rows: Any) -> dict[str, list[Any]]:
        if isinstance(rows, str):
            raise ValueError("give a list of rows, also for one: [row]")
        if isinstance(rows, Mapping) or hasattr(rows, "columns"):
            missing = [name for name in self.names if name not in rows]
            columns = {name: list(rows[name]) for name in self.names if name in rows}
        else:
            rows = list(rows)
            if not all(isinstance(row, Mapping) for row in rows):
                if len(self.names) > 1:
                    raise ValueError(f"a row has the columns {', '.join(self.names)}; give each as a mapping")
                return {self.names[0]: rows}
            missing = [name for name in self.names if any(name not in row for row in rows)]
            columns = {name: [row[name] for row in rows] for name in self.names if name not in missing}
        if missing:
            raise ValueError(f"the rows have no column {missing[0]!r}; they need {', '.join(self.names)}")
        return columns


def open_net(path: Path, threads: int = 1) -> Any:
    import onnxruntime  # only here: this file is read, too, where nothing is to be run

    options = onnxruntime.SessionOptions()
    options.log_severity_level, options.intra_op_num_threads = 3, threads
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def first_output(session: Any, inputs: Mapping[str, Any]) -> Any:
    """The first output. An input that the net ignores is not in the graph."""
    return session.run(None, {each.name: inputs[each.name] for each in session.get_inputs()})[0]


def as_kind(value: Any, kind: str, name: str, row: int) -> Any:
    """True or False, or a date; None: an empty cell."""
    text, written = "" if value is None or value != value else str(value).strip(), kind.partition(" ")[2]
    try:
        if not text or kind == "flags":
            return FLAGS[text.lower()] if text else None
        other = "%" in written and text[4:5] != "-"  # not 2025-01-31
        date = datetime.strptime(text, written) if other else datetime.fromisoformat(text)
        return date.astimezone(UTC).replace(tzinfo=None) if date.tzinfo else date
    except (KeyError, ValueError):
        raise ValueError(f"row {row}: {name!r} holds {value!r}; training had {kind}") from None


class FeaturePart:
    """``(rows, width)`` numbers of some columns."""

    def __init__(self, part: dict[str, Any], model: Model) -> None:
        self.part, self.names = part, [part["name"]] if "name" in part else list(part.get("names", ()))
        self.encoder = model.session(part["net"]) if "net" in part else None

    def texts(self, columns: Columns) -> list[str]:
        texts = list(columns[self.names[0]])
        for row, text in enumerate(texts, columns[ROW][0]):
            if not isinstance(text, str):
                raise ValueError(f"row {row}: {self.names[0]!r} holds {text!r}, not a text")
        return texts


class ArrayPart(FeaturePart):
    def __call__(self, columns: Columns) -> Any:
        return np.array([np.asarray(value, np.float32).reshape(self.part["shape"]) for value in columns[self.names[0]]])


class NumberPart(FeaturePart):
    def __init__(self, part: dict[str, Any], model: Model) -> None:
        super().__init__(part, model)
        medians = part["median"] or part["mean"]
        self.median, self.mean, self.deviation = map(np.array, (medians, part["mean"], part["deviation"]))
        self.gaps = [place for place, name in enumerate(self.names) if name in part["gaps"]]

    def __call__(self, columns: Columns) -> Any:
        given = ((name, enumerate(columns[name], columns[ROW][0])) for name in self.names)
        values = np.array([[as_number(value, name, row) for row, value in cells] for name, cells in given]).T
        empty = np.isnan(values)
        if self.part["missing"] == "error" and empty.any():
            place, row = np.argwhere(empty.T)[0]
            raise ValueError(f"row {columns[ROW][row]}: {self.names[place]!r} holds no number")
        values = np.where(empty, self.median, values)
        if self.part["scale"]:
            values = np.divide(values - self.mean, self.deviation, out=np.zeros_like(values), where=self.deviation > 0)
        return np.concatenate([values, empty[:, self.gaps]], 1).astype(np.float32)


def as_number(value: Any, name: str, row: int) -> float:
    try:
        value = value.replace(",", ".") if isinstance(value, str) and DECIMAL.fullmatch(value) else value
        return math.nan if value is None or (isinstance(value, str) and not value.strip()) else float(value)
    except (TypeError, ValueError):
        raise ValueError(f"row {row}: {name!r} holds {value!r}, not a number") from None


class CategoryPart(FeaturePart):
    """One-hot; a value that training did not know is all zeros."""

    def __init__(self, part: dict[str, Any], model: Model) -> None:
        super().__init__(part | {"names": [name for name, _ in part["known"]]}, model)
        self.known = {name: {value: place for place, value in enumerate(values)} for name, values in part["known"]}

    def __call__(self, columns: Columns) -> Any:
        blocks = []
        for name, known in self.known.items():
            places = np.array([known.get("" if value is None else str(value), -1) for value in columns[name]])
            blocks.append((places[:, None] == np.arange(len(known))).astype(np.float32))
        return np.concatenate(blocks, 1)


class TfidfPart(FeaturePart):
    """(1 + ln count) · idf of words and runs of neighbouring words, rows of length 1."""

    def __init__(self, part: dict[str, Any], model: Model) -> None:
        super().__init__(part, model)
        self.places = {term: place for place, term in enumerate(part["terms"])}
        self.idf = np.array(part["idf"], np.float32)
        self.longest = 1 + max(term.count(" ") for term in part["terms"])

    def __call__(self, columns: Columns) -> Any:
        texts = self.texts(columns)
        block = np.zeros((len(texts), len(self.idf)), np.float32)
        for row, text in enumerate(texts):
            words = WORD.findall(text.lower())
            for length in range(1, self.longest + 1):
                for start in range(len(words) - length + 1):
                    if (place := self.places.get(" ".join(words[start : start + length]))) is not None:
                        block[row, place] += 1
        seen = block > 0
        block[seen] = 1 + np.log(block[seen])
        block *= self.idf
        return block / np.maximum(np.sqrt((block**2).sum(1, keepdims=True)), 1e-30)


class ImagePart(FeaturePart):
    """Paths or bytes of image files, as pixels or as vectors of an encoder; this part needs Pillow."""

    def __call__(self, columns: Columns) -> Any:
        from PIL import Image, ImageOps

        height, width = self.part["size"]
        pixels = []
        for source in columns[self.names[0]]:
            with Image.open(io.BytesIO(source) if isinstance(source, bytes) else source) as image:
                upright = ImageOps.exif_transpose(image)
                grey = "L" if upright.mode in ("1", "L", "LA") else "RGB"
                upright = upright.convert(grey).convert(self.part["mode"])
                upright = upright.resize((width, height), Image.Resampling.BILINEAR)
                pixels.append(np.asarray(upright, np.float32).reshape(height, width, -1).transpose(2, 0, 1) / 255)
        return np.stack(pixels) if self.encoder is None else first_output(self.encoder, {"x": np.stack(pixels)})


class TokenPart(FeaturePart):
    """Texts as vectors of an encoder; or as token numbers, padded to the longest, for a net that reads texts."""

    def __init__(self, part: dict[str, Any], model: Model) -> None:
        super().__init__(part, model)
        self.tokenize = tokenizer(model.folder / "tokenizer.json", part["max_tokens"])

    def __call__(self, columns: Columns) -> Any:
        texts = [text.lower() if self.part["lower"] else text for text in self.texts(columns)]
        found = [self.tokenize(self.part["prompt"] + text) or [self.part["pad"]] for text in texts]
        # A graph with a free length needs two positions at least.
        mask = np.arange(max(2, *map(len, found))) < np.array(list(map(len, found)))[:, None]
        ids = np.full(mask.shape, self.part["pad"], np.int64)
        ids[mask] = np.concatenate(found)
        tokens = {"input_ids": ids, "attention_mask": mask.astype(np.int64)}
        return tokens if self.encoder is None else first_output(self.encoder, tokens)


PARTS = {
    "array": ArrayPart, "numbers": NumberPart, "categories": CategoryPart, "tfidf": TfidfPart, "image": ImagePart,
    "texts": TokenPart, "encoder": TokenPart, "image encoder": ImagePart,
}  # fmt: skip


def tokenizer(path: Path, most: int) -> Any:
    """text -> token numbers, at most ``most``. Other tokenizers than BERT's need the package ``tokenizers``."""
    settings = json.loads(path.read_text(encoding="utf-8"))
    if settings["model"]["type"] == "WordPiece" and settings["normalizer"]["type"] == "BertNormalizer":
        return WordPiece(settings, most)
    import tokenizers

    found = tokenizers.Tokenizer.from_file(str(path))
    found.no_padding()
    found.enable_truncation(most)
    return lambda text: found.encode(text).ids


class WordPiece:
    """BERT's tokenizer: words and signs, each cut greedily into the longest known pieces."""

    def __init__(self, settings: dict[str, Any], most: int) -> None:
        model, normalizer = settings["model"], settings["normalizer"]
        self.pieces, self.prefix = model["vocab"], model["continuing_subword_prefix"]
        self.unknown, self.longest = self.pieces[model["unk_token"]], model["max_input_chars_per_word"]
        self.lower, strip = normalizer["lowercase"], normalizer["strip_accents"]
        self.strip = self.lower if strip is None else strip
        self.first, self.last, self.most = self.pieces["[CLS]"], self.pieces["[SEP]"], most
        special = [token["content"] for token in settings["added_tokens"] if token["special"]]
        self.special = re.compile("(" + "|".join(map(re.escape, special or ["[CLS]"])) + ")")

    def __call__(self, text: str) -> list[int]:
        found: list[int] = []
        for part in self.special.split(text):
            pieces = [piece for word in self.words(part) for piece in self.cut(word)]
            found += [self.pieces[part]] if self.special.fullmatch(part) else pieces
        return [self.first, *found[: self.most - 2], self.last]

    def words(self, text: str) -> Iterable[str]:
        text = "".join(sign for sign in text if sign in "\t\n\r" or unicodedata.category(sign) not in "Cc Cf Co")
        if self.strip:
            text = "".join(sign for sign in unicodedata.normalize("NFD", text) if unicodedata.category(sign) != "Mn")
        if self.lower:  # sign by sign: the lower case of a whole word may depend on its end (Greek)
            text = "".join(map(str.lower, text))
        return "".join(f" {sign} " if stands_alone(sign) else sign for sign in text.replace("\ufffd", "")).split()

    def cut(self, word: str) -> list[int]:
        if len(word) > self.longest:
            return [self.unknown]
        found, start = [], 0
        while start < len(word):
            for end in range(len(word), start, -1):
                piece = self.pieces.get((self.prefix if start else "") + word[start:end])
                if piece is not None:
                    break
            else:
                return [self.unknown]
            found.append(piece)
            start = end
        return found


CHINESE = ((0x4E00, 0x9FFF), (0x3400, 0x4DBF), (0x20000, 0x2A6DF), (0x2A700, 0x2B73F), (0x2B740, 0x2B81F),
           (0x2B920, 0x2CEAF), (0xF900, 0xFAFF), (0x2F800, 0x2FA1F))  # fmt: skip


def stands_alone(sign: str) -> bool:
    """Punctuation, every sign of ASCII, and Chinese characters."""
    if sign.isascii():
        return not (sign.isalnum() or sign.isspace())
    return unicodedata.category(sign)[0] == "P" or any(low <= ord(sign) <= high for low, high in CHINESE)


def answer(model: Model, rows: Any) -> list[dict[str, Any]]:
    found = [dict(zip(model.classes, map(float, probs), strict=True)) for probs in model.predict_proba(rows)]
    answers = [{"label": max(p, key=p.__getitem__), "confidence": max(p.values()), "probabilities": p} for p in found]
    for one in answers if model.thresholds else ():
        one["deferred"] = 1 - one["confidence"] > model.thresholds[one["label"]]
    return answers


class Handler(BaseHTTPRequestHandler):
    model: Model

    def do_GET(self) -> None:
        self.reply(200 if self.path == "/health" else 404, {"classes": self.model.classes})

    def do_POST(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        if self.path != "/predict" or length > MOST_BYTES:
            self.reply(404 if self.path != "/predict" else 413, {"error": f"POST /predict, at most {MOST_BYTES} bytes"})
            return
        try:
            rows = self.model.sent_rows(json.loads(self.rfile.read(length))["rows"])
            self.reply(200, {"predictions": answer(self.model, rows)})
        except (KeyError, TypeError, ValueError) as error:
            self.reply(400, {"error": f'{error}; send {{"rows": [...]}}'})

    def reply(self, status: int, content: Any) -> None:
        body = json.dumps(content, ensure_ascii=False).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def read_csv(path: str, names: Iterable[str], numbers: Iterable[str] = ()) -> list[dict[str, Any]]:
    """Rows; the delimiter finds most of the columns ``names``. Where ``numbers`` hold 0,5, 1.234 is a thousand."""
    lines = io.StringIO(Path(path).read_text(encoding="utf-8-sig"), newline="").readlines()
    heads = {each: next(csv.reader(lines, delimiter=each), []) for each in ",;\t|"}
    found = max(heads, key=lambda each: len({*names} & {*heads[each]}))
    rows, numbers = list(csv.DictReader(lines, delimiter=found)), {*numbers} & {*heads[found]}
    if not any(DECIMAL.fullmatch((row[name] or "").replace(".", "")) for row in rows for name in numbers):
        return rows
    return [row | {name: re.sub(r"\.(?=\d{3}(\D|$))", "", row[name] or "") for name in numbers} for row in rows]


def command_line() -> None:
    parser = argparse.ArgumentParser(description="Predict with the model in this folder.")
    parser.add_argument("file", nargs="?", help="CSV with a header")
    parser.add_argument("--serve", type=int, metavar="PORT", help="answer POST /predict instead")
    parser.add_argument("--host", default="127.0.0.1")
    given = parser.parse_args()
    if given.file is None and given.serve is None:
        parser.error("name a CSV file, or --serve PORT")
    Handler.model = model = Model()
    if given.serve is not None:
        ThreadingHTTPServer((given.host, given.serve), Handler).serve_forever()
    try:
        numbers = [name for part in model.parts if isinstance(part, NumberPart) for name in part.names]
        found = answer(model, read_csv(given.file, model.names, numbers))
    except (OSError, ValueError) as error:
        sys.exit(f"error: {given.file} (row 0 is the first below the header): {error}")
    writer = csv.writer(sys.stdout)
    writer.writerow(["label", "confidence", *model.classes, *(["deferred"] if model.thresholds else [])])
    for one in found:
        writer.writerow([one["label"], one["confidence"], *one["probabilities"].values(), *[*one.values()][3:]])


if __name__ == "__main__":
    command_line()
