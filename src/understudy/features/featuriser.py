"""Which columns become features and how, and the fitted features: raw columns in, a student's input out.

FeatureOptions()                                   # x, or else every column of numbers and of few distinct texts
FeatureOptions(text="review")                      # TF-IDF of one column, and nothing else
FeatureOptions(text="review", columns=("stars",))  # and a column of numbers beside it
FeatureOptions(image="path", image_size=(64, 64))

featuriser = Featuriser.fit(columns, FeatureOptions(text="review"), where="pool.parquet")
featuriser.shape                         # of one row: what the student must take
x = featuriser(columns, where="pool.parquet")

The features are fitted once, on the training rows, and kept in a run as JSON and safetensors.
"""

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.numpy
from safetensors import SafetensorError

from understudy.data.checks import is_index, is_reserved, looks_like
from understudy.data.rows import Rows, SparseRows
from understudy.errors import UnderstudyError, first_line, warn
from understudy.features.encoder import Encoded
from understudy.features.image_encoder import NAME as IMAGE_ENCODER
from understudy.features.image_encoder import EncodedImages, installed_image_encoder
from understudy.features.images import Images
from understudy.features.installed_encoders import SETTING, found_encoders
from understudy.features.raw_columns import (
    DATE_CATEGORIES,
    DATE_NUMBERS,
    DERIVED,
    RawColumns,
    column_kind,
    date_kind,
    find_kind,
    is_empty,
)  # fmt: skip
from understudy.features.tabular import Arrays, Block, Categories, Numbers, Part, Texts, Tfidf
from understudy.store.arrow import Array
from understudy.store.checked_folder import FolderKind
from understudy.store.console import complain
from understudy.store.files import write_bytes

MISSING = ("median", "error")
ROWS_FOR_LENGTH = 256
IMAGE_MODES = ("L", "RGB")
#: Values of ``encoder`` beside names and folders: none; one that is installed, if any; the student's tokenizer.
TFIDF, FIND, BY_STUDENT = "none", "auto", "student"


@dataclass(frozen=True)
class FeatureOptions:
    """Which columns become features, and how they become numbers."""

    #: The column of texts.
    text: str | None = None
    #: The column of images: paths, or the bytes of image files.
    image: str | None = None
    #: ``none``: TF-IDF, or pixels; ``auto``: an encoder that is installed, else those; a Hugging Face encoder by name
    #: or folder; ``student``: the student reads texts (``us.text``).
    encoder: str = TFIDF
    #: Bring columns of numbers to mean 0 and deviation 1 over the training rows.
    scale: bool = True
    #: The columns of numbers and categories to use. None: all of them, but none where ``text`` or ``image`` is given,
    #: because a column that merely lies beside a text (a rating beside a review) often gives the label away.
    columns: tuple[str, ...] | None = None
    #: A missing number: ``median``, of the training rows, beside a column that says so; or ``error``.
    missing: str = "median"
    #: A column with more distinct texts is no category.
    max_categories: int = 100
    #: TF-IDF keeps the most frequent terms.
    max_terms: int = 20_000
    #: TF-IDF counts runs of up to so many words.
    ngrams: int = 2
    #: Height and width. None: those of the first training image, 64 each where it is larger.
    image_size: tuple[int, int] | None = None
    #: ``L`` (grey) or ``RGB``. None: that of the first training image.
    image_mode: str | None = None
    #: What columns hold, text or number, where the files do not say it or say it wrongly: ``{"zip": "text"}``.
    types: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.text is not None and self.image is not None:
            raise UnderstudyError("features come from a text or from an image, not from both; name one of them")
        if self.image is not None and self.columns:
            raise UnderstudyError("an image is the student's whole input; leave the other columns out")
        if self.encoder == BY_STUDENT and (self.text is None or self.columns):
            what = "leave the other columns out" if self.columns else "name the column of texts"
            raise UnderstudyError(f"a student that reads texts takes a text and nothing else; {what}")
        for name, choices in (("missing", MISSING), ("image_mode", (*IMAGE_MODES, None))):
            if getattr(self, name) not in choices:
                listed = ", ".join(filter(None, choices))
                raise UnderstudyError(f"{name} is {getattr(self, name)!r}; choose one of {listed}")
        sizes = [(name, getattr(self, name)) for name in ("max_categories", "max_terms", "ngrams")]
        for name, value in (*sizes, *(("image_size", side) for side in self.image_size or ())):
            if value < 1:
                raise UnderstudyError(f"{name} is {value}; it must be 1 or more")


