"""What a user asks of the features: which columns, and how they become numbers.

Request()                                   # x, or else every column of numbers and of few distinct texts
Request(text="review")                      # TF-IDF of one column, and nothing else
Request(text="review", columns=("stars",))  # and a column of numbers beside it
Request(image="path", image_size=(64, 64))
"""

from dataclasses import dataclass

from understudy.errors import UnderstudyError

MISSING = ("error", "mean")
IMAGE_MODES = ("L", "RGB")


@dataclass(frozen=True)
class Request:
    text: str | None = None
    """The column of texts."""
    image: str | None = None
    """The column of images: paths, or the bytes of image files."""
    encoder: str = "tfidf"
    """``tfidf``, or a Hugging Face encoder by name or folder."""
    scale: bool = True
    """Bring columns of numbers to mean 0 and deviation 1 over the training rows."""
    columns: tuple[str, ...] | None = None
    """The columns of numbers and categories to use. None: all of them, but none where ``text`` or ``image`` is given,
    because a column that merely lies beside a text (a rating beside a review) often gives the label away."""
    missing: str = "error"
    """What a missing number means: ``error``, or ``mean``, the mean of the training rows."""
    max_categories: int = 100
    """A column with more distinct texts is no category."""
    max_terms: int = 20_000
    """TF-IDF keeps the most frequent terms."""
    ngrams: int = 2
    """TF-IDF counts runs of up to so many words."""
    max_tokens: int | None = None
    """An encoder reads so many tokens of a text. None: as many as it was made for."""
    image_size: tuple[int, int] | None = None
    """Height and width. None: those of the first training image."""
    image_mode: str | None = None
    """``L`` (grey) or ``RGB``. None: that of the first training image."""

    def __post_init__(self) -> None:
        if self.text is not None and self.image is not None:
            raise UnderstudyError("features come from a text or from an image, not from both; name one of them")
        if self.image is not None and self.columns:
            raise UnderstudyError("an image is the student's whole input; leave the other columns out")
        _check_choice("missing", self.missing, MISSING)
        if self.image_mode is not None:
            _check_choice("image_mode", self.image_mode, IMAGE_MODES)
        sizes = {"max_categories": self.max_categories, "max_terms": self.max_terms, "ngrams": self.ngrams}
        sizes |= {} if self.max_tokens is None else {"max_tokens": self.max_tokens}
        for name, value in (*sizes.items(), *(("image_size", side) for side in self.image_size or ())):
            if value < 1:
                raise UnderstudyError(f"{name} is {value}; it must be 1 or more")


def _check_choice(name: str, value: str, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise UnderstudyError(f"{name} is {value!r}; choose one of {', '.join(choices)}")
