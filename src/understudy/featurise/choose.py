"""Which columns become features, and as what; decided once, on the training rows."""

import warnings

from understudy.errors import UnderstudyError, UnderstudyWarning
from understudy.featurise.arrays import Arrays
from understudy.featurise.categories import Categories
from understudy.featurise.encoded import Encoded
from understudy.featurise.images import Images
from understudy.featurise.numbers import Numbers
from understudy.featurise.part import Part
from understudy.featurise.raw import Raw, is_reserved, kind_of
from understudy.featurise.request import Request
from understudy.featurise.tfidf import Tfidf


def fit_parts(raw: Raw, request: Request) -> list[Part]:
    if request.image is not None:
        return [_fit_image(raw, request)]
    parts = [] if request.text is None else [_fit_text(raw, request)]
    if request.columns is not None:
        return parts + _fit_columns(raw, _named(raw, request), request)
    if parts:
        return parts
    if "x" in raw.columns:
        return [Arrays.fit(raw, "x")]
    return _fit_columns(raw, _usable(raw, request), request)


def _fit_text(raw: Raw, request: Request) -> Part:
    assert request.text is not None
    if request.encoder == "tfidf":
        return Tfidf.fit(raw, request.text, max_terms=request.max_terms, ngrams=request.ngrams)
    return Encoded.fit(raw, request.text, encoder=request.encoder, max_tokens=request.max_tokens)


def _fit_image(raw: Raw, request: Request) -> Part:
    assert request.image is not None
    return Images.fit(raw, request.image, size=request.image_size, mode=request.image_mode)


def _fit_columns(raw: Raw, names: list[str], request: Request) -> list[Part]:
    kinds = {name: kind_of(raw[name]) for name in names}
    parts: list[Part] = [Arrays.fit(raw, name) for name in names if kinds[name] == "array"]
    numbers = tuple(name for name in names if kinds[name] == "numbers")
    if numbers:
        parts.append(Numbers.fit(raw, numbers, scale=request.scale, missing=request.missing))
    categories = tuple(name for name in names if kinds[name] in ("flags", "texts"))
    if categories:
        parts.append(Categories.fit(raw, categories, limit=request.max_categories))
    return parts


def _named(raw: Raw, request: Request) -> list[str]:
    """The columns the user named; each must be usable."""
    names = list(dict.fromkeys(request.columns or ()))
    for name in names:
        if is_reserved(name):
            raise UnderstudyError(f"{raw.at(name)} cannot be a feature: its name says that it is not one; leave it out")
        if name == request.text:
            raise UnderstudyError(f"{raw.at(name)} is the text already; name other columns beside it")
        if kind_of(raw[name]) == "other":
            raise UnderstudyError(f"{raw.at(name)} holds neither numbers nor texts; encode it as one of them")
    if not names and request.text is None:
        raise UnderstudyError(f"no column of {raw.where} is to be a feature; name at least one")
    return names


def _usable(raw: Raw, request: Request) -> list[str]:
    """Every column of numbers, and of texts with few distinct values; the rest is named in a warning."""
    others = [name for name in raw.columns if not is_reserved(name)]
    names = [name for name in others if _is_usable(raw, name, request.max_categories)]
    left_out = [name for name in others if name not in names]
    if not names:
        hint = f"; {_shown(left_out)} could be the text (--text) or the image (--image)" if left_out else ""
        raise UnderstudyError(
            f"{raw.where} has no features; add a column 'x' (a list of numbers per row), numbers or categories{hint}"
        )
    if left_out:
        warnings.warn(
            f"{raw.where}: {_shown(left_out)} left out: neither one number per row nor a category of at "
            f"most {request.max_categories} values; name a column of texts by --text to use it",
            UnderstudyWarning,
            stacklevel=2,
        )
    return names


def _shown(names: list[str]) -> str:
    return ", ".join(map(repr, names[:8])) + (f" … ({len(names)} columns)" if len(names) > 8 else "")


def _is_usable(raw: Raw, name: str, limit: int) -> bool:
    column = raw[name]
    if kind_of(column) != "texts":
        return kind_of(column) in ("numbers", "flags")
    # Values that hardly repeat (names, sentences) tell rows apart rather than kinds of rows.
    distinct = len(set(raw.categories(name)))
    return distinct <= limit and 2 * distinct <= max(len(column), 4)