def fit_parts(raw: RawColumns, options: FeatureOptions) -> list[Part]:
    if options.image is not None:
        return [_fit_image(raw, options.image, options)]
    parts: list[Part] = []
    if options.text is not None:
        parts.append(_fit_text(raw, options.text, options))
    if options.columns is None and (parts or "x" in raw.columns):
        return parts or [Arrays.fit(raw, "x")]
    names = _usable(raw, options) if options.columns is None else _named(raw, options)
    kinds = {name: raw.kinds.get(name) or column_kind(raw[name]) for name in names}
    parts += [Arrays.fit(raw, name) for name in names if kinds[name] == "array"]
    dates = [name for name in names if kinds[name].startswith("dates")]
    numbers = [name for name in names if kinds[name] == "numbers"]
    numbers += [derived for name in dates for each in DATE_NUMBERS if np.nanmax(raw[derived := f"{each} of {name}"])]
    if numbers:
        parts.append(Numbers.fit(raw, tuple(numbers), scale=options.scale, missing=options.missing))
    categories = [name for name in names if kinds[name] in ("flags", "texts")]
    categories += [f"{each} of {name}" for name in dates for each in DATE_CATEGORIES]
    if categories:
        parts.append(Categories.fit(raw, tuple(categories), limit=options.max_categories))
    return parts


def _fit_image(raw: RawColumns, name: str, options: FeatureOptions) -> Part:
    encoder = options.encoder
    if encoder == FIND:
        encoder = IMAGE_ENCODER if installed_image_encoder() and find_spec("PIL") else TFIDF
        if encoder != TFIDF:
            complain(f"Images: vectors by {encoder}; --encoder none takes the pixels")
    if encoder == TFIDF:
        return Images.fit(raw, name, size=options.image_size, mode=options.image_mode)
    return EncodedImages.fit(raw, name, encoder=encoder, side=max(options.image_size or (0,)))


def _fit_text(raw: RawColumns, name: str, options: FeatureOptions) -> Part:
    if options.encoder == BY_STUDENT:
        return Texts.fit(raw, name)
    encoder = os.environ.get(SETTING, FIND) if options.encoder == FIND else options.encoder
    if encoder not in (FIND, TFIDF):
        return Encoded.fit(raw, name, encoder=encoder)
    for found in found_encoders() if encoder == FIND else ():
        try:
            return Encoded.fit(raw, name, encoder=found)
        except UnderstudyError as error:
            complain(f"Texts: {found} is not used: {error}")
    return Tfidf.fit(raw, name, max_terms=options.max_terms, ngrams=options.ngrams)


def _named(raw: RawColumns, options: FeatureOptions) -> list[str]:
    """The columns the user named; each must be usable."""
    names = list(dict.fromkeys(options.columns or ()))
    for name in names:
        if is_reserved(name):
            raise UnderstudyError(f"{raw.at(name)} cannot be a feature: its name is reserved; leave it out")
        if name == options.text:
            raise UnderstudyError(f"{raw.at(name)} is the text already; name other columns beside it")
        if column_kind(raw[name]) == "other" or is_empty(raw[name]):
            held = "nothing" if is_empty(raw[name]) else "neither numbers nor dates nor texts"
            raise UnderstudyError(f"{raw.at(name)} holds {held}; leave it out")
        _warn_of_mixture(raw, name, "a category", options)
    if not names and options.text is None:
        raise UnderstudyError(f"no column of {raw.where} is to be a feature; name at least one")
    return names


