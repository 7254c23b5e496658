"""Cards: what the page shows of a row. A text with highlights, a picture, or a table of fields.

    cards = Cards.of("batch.csv", pool="pool.parquet")           # rows chosen by select, shown as the pool has them
    cards.ids, cards.chosen                                      # in the order of the file
    cards.card("r17")                                            # {"id": …, "text": [["It was ", false], …], …}

Scores and predictions are no part of a card; ``suggestion`` gives a predicted label where one may be shown.

Image files are sent as they are, other formats and arrays of numbers as PNG. Files may come from anyone: they are
opened inside their folder alone (``features/images.py``), and sent under the type that their first bytes have, so that
a browser never takes one for a page. Drawings with scripts in them (SVG) are refused.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import repeat
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from understudy.data.checks import is_index, is_reserved
from understudy.errors import UnderstudyError
from understudy.features.featuriser import FeatureOptions, text_alone
from understudy.features.images import image_files, open_image, png_bytes
from understudy.io.label_columns import DRAWN, SHOWN, Labelling, read_teacher, true_or_false
from understudy.io.table import Table, read_table
from understudy.labels.class_names import ClassNames
from understudy.store.arrow import Array
from understudy.store.files import digest

#: A text in pieces, and whether each is highlighted.
Marked = list[tuple[str, bool]]
#: Bytes, and their media type.
Picture = tuple[bytes, str]

PNG = "image/png"
_TYPES = {
    b"\x89PNG\r\n\x1a\n": PNG,
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF87a": "image/gif",
    b"GIF89a": "image/gif",
    b"BM": "image/bmp",
}


def picture(cell: Any, folder: Path | None, where: str) -> Picture:
    """``cell``: a path inside ``folder``, the bytes of a file, or an array."""
    if isinstance(cell, np.ndarray) and cell.dtype.kind in "biuf":
        return png_bytes(Image.fromarray(_pixels(cell, where))), PNG
    (file,) = image_files([cell], folder, where)
    content = file if isinstance(file, bytes) else file.read_bytes()
    kind = next((kind for start, kind in _TYPES.items() if content.startswith(start)), None)
    if content[:4] == b"RIFF" and content[8:12] == b"WEBP":
        kind = "image/webp"
    if kind is not None:
        return content, kind
    return png_bytes(open_image(file, where)), PNG


def _pixels(values: Array, where: str) -> Array:
    """``(height, width)`` or ``(height, width, 3)`` as bytes, of channels first or last, [0, 1] or [0, 255]."""
    if values.ndim == 1 and (side := round(len(values) ** 0.5)) ** 2 == len(values):
        values = values.reshape(side, side)
    if values.ndim == 3 and values.shape[0] in (1, 3):
        values = values.transpose(1, 2, 0)
    if values.ndim == 3 and values.shape[2] == 1:
        values = values[:, :, 0]
    if values.ndim not in (2, 3) or (values.ndim == 3 and values.shape[2] != 3):
        raise UnderstudyError(f"{where} has shape {values.shape}; a picture is (height, width), with 1 or 3 channels")
    if values.dtype == np.uint8:
        return values
    numbers = np.nan_to_num(values.astype(np.float64))
    low, high = float(numbers.min()), float(numbers.max())
    if low >= 0 and high <= 255:
        return (numbers * (255 if high <= 1 else 1)).astype(np.uint8)
    # Standardised numbers: from the darkest to the brightest.
    return ((numbers - low) * (255 / max(high - low, 1e-12))).astype(np.uint8)


def marked(text: str, words: Sequence[str] = ()) -> Marked:
    """The text in pieces, with the words (or phrases) to highlight marked."""
    wanted = sorted({*words} - {""}, key=len, reverse=True)
    if not wanted:
        return [(text, False)]
    # Whole words: "art" is not in "start". Phrases that begin or end in punctuation have no word border there.
    pattern = "|".join(rf"{_edge(phrase[0])}{re.escape(phrase)}{_edge(phrase[-1])}" for phrase in wanted)
    pieces = re.split(f"({pattern})", text, flags=re.IGNORECASE)
    return [(piece, number % 2 == 1) for number, piece in enumerate(pieces) if piece] or [("", False)]


def _edge(sign: str) -> str:
    return r"\b" if re.match(r"\w", sign) else ""


def guideline_html(path: Path | None) -> str:
    """The Markdown file as HTML, read anew for each page; markup in it is shown as text, links are http(s) and mail."""
    if path is None:
        return ""
    from markdown_it import MarkdownIt

    # This preset accepts no HTML, and refuses javascript:, file: and the like in links.
    html: str = MarkdownIt("js-default", {"html": False, "linkify": False}).render(read_guideline(path))
    return html.replace("<a href=", '<a target="_blank" rel="noopener noreferrer" href=')


def read_guideline(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise UnderstudyError(f"cannot read the guideline {path}: {error}; write Markdown in UTF-8") from error


# What select writes beside the id: about the row, and not shown.
_ABOUT = {"row", "score", "why", "predicted", "confidence", "chosen", DRAWN, SHOWN}
# What budget writes as well; a file may have such columns of its own.
_PLANNED = {"purpose", "gain"}
#: Characters of a field; a text is shown whole.
_LONGEST = 2_000

Card = dict[str, Any]


@dataclass
class Cards:
    #: The rows to label.
    rows: Table
    #: The file with their content: the same, or the pool.
    shown: Table
    #: Ids in the order of the rows, and where each is in ``shown``.
    places: Mapping[str, int]
    text: str | None = None
    image: str | None = None
    fields: Sequence[str] = ()
    #: To be highlighted in every text.
    words: Sequence[str] = ()
    classes: Sequence[str] = ()
    _columns: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        rows: Any,
        pool: Any = None,
        *,
        columns: Mapping[str, str] | None = None,
        text: str | None = None,
        image: str | None = None,
        fields: Sequence[str] | None = None,
        words: Sequence[str] = (),
    ) -> "Cards":
        """``columns``: our names to theirs. ``fields``: columns for a table; without, all where there is no text and
        no image."""
        table = read_table(rows, columns=columns, name="the rows")
        shown = table if pool is None else read_table(pool, columns=columns, name="the pool")
        places = _places(table, shown)
        seen = [name for name in shown.names if not (is_reserved(name) or is_index(name) or name in _ABOUT)]
        named = [(text, "--text"), (image, "--image"), *((name, "--show") for name in fields or ())]
        for name, option in named:
            if name is not None and name not in shown.names:
                raise UnderstudyError(f"{shown.path} has no column {name!r} for {option}; it has {', '.join(seen)}")
        if image is None:
            image = next((name for name in ("image", "x") if _is_picture(shown, name)), None) if text is None else None
        if text is None and image is None and fields is None:
            text = "text" if "text" in seen else _sentences(shown, seen)
        if fields is None:
            fields = [] if text is not None or image is not None or {*seen} <= _PLANNED else seen
        if not (text or image or fields):
            raise UnderstudyError(f"{shown.path} has nothing to show; name the file with the rows: --pool FILE")
        return cls(table, shown, places, text, image, fields, words)

    @property
    def ids(self) -> list[str]:
        return list(self.places)

    @cached_property
    def chosen(self) -> list[bool] | None:
        """Whether a strategy picked each row; None where the file has no such column."""
        if "chosen" not in self.rows.names:
            return None
        cells = self.rows.columns["chosen"].tolist()
        return true_or_false(cells, self.rows.where("chosen"), "a strategy picked the row")

    def features(self) -> list[str]:
        """The columns of the shown file that hold no labels or scores."""
        return [name for name in self.shown.names if not is_reserved(name) and name not in _ABOUT]

    def card(self, id: str) -> Card:
        row, text = self.places[id], None
        if self.text is not None:
            text = marked(_text(self._cell(self.text, row)), self.words)
        fields = [[name, _text(self._cell(name, row))[:_LONGEST]] for name in self.fields]
        return {"id": id, "text": text, "image": self.image is not None, "fields": fields}

    def picture(self, id: str) -> Picture:
        if self.image is None or id not in self.places:
            raise UnderstudyError(f"{id!r} has no picture; check the id")
        row = self.places[id]
        where = f"{self.shown.where(self.image)} row {row}"
        return picture(self.shown.columns[self.image][row], self.shown.folder, where)

    def pin(self, id: str) -> dict[str, str]:
        """By column that is shown, a digest of its content in this row."""
        row, names = self.places[id], dict.fromkeys([*filter(None, [self.text]), *self.fields])
        shown = {name: _text(self._cell(name, row)).encode("utf-8", "surrogatepass") for name in names}
        if self.image is not None:
            shown[self.image] = self.picture(id)[0]
        return {name: digest(content)[:16] for name, content in shown.items()}

    def suggests(self, id: str) -> bool:
        return id in self._suggestions

    def suggestion(self, id: str) -> dict[str, Any] | None:
        """The class predicted by the student that chose the row, or else by the teacher."""
        return self._suggestions.get(id)

    @cached_property
    def _suggestions(self) -> dict[str, dict[str, Any]]:
        labels, shares, by = list[str](), repeat(None), "student"
        if "predicted" in self.rows.names:
            labels = list(map(_text, self.rows.columns["predicted"].tolist()))
            shares = self.rows.columns["confidence"].tolist() if "confidence" in self.rows.names else shares
        else:
            # Classes called 0, 1, … are given by number.
            numbered = all(name == str(number) for number, name in enumerate(self.classes))
            names = None if numbered else ClassNames(tuple(self.classes))
            teacher, by = read_teacher(self.shown, Labelling(names, len(self.classes))), "teacher"
            if teacher is not None:
                named = dict(enumerate(self.classes))
                labels = [named.get(number, "") for number in teacher.top1()[list(self.places.values())].tolist()]
        return {
            id: {"label": label, "confidence": _share(share), "by": by}
            for id, label, share in zip(self.places, labels, shares, strict=False)
            if label in self.classes
        }

    def _cell(self, name: str, row: int) -> Any:
        """As the file has it: 007 stays 007."""
        if name not in self._columns:
            self._columns[name] = self.shown.stored(name)
        cell = self._columns[name][row]
        return cell.as_py() if hasattr(cell, "as_py") else cell


def _places(rows: Table, shown: Table) -> dict[str, int]:
    why = ", by which answers are joined to rows; add it, or name one (--id row, of a batch by select)"
    ids, _ = rows.known_ids(why), shown.known_ids(why)
    index = rows.places_in(shown, "add it")
    return {str(id): place for id, place in zip(ids.tolist(), index.tolist(), strict=True)}


def _is_picture(table: Table, name: str) -> bool:
    return name in table.names and (name == "image" or table.columns[name].ndim > 2)


def _sentences(table: Table, seen: Sequence[str]) -> str | None:
    """The one column of sentences among those to be seen."""
    columns = {name: table.columns[name] for name in seen}
    return text_alone(columns, FeatureOptions(), where=str(table.path)).text if seen else None


def _share(cell: Any) -> float | None:
    """The probability of the predicted class; None where the file has none."""
    return cell if isinstance(cell, int | float) and 0 <= cell <= 1 else None


def _text(cell: Any) -> str:
    if cell is None or (isinstance(cell, float) and np.isnan(cell)):
        return ""
    if isinstance(cell, np.ndarray):
        cell = cell.tolist()
    if isinstance(cell, bytes):
        return f"{len(cell):,} bytes"
    return f"{cell:.10g}" if isinstance(cell, float) else str(cell)