def _usable(raw: RawColumns, options: FeatureOptions) -> list[str]:
    """Every column of numbers, and of texts with few distinct values; the rest is named in a warning."""
    counted = [name for name in raw.columns if is_index(name)]
    if counted:
        warn(f"{raw.where}: {_shown(counted)} not used: it numbers the rows, as data frames write their index")
    others = _others(raw)
    if empty := [name for name in raw.columns if name not in others and _may_be_used(name)]:
        warn(f"{raw.where}: {_shown(empty)} not used: empty in every row")
    names = [name for name in others if _is_usable(raw, name, options.max_categories)]
    left_out = [name for name in others if name not in names]
    # Dates alone are hardly what a table with texts is about.
    if not names or (left_out and all(raw.kinds.get(name, "").startswith("dates") for name in names)):
        hint = f"; {_shown(left_out)} could be the text (--text) or the image (--image)" if left_out else ""
        raise UnderstudyError(f"{raw.where} has no features; add a column 'x', numbers or categories{hint}")
    for name in others:
        _warn_of_mixture(raw, name, "a category" if name in names else "left out", options)
    if left_out:
        why = f"neither one number per row nor a category of at most {options.max_categories} values"
        texts = [name for name in left_out if column_kind(raw[name]) == "texts" and _are_sentences(raw[name])]
        cure = f"say --text {texts[0]!r} to use it" if texts else "name a column of texts by --text, one of ids by --id"
        warn(f"{raw.where}: {_shown(left_out)} left out: {why}; {cure}")
    return names


#: Digits with any marks between: a number, or nearly one.
_FIGURES = r"\s*[+-]?[\d.,]*\d[\d.,]*([eE][+-]?\d+)?\s*"


def _warn_of_mixture(raw: RawColumns, name: str, becomes: str, options: FeatureOptions) -> None:
    """Says why a column that looks like numbers, or like dates, is none."""
    if name in options.types or name in raw.kinds or column_kind(raw[name]) != "texts":
        return
    cells = [cell for cell in raw.categories(name)[:1000] if cell.strip()]
    words = [cell for cell in cells if not re.fullmatch(_FIGURES, cell)]
    if words and 5 * len(words) < len(cells):
        held, more = f"holds numbers and {words[0]!r}, so it is {becomes}", f", or say --types {name}=text"
        warn(f"{raw.at(name)} {held}; leave such cells empty{'' if becomes == 'left out' else more}")
    elif all(re.fullmatch(r"\s*\d{1,2}/\d{1,2}/\d{4}.*", cell) for cell in cells):
        held = f"{cells[0]!r} may be a day or a month first, so it is {becomes}"
        warn(f"{raw.at(name)}: {held}; say --types {name}=date:%d/%m/%Y")
    elif becomes == "left out" and all(re.fullmatch(r"\s*[+-]?\d+[.,][\d.,]*\s*", cell) for cell in cells):
        warn(f"{raw.at(name)} holds texts like {cells[0]!r}, so it is left out; if they are numbers, pass numbers")
    elif words and all(re.fullmatch(_FIGURES, cell.strip(" %€$£")) for cell in cells):
        warn(f"{raw.at(name)}: {words[0]!r} is a number and a sign, so it is {becomes}; write numbers without it")


def text_alone(columns: Mapping[str, Array], options: FeatureOptions, *, where: str) -> FeatureOptions:
    """The options with the only column of sentences as the text, where no features are named and none else possible."""
    if options.text is not None or options.image is not None or options.columns is not None or "x" in columns:
        return options
    raw = RawColumns(columns, where)
    others = _others(raw)
    if len(others) != 1 or column_kind(raw[others[0]]) != "texts" or _is_usable(raw, others[0], options.max_categories):
        return options
    return replace(options, text=others[0]) if _are_sentences(raw[others[0]]) else options


def _are_sentences(column: Array) -> bool:
    values = [str(value).split() for value in column[:1000].tolist() if value is not None]
    return 2 * sum(len(words) > 1 for words in values) > len(values)


def _others(raw: RawColumns) -> list[str]:
    """Columns that hold something, whose names are not reserved for something other than features."""
    return [name for name in raw.columns if _may_be_used(name) and not is_empty(raw[name])]


def _may_be_used(name: str) -> bool:
    return not (is_reserved(name) or is_index(name) or looks_like(name))


def _shown(names: list[str]) -> str:
    return ", ".join(map(repr, names[:8])) + (f" … ({len(names)} columns)" if len(names) > 8 else "")


def _is_usable(raw: RawColumns, name: str, limit: int) -> bool:
    column = raw[name]
    kind = raw.kinds.get(name) or column_kind(column)
    if kind != "texts":
        return kind in ("numbers", "flags") or kind.startswith("dates")
    # Values that hardly repeat (names, sentences) identify rows, not kinds of rows.
    distinct = len(set(raw.categories(name)))
    return distinct <= limit and 2 * distinct <= max(len(column), 4)


VALUES_FILE, ARRAYS_FILE = "features.json", "features.safetensors"
FEATURES = FolderKind("features", VALUES_FILE, cure="restore it or train again")
PARTS: dict[str, type[Part]] = {
    part.kind: part for part in (Arrays, Numbers, Categories, Tfidf, Encoded, Texts, Images, EncodedImages)
}


def _found_kinds(raw: RawColumns, options: FeatureOptions) -> dict[str, str]:
    """The columns that hold true or false, or dates, unless the user says what they hold."""
    if options.image is not None or (options.columns is None and (options.text is not None or "x" in raw.columns)):
        return {}
    names = _others(raw) if options.columns is None else options.columns
    kinds = {name: find_kind(raw[name]) for name in names if name not in options.types}
    dates = {name: kind for name, kind in options.types.items() if name in names and kind.startswith("date")}
    kinds |= {name: date_kind(raw[name], kind.partition(":")[2], raw.at(name)) for name, kind in dates.items()}
    return {name: kind for name, kind in kinds.items() if kind == "flags" or kind.startswith("dates")}


def origin(name: str, kinds: Mapping[str, str]) -> str:
    """The column of the file that a feature is made of: of ``month of joined``, ``joined``."""
    derived = DERIVED.fullmatch(name)
    return derived[2] if derived and kinds.get(derived[2], "").startswith("dates") else name


class Featuriser:
    def __init__(self, parts: list[Part], types: Mapping[str, str], beside: float = 1.0) -> None:
        #: What each raw column held in training (``part.column_kind``, or what the user declared).
        #: What the columns beside a text are multiplied by (``_beside``).
        self.parts, self.types, self.beside = parts, dict(types), beside
        #: The raw columns it needs.
        names = (name for part in parts for name in part.names)
        self.names = tuple(dict.fromkeys(origin(name, self.types) for name in names))
        #: Of one row.
        self.shape = parts[0].shape if len(parts) == 1 else (sum(int(np.prod(part.shape)) for part in parts),)

    @classmethod
    def fit(
        cls, columns: Mapping[str, Array], options: FeatureOptions, *, where: str, folder: str | Path | None = "."
    ) -> "Featuriser":
        """Learn from the training rows what the features are. ``folder``: what paths of images are relative to."""
        written = RawColumns(columns, where, None if folder is None else Path(folder))
        raw = replace(written, kinds=_found_kinds(written, options))
        parts = fit_parts(raw, options)
        read = [part for part in parts if not isinstance(part, Images | EncodedImages)]
        names = {origin(name, raw.kinds) for part in read for name in part.names}
        found = {name: raw.kinds.get(name) or column_kind(raw[name]) for name in columns if name in names}
        other = {name: kind for name, kind in options.types.items() if name in found and name not in raw.kinds}
        beside = _beside(parts, raw, found) if options.text is not None and options.scale and len(parts) > 1 else 1.0
        return cls(parts, found | {name: f"declared {kind}s" for name, kind in other.items()}, beside)

    def __call__(self, columns: Mapping[str, Array], *, where: str, folder: str | Path | None = ".") -> Array | Rows:
        raw = RawColumns(columns, where, None if folder is None else Path(folder), self.types)
        blocks: list[Any] = [part(raw) for part in self.parts]
        if self.beside != 1:
            blocks[1:] = [self.beside * block for block in blocks[1:]]
        return _side_by_side(blocks)

    def notes(self) -> list[str]:
        """What was decided about columns, for the user to know."""
        numbers = [part for part in self.parts if isinstance(part, Numbers)]
        found = [(part.names, part.median) for part in numbers if part.median is not None]
        medians = {name: value for names, median in found for name, value in zip(names, median, strict=True)}
        gaps = [f"{name!r} {medians[name]:,g}" for part in numbers for name in part.gaps if name in self.types]
        dates = {name: kind.removeprefix("dates") for name, kind in self.types.items() if kind.startswith("dates")}
        parts = dict.fromkeys(
            name.partition(" ")[0] for part in self.parts for name in part.names if name not in self.types
        )
        notes = [f"empty cells become the training median ({', '.join(gaps)}), marked by a column each"] if gaps else []
        listed = ", ".join(f"{name!r}{written}" for name, written in dates.items())
        return notes + ([f"dates ({listed}) become {', '.join(parts)}"] if dates else [])

    def save(self, folder: str | Path) -> None:
        folder = Path(folder)
        parts: list[dict[str, Any]] = []
        arrays: dict[str, Array] = {}
        for number, part in enumerate(self.parts):
            values, own = part.learned()
            parts.append({"kind": part.kind, **values})
            arrays |= {f"{number}.{name}": np.ascontiguousarray(array) for name, array in own.items()}
        content = safetensors.numpy.save(arrays)
        write_bytes(folder / ARRAYS_FILE, content)
        # The values are written last and vouch for both files.
        FEATURES.write(folder, {"parts": parts, "types": self.types, "beside": self.beside}, {ARRAYS_FILE: content})

    @classmethod
    def load(cls, folder: str | Path) -> "Featuriser":
        stored = FEATURES.read(Path(folder))
        try:
            arrays = safetensors.numpy.load(Path(folder, ARRAYS_FILE).read_bytes())
            parts = [_restore(values, arrays, number) for number, values in enumerate(stored["parts"])]
            return cls(parts, stored["types"], stored["beside"])
        except (OSError, KeyError, TypeError, ValueError, SafetensorError) as error:
            raise UnderstudyError(f"{folder} holds damaged features: {first_line(error)}; {FEATURES.cure}") from error


def _restore(values: dict[str, Any], arrays: dict[str, Array], number: int) -> Part:
    own = {name.partition(".")[2]: array for name, array in arrays.items() if name.startswith(f"{number}.")}
    return PARTS[values["kind"]](**{name: value for name, value in values.items() if name != "kind"}, **own)


def _beside(parts: list[Part], raw: RawColumns, names: Iterable[str]) -> float:
    """The factor that makes the columns beside a text as long a vector as the text's, in the mean square of some rows:
    a unit vector of 384 numbers is lost beside a dozen columns of deviation 1."""
    every = max(len(raw[parts[0].names[0]]) // ROWS_FOR_LENGTH, 1)
    some = replace(raw, columns={name: raw[name][::every] for name in names})
    # ``data``: the values of an array, and those of a sparse block.
    blocks: list[Any] = [part(some) for part in parts]
    text, *others = (float(np.square(np.asarray(block.data)).sum()) for block in blocks)
    return float(np.sqrt(text / sum(others))) if text and sum(others) else 1.0


def _side_by_side(blocks: list[Block]) -> Array | Rows:
    """One block as it is; several in their order, each row flat, sparse where one of them is."""
    if len(blocks) == 1:
        (block,) = blocks
        return block if isinstance(block, np.ndarray | Rows) else SparseRows(block)
    flat: list[Any] = [
        block.reshape(len(block), -1).astype(np.float32, copy=False) if isinstance(block, np.ndarray) else block
        for block in blocks
    ]
    if not all(isinstance(block, np.ndarray) for block in flat):
        from scipy import sparse

        return SparseRows(sparse.csr_matrix(sparse.hstack(flat, format="csr", dtype=np.float32)))
    return np.concatenate(flat, axis=1)
